//! Measures one cell in this process.
//!
//! For each implementation: prepare, poison, run, check. All that pass are warmed up and sampled in interleaved rounds,
//! in random order within each round, until a stop rule fires. Then each is checked again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ellwand_core::case::Case;
use ellwand_core::device::Device;
use ellwand_core::error::InputError;
use ellwand_core::implementation::Implementation;
use ellwand_core::record::{CaseRecord, Measurement, Outcome, Sample, Settings, Settling};
use ellwand_core::registry::Registry;
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::Verdict;
use ellwand_core::workload::{Fit, Workload};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use crate::arm::{Arm, Judge};
use crate::calibrate;
use crate::check::{self, SetupError, Task};
use crate::one_clock::one_clock;
use crate::plan::Cell;
use crate::probe::Probe;
use crate::reuse;
use crate::sample::{self, Slot};
use crate::settle;
use crate::worker::protocol::{Judged, Opened};

/// The user interrupted: the cell being measured is lost; all earlier ones are already written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Progress events, sent between slots and never inside one.
#[derive(Debug)]
pub enum Event<'a> {
    /// An implementation is getting ready; sent several times a second meanwhile.
    Preparing {
        /// Name of the implementation.
        implementation: &'a str,
        /// The current step, in words that follow "while".
        step: &'static str,
    },
    /// Some of the planned rounds are done.
    Sampled {
        /// Rounds completed so far.
        rounds: u32,
        /// Rounds that fill the time budget of the case.
        planned: u32,
    },
}

/// The step reported for an implementation that gets ready in this process.
pub(crate) const PREPARING: &str = "preparing and checking the answer";

/// The instrument with its settings.
pub struct Instrument<'a> {
    /// Registry in which devices are looked up.
    pub registry: &'a Registry,
    /// Settings, as written to the record.
    pub settings: Settings,
    /// Seed of inputs and sampling orders.
    pub seed: u64,
    /// Probes to read around runs.
    pub probes: &'a [Probe],
    /// Set to stop after the current round.
    pub interrupt: &'a AtomicBool,
    /// Arrays given by the user instead of generated inputs.
    pub given: Option<&'a Tensors>,
    /// Timer resolution by device, in nanoseconds ([`resolutions`]).
    pub resolutions: BTreeMap<String, f64>,
}

/// Measures the timer resolution of each device: twice the time of an empty iteration, in nanoseconds.
pub fn resolutions(registry: &Registry, settings: &Settings) -> BTreeMap<String, f64> {
    let of = |device: &dyn Device| Some(2.0 * sample::empty_iteration_ns(device, settings).ok()?);
    registry.devices().iter().filter_map(|device| Some((device.id().to_string(), of(device.as_ref())?))).collect()
}

/// Adds the report of an implementation that is ready.
pub(crate) fn ready(measurement: &mut Measurement, opened: Opened) {
    measurement.device = opened.device;
    measurement.prepare_ns = Some(opened.prepare_ns);
    measurement.first_run_ns = Some(opened.first_run_ns);
    measurement.check = Some(opened.verdict);
    measurement.what_ran = opened.what_ran;
    if let Some(work) = opened.work {
        measurement.work = work;
    }
    measurement.readings = opened.readings;
}

/// The progress of one implementation through a cell.
struct Runner<'a> {
    implementation: &'a Implementation,
    device: &'a str,
    state: Result<Box<Alive<'a>>, Outcome>,
}

struct Alive<'a> {
    arm: Arm<'a>,
    opened: Opened,
    settling: Option<Settling>,
}

impl<'a> Instrument<'a> {
    /// An instrument that reads no probes, generates its inputs, and does not know any timer resolution.
    pub fn new(registry: &'a Registry, settings: Settings, seed: u64, interrupt: &'a AtomicBool) -> Self {
        Self { registry, settings, seed, probes: &[], interrupt, given: None, resolutions: BTreeMap::new() }
    }
}

impl Instrument<'_> {
    /// Measures one cell and returns one measurement for each of its implementations, in order.
    ///
    /// # Errors
    /// If the user interrupts.
    pub fn measure(&self, cell: &Cell, on_event: &mut dyn FnMut(Event)) -> Result<Vec<Measurement>, Interrupted> {
        let workload = cell.workload.as_ref();
        let (case, inputs, expected) = match self.inputs_and_reference(cell) {
            Ok(made) => made,
            Err(error) => return Ok(self.all_failed(cell, &error)),
        };
        let task = Task { workload, case: &case, inputs: &inputs, allowed: cell.allowed };
        let mut runners = Vec::new();
        for implementation in &cell.implementations {
            self.check_interrupt()?;
            on_event(Event::Preparing { implementation: &implementation.name, step: PREPARING });
            runners.push(self.start(task, &expected, implementation));
        }
        let mut coin = ChaCha8Rng::seed_from_u64(self.seed ^ case.digest().rotate_left(17));
        self.settle(&mut runners, &mut coin)?;
        let slot = |runner: &Runner| runner.alive().map(|one| (self.share(one.arm.slot), one.arm.slot.cost_ns));
        let slots: Vec<_> = runners.iter().map(slot).collect();
        let mut take = |index: usize| Ok(runners[index].with(|one| one.arm.sample(false)));
        let samples = self.rounds((0, 1), &slots, &mut coin, &mut take, &|| false, on_event)?;
        Ok(runners.into_iter().zip(samples).map(|(runner, samples)| self.finish(task, runner, samples)).collect())
    }

    /// Case, inputs and reference outputs of a cell.
    ///
    /// # Errors
    /// Why they cannot be made; this includes panics of the workload.
    pub fn inputs_and_reference(&self, cell: &Cell) -> Result<(Case, Tensors, Tensors), SetupError> {
        let made = check::guarded("the workload's inputs and reference", || {
            let (case, inputs) = self.inputs(cell.workload.as_ref(), &cell.case)?;
            let expected = cell.workload.reference(&case, &inputs)?;
            Ok::<_, InputError>((case, inputs, expected))
        });
        Ok(made??)
    }

    /// The inputs of a case: generated from the seed and the case id, or cut from the user's arrays.
    ///
    /// # Errors
    /// If the arrays do not fit the case, or no inputs can be generated.
    pub fn inputs(&self, workload: &dyn Workload, case: &Case) -> Result<(Case, Tensors), InputError> {
        match self.given {
            Some(given) => workload.adopt(case, given.clone(), Fit::Case),
            None => Ok((case.clone(), workload.inputs(case, self.seed ^ workload.data_digest(case))?)),
        }
    }

    /// Runs an implementation once, or `twice`, on the inputs of [`Instrument::inputs_and_reference`] and checks its
    /// answers; nothing is timed.
    ///
    /// # Errors
    /// The outcome if the implementation is unsupported, fails or gives a wrong answer.
    pub fn judged(
        &self,
        cell: &Cell,
        (case, inputs, expected): &(Case, Tensors, Tensors),
        implementation: &Implementation,
        twice: bool,
    ) -> Result<Verdict, Outcome> {
        let device = self.device(implementation)?;
        let task = Task { workload: cell.workload.as_ref(), case, inputs, allowed: cell.allowed };
        Ok(Arm::prepare(task, implementation, device, Judge::against(expected).judge_twice(twice), &[])?.1.verdict)
    }

    pub(crate) fn check_interrupt(&self) -> Result<(), Interrupted> {
        if self.interrupt.load(Relaxed) { Err(Interrupted) } else { Ok(()) }
    }

    pub(crate) fn device(&self, implementation: &Implementation) -> Result<&dyn Device, Outcome> {
        self.registry.device_for(implementation).map(AsRef::as_ref).map_err(check::unsupported)
    }

    /// Prepares, checks, warms up and calibrates one implementation.
    fn start<'r>(&'r self, task: Task<'r>, expected: &'r Tensors, implementation: &'r Implementation) -> Runner<'r> {
        let (device, state) = match self.device(implementation) {
            Err(outcome) => (implementation.needs.name(), Err(outcome)),
            Ok(device) => (device.id(), self.alive(task, expected, implementation, device).map(Box::new)),
        };
        Runner { implementation, device, state }
    }

    fn alive<'r>(
        &self,
        task: Task<'r>,
        expected: &'r Tensors,
        implementation: &Implementation,
        device: &'r dyn Device,
    ) -> Result<Alive<'r>, Outcome> {
        check::cooled(device, self.settings.caches).map_err(check::unsupported)?;
        let (mut arm, opened) = Arm::prepare(task, implementation, device, Judge::against(expected), self.probes)?;
        arm.calibrate(calibrate::SlotNeeds::of(&self.settings))?;
        Ok(Alive { arm, opened, settling: None })
    }

    /// Measures how long each implementation takes to settle next to the others, and shapes its slots accordingly.
    fn settle(&self, runners: &mut [Runner], coin: &mut ChaCha8Rng) -> Result<(), Interrupted> {
        if let Some(counts) = self.settings.counts {
            for runner in runners {
                runner.with(|one| {
                    let (most, finest) = (one.arm.most_iterations(), one.opened.finest_part_ns);
                    one.arm.slot = one.arm.slot.counted(counts, most, finest);
                    Ok(())
                });
            }
            return Ok(());
        }
        let settles = |runner: &Runner| runner.alive().filter(|one| one.opened.settles).map(|one| one.arm.slot);
        let shapes: Vec<Option<Slot>> = runners.iter().map(settles).collect();
        let learnt = settle::rehearse(runners.len(), coin, &|arm| shapes[arm], &mut |arm, steps| {
            self.check_interrupt()?;
            Ok(runners[arm].with(|one| one.arm.turn(steps)))
        })?;
        for (runner, learnt) in runners.iter_mut().zip(learnt) {
            if let (Ok(one), Some(learnt)) = (&mut runner.state, learnt) {
                let (least, most) = (self.settings.slot_min_ns, one.arm.most_iterations());
                one.arm.slot = settle::slot(&learnt, least, most, one.opened.finest_part_ns);
                one.settling = Some(learnt);
            }
        }
        Ok(())
    }

    /// Number of samples of one implementation that fill its share of the time.
    pub(crate) fn share(&self, slot: Slot) -> u32 {
        let fits = self.settings.case_budget_ns / slot.turn_ns().max(1);
        u32::try_from(fits).unwrap_or(u32::MAX).clamp(self.settings.samples_min.max(1), self.settings.rounds_max.max(1))
    }

    /// Checks again, reads the last probes and completes the measurement.
    fn finish(&self, task: Task, runner: Runner, samples: Vec<Sample>) -> Measurement {
        let mut measurement = self.blank(task.workload, task.case, runner.implementation);
        measurement.device = runner.device.to_string();
        let (mut arm, opened, settling) = match runner.state {
            Err(outcome) => return Measurement { outcome, ..measurement },
            Ok(one) => (one.arm, one.opened, one.settling),
        };
        ready(&mut measurement, opened);
        match arm.rejudge(Some(self.probes)) {
            Err(outcome) => measurement.outcome = outcome,
            Ok(judged) => self.complete(&mut measurement, samples, judged, settling),
        }
        measurement
    }

    /// Adds the samples and the result of the second check.
    pub(crate) fn complete(
        &self,
        measurement: &mut Measurement,
        mut samples: Vec<Sample>,
        judged: Judged,
        settling: Option<Settling>,
    ) {
        measurement.warnings.extend(self.settings.counts.map(|counts| sample::counted(counts, &samples)));
        measurement.warnings.extend(one_clock(std::slice::from_mut(&mut samples)));
        measurement.warnings.extend(sample::remarks(&samples));
        measurement.warnings.extend(judged.unsettled.then(|| settle::UNSETTLED.to_string()));
        measurement.warnings.extend(judged.warnings);
        measurement.sampled(samples);
        measurement.warnings.extend(reuse::of(measurement));
        measurement.settling = settling;
        measurement.resolution_ns = self.resolutions.get(&measurement.device).copied();
        measurement.readings.extend(judged.readings);
    }

    pub(crate) fn all_failed(&self, cell: &Cell, error: &SetupError) -> Vec<Measurement> {
        let failed = |implementation| Measurement {
            outcome: Outcome::Failed { error: error.to_string() },
            ..self.blank(cell.workload.as_ref(), &cell.case, implementation)
        };
        cell.implementations.iter().map(failed).collect()
    }

    pub(crate) fn blank(&self, workload: &dyn Workload, case: &Case, implementation: &Implementation) -> Measurement {
        let unit = |name: &str| workload.axes().iter().find(|axis| axis.name == name).map_or("", |axis| axis.unit);
        Measurement {
            case: CaseRecord::new(case, unit).with_neutral(workload.axes()),
            implementation: implementation.name.clone(),
            device: implementation.needs.to_string(),
            parallelism: implementation.parallelism,
            caches: self.settings.caches,
            what_ran: String::new(),
            baseline: workload.baseline().to_string(),
            work: workload.work(case),
            outcome: Outcome::Measured,
            check: None,
            prepare_ns: None,
            first_run_ns: None,
            samples: Vec::new(),
            basis: None,
            settling: None,
            resolution_ns: None,
            readings: Vec::new(),
            warnings: workload.remarks(case),
            session: 0,
        }
    }
}

impl<'a> Runner<'a> {
    fn alive(&self) -> Option<&Alive<'a>> {
        self.state.as_deref().ok()
    }

    /// Calls `body` if the implementation is alive; a failure ends this implementation only.
    fn with<T>(&mut self, body: impl FnOnce(&mut Alive<'a>) -> Result<T, Outcome>) -> Option<T> {
        let Ok(one) = &mut self.state else { return None };
        body(one).map_err(|outcome| self.state = Err(outcome)).ok()
    }
}
