//! What the statistics refuse, and what would have been right.

/// Numbers or settings from which no verdict can be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// Too few values for what was asked.
    #[error("{what}: {got} given, at least {needed} needed; measure more")]
    TooFew {
        /// What there is too little of ("blocks", "rounds").
        what: &'static str,
        /// How many were given.
        got: usize,
        /// How many it takes.
        needed: usize,
    },
    /// More values than the method can enumerate.
    #[error("{what}: {got} given, at most {limit} possible; use the e-process, which has no limit")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many were given.
        got: usize,
        /// How many are possible.
        limit: usize,
    },
    /// Two slices that belong together differ in length.
    #[error("{baseline} baseline times against {candidate} candidate times; a round gives one of each")]
    Unpaired {
        /// Length of the baseline's slice.
        baseline: usize,
        /// Length of the candidate's slice.
        candidate: usize,
    },
    /// A value that cannot be used, with its place.
    #[error("{what} {index} is {value}; expected {expected}")]
    Value {
        /// What the value is ("block", "baseline time").
        what: &'static str,
        /// Its index, from 0.
        index: usize,
        /// The value.
        value: f64,
        /// What would have been right.
        expected: &'static str,
    },
    /// A setting out of its range.
    #[error("{name} is {value}; expected {expected}")]
    Setting {
        /// The setting's name ("rope", "alpha", "confidence").
        name: &'static str,
        /// The value given.
        value: f64,
        /// Its range.
        expected: &'static str,
    },
    /// Looks that do not make a plan.
    #[error("looks at {looks:?} blocks; expected counts of at least 2 in ascending order, the last at most {limit}")]
    Looks {
        /// The counts given.
        looks: Vec<usize>,
        /// The largest count allowed.
        limit: usize,
    },
    /// A decision at a number of blocks at which the plan does not look.
    #[error("{blocks} blocks, but the plan looks at {looks:?}; decide on the blocks up to the last planned count")]
    Unplanned {
        /// Blocks given.
        blocks: usize,
        /// The plan's counts.
        looks: Vec<usize>,
    },
}

/// Errors unless every value is finite.
pub(super) fn check_finite(what: &'static str, values: &[f64]) -> Result<(), StatsError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(StatsError::Value { what, index, value: values[index], expected: "a finite number" }),
        None => Ok(()),
    }
}

/// Errors unless `low < value < high`; `expected` says so in words.
pub(super) fn check_inside(
    name: &'static str,
    value: f64,
    low: f64,
    high: f64,
    expected: &'static str,
) -> Result<(), StatsError> {
    if value > low && value < high { Ok(()) } else { Err(StatsError::Setting { name, value, expected }) }
}
