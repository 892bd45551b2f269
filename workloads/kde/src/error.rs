//! Checks of the decoder's arguments. Electrodes, samples, spikes and bins are counted from 0.

use ellwand_core::InputError;

/// Rejects NaN and infinities.
pub(super) fn finite(array: &str, values: &[f64]) -> Result<(), InputError> {
    let Some(at) = values.iter().position(|v| !v.is_finite()) else { return Ok(()) };
    let error = InputError::new(array, format!("value {at} is {}", values[at]), "finite numbers only");
    Err(error.help("drop these spikes or samples first"))
}

/// Rejects times that are not finite or not ascending.
pub(super) fn ascending(array: &str, times: &[f64]) -> Result<(), InputError> {
    finite(array, times)?;
    let Some(before) = times.windows(2).position(|pair| pair[1] < pair[0]) else { return Ok(()) };
    let problem = format!("value {} ({}) is smaller than the one before it", before + 1, times[before + 1]);
    let error = InputError::new(array, problem, "ascending times");
    Err(error.help("sort the spikes of each electrode by time, features along with them"))
}

/// Rejects an array of another length; `why` explains the expected length.
pub(super) fn length(array: &str, got: usize, expected: usize, why: &str) -> Result<(), InputError> {
    if got == expected {
        return Ok(());
    }
    Err(InputError::new(array, format!("it holds {got} values"), format!("{expected} ({why})")))
}

/// Rejects fewer than `least` of something.
pub(super) fn at_least(array: impl Into<String>, got: usize, least: usize) -> Result<(), InputError> {
    if got >= least {
        return Ok(());
    }
    Err(InputError::new(array, format!("it holds {got}"), format!("at least {least}")))
}

/// An error about decoding spikes of `got` electrodes, where the encoding had `expected`.
pub(super) fn electrodes(got: usize, expected: usize) -> InputError {
    InputError::new("electrodes", format!("decoding has {got}"), format!("{expected}, as in encoding"))
}

/// Rejects spikes of another number of features than the encoding spikes of their electrode.
pub(super) fn features(electrode: usize, got: usize, expected: usize) -> Result<(), InputError> {
    if got == expected {
        return Ok(());
    }
    let (problem, expected) = (format!("{got} per spike"), format!("{expected}, as in encoding"));
    Err(InputError::new(format!("features of electrode {electrode}"), problem, expected))
}
