//! The timing settings of a run.

use serde::{Deserialize, Serialize};

use crate::device::Caches;
use crate::verdict::Tolerance;

/// The timing settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Shortest slot (iterations timed together), in nanoseconds.
    pub slot_min_ns: u64,
    /// Minimum number of samples per implementation, however slow it is.
    pub samples_min: u32,
    /// Maximum number of interleaved rounds per case.
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
    /// The tolerance that the user asked for; `None` if each workload used its own, and in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Allowed>,
}

/// The largest accepted difference from the reference, as asked for by the user: `|got - expected| <= absolute + relative *
/// |expected|`, element by element.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Allowed {
    /// Absolute part, in the unit of the output.
    pub absolute: f64,
    /// Part relative to the magnitude of the reference.
    pub relative: f64,
}

impl From<Allowed> for Tolerance {
    fn from(Allowed { absolute, relative }: Allowed) -> Self {
        Tolerance::Close { absolute, relative }
    }
}

/// Iterations of each slot, as fixed by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Untimed iterations before the timed ones.
    pub warm_up: u64,
    /// Timed iterations, at least 1.
    pub iterations: u64,
}
