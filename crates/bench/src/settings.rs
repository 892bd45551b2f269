//! How much effort a run takes: the only place where the instrument's numbers are chosen.

use ellwand_core::Caches;
use ellwand_core::record::Settings;

/// Shortest slot of a warm arm, in nanoseconds; arms that settle slowly get longer ones (`settle.rs`). A switch costs some 0.1 ms
/// (messages, wake-up), and parts of a tenth of a millisecond are rarely hit by a preemption.
pub const SLOT_NS: u64 = 500_000;

/// Presets of [`Settings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// A look.
    Quick,
    /// The default.
    #[default]
    Normal,
    /// For figures that will be quoted.
    Thorough,
}

impl Effort {
    /// Names as the command line spells them.
    pub const NAMES: [(&'static str, Effort); 3] =
        [("quick", Effort::Quick), ("normal", Effort::Normal), ("thorough", Effort::Thorough)];

    /// Fresh processes of each implementation, between which the samples are divided.
    pub fn blocks(self) -> u32 {
        match self {
            Effort::Quick => 3,
            Effort::Normal => 4,
            Effort::Thorough => 8,
        }
    }

    /// The settings of this effort.
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
        }
    }
}
