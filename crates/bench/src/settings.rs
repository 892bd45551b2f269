//! Effort presets: the only place that chooses the instrument's settings.

use ellwand_core::Caches;
use ellwand_core::record::Settings;
use serde::{Deserialize, Serialize};

/// Shortest slot of a warm arm, in nanoseconds; arms that settle slowly get longer ones (`settle.rs`). A switch between
/// arms costs about 0.1 ms (messages, wake-up), and preemption rarely hits parts of 0.1 ms.
pub const SLOT_NS: u64 = 500_000;

/// Presets of [`Settings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// A first look.
    Quick,
    /// The default preset.
    #[default]
    Normal,
    /// For figures that will be published.
    Thorough,
}

impl Effort {
    /// Names on the command line.
    pub const NAMES: [(&'static str, Effort); 3] =
        [("quick", Effort::Quick), ("normal", Effort::Normal), ("thorough", Effort::Thorough)];

    /// Number of fresh processes per implementation; the samples are divided among them.
    pub fn blocks(self) -> u32 {
        match self {
            Effort::Quick => 3,
            Effort::Normal => 4,
            Effort::Thorough => 8,
        }
    }

    /// The settings of this preset.
    pub fn settings(self) -> Settings {
        let (samples_min, rounds_max, case_budget_ms, warm_up_ms) = match self {
            Effort::Quick => (3, 60, 60, 5),
            Effort::Normal => (5, 150, 250, 20),
            Effort::Thorough => (10, 1000, 1500, 50),
        };
        Settings {
            slot_min_ns: SLOT_NS,
            samples_min,
            rounds_max,
            case_budget_ns: case_budget_ms * 1_000_000,
            warm_up_ns: warm_up_ms * 1_000_000,
            caches: Caches::Warm,
            counts: None,
            allowed: None,
        }
    }
}
