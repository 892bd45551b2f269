//! What `profile` returns: an object that begins and ends spans.

use std::sync::Arc;

use ellwand::profile::{Counters, Guard, Site, Value, host};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt};

use super::open;
use super::recorder::Shared;
use super::tasks::Cause;

/// Work and arguments that every span of a region carries.
pub(super) struct Extra {
    counters: Counters,
    args: Vec<(&'static str, Value)>,
}

impl Extra {
    /// The numbers `bytes`, `flops` and `items` are work, everything else is an argument.
    pub(super) fn of(args: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut extra = Self { counters: Counters::default(), args: Vec::new() };
        for (name, value) in args.iter() {
            let name: String = name.extract()?;
            let amount = value.extract::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0);
            match (name.as_str(), amount) {
                ("bytes", Some(amount)) => extra.counters = extra.counters.bytes(amount),
                ("flops", Some(amount)) => extra.counters = extra.counters.flops(amount),
                ("items", Some(amount)) => extra.counters = extra.counters.items(amount),
                _ => extra.args.push((host::label(&name), self::value(&value)?)),
            }
        }
        Ok(extra)
    }

    fn add_to(&self, guard: &Guard) {
        if self.counters != Counters::default() {
            guard.count(self.counters);
        }
        for (name, value) in &self.args {
            guard.arg(name, value.clone());
        }
    }
}

fn value(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    Ok(if value.is_instance_of::<PyBool>() {
        Value::Bool(value.extract()?)
    } else if value.is_instance_of::<PyInt>() {
        value.extract::<i64>().map_or_else(|_| Value::from(value.to_string()), Value::Int)
    } else if value.is_instance_of::<PyFloat>() {
        Value::Float(value.extract()?)
    } else {
        Value::from(value.str()?.to_string_lossy().into_owned())
    })
}

/// Adds the exception that ended a span.
pub(super) fn failed(guard: &Guard, kind: &Bound<'_, PyAny>) {
    let name = kind.getattr("__name__").and_then(|name| name.extract::<String>());
    guard.arg("error", name.unwrap_or_else(|_| "exception".to_string()));
}

/// A context manager that records a span each time. It can be reused, also inside itself, in threads and in tasks: a span
/// belongs to the thread and the task that began it.
#[pyclass(frozen, weakref, module = "ellwand._native")]
pub(crate) struct Region {
    shared: Arc<Shared>,
    site: &'static Site,
    extra: Option<Extra>,
}

impl Region {
    pub(super) fn new(shared: Arc<Shared>, site: &'static Site, extra: Option<Extra>) -> Self {
        Self { shared, site, extra }
    }
}

fn key(region: &Bound<'_, Region>) -> usize {
    region.as_ptr() as usize
}

#[pymethods]
impl Region {
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        let this = slf.get();
        if this.shared.is_enabled() {
            let (shared, site) = (&this.shared, this.site);
            match &this.extra {
                None => open::begin(slf.py(), shared, site, key(slf), None),
                Some(extra) => open::begin(slf.py(), shared, site, key(slf), Some(&|guard| extra.add_to(guard))),
            }
        }
        slf.clone()
    }

    fn __exit__(slf: &Bound<'_, Self>, kind: &Bound<'_, PyAny>, _error: &Bound<'_, PyAny>, _trace: &Bound<'_, PyAny>) {
        let this = slf.get();
        match kind.is_none() {
            true => open::end(slf.py(), &this.shared, this.site, key(slf), None),
            false => open::end(slf.py(), &this.shared, this.site, key(slf), Some(&|guard| failed(guard, kind))),
        }
    }

    /// Adds arguments to the open span; the numbers ``bytes``, ``flops`` and ``items`` add to its work.
    #[pyo3(signature = (**args))]
    fn add(slf: &Bound<'_, Self>, args: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        if let Some(args) = args {
            let extra = Extra::of(args)?;
            let this = slf.get();
            open::with_open(slf.py(), &this.shared, this.site, key(slf), |guard| extra.add_to(guard));
        }
        Ok(())
    }

    /// Marks the open span as the cause of work elsewhere.
    fn _link(slf: &Bound<'_, Self>) -> Option<Cause> {
        let (this, mut cause) = (slf.get(), None);
        open::with_open(slf.py(), &this.shared, this.site, key(slf), |guard| {
            cause = guard.is_kept().then(|| Cause(guard.link()));
        });
        cause
    }
}
