//! Readings: values of a measurement that are not times. Each has its own name, unit, direction and origin.

use serde::{Deserialize, Serialize};

/// Which direction of a value is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Smaller is better.
    Lower,
    /// Larger is better.
    Higher,
    /// A description without a better direction.
    Neither,
}

/// The origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Read from the machine or from the outputs.
    Measured,
    /// Computed from measured values.
    Derived,
    /// Predicted from a model.
    Estimated,
    /// Not available: `value` is empty and `about` gives the reason. Never printed as zero.
    Unavailable,
}

/// A value with its meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Stable key (`mse`, `peak-memory`).
    pub id: String,
    /// Column heading in tables.
    pub title: String,
    /// Unit, empty for a pure number. Fractions have the unit `1`, shown in per cent.
    pub unit: String,
    /// Whether lower or higher values are better.
    pub better: Better,
    /// Whether the value is measured, derived, estimated or unavailable.
    pub provenance: Provenance,
    /// The value in `unit`; empty if unavailable.
    pub value: Option<f64>,
    /// What the value means, or why it is unavailable.
    pub about: String,
}

impl Reading {
    /// A measured value.
    pub fn measured(id: &str, title: &str, unit: &str, better: Better, value: f64, about: &str) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            unit: unit.into(),
            better,
            provenance: Provenance::Measured,
            value: Some(value),
            about: about.into(),
        }
    }

    /// A value computed from measured values.
    pub fn derived(id: &str, title: &str, unit: &str, better: Better, value: f64, about: &str) -> Self {
        Self { provenance: Provenance::Derived, ..Self::measured(id, title, unit, better, value, about) }
    }

    /// Floating-point operations of one iteration, counted by the implementation because their number depends on the
    /// data; [`Work::flops`](crate::Work) then gives only a bound or a mean. Shares of a ceiling use this count.
    pub fn operations(value: f64) -> Self {
        let about = "floating-point operations executed, counted by the implementation because they depend on the data";
        Self::measured(Self::OPERATIONS, "operations", "FLOP", Better::Lower, value, about)
    }

    /// Key of [`Reading::operations`].
    pub const OPERATIONS: &str = "operations";

    /// Threads that took part in a run, if the implementation chooses their number by the case.
    pub fn threads(count: usize) -> Self {
        let about = "threads that took part in a run; the implementation chooses the number by the case";
        Self::measured(Self::THREADS, "threads", "", Better::Neither, count as f64, about)
    }

    /// The resident set varies by this many bytes with the placement of allocator, stacks and code; smaller differences
    /// of peak memory are not resolved.
    pub const RESIDENT_STEP: f64 = 1_048_576.0;

    /// Key of [`Reading::threads`].
    pub const THREADS: &str = "threads";

    /// Id of the bytes that an implementation holds in addition to its inputs and outputs.
    pub const EXTRA_MEMORY: &str = "extra-memory";
    /// Id of the bytes of inputs, outputs and [`Reading::EXTRA_MEMORY`] together.
    pub const TOTAL_MEMORY: &str = "total-memory";
    /// Id of the number of kernel launches of a run on a device.
    pub const LAUNCHES: &str = "launches";
    /// Id of the bytes that a run copies from the host to the device.
    pub const CARRIED_IN: &str = "carried-in";
    /// Id of the bytes that a run copies from the device to the host.
    pub const CARRIED_OUT: &str = "carried-out";
    /// Id of the share of a multiprocessor's threads that can be resident at once.
    pub const OCCUPANCY: &str = "occupancy";

    /// An unavailable value with the reason.
    pub fn unavailable(id: &str, title: &str, unit: &str, better: Better, why: &str) -> Self {
        Self { provenance: Provenance::Unavailable, value: None, ..Self::measured(id, title, unit, better, 0.0, why) }
    }
}
