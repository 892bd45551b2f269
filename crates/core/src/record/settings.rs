//! The timing settings of a run.

use serde::{Deserialize, Serialize};

use crate::device::Caches;

/// The timing settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Shortest slot (iterations timed together), in nanoseconds.
    pub slot_min_ns: u64,
    /// Fewest samples per implementation, however slow it is.
    pub samples_min: u32,
    /// Most interleaved rounds per case.
    pub rounds_max: u32,
    /// Sampling time of one implementation at one case, in nanoseconds.
    pub case_budget_ns: u64,
    /// Warm-up time of one implementation, in nanoseconds.
    pub warm_up_ns: u64,
    /// State of the caches when a slot starts; warm in records older than the field.
    #[serde(default, skip_serializing_if = "Caches::is_warm")]
    pub caches: Caches,
    /// Iterations of each slot that the user fixed; `None` if they follow from the settling curves, and in records older
    /// than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
}

/// Iterations of each slot, as fixed by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Untimed iterations before the timed ones.
    pub warm_up: u64,
    /// Timed iterations, at least 1.
    pub iterations: u64,
}
