//! How much effort a run takes: the only place where the instrument's numbers are chosen.

use ellwand_core::Caches;
use ellwand_core::record::Settings;

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
            Effort::Quick => 2,
            Effort::Normal => 3,
            Effort::Thorough => 6,
        }
    }

    /// The settings of this effort.
    ///
    /// Slots of 0.2 ms: on a shared machine 13-16 % of 0.5 ms slots are hit by a context switch and 1.5 % of 50 us slots,
    /// while a slot costs about 1 us of system calls around it; 0.2 ms keeps both below a few per cent.
    pub fn settings(self) -> Settings {
        let (samples_min, rounds_max, case_budget_ms, warm_up_ms) = match self {
            Effort::Quick => (3, 60, 60, 5),
            Effort::Normal => (5, 200, 250, 20),
            Effort::Thorough => (10, 1000, 1500, 50),
        };
        Settings {
            slot_min_ns: 200_000,
            samples_min,
            rounds_max,
            case_budget_ns: case_budget_ms * 1_000_000,
            warm_up_ns: warm_up_ms * 1_000_000,
            caches: Caches::Warm,
        }
    }
}
