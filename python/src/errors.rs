//! Exceptions as text for rows and errors, in both directions.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ellwand::internals::core::{InputError, PrepareError};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

const MODULE: &str = "ellwand._errors";
/// The workload of `ellwand.bench` and `ellwand.compare`.
const CALL: &str = "call";

/// Set when the code under measurement received Ctrl-C in this process.
pub(crate) static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exception with the last lines of its traceback.
pub(crate) fn describe(py: Python<'_>, error: &PyErr) -> String {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        INTERRUPTED.store(true, Relaxed);
    }
    // Before CPython 3.12 an exception that was fetched does not know its traceback.
    let text = py.import(MODULE).and_then(|module| {
        let value = error.value(py).call_method1("with_traceback", (error.traceback(py),))?;
        module.call_method1("describe", (value,))
    });
    text.and_then(|text| text.extract()).unwrap_or_else(|_| error.to_string())
}

/// The outcome of an exception in the preparation: `ellwand.Unsupported` is no failure.
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
        // Its reference is a run of the caller's function.
        return InputError::new(workload, format!("its run raised {raised}"), "a function that returns");
    }
    InputError::new(workload, format!("its {method} raised {raised}"), format!("a workload whose {method} returns"))
}

/// `ellwand.EllwandError` with a message.
pub(crate) fn raise(py: Python<'_>, message: impl Display) -> PyErr {
    let message = message.to_string();
    match py.import(MODULE).and_then(|module| module.getattr("EllwandError")?.call1((&message,))) {
        Ok(value) => PyErr::from_value(value),
        Err(_) => PyRuntimeError::new_err(message),
    }
}
