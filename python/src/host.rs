//! The command line and the worker, hosted by a Python interpreter.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use ellwand::Registry;
use ellwand::internals::bench::worker::Launch;
use ellwand::internals::bench::writer;
use ellwand::internals::report::{FORMATS, Options, Report, format};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::prepared::FORKED;
use crate::{errors, rows};

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(take_streams, module)?)?;
    module.add_function(wrap_pyfunction!(worker, module)?)?;
    module.add_function(wrap_pyfunction!(report, module)?)?;
    module.add_function(wrap_pyfunction!(outputs, module)?)?;
    module.add_function(wrap_pyfunction!(built_in, module)?)?;
    module.add_function(wrap_pyfunction!(did_you_mean, module)?)?;
    let hooks = PyDict::new(module.py());
    hooks.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    module.py().import("os")?.call_method("register_at_fork", (), Some(&hooks)).map(drop)
}

/// The registry of the program `ellwand`, plus what Python adds to it.
pub(crate) fn registry(workloads: &[Bound<'_, PyAny>], implementations: &[Bound<'_, PyAny>]) -> PyResult<Registry> {
    let mut registry = ellwand_cli::registry();
    rows::register(&mut registry, workloads, implementations)?;
    Ok(registry)
}

/// Runs a command and returns its exit code. `launch` is the command that starts a worker.
#[pyfunction]
fn run(
    py: Python<'_>,
    args: Vec<OsString>,
    line: Vec<String>,
    workloads: Vec<Bound<'_, PyAny>>,
    implementations: Vec<Bound<'_, PyAny>>,
    launch: Vec<OsString>,
) -> PyResult<i32> {
    let registry = registry(&workloads, &implementations)?;
    let mut launch = launch.into_iter();
    if let Some(program) = launch.next() {
        Launch { program: program.into(), args: launch.collect() }.hosts_this_program();
    }
    Ok(py.detach(|| ellwand::run_recorded(&args, line, &registry)))
}

/// The worker's channels: where questions come from and answers go.
static STREAMS: Mutex<Option<(File, File)>> = Mutex::new(None);

/// Moves questions and answers away from stdin and stdout, so that the measured code prints to stderr and reads nothing. A worker
/// does this first, because the user's files may print while they are loaded.
#[pyfunction]
fn take_streams() -> PyResult<()> {
    let moved = || -> io::Result<(File, File)> {
        let questions = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let answers = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
        nix::unistd::dup2_stdout(io::stderr())?;
        Ok((questions, answers))
    };
    *STREAMS.lock().unwrap_or_else(PoisonError::into_inner) = Some(moved()?);
    Ok(())
}

/// Answers as a worker until the parent closes; returns the exit code.
#[pyfunction]
fn worker(py: Python<'_>, workloads: Vec<Bound<'_, PyAny>>, implementations: Vec<Bound<'_, PyAny>>) -> PyResult<i32> {
    let Some((questions, mut answers)) = STREAMS.lock().unwrap_or_else(PoisonError::into_inner).take() else {
        return Err(errors::raise(py, "a worker must redirect its streams first"));
    };
    let registry = registry(&workloads, &implementations)?;
    Ok(py.detach(|| ellwand::internals::worker(&registry, &mut BufReader::new(questions), &mut answers)))
}

/// Called in every forked child, right after the fork.
#[pyfunction]
fn forked() {
    FORKED.store(true, Relaxed);
}

/// A report on records, as text.
#[pyfunction]
fn report(py: Python<'_>, paths: Vec<PathBuf>, name: &str) -> PyResult<String> {
    let known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    let Some(format) = format(name) else {
        return Err(errors::raise(py, format!("format: '{name}' is unknown; expected one of {}", known.join(", "))));
    };
    let made = py.detach(|| {
        let records: Result<Vec<_>, _> = paths.iter().map(|path| writer::read(path)).collect();
        let records = records.map_err(|error| error.to_string())?;
        let report = Report::from_records(&records, &Options::default()).map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        (format.write)(&report, &mut text).map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8_lossy(&text).into_owned())
    });
    made.map_err(|error| errors::raise(py, error))
}

/// Names of the outputs of the built-in workloads at their default cases: a function that returns a bare array needs one.
#[pyfunction]
fn outputs() -> Vec<(String, Vec<String>)> {
    let registry = ellwand_cli::registry();
    let of = |workload: &std::sync::Arc<dyn ellwand::internals::core::Workload>| {
        let first = |axis: &ellwand::Axis| Some((axis.name.to_string(), axis.default.first()?.clone()));
        let case = ellwand::Case::new(workload.name(), workload.axes().iter().filter_map(first).collect());
        let ports = workload.ports(&case).outputs.into_iter();
        (workload.name().to_string(), ports.filter(|port| port.required).map(|port| port.name.to_string()).collect())
    };
    registry.workloads().iter().map(of).collect()
}

/// Workload and name of each built-in implementation.
#[pyfunction]
fn built_in() -> Vec<(String, String)> {
    let registry = ellwand_cli::registry();
    registry.all_implementations().iter().map(|known| (known.workload.clone(), known.name.clone())).collect()
}

/// `did you mean NAME?`, if a known name is close enough to be a typing error.
#[pyfunction]
fn did_you_mean(given: &str, known: Vec<String>) -> Option<String> {
    ellwand::internals::core::error::did_you_mean(given, known.iter().map(String::as_str))
}
