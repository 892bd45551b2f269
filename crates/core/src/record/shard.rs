//! The part of a sweep that a run measured.

use serde::{Deserialize, Serialize};

/// A part of a sweep over many machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Digest of the plan.
    pub plan: String,
    /// Number of the shard in the plan, from 0.
    pub number: u32,
    /// Class of hardware that the task was submitted for.
    pub class: String,
    /// Name of the host that measured it.
    pub host: String,
    /// The scheduler's name of the task (`39_3` in Slurm), if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The rows that the task set out to measure, as `CASE IMPLEMENTATION`; in a merged record those of all its tasks.
    /// Older records do not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// In a merged record, the cases of the plan that it lacks: their shards have no whole result, or another machine
    /// measured them. Older records do not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// In a merged record, all cases of the plan in plan order, which is also the order of its measurements. Older
    /// records do not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<String>,
}
