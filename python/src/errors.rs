//! Converts exceptions to the text of rows and errors, and errors to exceptions.

use std::fmt::Display;

use ellwand::internals::core::{InputError, PrepareError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

const MODULE: &str = "ellwand._errors";

/// The exception with the end of its traceback.
pub(crate) fn describe(py: Python<'_>, error: &PyErr) -> String {
    // Before CPython 3.12 a fetched exception has no traceback.
    let told = py.import(MODULE).and_then(|module| {
        let value = error.value(py).call_method1("with_traceback", (error.traceback(py),))?;
        module.call_method1("describe", (value,))
    });
    told.and_then(|text| text.extract()).unwrap_or_else(|_| error.to_string())
}

/// The outcome of an exception in the preparation; `ellwand.Unsupported` is not a failure.
pub(crate) fn of_prepare(py: Python<'_>, error: &PyErr) -> PrepareError {
    let unsupported = py.import(MODULE).and_then(|module| module.getattr("Unsupported"));
    match unsupported {
        Ok(kind) if error.is_instance(py, &kind) => PrepareError::Unsupported(error.value(py).to_string()),
        _ => PrepareError::Failed(format!("its preparation raised {}", describe(py, error))),
    }
}

/// The error for an exception in a method of a workload.
pub(crate) fn of_workload(py: Python<'_>, workload: &str, method: &str, error: &PyErr) -> InputError {
    let problem = format!("its {method} raised {}", describe(py, error));
    InputError::new(workload, problem, format!("a workload whose {method} returns"))
}

/// Creates an `ellwand.EllwandError` with a message.
pub(crate) fn raise(py: Python<'_>, message: impl Display) -> PyErr {
    let message = message.to_string();
    match py.import(MODULE).and_then(|module| module.getattr("EllwandError")?.call1((&message,))) {
        Ok(value) => PyErr::from_value(value),
        Err(_) => PyRuntimeError::new_err(message),
    }
}
