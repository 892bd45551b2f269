//! The instrument itself: one cell in, its measurements out.
//!
//! For each implementation: prepare, poison, run, judge. Then all that answered right are warmed up and sampled in
//! interleaved rounds, the order of each round drawn by a coin, until a stop rule fires. Then each is judged again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ellwand_core::case::Case;
use ellwand_core::device::{Device, DeviceKind};
use ellwand_core::error::InputError;
use ellwand_core::implementation::{Implementation, Prepared};
use ellwand_core::reading::Reading;
use ellwand_core::record::{Basis, CaseRecord, Measurement, Outcome, Sample, Settings, Settling};
use ellwand_core::registry::Registry;
use ellwand_core::tensor::Tensors;
use ellwand_core::workload::{Fit, Workload};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::calibrate;
use crate::check::{self, Ready, Task};
use crate::plan::Cell;
use crate::probe::{self, Probe, Span};
use crate::sample::{self, Slot};
use crate::settle::{self, Drift};
use crate::stop::{Progress, overtime, stopped};

/// The user asked to stop; the cell being measured is lost, everything before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// What the instrument says while it works, always between slots and never inside one.
#[derive(Debug)]
pub enum Event<'a> {
    /// It turns to an implementation for preparation and check.
    Checking(&'a str),
    /// So many of the planned rounds are done.
    Sampled {
        /// Rounds done.
        rounds: u32,
        /// Rounds planned.
        planned: u32,
    },
}

/// Takes measurements with fixed settings.
pub struct Instrument<'a> {
    /// Devices are looked up here.
    pub registry: &'a Registry,
    /// Settings, as they go into the record.
    pub settings: Settings,
    /// Seed of inputs and orders.
    pub seed: u64,
    /// Probes read around runs.
    pub probes: &'a [Probe],
    /// Set to stop between two rounds.
    pub interrupt: &'a AtomicBool,
    /// Arrays the user gave in place of generated inputs.
    pub given: Option<&'a Tensors>,
    /// Shortest time that can be told from nothing, by device ([`resolutions`]).
    pub resolutions: BTreeMap<String, f64>,
}

/// Measures, on each device, the shortest time of an iteration that can be told from nothing: twice that of nothing, in nanoseconds.
pub fn resolutions(registry: &Registry, settings: &Settings) -> BTreeMap<String, f64> {
    let of = |device: &dyn Device| Some(2.0 * sample::empty_iteration_ns(device, settings).ok()?);
    registry.devices().iter().filter_map(|device| Some((device.id().to_string(), of(device.as_ref())?))).collect()
}

/// Who takes a slot in `round`: an implementation with a share of the `planned` rounds takes part in every n-th.
pub(crate) fn turns(round: u32, planned: u32, shares: &[Option<u32>]) -> Vec<usize> {
    let takes = |share: &Option<u32>| share.is_some_and(|share| round.is_multiple_of((planned / share.max(1)).max(1)));
    (0..shares.len()).filter(|index| takes(&shares[*index])).collect()
}

/// An implementation on its way through a cell.
struct Runner<'a> {
    implementation: &'a Implementation,
    device: &'a dyn Device,
    state: State,
    cold: Vec<Reading>,
}

enum State {
    /// Being sampled.
    Alive { ready: Ready, slot: Slot, settling: Option<Settling>, drift: Drift, samples: Vec<Sample> },
    /// Over.
    Ended(Outcome),
}

impl Instrument<'_> {
    /// Measures one cell: a measurement for each of its implementations, in their order.
    ///
    /// # Errors
    /// When the user interrupts.
    pub fn measure(&self, cell: &Cell, on_event: &mut dyn FnMut(Event)) -> Result<Vec<Measurement>, Interrupted> {
        let workload = cell.workload.as_ref();
        let (case, inputs, expected) = match self.made(cell) {
            Ok(made) => made,
            Err(error) => return Ok(self.all_failed(cell, &error)),
        };
        let task = Task { workload, case: &case, inputs: &inputs, expected: &expected };
        let mut runners = Vec::new();
        for implementation in &cell.implementations {
            self.check_interrupt()?;
            on_event(Event::Checking(&implementation.name));
            runners.push(self.start(&task, implementation));
        }
        let mut coin = ChaCha8Rng::seed_from_u64(self.seed ^ case.digest().rotate_left(17));
        self.settle(&mut runners, &mut coin)?;
        self.sample(&mut runners, &mut coin, on_event)?;
        Ok(runners.into_iter().map(|runner| self.finish(&task, runner)).collect())
    }

    /// Case, inputs and the reference's outputs of a cell.
    pub(crate) fn made(&self, cell: &Cell) -> Result<(Case, Tensors, Tensors), String> {
        check::guarded("the workload's inputs and reference", || {
            let (case, inputs) = self.inputs(cell.workload.as_ref(), &cell.case)?;
            let expected = cell.workload.reference(&case, &inputs)?;
            Ok::<_, InputError>((case, inputs, expected))
        })?
        .map_err(|error| error.to_string())
    }

    /// The inputs of a case: generated from the seed and the case's identity, or the user's arrays cut to the case.
    ///
    /// # Errors
    /// When there can be none.
    pub fn inputs(&self, workload: &dyn Workload, case: &Case) -> Result<(Case, Tensors), InputError> {
        match self.given {
            Some(given) => workload.adopt(case, given.clone(), Fit::Case),
            None => Ok((case.clone(), workload.inputs(case, self.seed ^ workload.data_digest(case))?)),
        }
    }

    pub(crate) fn check_interrupt(&self) -> Result<(), Interrupted> {
        if self.interrupt.load(Relaxed) { Err(Interrupted) } else { Ok(()) }
    }

    pub(crate) fn device(&self, implementation: &Implementation) -> Result<&dyn Device, String> {
        self.registry.device_for(implementation).map(AsRef::as_ref)
    }

    /// Prepares, checks, warms up and calibrates one implementation.
    fn start<'r>(&'r self, task: &Task, implementation: &'r Implementation) -> Runner<'r> {
        let device = match self.device(implementation) {
            Ok(device) => device,
            Err(why) => {
                return Runner {
                    implementation,
                    device: nowhere(implementation.needs),
                    state: State::Ended(Outcome::Unsupported { why }),
                    cold: Vec::new(),
                };
            }
        };
        if let Err(why) = check::cooled(device, self.settings.caches) {
            let state = State::Ended(Outcome::Unsupported { why });
            return Runner { implementation, device, state, cold: Vec::new() };
        }
        let running = probe::begin(self.probes, Span::Cold);
        let ran = check::first_run(task.case, task.inputs, implementation, device);
        let mut cold = running.end();
        let ready = ran.and_then(|ran| ran.judged(task, |output| probe::beside_outputs(&mut cold, output)));
        let state = match ready {
            Err(outcome) => State::Ended(outcome),
            Ok(mut ready) => {
                let calibrated = check::guarded("run", || {
                    let effort = calibrate::Effort::of(&self.settings);
                    calibrate::shape(device, implementation.parallelism, ready.prepared.as_mut(), effort)
                });
                match calibrated.and_then(|calibrated| calibrated) {
                    Ok(slot) => {
                        State::Alive { ready, slot, settling: None, drift: Drift::default(), samples: Vec::new() }
                    }
                    Err(error) => State::Ended(Outcome::Failed { error }),
                }
            }
        };
        Runner { implementation, device, state, cold }
    }

    /// Learns how long each implementation takes to settle beside the others, and shapes its slots by that.
    fn settle(&self, runners: &mut [Runner], coin: &mut ChaCha8Rng) -> Result<(), Interrupted> {
        let settles = |runner: &Runner| runner.slot().filter(|_| runner.device.finest_part_ns().is_some());
        let shapes: Vec<Option<Slot>> = runners.iter().map(settles).collect();
        let learnt = settle::rehearse(runners.len(), coin, &|arm| shapes[arm], &mut |arm, steps| {
            self.check_interrupt()?;
            Ok(runners[arm].turn(steps))
        })?;
        for (runner, learnt) in runners.iter_mut().zip(learnt) {
            if let (State::Alive { ready, slot, settling, .. }, Some(learnt)) = (&mut runner.state, learnt) {
                let most = ready.prepared.most_iterations();
                *slot = settle::slot(&learnt, self.settings.slot_min_ns, most, runner.device.finest_part_ns());
                *settling = Some(learnt);
            }
        }
        Ok(())
    }

    /// Samples of one implementation that fill its share of the time.
    pub(crate) fn share(&self, slot: Slot) -> u32 {
        let fits = self.settings.case_budget_ns / slot.turn_ns().max(1);
        u32::try_from(fits).unwrap_or(u32::MAX).clamp(self.settings.samples_min.max(1), self.settings.rounds_max.max(1))
    }

    /// Interleaved rounds. A slow implementation takes part in every n-th round only, so that it gets its share of the
    /// time and no more; those that take part in a round are adjacent in time.
    fn sample(
        &self,
        runners: &mut [Runner],
        coin: &mut ChaCha8Rng,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Interrupted> {
        let shares: Vec<Option<u32>> = runners
            .iter()
            .map(|runner| match &runner.state {
                State::Alive { slot, .. } => Some(self.share(*slot)),
                State::Ended(_) => None,
            })
            .collect();
        let planned = shares.iter().flatten().copied().max().unwrap_or(0);
        for round in 0..planned {
            self.check_interrupt()?;
            let mut order = turns(round, planned, &shares);
            order.shuffle(coin);
            for (position, index) in order.into_iter().enumerate() {
                runners[index].take(round, position as u32);
            }
            on_event(Event::Sampled { rounds: round + 1, planned });
            let seconds: Vec<Vec<f64>> = runners.iter().filter_map(Runner::seconds).collect();
            let overtime = overtime(runners.iter().filter_map(Runner::samples), &self.settings, 1);
            let progress = Progress { rounds: round + 1, planned, seconds: &seconds, overtime };
            if seconds.is_empty() || stopped(&progress).is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Judges again, reads the last probes and writes the measurement.
    fn finish(&self, task: &Task, runner: Runner) -> Measurement {
        let mut measurement = self.blank(task.workload, task.case, runner.implementation);
        measurement.device = runner.device.id().to_string();
        match runner.state {
            State::Ended(outcome) => measurement.outcome = outcome,
            State::Alive { mut ready, samples, settling, drift, .. } => {
                measurement.prepare_ns = Some(ready.prepare_ns);
                measurement.first_run_ns = Some(ready.first_run_ns);
                measurement.check = Some(ready.verdict.clone());
                measurement.what_ran = ready.prepared.what_ran();
                measurement.readings = runner.cold;
                measurement.readings.extend(self.steady(runner.device, ready.prepared.as_mut()));
                measurement.outcome = match check::again(task, ready.prepared.as_mut()) {
                    Err(outcome) => outcome,
                    Ok(_) => Outcome::Measured,
                };
                if measurement.outcome.is_measured() {
                    measurement.warnings.extend(sample::remarks(&samples));
                    measurement.warnings.extend(drift.is_unsettled().then(|| settle::UNSETTLED.to_string()));
                    measurement.sampled(samples);
                    measurement.settling = settling;
                    measurement.resolution_ns = self.resolutions.get(&measurement.device).copied();
                    measurement.readings.extend(ready.prepared.threads().map(Reading::threads));
                    measurement.readings.extend(ready.prepared.readings());
                    let quality = check::guarded("readings", || {
                        ready.prepared.output().map(|output| task.workload.readings(task.case, task.inputs, &output))
                    });
                    match quality.and_then(|quality| quality) {
                        Ok(quality) => measurement.readings.extend(quality),
                        Err(error) => measurement.warnings.push(format!("its quality could not be read: {error}")),
                    }
                }
            }
        }
        measurement
    }

    /// Probes around one run in steady state, which begins as slots do.
    fn steady(&self, device: &dyn Device, prepared: &mut dyn Prepared) -> Vec<Reading> {
        // A failure here was found before, and would be reported by the next slot.
        let _ = check::cooled(device, self.settings.caches);
        let running = probe::begin(self.probes, Span::Steady);
        let ran = check::guarded("run", || {
            prepared.run();
            prepared.sync()
        });
        let readings = running.end();
        // A failure here is found again, and reported, by the second judgement.
        if matches!(ran, Ok(Ok(()))) { readings } else { Vec::new() }
    }

    pub(crate) fn all_failed(&self, cell: &Cell, error: &str) -> Vec<Measurement> {
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

impl Runner<'_> {
    fn slot(&self) -> Option<Slot> {
        match &self.state {
            State::Alive { slot, .. } => Some(*slot),
            State::Ended(_) => None,
        }
    }

    /// Takes one turn of its settling curve; a failure ends the implementation and no other.
    fn turn(&mut self, steps: settle::Steps) -> Option<settle::Curve> {
        let State::Alive { ready, .. } = &mut self.state else { return None };
        let scope = self.implementation.parallelism.scope();
        let curve = check::guarded("run", || settle::turn(self.device, scope, ready.prepared.as_mut(), steps));
        curve.and_then(|curve| curve).map_err(|error| self.state = State::Ended(Outcome::Failed { error })).ok()
    }

    /// Takes one slot; a failure ends the implementation and no other.
    fn take(&mut self, round: u32, position: u32) {
        let State::Alive { ready, slot, drift, samples, .. } = &mut self.state else { return };
        let scope = self.implementation.parallelism.scope();
        let taken = check::guarded("run", || sample::slot(self.device, scope, ready.prepared.as_mut(), *slot));
        match taken.and_then(|taken| taken) {
            Ok(taken) => {
                drift.saw(&taken.parts_ns);
                let state = sample::state(self.device);
                samples.push(Sample { round, position, state, ..sample::sample(*slot, &taken) });
            }
            Err(error) => self.state = State::Ended(Outcome::Failed { error }),
        }
    }

    /// Its samples, and what a slot was found to cost.
    fn samples(&self) -> Option<(&[Sample], u64)> {
        match &self.state {
            State::Alive { samples, slot, .. } => Some((samples, slot.cost_ns)),
            State::Ended(_) => None,
        }
    }

    fn seconds(&self) -> Option<Vec<f64>> {
        Some(self.samples()?.0.iter().map(|sample| Basis::Fastest.seconds(sample)).collect())
    }
}

/// Stands in the record for a device that is not here, under the name of its kind; nothing ever runs on it.
struct Nowhere(DeviceKind);

fn nowhere(kind: DeviceKind) -> &'static dyn Device {
    match kind {
        DeviceKind::Cuda => &Nowhere(DeviceKind::Cuda),
        DeviceKind::Wgpu => &Nowhere(DeviceKind::Wgpu),
        _ => &Nowhere(DeviceKind::Cpu),
    }
}

impl Device for Nowhere {
    fn id(&self) -> &str {
        self.0.name()
    }
    fn kind(&self) -> DeviceKind {
        self.0
    }
    fn about(&self) -> String {
        "not found here".into()
    }
    fn time(&self, _: ellwand_core::CpuScope, _: &mut dyn FnMut()) -> ellwand_core::Timing {
        ellwand_core::Timing::default()
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
