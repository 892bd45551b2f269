//! A prepared Python implementation: only the call of its `run` is timed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ellwand::internals::core::{Better, DeviceError, Poison, Prepared, Reading, Tensors};
use ellwand_gpu::{Clock, Stream};
use pyo3::prelude::*;

use crate::{arrays, errors};

/// Set in a forked child.
pub(crate) static FORKED: AtomicBool = AtomicBool::new(false);

/// What `ellwand._prepared.ready` returns.
#[derive(FromPyObject)]
struct Ready {
    run: Py<PyAny>,
    /// Whether the result of a run is its output. It is then kept until the next run.
    keeps: bool,
    /// Finds the function that waits for a result; called after the first run.
    waiter: Py<PyAny>,
    poison: Py<PyAny>,
    output: Py<PyAny>,
    readings: Py<PyAny>,
    what_ran: String,
    /// Launches per run on a device, as far as known.
    launches: u64,
    /// Whether it has a way to wait that is part of its work.
    syncs: bool,
    /// Makes what the given number of runs consumes.
    load: Option<Py<PyAny>>,
    /// Largest number of runs for which it can do so.
    most: u64,
    /// Runs a given number of times and returns the last result.
    many: Py<PyAny>,
}

/// A reading from Python: id, title, unit, better, value (or none), about.
type Row = (String, String, String, String, Option<f64>, String);

pub(crate) struct PyPrepared {
    ready: Ready,
    threads: Option<usize>,
    /// The stream of the device; `None` on the processor.
    stream: Option<Stream>,
    wait: Option<Py<PyAny>>,
    looked: bool,
    result: Option<Py<PyAny>>,
    error: Option<String>,
    /// Whether the outputs were overwritten since the last run. Outputs that cannot be overwritten (a JAX array) are not read then.
    stale: bool,
    /// Whether this process was already a forked child.
    in_child: bool,
}

impl PyPrepared {
    pub(crate) fn new(ready: &Bound<'_, PyAny>, threads: Option<usize>) -> PyResult<Self> {
        Ok(Self {
            ready: ready.extract()?,
            threads,
            stream: None,
            wait: None,
            looked: false,
            result: None,
            error: None,
            stale: false,
            in_child: FORKED.load(Relaxed),
        })
    }

    /// Times the work with device events from now on.
    pub(crate) fn on(mut self, mut stream: Stream) -> Self {
        // This run compiles and allocates, and finds the function that waits.
        self.run();
        if self.sync().is_ok() {
            if self.waits_elsewhere() {
                stream.is_elsewhere();
            } else {
                stream.probe(self.ready.launches, &mut || self.run());
            }
            // The arrays that an object returns must be known before they can be overwritten.
            let _ = self.output();
        }
        self.stream = Some(stream);
        self
    }

    /// Whether the waiting function says that the work runs on its library's own streams.
    fn waits_elsewhere(&self) -> bool {
        Python::attach(|py| self.wait.as_ref().is_some_and(|wait| wait.bind(py).hasattr("elsewhere").unwrap_or(false)))
    }

    /// Calls the function that waits for the result.
    fn wait(&mut self) {
        if self.error.is_none() && (!self.looked || self.wait.is_some()) {
            Python::attach(|py| {
                if !self.looked {
                    self.find_wait(py);
                }
                if let Some(wait) = &self.wait {
                    let called = wait.call1(py, (self.result(py),));
                    self.call(py, "sync", called);
                }
            });
        }
    }

    fn call(&mut self, py: Python<'_>, step: &str, called: PyResult<Py<PyAny>>) -> Option<Py<PyAny>> {
        if FORKED.load(Relaxed) && !self.in_child {
            // Only the process that was asked may answer, not a child it forked.
            let _ = py.import("os").and_then(|os| os.call_method1("_exit", (70,)));
        }
        match called {
            Ok(value) => Some(value),
            Err(error) => {
                self.error.get_or_insert_with(|| format!("its {step} raised {}", errors::describe(py, &error)));
                None
            }
        }
    }

    /// Takes what a run returned.
    fn ran(&mut self, py: Python<'_>, called: PyResult<Py<PyAny>>) {
        self.stale = false;
        let result = self.call(py, "run", called);
        if self.ready.keeps {
            self.result = result;
        }
    }

    fn result<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.result.as_ref().map(|result| result.bind(py).clone())
    }

    /// Finds the way to wait once: most results need no waiting.
    fn find_wait(&mut self, py: Python<'_>) {
        let found = self.ready.waiter.call1(py, (self.result(py),));
        let found = self.call(py, "sync", found);
        self.wait = found.filter(|wait| !wait.is_none(py));
        self.looked = true;
    }
}

impl Prepared for PyPrepared {
    fn load(&mut self, iterations: u64) {
        Python::attach(|py| {
            if let Some(load) = self.ready.load.as_ref().filter(|_| self.error.is_none()) {
                let called = load.call1(py, (iterations,));
                self.call(py, "setup", called);
            }
        });
    }

    fn most_iterations(&self) -> u64 {
        self.stream.as_ref().map_or(u64::MAX, Stream::most_iterations).min(self.ready.most)
    }

    fn run(&mut self) {
        if self.error.is_some() {
            return;
        }
        if let Some(stream) = &self.stream {
            stream.begin();
        }
        Python::attach(|py| {
            let called = self.ready.run.call0(py);
            self.ran(py, called);
        });
    }

    fn run_times(&mut self, times: u64) {
        if self.stream.is_some() {
            (0..times).for_each(|_| self.run());
        } else if times > 0 && self.error.is_none() {
            Python::attach(|py| {
                let called = self.ready.many.call1(py, (times,));
                self.ran(py, called);
            });
        }
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        // First, since it opens the gate; Python would otherwise wait for the gate.
        let clock = match &self.stream {
            Some(stream) => {
                stream.sync()?;
                Some(stream.clock())
            }
            None => None,
        };
        if clock != Some(Clock::Device) || self.ready.syncs {
            self.wait();
        }
        self.error.clone().map_or(Ok(()), |error| Err(DeviceError::new(error)))
    }

    fn poison(&mut self, poison: Poison) {
        Python::attach(|py| {
            let result = self.result.take();
            let called = self.ready.poison.call1(py, (result, poison.byte()));
            self.call(py, "poison", called);
        });
        // The next run may use other streams than the one that overwrote the outputs.
        if let Some(Err(problem)) = self.stream.as_ref().map(Stream::sync) {
            self.error.get_or_insert(problem.to_string());
        }
        self.stale = true;
        // For a run outside a slot, whose time is also reported.
        self.load(0);
    }

    fn output(&mut self) -> Result<Tensors, DeviceError> {
        if let Some(error) = &self.error {
            return Err(DeviceError::new(error.as_str()));
        }
        if self.stale {
            return Err(DeviceError::new("it has not run since its outputs were overwritten"));
        }
        Python::attach(|py| {
            let outputs = self.ready.output.bind(py).call1((self.result(py),));
            outputs
                .and_then(|outputs| arrays::from_dict(&outputs))
                .map_err(|error| DeviceError::new(errors::describe(py, &error)))
        })
    }

    fn what_ran(&self) -> String {
        let on_host = self.stream.as_ref().is_some_and(|stream| stream.clock() == Clock::Wall);
        format!("{}{}", self.ready.what_ran, if on_host { ", timed on the host" } else { "" })
    }

    fn threads(&self) -> Option<usize> {
        self.threads
    }

    fn readings(&mut self) -> Vec<Reading> {
        let state = self.stream.as_ref().map_or_else(Vec::new, Stream::readings);
        let mut readings = self.own_readings();
        readings.extend(state);
        readings
    }
}

impl PyPrepared {
    /// Rows and lists from Python as Rust values.
    fn own_readings(&self) -> Vec<Reading> {
        Python::attach(|py| {
            let rows: PyResult<Vec<Row>> = self.ready.readings.bind(py).call0().and_then(|rows| rows.extract());
            match rows {
                Ok(rows) => rows.iter().map(reading).collect(),
                Err(error) => {
                    let why = errors::describe(py, &error);
                    vec![Reading::unavailable("readings", "readings", "", Better::Neither, &why)]
                }
            }
        })
    }
}

fn reading((id, title, unit, better, value, about): &Row) -> Reading {
    let better = match better.as_str() {
        "lower" => Better::Lower,
        "higher" => Better::Higher,
        _ => Better::Neither,
    };
    match value {
        Some(value) => Reading::measured(id, title, unit, better, *value, about),
        None => Reading::unavailable(id, title, unit, better, about),
    }
}
