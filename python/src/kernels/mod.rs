//! The kernels as functions on NumPy arrays. They borrow their inputs and release the interpreter's lock while they run.

mod kde;
mod lattice;
mod layers;

use std::sync::atomic::Ordering::Relaxed;

use numpy::{Element, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors;
use crate::prepared::FORKED;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    layers::add(module)?;
    lattice::add(module)?;
    kde::add(module)
}

/// Whether the pool's threads exist in this process: a forked child has none of its parent's.
fn parallel() -> bool {
    !FORKED.load(Relaxed)
}

/// An error of a kernel as an exception.
fn raised<E: std::fmt::Display>(py: Python<'_>) -> impl Fn(E) -> PyErr {
    move |error| errors::raise(py, error)
}

/// The elements of an array, which the Python half has put into row-major order.
fn slice<'a, T: Element>(array: &'a PyReadonlyArrayDyn<'_, T>, name: &str) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| {
        let shape = array.shape();
        errors::raise(array.py(), format!("{name}: an array of shape {shape:?} is not in row-major order"))
    })
}
