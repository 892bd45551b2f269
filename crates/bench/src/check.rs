//! Prepares an implementation and checks its answer. Errors and panics become outcomes.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ellwand_core::case::Case;
use ellwand_core::device::{Caches, CpuScope, Device};
use ellwand_core::error::{DeviceError, InputError, PrepareError};
use ellwand_core::implementation::{Implementation, Prepared};
use ellwand_core::poison::Poison;
use ellwand_core::record::{Allowed, Outcome};
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::Verdict;
use ellwand_core::workload::Workload;
use serde::{Deserialize, Serialize};

/// A workload at a case, with its inputs.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) workload: &'a dyn Workload,
    pub(crate) case: &'a Case,
    /// The inputs of the case.
    pub(crate) inputs: &'a Tensors,
    /// The user's tolerance instead of the workload's.
    pub(crate) allowed: Option<Allowed>,
}

/// Turns an error into an outcome.
pub(crate) fn failed(error: impl ToString) -> Outcome {
    Outcome::Failed { error: error.to_string() }
}

/// Turns the reason why a device is absent, or cannot do what it was asked to, into an outcome.
pub(crate) fn unsupported(why: impl ToString) -> Outcome {
    Outcome::Unsupported { why: why.to_string() }
}

/// An implementation that has run once; its answer is not yet checked.
pub(crate) struct Ran {
    /// The prepared implementation.
    pub(crate) prepared: Box<dyn Prepared>,
    pub(crate) prepare_ns: u64,
    /// Wall time of the first run, including whatever it loads and compiles.
    pub(crate) first_run_ns: u64,
}

/// Flushes the device's caches if slots must start cold. Also called before the first slot, so that a device that
/// cannot flush is distinguished from one that fails later.
pub(crate) fn cooled(device: &dyn Device, caches: Caches) -> Result<(), DeviceError> {
    match caches {
        Caches::Warm => Ok(()),
        Caches::Cold => Ok(guarded("flush_cache", || device.flush_cache())??),
    }
}

/// Prepares an implementation on its device and runs it once on poisoned outputs.
pub(crate) fn first_run(task: &Task, implementation: &Implementation, device: &dyn Device) -> Result<Ran, Outcome> {
    let mut made = None;
    let prepare = device.time(CpuScope::Process, &mut || {
        made = Some(guarded("prepare", || (implementation.prepare)(task.case, task.inputs, device)));
    });
    let mut prepared = match made {
        Some(Ok(Ok(prepared))) => prepared,
        Some(Ok(Err(PrepareError::Unsupported(why)))) => return Err(Outcome::Unsupported { why }),
        Some(Ok(Err(PrepareError::Failed(error)))) => return Err(Outcome::Failed { error }),
        Some(Err(error)) => return Err(failed(error)),
        None => return Err(Outcome::Failed { error: "the device did not run the preparation".into() }),
    };
    let mut ran = Ok(Ok(()));
    guarded("poison", || prepared.poison(FIRST)).map_err(failed)?;
    let first = device.time(implementation.parallelism.scope(), &mut || {
        ran = guarded("run", || {
            prepared.run();
            prepared.sync()
        });
    });
    flatten(ran)?;
    Ok(Ran { prepared, prepare_ns: prepare.wall_ns, first_run_ns: first.wall_ns })
}

/// The poison before the first run, and the one before every later run that is judged; no answer is accepted after only
/// one pattern.
const FIRST: Poison = Poison::Ones;
pub(crate) const LATER: Poison = Poison::Mixed;

/// Overwrites the outputs with the other pattern after the first answer, and verifies that nothing of the answer can
/// still be read. True if the first run may have left some of the answer unwritten, so it must run again.
///
/// # Errors
/// [`Outcome::Failed`] if the answer survives: no check could then detect a run that computes nothing.
pub(crate) fn overwritten(prepared: &mut dyn Prepared, answer: &Tensors) -> Result<bool, Outcome> {
    guarded("poison", || prepared.poison(LATER)).map_err(failed)?;
    // Outputs that cannot be read without a run count as overwritten.
    if let Ok(left) = output(prepared)
        && let Some(name) = LATER.survivor(answer, &left)
    {
        return Err(failed(format!(
            "output {name} still holds the answer, or a part of it, after poison, so a run that computes nothing would pass; \
             overwrite every output there"
        )));
    }
    Ok(FIRST.remains_in(answer))
}

/// Poisons the outputs, runs once more and returns the new outputs.
pub(crate) fn rerun(prepared: &mut dyn Prepared) -> Result<Tensors, Outcome> {
    flatten(guarded("run", || {
        prepared.poison(LATER);
        prepared.run();
        prepared.sync()
    }))?;
    output(prepared)
}

/// Downloads the outputs of the last run.
pub(crate) fn output(prepared: &mut dyn Prepared) -> Result<Tensors, Outcome> {
    guarded("output", || prepared.output()).map_err(failed)?.map_err(failed)
}

/// Checks outputs against the expected ones.
///
/// # Errors
/// [`Outcome::Wrong`] if they are wrong, [`Outcome::Failed`] if the workload's judge fails.
pub(crate) fn judge(task: &Task, expected: &Tensors, output: &Tensors) -> Result<Verdict, Outcome> {
    let Task { workload, case, inputs, allowed } = *task;
    let verdict = guarded("judge", || match allowed {
        Some(allowed) => workload.judge_within(case, expected, output, allowed.into()),
        None => workload.judge(case, inputs, expected, output),
    })
    .map_err(failed)?;
    let verdict = verdict.of_something();
    if verdict.passed { Ok(verdict) } else { Err(Outcome::Wrong { verdict }) }
}

fn flatten(ran: Result<Result<(), DeviceError>, Panicked>) -> Result<(), Outcome> {
    ran.map_err(failed)?.map_err(failed)
}

/// How an implementation did on the hard sets.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardResult {
    /// Number of sets that it computes correctly, in every case of the set that it supports.
    pub right: usize,
    /// Sets outside its declared range, with that range; or why another library's answer is wrong on a set.
    pub excepted: Vec<(String, String)>,
}

thread_local! {
    static GUARDING: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread is inside [`guarded`]: a panic hook can then stay silent, because the panic becomes a row.
pub fn guarding() -> bool {
    GUARDING.get()
}

/// A panic in code of a workload, an implementation or a library, which becomes a row of the result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it panicked in {step}: {message}")]
pub struct Panicked {
    /// What was called.
    pub step: String,
    /// The message of the panic, without control characters.
    pub message: String,
}

impl From<Panicked> for DeviceError {
    fn from(panicked: Panicked) -> Self {
        DeviceError::new(panicked.to_string())
    }
}

/// Why the inputs, reference or hard sets of a case are missing; none of its implementations can be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The workload panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
    /// The workload refused the case or the user's arrays.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// Calls `body` and turns a panic into an error.
///
/// # Errors
/// The step and the panic message.
pub fn guarded<T>(step: &str, body: impl FnOnce() -> T) -> Result<T, Panicked> {
    let outer = GUARDING.replace(true);
    let caught = catch_unwind(AssertUnwindSafe(body));
    GUARDING.set(outer);
    caught.map_err(|payload| panicked(step, &*payload))
}

fn panicked(step: &str, payload: &(dyn Any + Send)) -> Panicked {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Panicked { step: step.into(), message: plain(text.unwrap_or("no message").as_bytes()) }
}

/// Output of a program as printable text: control characters could move the cursor or start an escape sequence.
pub(crate) fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}
