//! A function that records its calls.

use std::sync::Arc;

use ellwand::profile::Site;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::open;
use super::recorder::{Shared, Way};
use super::region::failed;

/// The function that `profile_function` returns. It has the attributes of the wrapped function.
#[pyclass(frozen, dict, weakref, module = "ellwand._native")]
pub(crate) struct ProfiledFunction {
    function: Py<PyAny>,
    shared: Arc<Shared>,
    site: &'static Site,
}

impl ProfiledFunction {
    pub(super) fn new(function: Py<PyAny>, shared: Arc<Shared>, site: &'static Site) -> Self {
        Self { function, shared, site }
    }
}

#[pymethods]
impl ProfiledFunction {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let function = this.function.bind(py);
        if !this.shared.is_enabled() {
            return function.call(args, kwargs);
        }
        this.shared.count(Way::Function);
        let key = slf.as_ptr() as usize;
        if !open::begin_here(py, &this.shared, this.site, None) {
            // Only tasks with an open span matter: this span ends before another task runs.
            open::begin_elsewhere(py, &this.shared, this.site, (key, open::task(py)), None);
        }
        let result = function.call(args, kwargs);
        match &result {
            Ok(_) => open::end(py, &this.shared, this.site, key, None),
            Err(error) => {
                let kind = error.get_type(py);
                open::end(py, &this.shared, this.site, key, Some(&|guard| failed(guard, &kind)))
            }
        };
        result
    }

    /// Binds a method to its object.
    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        object: &Bound<'py, PyAny>,
        _kind: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if object.is_none() {
            return Ok(slf.clone().into_any());
        }
        slf.py().import("types")?.getattr("MethodType")?.call1((slf, object))
    }

    /// Is pickled by name, like any function.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.getattr("__qualname__")
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<profiled {}>", slf.get().function.bind(slf.py()).repr()?))
    }
}
