//! Preparing an implementation and judging its answer, whatever it does: errors and panics become outcomes.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ellwand_core::case::Case;
use ellwand_core::device::{Caches, CpuScope, Device};
use ellwand_core::error::PrepareError;
use ellwand_core::implementation::{Implementation, Prepared};
use ellwand_core::record::Outcome;
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::Verdict;
use ellwand_core::workload::Workload;

/// A task at a case with its inputs.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    /// The task.
    pub(crate) workload: &'a dyn Workload,
    /// The parameter point.
    pub(crate) case: &'a Case,
    /// Its inputs.
    pub(crate) inputs: &'a Tensors,
}

/// The outcome of an error.
pub(crate) fn failed(error: String) -> Outcome {
    Outcome::Failed { error }
}

/// An implementation that ran once, not yet judged.
pub(crate) struct Ran {
    /// It.
    pub(crate) prepared: Box<dyn Prepared>,
    /// Time to prepare it.
    pub(crate) prepare_ns: u64,
    /// Time of its first run on the wall: what it loads and compiles then is waited for too.
    pub(crate) first_run_ns: u64,
}

/// Flushes the caches of a device where slots are to find them cold: before the first of them too, so that a device which
/// cannot is told from one that fails later.
///
/// # Errors
/// Why it cannot.
pub(crate) fn cooled(device: &dyn Device, caches: Caches) -> Result<(), String> {
    match caches {
        Caches::Warm => Ok(()),
        Caches::Cold => guarded("flush_cache", || device.flush_cache())?.map_err(|error| error.to_string()),
    }
}

/// Prepares an implementation on its device and runs it once with spoiled outputs.
///
/// # Errors
/// The outcome when it is unsupported or breaks.
pub(crate) fn first_run(task: &Task, implementation: &Implementation, device: &dyn Device) -> Result<Ran, Outcome> {
    let mut made = None;
    let prepare = device.time(CpuScope::Process, &mut || {
        made = Some(guarded("prepare", || (implementation.prepare)(task.case, task.inputs, device)));
    });
    let mut prepared = match made {
        Some(Ok(Ok(prepared))) => prepared,
        Some(Ok(Err(PrepareError::Unsupported(why)))) => return Err(Outcome::Unsupported { why }),
        Some(Ok(Err(PrepareError::Failed(error)))) => return Err(Outcome::Failed { error }),
        Some(Err(error)) => return Err(Outcome::Failed { error }),
        None => return Err(Outcome::Failed { error: "the device did not run the preparation".into() }),
    };
    let mut ran = Ok(Ok(()));
    guarded("poison", || prepared.poison()).map_err(|error| Outcome::Failed { error })?;
    let first = device.time(implementation.parallelism.scope(), &mut || {
        ran = guarded("run", || {
            prepared.run();
            prepared.sync()
        });
    });
    flatten(ran)?;
    Ok(Ran { prepared, prepare_ns: prepare.wall_ns, first_run_ns: first.wall_ns })
}

/// Spoils the outputs, runs once more and returns what it answers now.
///
/// # Errors
/// The outcome when it breaks.
pub(crate) fn rerun(prepared: &mut dyn Prepared) -> Result<Tensors, Outcome> {
    flatten(guarded("run", || {
        prepared.poison();
        prepared.run();
        prepared.sync()
    }))?;
    output(prepared)
}

/// The outputs of the last run.
///
/// # Errors
/// The outcome when they cannot be had.
pub(crate) fn output(prepared: &mut dyn Prepared) -> Result<Tensors, Outcome> {
    guarded("output", || prepared.output()).and_then(|output| output).map_err(|error| Outcome::Failed { error })
}

/// Judges outputs.
///
/// # Errors
/// [`Outcome::Wrong`] when they are wrong, [`Outcome::Failed`] when the judge breaks.
pub(crate) fn judge(task: &Task, expected: &Tensors, output: &Tensors) -> Result<Verdict, Outcome> {
    let verdict = guarded("judge", || task.workload.judge(task.case, task.inputs, expected, output))
        .map_err(|error| Outcome::Failed { error })?;
    if verdict.passed { Ok(verdict) } else { Err(Outcome::Wrong { verdict }) }
}

fn flatten(ran: Result<Result<(), String>, String>) -> Result<(), Outcome> {
    ran.and_then(|synced| synced).map_err(|error| Outcome::Failed { error })
}

thread_local! {
    static GUARDING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside [`guarded`], so that a panic hook can stay silent about what becomes a row anyway.
pub fn guarding() -> bool {
    GUARDING.get()
}

/// Calls `body`; a panic becomes an error with its message.
///
/// # Errors
/// What the panic said, and in which step.
pub fn guarded<T>(step: &str, body: impl FnOnce() -> T) -> Result<T, String> {
    let outer = GUARDING.replace(true);
    let caught = catch_unwind(AssertUnwindSafe(body));
    GUARDING.set(outer);
    caught.map_err(|payload| {
        let message = payload
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_string());
        format!("it panicked in {step}: {}", plain(message.as_bytes()))
    })
}

/// What a program wrote, as text that can be printed: control characters could move the cursor or start an escape sequence.
pub(crate) fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}
