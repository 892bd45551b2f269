//! Errors in the decoder's arguments.

/// Why the decoder rejects an argument. Electrodes, samples, spikes and bins are counted from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KdeError {
    /// The length of an array does not match another argument.
    #[error("{array}: it holds {got} values; expected {expected} ({why})")]
    Length {
        /// Name of the array.
        array: String,
        /// Number of values given.
        got: usize,
        /// Number of values required.
        expected: usize,
        /// Origin of that number.
        why: String,
    },
    /// An array holds too few values.
    #[error("{array}: it holds {got}; expected at least {least}")]
    TooFew {
        /// Name of the array.
        array: String,
        /// Number of values given.
        got: usize,
        /// Number of values required.
        least: usize,
    },
    /// A value is NaN or infinite.
    #[error("{array}: value {at} is {value}; expected finite numbers only")]
    NotFinite {
        /// Name of the array.
        array: String,
        /// Index in the flat array.
        at: usize,
        /// The offending value.
        value: f64,
    },
    /// Times are not ascending.
    #[error("{array}: value {at} ({value}) is smaller than the one before it; expected ascending times")]
    Unsorted {
        /// Name of the array.
        array: String,
        /// Index of the first value that is too small.
        at: usize,
        /// The offending value.
        value: f64,
    },
    /// A bandwidth is not positive.
    #[error("{array}: bandwidth {at} is {value}; expected a number above 0")]
    Bandwidth {
        /// `position_std` or `waveform_std`.
        array: String,
        /// Index in the array.
        at: usize,
        /// The offending value.
        value: f64,
    },
    /// Encoding and decoding have different numbers of electrodes.
    #[error("electrodes: decoding has {got}; expected {expected}, as in encoding")]
    Electrodes {
        /// Electrodes in the decoding spikes.
        got: usize,
        /// Electrodes in the model.
        expected: usize,
    },
    /// An electrode has different numbers of features in encoding and decoding.
    #[error("features of electrode {electrode}: {got} a spike; expected {expected}, as in encoding")]
    Features {
        /// Index of the electrode.
        electrode: usize,
        /// Features of its decoding spikes.
        got: usize,
        /// Features of its encoding spikes.
        expected: usize,
    },
    /// Offsets of a ragged list decrease or exceed its length.
    #[error("{array}: offset {at} is {value}; expected ascending offsets from 0 to {end}")]
    Offsets {
        /// Name of the array.
        array: String,
        /// Index in the array.
        at: usize,
        /// The offending value.
        value: f64,
        /// Length of the list.
        end: usize,
    },
    /// The model or function does not support the requested precision.
    #[error("precision: {problem}; expected {expected}")]
    Precision {
        /// What was requested.
        problem: String,
        /// What is supported.
        expected: String,
    },
    /// The memory budget does not hold the smallest tile.
    #[error(
        "memory: {given} bytes do not hold one tile; expected at least {least} bytes for this model and these threads"
    )]
    Memory {
        /// Budget in bytes.
        given: u64,
        /// Smallest budget that works, in bytes.
        least: u64,
    },
}

/// Rejects NaN and infinities.
pub(super) fn finite(array: &str, values: &[f64]) -> Result<(), KdeError> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(KdeError::NotFinite { array: array.to_owned(), at, value: values[at] }),
        None => Ok(()),
    }
}

/// Rejects times that are not finite or not ascending.
pub(super) fn ascending(array: &str, times: &[f64]) -> Result<(), KdeError> {
    finite(array, times)?;
    match times.windows(2).position(|pair| pair[1] < pair[0]) {
        Some(before) => Err(KdeError::Unsorted { array: array.to_owned(), at: before + 1, value: times[before + 1] }),
        None => Ok(()),
    }
}

/// Rejects an array of another length.
pub(super) fn length(array: &str, got: usize, expected: usize, why: &str) -> Result<(), KdeError> {
    if got == expected {
        return Ok(());
    }
    Err(KdeError::Length { array: array.to_owned(), got, expected, why: why.to_owned() })
}
