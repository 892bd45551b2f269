//! The kernels as functions on NumPy arrays: inputs are borrowed, and the interpreter lock is released while they run.

mod kde;
mod lattice;
mod layers;

use numpy::{Element, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    layers::add(module)?;
    lattice::add(module)?;
    kde::add(module)
}

/// The elements of an array. It must be row-major, which the Python half ensures.
fn slice<'a, T: Element>(array: &'a PyReadonlyArrayDyn<'_, T>, name: &str) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| {
        let shape = array.shape();
        errors::raise(array.py(), format!("{name}: an array of shape {shape:?} is not in row-major order"))
    })
}
