//! Exceptions as text for rows and errors, in both directions.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ellwand::internals::core::{InputError, PrepareError};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOverflowError, PyRuntimeError};
use pyo3::prelude::*;

const MODULE: &str = "ellwand._errors";
/// The workload of `ellwand.bench` and `ellwand.compare`.
const CALL: &str = "call";

/// Set when the measured code received Ctrl-C in this process.
pub(crate) static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exception with the last lines of its traceback.
pub(crate) fn describe(py: Python<'_>, error: &PyErr) -> String {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        INTERRUPTED.store(true, Relaxed);
    }
    // Before CPython 3.12 a fetched exception does not hold its traceback.
    let text = py.import(MODULE).and_then(|module| {
        let value = error.value(py).call_method1("with_traceback", (error.traceback(py),))?;
        module.call_method1("describe", (value,))
    });
    text.and_then(|text| text.extract()).unwrap_or_else(|_| error.to_string())
}

/// The outcome of an exception in the preparation: `ellwand.Unsupported` is not a failure.
pub(crate) fn of_prepare(py: Python<'_>, error: &PyErr) -> PrepareError {
    let unsupported = py.import(MODULE).and_then(|module| module.getattr("Unsupported"));
    match unsupported {
        Ok(kind) if error.is_instance(py, &kind) => PrepareError::Unsupported(error.value(py).to_string()),
        _ => PrepareError::Failed(format!("its preparation raised {}", describe(py, error))),
    }
}

/// An exception in a method of a workload.
pub(crate) fn of_workload(py: Python<'_>, workload: &str, method: &str, error: &PyErr) -> InputError {
    let raised = describe(py, error);
    if workload == CALL {
        // The reference is a run of the caller's function.
        return InputError::new(workload, format!("its run raised {raised}"), "a function that returns");
    }
    InputError::new(workload, format!("its {method} raised {raised}"), format!("a workload whose {method} returns"))
}

/// `ellwand.EllwandError` with a message.
pub(crate) fn raise(py: Python<'_>, message: impl Display) -> PyErr {
    raise_as(py, "EllwandError", message)
}

/// An `ellwand.EllwandError` that is also a `ValueError`.
pub(crate) fn wrong_value(py: Python<'_>, message: impl Display) -> PyErr {
    raise_as(py, "WrongValue", message)
}

/// An `ellwand.EllwandError` that is also a `TypeError`, for an argument of another type than `expected`.
#[cold]
pub(crate) fn wrong_type(name: &str, given: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let kind = given.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
    raise_as(given.py(), "WrongType", format!("{name}: {} is of type {kind}; expected {expected}", shown(given)))
}

/// The same as a `ValueError`, for a value that is not `expected`.
#[cold]
pub(crate) fn out_of_range(name: &str, given: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    wrong_value(given.py(), format!("{name}: {} is out of range; expected {expected}", shown(given)))
}

/// The argument `name` of a function.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py>>(
    name: &str,
    given: &Bound<'py, PyAny>,
    expected: &str,
) -> PyResult<T> {
    let taken: Result<T, T::Error> = given.extract();
    taken.map_err(|error| {
        let (py, error): (_, PyErr) = (given.py(), error.into());
        match error.is_instance_of::<PyOverflowError>(py) {
            true => out_of_range(name, given, expected),
            false => wrong_type(name, given, expected),
        }
    })
}

/// An argument as Python shows it, shortened if long.
fn shown(given: &Bound<'_, PyAny>) -> String {
    let text = given.repr().map_or_else(|_| "it".into(), |text| text.to_string_lossy().into_owned());
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

fn raise_as(py: Python<'_>, kind: &str, message: impl Display) -> PyErr {
    let message = message.to_string();
    match py.import(MODULE).and_then(|module| module.getattr(kind)?.call1((&message,))) {
        Ok(value) => PyErr::from_value(value),
        Err(_) => PyRuntimeError::new_err(message),
    }
}
