//! Measuring in this process: for functions that no other process can find, such as those typed at a prompt.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use ellwand::internals::bench::probe::{self, PROBES};
use ellwand::internals::bench::{Effort, Event, Instrument, Plan, Selection, Writer, environment, resolutions};
use ellwand::internals::core::Run;
use ellwand::internals::core::record::VERSION;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::errors::{self, INTERRUPTED};
use crate::host;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(measure, module)?)?;
    module.add_function(wrap_pyfunction!(restart_peak, module)?)
}

/// Allows one measurement at a time: two at once would disturb each other.
static ONE: Mutex<()> = Mutex::new(());

/// Restarts the peak-memory counter, so that argument copies made by Ellwand do not count as the function's.
#[pyfunction]
fn restart_peak() {
    let _unavailable_here = probe::restart_peak();
}

/// Measures a workload on this thread and writes the record to `path`, in at most `time_s` seconds of slots.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn measure(
    py: Python<'_>,
    path: PathBuf,
    workload: String,
    workloads: Vec<Bound<'_, PyAny>>,
    implementations: Vec<Bound<'_, PyAny>>,
    effort: &str,
    seed: u64,
    time_s: Option<f64>,
) -> PyResult<()> {
    let Ok(_alone) = ONE.try_lock() else {
        return Err(errors::raise(py, "another measurement is under way in this process; wait until it ends"));
    };
    let registry = host::registry(&workloads, &implementations)?;
    let effort = Effort::NAMES.iter().find(|(name, _)| *name == effort).map_or(Effort::Normal, |(_, effort)| *effort);
    let mut settings = effort.settings();
    if let Some(seconds) = time_s {
        settings.case_budget_ns = settings.case_budget_ns.min((seconds * 1e9) as u64);
    }
    INTERRUPTED.store(false, Relaxed);
    let interrupt = &INTERRUPTED;
    let mut raised = None;
    let measured = py.detach(|| -> Result<(), Box<dyn Error + Send + Sync>> {
        let selection = Selection { workloads: vec![workload.clone()], ..Selection::default() };
        let plan = Plan::expand(&registry, &selection)?;
        let mut record = Writer::create(&path, &first_line(&workload, seed, settings.clone()))?;
        let resolutions = resolutions(&registry, &settings);
        let instrument = Instrument::new(&registry, settings, seed, interrupt);
        let instrument = Instrument { probes: PROBES, resolutions, ..instrument };
        for cell in &plan.cells {
            let mut look = |_: Event<'_>| look_for_signals(interrupt, &mut raised);
            let Ok(measurements) = instrument.measure(cell, &mut look) else { return Ok(()) };
            measurements.iter().try_for_each(|row| record.append(row))?;
        }
        Ok(())
    });
    match raised {
        Some(error) => Err(error),
        None if interrupt.load(Relaxed) => Err(PyKeyboardInterrupt::new_err("")),
        None => measured.map_err(|error| errors::raise(py, error)),
    }
}

/// Runs Python's own signal handlers, between slots.
fn look_for_signals(interrupt: &AtomicBool, raised: &mut Option<PyErr>) {
    if let Err(error) = Python::attach(|py| py.check_signals()) {
        interrupt.store(true, Relaxed);
        *raised = Some(error);
    }
}

fn first_line(workload: &str, seed: u64, settings: ellwand::internals::core::record::Settings) -> Run {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    let started = u64::try_from(started).unwrap_or(0);
    Run {
        version: VERSION,
        id: format!("{started}-{:08x}", std::process::id()),
        command: vec!["python".into(), "measure".into(), workload.into()],
        started_unix_ms: started,
        ellwand: env!("CARGO_PKG_VERSION").to_string(),
        seed,
        environment: environment::detect(),
        settings,
        revision: None,
        certificate: None,
        views: Vec::new(),
        shard: None,
    }
}
