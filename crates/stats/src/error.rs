//! Errors of the statistics: what was given and what is accepted.

/// Input from which no statistic can be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// Fewer values than the method needs.
    #[error("{what}: {got} given, at least {needed} needed; measure more")]
    TooFew {
        /// The kind of value ("blocks", "rounds").
        what: &'static str,
        /// Number of values given.
        got: usize,
        /// Smallest number accepted.
        needed: usize,
    },
    /// Two slices that must have the same length differ.
    #[error("{baseline} baseline times against {candidate} candidate times; a round gives one of each")]
    Unpaired {
        /// Length of the baseline's slice.
        baseline: usize,
        /// Length of the candidate's slice.
        candidate: usize,
    },
    /// A value out of range.
    #[error("{what} {index} is {value}; expected {expected}")]
    Value {
        /// The kind of value ("block", "baseline time").
        what: &'static str,
        /// Its index, starting at 0.
        index: usize,
        /// The value given.
        value: f64,
        /// The accepted range.
        expected: &'static str,
    },
    /// A setting out of its range.
    #[error("{name} is {value}; expected {expected}")]
    Setting {
        /// Name of the setting ("rope", "alpha", "confidence").
        name: &'static str,
        /// The value given.
        value: f64,
        /// The accepted range.
        expected: &'static str,
    },
    /// Numbers of looks that are not a plan.
    #[error("looks at {looks:?} blocks; expected counts of at least 2 in ascending order, the last at most {limit}")]
    Looks {
        /// The numbers given.
        looks: Vec<usize>,
        /// Largest number accepted.
        limit: usize,
    },
    /// A decision after a number of blocks that is not one of the planned looks.
    #[error("{blocks} blocks, but the plan looks at {looks:?}; decide on the blocks up to the last planned count")]
    Unplanned {
        /// Number of blocks given.
        blocks: usize,
        /// The planned numbers.
        looks: Vec<usize>,
    },
}

/// Returns an error unless every value is finite.
pub(super) fn check_finite(what: &'static str, values: &[f64]) -> Result<(), StatsError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(StatsError::Value { what, index, value: values[index], expected: "a finite number" }),
        None => Ok(()),
    }
}

/// Returns an error unless `low < value < high`; `expected` describes that range.
pub(super) fn check_inside(
    name: &'static str,
    value: f64,
    low: f64,
    high: f64,
    expected: &'static str,
) -> Result<(), StatsError> {
    if value > low && value < high { Ok(()) } else { Err(StatsError::Setting { name, value, expected }) }
}
