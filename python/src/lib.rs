//! The native half of the Python package `ellwand`: the instrument, and the kernels as functions.
//!
//! The interpreter lock is released for everything except the Python code under measurement. All `Py` objects here are
//! rows from the Python half; it checks and names them, so that this half handles few types.

mod arrays;
mod errors;
mod here;
mod host;
mod kernels;
mod prepared;
mod rows;

use pyo3::prelude::*;

/// Defines the module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    host::add(module)?;
    here::add(module)?;
    kernels::add(module)
}
