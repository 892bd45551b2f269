//! The private half of the Python package `ellwand`: the instrument, and the kernels as functions.
//!
//! The interpreter's lock is released for everything except the Python code under measurement. All `Py` objects here are
//! rows that the Python half made; it checks and names them, so that this half sees few types.

mod arrays;
mod errors;
mod here;
mod host;
mod kernels;
mod prepared;
mod rows;
mod spans;

use pyo3::prelude::*;

/// The module. It was never tested without the interpreter's lock, so that a free-threaded build turns the lock on.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    host::add(module)?;
    here::add(module)?;
    kernels::add(module)?;
    spans::add(module)
}
