//! Readings: values about a measurement that are not times, each carrying its own name, unit, direction and origin.

use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Smaller is better.
    Lower,
    /// Larger is better.
    Higher,
    /// It describes; it does not judge.
    Neither,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Read off the machine or off the outputs.
    Measured,
    /// Computed from measured values.
    Derived,
    /// Predicted from a model.
    Estimated,
    /// It could not be had; `value` is empty and `about` says why. Never printed as zero.
    Unavailable,
}

/// A value with its meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Stable key (`mse`, `peak-memory`).
    pub id: String,
    /// Column heading.
    pub title: String,
    /// Unit, empty for a pure number. Fractions have the unit `1`, shown in per cent.
    pub unit: String,
    /// Direction.
    pub better: Better,
    /// Origin.
    pub provenance: Provenance,
    /// The value; empty when unavailable.
    pub value: Option<f64>,
    /// What it means, or why it is unavailable.
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

    /// A value computed from measured ones.
    pub fn derived(id: &str, title: &str, unit: &str, better: Better, value: f64, about: &str) -> Self {
        Self { provenance: Provenance::Derived, ..Self::measured(id, title, unit, better, value, about) }
    }

    /// The floating-point operations of an iteration, counted by the implementation: where their number depends on the data,
    /// so that [`Work::flops`](crate::Work) of the case can only say how many they are at most or on average. What share of a
    /// ceiling was reached is told by these.
    pub fn operations(value: f64) -> Self {
        let about =
            "floating-point operations that were done, counted by the implementation because they depend on the data";
        Self::measured(Self::OPERATIONS, "operations", "FLOP", Better::Lower, value, about)
    }

    /// Key of [`Reading::operations`].
    pub const OPERATIONS: &str = "operations";

    /// The threads that took part in a run, where the implementation decides that by the case.
    pub fn threads(count: usize) -> Self {
        let about = "threads that took part in a run, as the implementation chose them for the case";
        Self::measured(Self::THREADS, "threads", "", Better::Neither, count as f64, about)
    }

    /// Key of [`Reading::threads`].
    pub const THREADS: &str = "threads";

    /// Key of the bytes that an implementation holds beside its inputs and outputs.
    pub const EXTRA_MEMORY: &str = "extra-memory";
    /// Key of the launches of kernels that a run makes on a device.
    pub const LAUNCHES: &str = "launches";
    /// Key of the bytes that a run brings from the host to the device.
    pub const CARRIED_IN: &str = "carried-in";
    /// Key of the bytes that a run brings from the device to the host.
    pub const CARRIED_OUT: &str = "carried-out";
    /// Key of the share of a multiprocessor's threads that can be resident at once.
    pub const OCCUPANCY: &str = "occupancy";

    /// A value that could not be had, and why.
    pub fn unavailable(id: &str, title: &str, unit: &str, better: Better, why: &str) -> Self {
        Self { provenance: Provenance::Unavailable, value: None, ..Self::measured(id, title, unit, better, 0.0, why) }
    }
}
