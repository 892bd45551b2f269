//! What can be wrong with the arguments of the decoder.

/// An argument that cannot be decoded with. Electrodes, samples, spikes and bins are counted from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KdeError {
    /// An array holds another number of values than its partner demands.
    #[error("{array}: it holds {got} values; expected {expected} ({why})")]
    Length {
        /// The array.
        array: String,
        /// Values that it holds.
        got: usize,
        /// Values that it must hold.
        expected: usize,
        /// Where that number comes from.
        why: String,
    },
    /// An array holds too few values.
    #[error("{array}: it holds {got}; expected at least {least}")]
    TooFew {
        /// The array.
        array: String,
        /// What it holds.
        got: usize,
        /// What it must hold.
        least: usize,
    },
    /// NaN or an infinity.
    #[error("{array}: value {at} is {value}; expected finite numbers only")]
    NotFinite {
        /// The array.
        array: String,
        /// Its index in the flat array.
        at: usize,
        /// The value.
        value: f64,
    },
    /// Times that are not sorted.
    #[error("{array}: value {at} ({value}) is smaller than the one before it; expected ascending times")]
    Unsorted {
        /// The array.
        array: String,
        /// The first value that is too small.
        at: usize,
        /// The value.
        value: f64,
    },
    /// A bandwidth that is not above 0.
    #[error("{array}: bandwidth {at} is {value}; expected a number above 0")]
    Bandwidth {
        /// `position_std` or `waveform_std`.
        array: String,
        /// Its index.
        at: usize,
        /// The value.
        value: f64,
    },
    /// Encoding and decoding disagree on the electrodes.
    #[error("electrodes: decoding has {got}; expected {expected}, as in encoding")]
    Electrodes {
        /// Electrodes of the decoding spikes.
        got: usize,
        /// Electrodes of the model.
        expected: usize,
    },
    /// An electrode whose spikes have another number of features than in encoding.
    #[error("features of electrode {electrode}: {got} a spike; expected {expected}, as in encoding")]
    Features {
        /// The electrode.
        electrode: usize,
        /// Features of its decoding spikes.
        got: usize,
        /// Features of its encoding spikes.
        expected: usize,
    },
    /// Offsets of a ragged list that decrease or run over its end.
    #[error("{array}: offset {at} is {value}; expected ascending offsets from 0 to {end}")]
    Offsets {
        /// The array.
        array: String,
        /// Its index.
        at: usize,
        /// The value.
        value: f64,
        /// Length of the list that they cut.
        end: usize,
    },
    /// A type of number that the model, or the function, does not give.
    #[error("precision: {problem}; expected {expected}")]
    Precision {
        /// What was asked for.
        problem: String,
        /// What works.
        expected: String,
    },
    /// The working memory does not hold the smallest tile.
    #[error(
        "memory: {given} bytes do not hold one tile; expected at least {least} bytes for this model and these threads"
    )]
    Memory {
        /// The budget.
        given: u64,
        /// The smallest that works.
        least: u64,
    },
}

/// Refuses NaN and infinities.
pub(super) fn finite(array: &str, values: &[f64]) -> Result<(), KdeError> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(KdeError::NotFinite { array: array.to_owned(), at, value: values[at] }),
        None => Ok(()),
    }
}

/// Refuses times that are not finite or not ascending.
pub(super) fn ascending(array: &str, times: &[f64]) -> Result<(), KdeError> {
    finite(array, times)?;
    match times.windows(2).position(|pair| pair[1] < pair[0]) {
        Some(before) => Err(KdeError::Unsorted { array: array.to_owned(), at: before + 1, value: times[before + 1] }),
        None => Ok(()),
    }
}

/// Refuses an array of another length.
pub(super) fn length(array: &str, got: usize, expected: usize, why: &str) -> Result<(), KdeError> {
    if got == expected {
        return Ok(());
    }
    Err(KdeError::Length { array: array.to_owned(), got, expected, why: why.to_owned() })
}
