//! Judges implementations in a worker, so that one that exits, crashes or hangs becomes a row and does not end the
//! check.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ellwand_core::implementation::Implementation;
use ellwand_core::record::Outcome;
use ellwand_core::registry::Registry;
use ellwand_core::verdict::Verdict;

use super::process::{Launch, Lost, Worker};
use super::protocol::{Answer, Ask, Pose};
use crate::check::HardResult;
use crate::measure::Interrupted;
use crate::plan::Cell;

/// Asks one worker at a time; each serves until it ends.
pub struct Checker<'a> {
    /// How workers are started.
    launch: Launch,
    /// Time limit for inputs, reference and hard sets of a case, and for each implementation.
    limit: Duration,
    /// Seed of the inputs.
    seed: u64,
    /// Registry in which devices are looked up.
    registry: &'a Registry,
    /// Set to end the worker.
    interrupt: &'a AtomicBool,
    worker: Option<Worker>,
    /// The case last sent to the worker, and why it has no inputs, reference or hard sets.
    posed: Option<(String, Result<(), Outcome>)>,
}

impl<'a> Checker<'a> {
    /// A checker without a worker; the first question starts one.
    pub fn new(registry: &'a Registry, limit: Duration, seed: u64, interrupt: &'a AtomicBool) -> Self {
        Self { launch: Launch::this_program(), limit, seed, registry, interrupt, worker: None, posed: None }
    }

    /// Runs an implementation twice on the inputs of the cell and once on each hard set of its workload, and judges its
    /// answers. Returns the verdict and the result on the hard sets, or the first outcome that is not right.
    ///
    /// # Errors
    /// If the user interrupts.
    pub fn check(
        &mut self,
        cell: &Cell,
        row: &Implementation,
    ) -> Result<Result<(Verdict, HardResult), Outcome>, Interrupted> {
        if let Err(outcome) = self.pose(cell)? {
            return Ok(Err(outcome));
        }
        let device = self.registry.device_for(row).ok().map(|device| device.id().to_string());
        Ok(match self.ask(&Ask::Check { implementation: row.name.clone(), device })? {
            Ok(Answer::Checked { found }) => found,
            other => Err(self.ended(other)),
        })
    }

    /// What the worker has written to stderr since the last call.
    pub fn take_stderr(&mut self) -> Option<String> {
        self.worker.as_mut().and_then(Worker::take_stderr)
    }

    /// Sends the case to the worker, unless the worker already has it or a worker has failed at it.
    fn pose(&mut self, cell: &Cell) -> Result<Result<(), Outcome>, Interrupted> {
        let id = cell.case.id();
        if let Some((known, made)) = &self.posed
            && *known == id
            && (made.is_err() || self.worker.is_some())
        {
            return Ok(made.clone());
        }
        let pose = Pose { case: cell.case.clone(), seed: self.seed, allowed: cell.allowed };
        let made = match self.ask(&Ask::Pose(Box::new(pose)))? {
            Ok(Answer::Posed) => Ok(()),
            other => Err(match self.ended(other) {
                Outcome::Failed { error } => {
                    Outcome::Failed { error: format!("no inputs, reference or hard sets: {error}") }
                }
                other => other,
            }),
        };
        self.posed = Some((id, made.clone()));
        Ok(made)
    }

    /// Asks the worker, after starting one if necessary.
    fn ask(&mut self, ask: &Ask) -> Result<Result<Answer, String>, Interrupted> {
        let worker = match &mut self.worker {
            Some(worker) => Ok(worker),
            missing => Worker::spawn(&self.launch, 0).map(|worker| missing.insert(worker)),
        };
        let answered = worker.and_then(|worker| {
            worker.put(ask)?;
            worker.receive(self.limit, self.interrupt, &mut |_| {})
        });
        match answered {
            Ok(answer) => Ok(Ok(answer)),
            Err(Lost::Interrupted) => Err(Interrupted),
            Err(Lost::Broken(error)) => Ok(Err(error)),
        }
    }

    /// The outcome of a worker that ended or sent an invalid answer.
    fn ended(&mut self, answered: Result<Answer, String>) -> Outcome {
        self.worker = None;
        match answered {
            Ok(Answer::Ended { outcome }) => outcome,
            Ok(_) => Outcome::Failed { error: "the worker's answer does not match the question".into() },
            Err(error) => Outcome::Failed { error },
        }
    }
}

impl Drop for Checker<'_> {
    fn drop(&mut self) {
        self.worker.take().into_iter().for_each(Worker::close);
    }
}
