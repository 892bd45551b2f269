//! The private half of the Python package `ellwand`: the instrument, and the kernels as functions.
//!
//! The interpreter's lock is released for everything except the Python code under measurement. The Python half checks and names
//! all rows, which are `Py` objects here, so that this half handles few types.

mod arrays;
mod errors;
mod here;
mod host;
mod kernels;
mod prepared;
mod rows;
mod spans;

use pyo3::prelude::*;

/// The module. It is untested without the interpreter's lock, so a free-threaded build turns the lock on.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    host::add(module)?;
    here::add(module)?;
    kernels::add(module)?;
    spans::add(module)
}
