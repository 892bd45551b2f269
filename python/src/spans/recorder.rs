//! A profiler: one recording, and what begins its spans.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ellwand::profile::clock::ticks;
use ellwand::profile::host::{self, Place};
use ellwand::profile::{
    ClockPair, Counters, DeviceSpan, DeviceTimeline, Guard, Kind, Measures, Mode, Options, Profiler, Site,
    TimelineError, Trace,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::function::ProfiledFunction;
use super::open::{self, Begun};
use super::profile::Profile;
use super::region::{Extra, Region};
use super::tasks::Cause;
use crate::errors;

/// Memory budget per span, in bytes.
const SPAN: u64 = 32;
/// Memory budget for the details of a span, in bytes.
const DETAILS: u64 = 32;
/// Memory budget for a measurement, in bytes.
const MEASUREMENT: u64 = 64;
/// Accepted values of `max_entries`.
const MAX_ENTRIES: &str = "an integer from 0 to 2^64 - 1";
/// Number of operation names whose region objects are kept.
const KEPT: usize = 1 << 14;

/// How a span begins, which determines its cost.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// By a call of a function that `profile_function` made.
    Function,
    /// By a region without arguments.
    Region,
    /// By a region looked up by its name; also counted in `Region`.
    Named,
    /// By a region with arguments.
    Arguments,
}

/// The state that spans read.
pub(super) struct Shared {
    /// Number of spans begun, by [`Way`].
    begun: [AtomicU64; 4],
    enabled: AtomicBool,
    /// Number of the recording; 0 before its first span.
    number: AtomicU32,
    options: Options,
    profiler: Mutex<Option<Profiler>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All profilers; a forked child resets them.
static ALL: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

thread_local! {
    static NAMED: Cell<bool> = const { Cell::new(false) };
}

impl Shared {
    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    pub(super) fn recording(&self) -> u32 {
        self.number.load(Relaxed)
    }

    pub(super) fn measures_cpu(&self) -> bool {
        self.options.measures.has(Measures::CPU)
    }

    /// Counts a span. The interpreter's lock is held.
    #[inline]
    pub(super) fn count(&self, way: Way) {
        let begun = &self.begun[way as usize];
        begun.store(begun.load(Relaxed) + 1, Relaxed);
    }

    /// The spans' mean cost, and the mean of what empty ones measure, in ns, weighted by how often each [`Way`] was used.
    fn mean_cost(&self, costs: [(f64, f64); 4]) -> (f64, f64) {
        let [function, region, named, arguments] = self.begun.each_ref().map(|begun| begun.load(Relaxed) as f64);
        // Without spans, use the cost of the most common way.
        let usual = if function + region + arguments == 0.0 { 1.0 } else { named.min(region) };
        let spans = [function, region - named.min(region), usual, arguments];
        let mean = |of: fn(&(f64, f64)) -> f64| {
            costs.iter().zip(spans).map(|(cost, spans)| of(cost) * spans).sum::<f64>() / spans.iter().sum::<f64>()
        };
        (mean(|cost| cost.0), mean(|cost| cost.1))
    }

    /// Makes this the thread's profiler if no other has open spans there. It starts with its first span.
    pub(super) fn settle(&self, py: Python<'_>) -> bool {
        if !NAMED.replace(true)
            && let Some(name) = thread_name(py)
        {
            host::name_thread(&name);
        }
        let profiler = self.profiler();
        let is_free = Place::here().is_outside();
        if is_free {
            profiler.settle();
        }
        is_free
    }

    /// Starts a span with a guard.
    pub(super) fn begin(&self, py: Python<'_>, site: &'static Site) -> Begun {
        let here = || Guard::enter_in(self.recording(), site);
        if let Some(guard) = here().or_else(|| self.settle(py).then(here).flatten()) {
            return Begun { guard, _scope: None };
        }
        let scope = self.profiler().enter();
        Begun { guard: here().unwrap_or_default(), _scope: Some(scope) }
    }

    /// The profiler; its first span starts it.
    fn profiler(&self) -> Profiler {
        let mut profiler = locked(&self.profiler);
        let started = profiler.get_or_insert_with(|| Profiler::new(self.options.clone()));
        self.number.store(started.recording_number(), Relaxed);
        started.clone()
    }

    fn clear(&self) {
        self.number.store(0, Relaxed);
        self.begun.iter().for_each(|begun| begun.store(0, Relaxed));
        let old = locked(&self.profiler).take();
        drop(old);
    }

    pub(super) fn snapshot(&self) -> Trace {
        let profiler = locked(&self.profiler).clone();
        profiler.map_or_else(Trace::in_nanoseconds, |profiler| profiler.snapshot())
    }

    fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Relaxed);
        if let Some(profiler) = locked(&self.profiler).as_ref() {
            profiler.set_enabled(enabled);
        }
    }
}

/// The names that `measure` lists.
fn names(given: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let list = given.try_iter().ok().filter(|_| !given.is_instance_of::<PyString>());
    let names = list.map(|list| list.map(|name| name?.extract()).collect::<PyResult<Vec<String>>>());
    let expected = "a list of names among \"cpu\", \"rss\"";
    names.and_then(Result::ok).ok_or_else(|| errors::wrong_type("measure", given, expected))
}

/// The name of an operation.
#[inline]
fn operation<'a, 'py>(given: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyString>> {
    given.cast().map_err(|_| errors::wrong_type("operation", given, "a string"))
}

fn thread_name(py: Python<'_>) -> Option<String> {
    py.import("threading").ok()?.call_method0("current_thread").ok()?.getattr("name").ok()?.extract().ok()
}

/// Starts afresh in a forked child, which has copies of its parent's spans.
#[pyfunction]
pub(super) fn forked() {
    open::forget();
    locked(&ALL).iter().filter_map(Weak::upgrade).for_each(|shared| shared.clear());
}

/// File and line of the calling Python code.
pub(super) fn caller(py: Python<'_>) -> PyResult<(String, u32)> {
    let frame = py.import("sys")?.call_method0("_getframe")?;
    let file = frame.getattr("f_code")?.getattr("co_filename")?.extract()?;
    Ok((file, frame.getattr("f_lineno")?.extract().unwrap_or(0)))
}

/// The native half of `ellwand.profiler.GPUProfiler`.
#[pyclass(subclass, frozen, weakref, module = "ellwand._native")]
pub(crate) struct Recorder {
    shared: Arc<Shared>,
    /// Spans without arguments by operation: one object begins them all.
    regions: Py<PyDict>,
    #[pyo3(get)]
    device_id: i64,
    #[pyo3(get)]
    max_entries: u64,
    measure: Vec<String>,
}

#[pymethods]
impl Recorder {
    #[new]
    #[pyo3(
        signature = (enabled = None, device_id = None, *, max_entries = None, measure = None),
        text_signature = "(enabled=True, device_id=0, *, max_entries=1048576, measure=())"
    )]
    fn new(
        py: Python<'_>,
        enabled: Option<&Bound<'_, PyAny>>,
        device_id: Option<&Bound<'_, PyAny>>,
        max_entries: Option<&Bound<'_, PyAny>>,
        measure: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let enabled = enabled.map_or(Ok(true), |given| errors::argument("enabled", given, "True or False"))?;
        let device_id = device_id.map_or(Ok(0), |given| errors::argument("device_id", given, "the number of a GPU"))?;
        let max_entries: u64 =
            max_entries.map_or(Ok(1 << 20), |given| errors::argument("max_entries", given, MAX_ENTRIES))?;
        let measure = measure.map_or(Ok(Vec::new()), names)?;
        let mut measures = Measures::NONE;
        for name in &measure {
            measures = measures.and(match name.as_str() {
                "cpu" => Measures::CPU,
                "rss" => Measures::RSS,
                _ => {
                    let problem = format!("measure: {name:?} is unknown; expected names among \"cpu\", \"rss\"");
                    return Err(errors::wrong_value(py, problem));
                }
            });
        }
        let each = match [Measures::CPU, Measures::RSS].into_iter().filter(|one| measures.has(*one)).count() {
            0 => SPAN,
            n => SPAN + DETAILS + MEASUREMENT * n as u64,
        };
        let mode = Mode::Full { bytes: max_entries.saturating_mul(each) };
        let name = program(py).unwrap_or_default();
        let options = Options { measures, name, ..Options::new(mode) };
        let shared = Arc::new(Shared {
            begun: Default::default(),
            enabled: AtomicBool::new(enabled),
            number: AtomicU32::new(0),
            options,
            profiler: Mutex::new(None),
        });
        let mut all = locked(&ALL);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&shared));
        Ok(Self { shared, regions: PyDict::new(py).unbind(), device_id, max_entries, measure })
    }

    #[getter]
    fn measure<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.measure)
    }

    #[getter]
    fn enabled(&self) -> bool {
        self.shared.is_enabled()
    }

    #[setter(enabled)]
    fn set_enabled(&self, enabled: bool) {
        self.shared.set_enabled(enabled);
    }

    /// Forgets all spans.
    fn clear(&self) {
        self.shared.clear();
    }

    /// A context manager that records one span. Further arguments are stored with the span.
    #[pyo3(signature = (operation, device = None, **args))]
    fn profile<'py>(
        slf: &Bound<'py, Self>,
        operation: &Bound<'py, PyAny>,
        device: Option<&Bound<'py, PyAny>>,
        args: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let operation = self::operation(operation)?;
        let device = match device {
            Some(device) => {
                let name = device.cast::<PyString>();
                let name =
                    name.map_err(|_| errors::wrong_type("device", device, "a string such as \"cpu\" or \"gpu\""))?;
                (name.to_cow()? != "cpu").then_some(name)
            }
            None => None,
        };
        if !this.shared.is_enabled() && (device.is_some() || args.is_some()) {
            let args = args.map_or_else(|| Ok(PyDict::new(py)), |args| args.copy())?;
            if let Some(device) = device {
                args.set_item("device", device)?;
                args.set_item("backend", "")?;
            }
            let region = Region::off(this.shared.clone(), operation.clone().unbind(), args.unbind());
            return Ok(Bound::new(py, region)?.into_any());
        }
        if let Some(device) = device {
            let args = args.cloned().unwrap_or_else(|| PyDict::new(py));
            return slf.call_method1("_on_device", (operation, device, args));
        }
        if let Some(args) = args.filter(|args| !args.is_empty()) {
            return Ok(this.region(operation, caller(py)?, Some(Extra::of(args)?))?.into_any());
        }
        this.named(operation)
    }

    /// ``profile`` without arguments: the cheapest call. The returned object can be kept and reused.
    fn span<'py>(&self, operation: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.named(self::operation(operation)?)
    }

    /// A span with arguments, for code at `place` and not at the caller.
    fn _region<'py>(
        slf: &Bound<'py, Self>,
        operation: &Bound<'py, PyString>,
        args: &Bound<'py, PyDict>,
        place: (String, u32),
    ) -> PyResult<Bound<'py, Region>> {
        slf.get().region(operation, place, Some(Extra::of(args)?))
    }

    /// A function that records a span for every call of `function`.
    fn _function(
        slf: &Bound<'_, Self>,
        function: Py<PyAny>,
        operation: &str,
        place: (String, u32),
    ) -> ProfiledFunction {
        let site = host::site(operation, &place.0, place.1);
        ProfiledFunction::new(function, slf.get().shared.clone(), site)
    }

    /// The recording so far. `costs` measures, by [`Way`] and in ns, what a span costs its caller and what an empty one measures. It
    /// runs once the end of the profile is known, so that its time is not part of the profile.
    fn _snapshot(&self, py: Python<'_>, costs: &Bound<'_, PyAny>) -> PyResult<Profile> {
        let shared = self.shared.clone();
        let trace = py.detach(move || shared.snapshot());
        let (cost_ns, empty_ns) = self.shared.mean_cost(costs.call0()?.extract()?);
        Ok(py.detach(move || Profile::new(trace, cost_ns, empty_ns)))
    }

    /// The host's clock in ticks, for paired readings.
    #[staticmethod]
    fn _ticks() -> u64 {
        ticks()
    }

    /// Adds a device's work: operation, link and both times in nanoseconds of the device's clock, which `clock` reads.
    fn _collect(
        &self,
        device: String,
        spans: Vec<OnDevice>,
        clock: Bound<'_, PyAny>,
        earlier: Vec<(u64, u64, u64)>,
    ) -> PyResult<usize> {
        let Some(profiler) = locked(&self.shared.profiler).clone() else { return Ok(0) };
        let py = clock.py();
        let spans = spans.into_iter().map(|(name, kind, link, start_ns, end_ns)| DeviceSpan {
            name,
            stream: "stream".to_string(),
            kind: Kind::of_word(&kind).unwrap_or(Kind::Kernel),
            start_ns,
            end_ns,
            link: link.map(|link| link.get().0),
            counters: Counters::default(),
            args: Vec::new(),
        });
        let earlier = earlier.into_iter().map(|(before, device_ns, after)| ClockPair { before, device_ns, after });
        let mut timeline = Timeline { device, spans: spans.collect(), clock, earlier: earlier.collect() };
        profiler.collect(&mut timeline).map_err(|error| errors::raise(py, error.to_string()))
    }
}

impl Recorder {
    /// The region of an operation; it is kept for reuse.
    #[inline]
    fn named<'py>(&self, operation: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let py = operation.py();
        let regions = self.regions.bind(py);
        if self.shared.is_enabled() {
            self.shared.count(Way::Named);
        }
        if let Some(known) = regions.get_item(operation)? {
            return Ok(known);
        }
        let region = self.region(operation, caller(py)?, None)?.into_any();
        if regions.len() < KEPT {
            regions.set_item(operation, &region)?;
        }
        Ok(region)
    }

    fn region<'py>(
        &self,
        operation: &Bound<'py, PyString>,
        (file, line): (String, u32),
        extra: Option<Extra>,
    ) -> PyResult<Bound<'py, Region>> {
        let site = host::site(&operation.to_cow()?, &file, line);
        Bound::new(operation.py(), Region::new(operation.py(), self.shared.clone(), site, extra))
    }
}

/// Name of the running Python program.
fn program(py: Python<'_>) -> PyResult<String> {
    let first: String = py.import("sys")?.getattr("argv")?.get_item(0)?.extract()?;
    let name = std::path::Path::new(&first).file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(name.unwrap_or_else(|| "python".to_string()))
}

/// Name, kind, link, begin and end in nanoseconds of the device.
type OnDevice = (String, String, Option<Py<Cause>>, u64, u64);

/// Operations of a device whose clock Python reads.
struct Timeline<'py> {
    device: String,
    spans: Vec<DeviceSpan>,
    clock: Bound<'py, PyAny>,
    earlier: Vec<ClockPair>,
}

impl DeviceTimeline for Timeline<'_> {
    fn device(&self) -> String {
        self.device.clone()
    }

    fn clock_pair(&mut self) -> Result<ClockPair, TimelineError> {
        let read = || self.clock.call0()?.extract::<u64>();
        ClockPair::take(read).map_err(|error| TimelineError(errors::describe(self.clock.py(), &error)))
    }

    fn earlier_pairs(&self) -> Vec<ClockPair> {
        self.earlier.clone()
    }

    fn take_spans(&mut self) -> Result<Vec<DeviceSpan>, TimelineError> {
        Ok(std::mem::take(&mut self.spans))
    }
}
