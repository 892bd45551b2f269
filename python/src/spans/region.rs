//! What `profile` returns: an object that begins and ends spans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ellwand::profile::{Counters, Guard, Site, Value, host};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use super::open;
use super::recorder::{Shared, Way, caller};
use super::tasks::Cause;
use crate::errors;

/// Work and arguments that every span of a region carries.
pub(super) struct Extra {
    counters: Counters,
    args: Vec<(&'static str, Value)>,
}

impl Extra {
    /// The numbers `bytes`, `flops` and `items` count as work; everything else is an argument.
    pub(super) fn of(args: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut extra = Self { counters: Counters::default(), args: Vec::new() };
        for (name, value) in args.iter() {
            let name: String = name.extract()?;
            match name.as_str() {
                "bytes" => extra.counters = extra.counters.bytes(amount(&name, &value, COUNT)?),
                "flops" => extra.counters = extra.counters.flops(amount(&name, &value, FLOPS)?),
                "items" => extra.counters = extra.counters.items(amount(&name, &value, COUNT)?),
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

const COUNT: &str = "an integer from 0 to 2^64 - 1";
const FLOPS: &str = "a finite number of at least 0";

/// An amount of work; a float with a whole value is a count.
fn amount(name: &str, given: &Bound<'_, PyAny>, expected: &str) -> PyResult<f64> {
    let amount: f64 = errors::argument(name, given, expected)?;
    let is_count = amount.fract() == 0.0 && amount < 2_f64.powi(64);
    let is_known = amount.is_finite() && amount >= 0.0 && (expected == FLOPS || is_count);
    is_known.then_some(amount).ok_or_else(|| errors::out_of_range(name, given, expected))
}

fn value(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    Ok(if value.is_instance_of::<PyBool>() {
        Value::Bool(value.extract()?)
    } else if value.is_instance_of::<PyInt>() {
        value.extract::<i64>().map_or_else(|_| Value::from(value.to_string()), Value::Int)
    } else if value.is_instance_of::<PyFloat>() {
        Value::Float(value.extract()?)
    } else {
        Value::from(array(value).unwrap_or_else(|| text(value)))
    })
}

/// The text of a value, or its type if it has no text: an argument for the profiler must never end the program.
fn text(value: &Bound<'_, PyAny>) -> String {
    let kind = || value.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
    value.str().map_or_else(|_| format!("<{} without text>", kind()), |text| text.to_string_lossy().into_owned())
}

/// Type and shape of an array: formatting its values would cost more than most spans, or wait for a device.
fn array(value: &Bound<'_, PyAny>) -> Option<String> {
    let shape: Vec<usize> = value.getattr("shape").ok()?.extract().ok()?;
    let dtype = value.getattr("dtype").ok()?.str().ok()?.to_string_lossy().into_owned();
    (!shape.is_empty()).then(|| format!("{}{shape:?}", dtype.trim_start_matches("torch.")))
}

/// Adds the exception that ended a span.
pub(super) fn failed(guard: &Guard, kind: &Bound<'_, PyAny>) {
    let name = kind.getattr("__name__").and_then(|name| name.extract::<String>());
    guard.arg("error", name.unwrap_or_else(|_| "exception".to_string()));
}

/// A context manager that records a span each time it is entered. It can be reused: nested in itself, in threads and in tasks.
/// A span belongs to the thread and the task that began it.
#[pyclass(frozen, weakref, module = "ellwand._native")]
pub(crate) struct Region {
    shared: Arc<Shared>,
    known: PyOnceLock<Known>,
    open: Spans,
    /// Name and arguments of a region made while its profiler was off: the first span formats them.
    later: Option<(Py<PyString>, Py<PyDict>)>,
}

/// The open spans of a region: their recording and their number. The interpreter's lock is held.
#[derive(Default)]
struct Spans {
    recording: AtomicU32,
    count: AtomicU32,
}

impl Spans {
    fn begin(&self, recording: u32) {
        let count = if self.recording.load(Relaxed) == recording { self.count.load(Relaxed) } else { 0 };
        self.recording.store(recording, Relaxed);
        self.count.store(count + 1, Relaxed);
    }

    /// Subtracts one; false if no span is open.
    fn end(&self, recording: u32) -> bool {
        let count = self.count.load(Relaxed);
        let is_open = recording != 0 && self.recording.load(Relaxed) == recording && count > 0;
        if is_open {
            self.count.store(count - 1, Relaxed);
        }
        is_open
    }
}

/// A region's place in the code, and the data that its spans carry.
struct Known {
    site: &'static Site,
    extra: Option<Extra>,
}

impl Region {
    pub(super) fn new(py: Python<'_>, shared: Arc<Shared>, site: &'static Site, extra: Option<Extra>) -> Self {
        let known = PyOnceLock::new();
        let _is_first = known.set(py, Known { site, extra });
        Self { shared, known, open: Spans::default(), later: None }
    }

    pub(super) fn off(shared: Arc<Shared>, operation: Py<PyString>, args: Py<PyDict>) -> Self {
        Self { shared, known: PyOnceLock::new(), open: Spans::default(), later: Some((operation, args)) }
    }

    fn resolved(&self, py: Python<'_>) -> PyResult<Option<&Known>> {
        let Some((operation, args)) = &self.later else { return Ok(self.known.get(py)) };
        let make = || {
            let (file, line) = caller(py)?;
            let site = host::site(&operation.bind(py).to_cow()?, &file, line);
            Ok::<_, PyErr>(Known { site, extra: Some(Extra::of(args.bind(py))?) })
        };
        self.known.get_or_try_init(py, make).map(Some)
    }
}

/// Warns about a span ended on another thread: only its own thread can end it.
fn elsewhere(py: Python<'_>, name: &str) -> PyResult<()> {
    let message = format!(
        "the span {name:?} was ended on another thread than it began on, so it stays open in the profile; \
                     begin and end each span on the same thread"
    );
    let message = std::ffi::CString::new(message).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, 1)
}

fn key(region: &Bound<'_, Region>) -> usize {
    region.as_ptr() as usize
}

#[pymethods]
impl Region {
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        if this.shared.is_enabled()
            && let Some(Known { site, extra }) = this.resolved(py)?
        {
            this.shared.count(if extra.is_some() { Way::Arguments } else { Way::Region });
            match extra {
                None => open::begin(py, &this.shared, site, key(slf), None),
                Some(extra) => open::begin(py, &this.shared, site, key(slf), Some(&|guard| extra.add_to(guard))),
            }
            this.open.begin(this.shared.recording());
        }
        Ok(slf.clone())
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let Some(Known { site, .. }) = this.known.get(py) else { return Ok(()) };
        let has_ended = match kind.is_none() {
            true => open::end(py, &this.shared, site, key(slf), None),
            false => open::end(py, &this.shared, site, key(slf), Some(&|guard| failed(guard, kind))),
        };
        if this.open.end(this.shared.recording()) && !has_ended {
            elsewhere(py, site.name)?;
        }
        Ok(())
    }

    /// Adds arguments to the open span; the numbers ``bytes``, ``flops`` and ``items`` add to its work.
    #[pyo3(signature = (**args))]
    fn add(slf: &Bound<'_, Self>, args: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        if let Some(args) = args.filter(|_| this.shared.is_enabled())
            && let Some(Known { site, .. }) = this.known.get(py)
        {
            let extra = Extra::of(args)?;
            open::with_open(py, &this.shared, site, key(slf), |guard| extra.add_to(guard));
        }
        Ok(())
    }

    /// Marks the open span as the cause of work elsewhere.
    fn _link(slf: &Bound<'_, Self>) -> Option<Cause> {
        let (this, mut cause) = (slf.get(), None);
        if let Some(Known { site, .. }) = this.known.get(slf.py()) {
            open::with_open(slf.py(), &this.shared, site, key(slf), |guard| {
                cause = guard.is_kept().then(|| Cause(guard.link()));
            });
        }
        cause
    }
}
