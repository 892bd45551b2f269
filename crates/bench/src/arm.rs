//! One implementation from preparation to final check, wherever it is measured: in this process, in a worker, or with
//! spans.
//!
//! This module alone upholds two invariants. Nothing is timed before its answer has been checked, and the answer is
//! checked again afterwards, with the outputs poisoned in between. Only `run_times` and `sync` lie between two clock
//! readings ([`sample::slot`]).

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ellwand_core::device::{CpuScope, Device, Timing};
use ellwand_core::implementation::{Implementation, Parallelism, Prepared};
use ellwand_core::reading::Reading;
use ellwand_core::record::{Outcome, Sample};
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::Verdict;

use crate::awake::Awake;
use crate::calibrate::{self, SlotNeeds};
use crate::check::{self, SetupError, Task, failed, guarded};
use crate::probe::{self, Probe, Span};
use crate::sample::{self, Slot};
use crate::settle::{self, Curve, Drift, Steps};
use crate::worker::protocol::{Judged, Opened, Step};
use crate::worker::shared;

/// An implementation whose first answer was correct.
pub(crate) struct Arm<'a> {
    task: Task<'a>,
    device: &'a dyn Device,
    parallelism: Parallelism,
    judge: Judge<'a>,
    prepared: Box<dyn Prepared>,
    /// The current shape of its slots.
    pub(crate) slot: Slot,
    /// Detects slots that start before the arm has settled.
    drift: Drift,
    /// Detects a suspend of the machine since before the preparation.
    awake: Awake,
    /// True if the outputs were poisoned before the last slot.
    poisoned: bool,
    /// What the probes read during a run that also served as warm-up ([`Arm::warm_up_once`]).
    steady: Option<Vec<Reading>>,
}

impl<'a> Arm<'a> {
    /// Prepares an implementation, poisons its outputs, runs it once and checks the answer; then overwrites the answer
    /// with another pattern, and checks a second run if the first was short or may have left poison: two calls show state
    /// that one call leaves to the next. `cold` are the probes read
    /// around preparation and first run. The slot shape is still unset.
    ///
    /// # Errors
    /// The outcome if the implementation is unsupported, fails or gives a wrong answer.
    pub(crate) fn prepare(
        task: Task<'a>,
        implementation: &Implementation,
        device: &'a dyn Device,
        mut judge: Judge<'a>,
        cold: &[Probe],
    ) -> Result<(Self, Opened), Outcome> {
        (judge.on_step)(Step::FirstRun);
        let awake = Awake::new();
        let running = probe::begin(cold, Span::Cold);
        let ran = check::first_run(&task, implementation, device);
        let mut readings = running.end();
        let check::Ran { mut prepared, prepare_ns, first_run_ns } = ran?;
        let output = check::output(prepared.as_mut())?;
        probe::beside_outputs(&mut readings, &output);
        let (mut verdict, mut digest) = judge.judge(&task, &output)?;
        let again = check::overwritten(prepared.as_mut(), &output)?;
        drop(output);
        if again || u128::from(first_run_ns) <= judge.twice.as_nanos() {
            let second = judge.judge(&task, &check::rerun(prepared.as_mut())?)?;
            // The same bits have the verdict of the first, which counts values and knows the largest difference.
            if second.1 != digest {
                (verdict, digest) = second;
            }
        }
        let slot = Slot::whole(1, first_run_ns);
        let work = guarded("the workload's work", || task.workload.work_of(task.case, task.inputs)).map_err(failed)?;
        let opened = Opened {
            device: device.id().to_string(),
            prepare_ns,
            first_run_ns,
            slot,
            most_iterations: Some(prepared.most_iterations()),
            finest_part_ns: device.finest_part_ns(),
            settles: device.finest_part_ns().is_some(),
            what_ran: prepared.what_ran(),
            work: Some(work),
            digest,
            verdict,
            readings,
        };
        let (parallelism, drift) = (implementation.parallelism, Drift::default());
        let arm =
            Self { task, device, parallelism, judge, prepared, slot, drift, awake, poisoned: false, steady: None };
        Ok((arm, opened))
    }

    fn scope(&self) -> CpuScope {
        self.parallelism.scope()
    }

    /// The prepared implementation, for untimed runs.
    pub(crate) fn prepared(&mut self) -> &mut dyn Prepared {
        self.prepared.as_mut()
    }

    /// The largest number of iterations that can be loaded at once.
    pub(crate) fn most_iterations(&self) -> u64 {
        self.prepared.most_iterations()
    }

    /// Warms up and finds an initial slot shape.
    pub(crate) fn calibrate(&mut self, effort: SlotNeeds) -> Result<(), Outcome> {
        let prepared = self.prepared.as_mut();
        let shaped = guarded("run", || calibrate::shape(self.device, self.parallelism, prepared, effort));
        self.slot = shaped.map_err(failed)?.map_err(failed)?;
        Ok(())
    }

    /// Runs once under the probes. True if that took at least `long_ns`: the run then counts as the warm-up, and its
    /// length is that of a slot.
    pub(crate) fn warm_up_once(&mut self, probes: &[Probe], long_ns: u64) -> bool {
        let begin = Instant::now();
        let readings = self.steady(probes);
        let took_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let is_long = !readings.is_empty() && took_ns >= long_ns;
        if is_long {
            (self.slot, self.steady) = (Slot::whole(1, took_ns), Some(readings));
        }
        is_long
    }

    /// Takes slots of the given shape for `warm_up_ns`.
    pub(crate) fn warm_up(&mut self, shape: Slot, warm_up_ns: u64) -> Result<(), Outcome> {
        self.slot = shape;
        let mut spent = 0;
        while spent < warm_up_ns {
            spent += self.timed(false)?.0.wall_ns.max(shape.turn_ns()).max(1);
        }
        Ok(())
    }

    /// Records one turn of the settling curve.
    pub(crate) fn turn(&mut self, steps: Steps) -> Result<Curve, Outcome> {
        let (scope, prepared) = (self.scope(), self.prepared.as_mut());
        let taken = guarded("run", || settle::turn(self.device, scope, prepared, steps));
        taken.map_err(failed)?.map_err(failed)
    }

    fn timed(&mut self, poisoned: bool) -> Result<(Timing, Vec<u64>), Outcome> {
        self.poisoned = poisoned;
        let (scope, prepared) = (self.scope(), self.prepared.as_mut());
        let taken = guarded("run", || {
            if poisoned {
                prepared.poison(check::LATER);
            }
            sample::slot(self.device, scope, prepared, self.slot)
        });
        taken.map_err(failed)?.map_err(failed)
    }

    /// Takes one slot. If `last`, poisons the outputs first, because this slot's answer is checked next.
    ///
    /// # Errors
    /// The outcome if the slot fails, or if the machine was suspended in this slot or before it.
    pub(crate) fn sample(&mut self, last: bool) -> Result<Sample, Outcome> {
        let (timing, parts_ns) = self.timed(last)?;
        self.awake.check()?;
        self.drift.add_slot(&parts_ns);
        Ok(Sample { state: self.device.state(), ..sample::sample(self.slot, &timing, &parts_ns) })
    }

    /// Checks the answer again: that of the last slot if it was taken with poisoned outputs, otherwise that of one more run.
    /// With `probes`, also reads these and what the workload reads from the answer, which may take much longer.
    ///
    /// # Errors
    /// The outcome if a run fails or the answer is wrong.
    pub(crate) fn rejudge(&mut self, probes: Option<&[Probe]>) -> Result<Judged, Outcome> {
        let mut readings = self.steady.take().unwrap_or_else(|| self.steady(probes.unwrap_or_default()));
        // The run under the probes is as good as the slot: both followed the poisoning.
        let output = if std::mem::take(&mut self.poisoned) {
            check::output(self.prepared.as_mut())?
        } else {
            check::rerun(self.prepared.as_mut())?
        };
        let (_, digest) = self.judge.judge(&self.task, &output)?;
        let mut warnings = Vec::new();
        if probes.is_some() {
            readings.extend(self.prepared.threads().map(Reading::threads));
            readings.extend(self.prepared.readings());
            let Task { workload, case, inputs, .. } = self.task;
            match guarded("readings", || workload.readings(case, inputs, &output)) {
                Ok(quality) => readings.extend(quality),
                Err(error) => warnings.push(format!("its quality could not be read: {error}")),
            }
        }
        Ok(Judged { digest, readings, warnings, unsettled: self.drift.is_unsettled() })
    }

    /// Reads probes around one steady-state run. A failure here is ignored: the check that follows hits it again and
    /// reports it.
    fn steady(&mut self, probes: &[Probe]) -> Vec<Reading> {
        if probes.is_empty() {
            return Vec::new();
        }
        // Start like a slot: after its untimed head, or from flushed caches.
        let head = self.slot.lead.min(self.prepared.most_iterations().saturating_sub(1));
        let _ = guarded("run", || {
            self.prepared.load(head + 1);
            self.prepared.run_times(head);
            self.prepared.sync()
        });
        let _ = check::cooled(self.device, self.slot.caches());
        let running = probe::begin(probes, Span::Steady);
        let ran = guarded("run", || {
            self.prepared.run();
            self.prepared.sync()
        });
        let readings = running.end();
        if matches!(ran, Ok(Ok(()))) { readings } else { Vec::new() }
    }
}

/// First runs up to this length are followed by a second one that is judged, too.
const SHORT: Duration = Duration::from_millis(100);

/// Checks outputs; computes the reference only for outputs whose bits it has not seen before.
pub(crate) struct Judge<'a> {
    /// Called when a step begins.
    on_step: &'a dyn Fn(Step),
    known_right: Vec<u64>,
    expected: Option<Cow<'a, Tensors>>,
    shared: Option<PathBuf>,
    /// Longest first run that a second one follows, if nothing else demands it.
    twice: Duration,
}

impl<'a> Judge<'a> {
    /// Checks against known reference outputs.
    pub(crate) fn against(expected: &'a Tensors) -> Self {
        let expected = Some(Cow::Borrowed(expected));
        Self { on_step: &|_| {}, known_right: Vec::new(), expected, shared: None, twice: SHORT }
    }

    /// Judges a second run after every first one, or only where its answer may hold poison.
    pub(crate) fn judge_twice(self, twice: bool) -> Self {
        Self { twice: if twice { Duration::MAX } else { Duration::ZERO }, ..self }
    }

    /// Checks against digests of correct outputs first; only if needed reads the reference where other workers may have
    /// left it, or computes it.
    pub(crate) fn with_digests(known_right: Vec<u64>, shared: Option<PathBuf>, on_step: &'a dyn Fn(Step)) -> Self {
        Self { on_step, known_right, expected: None, shared, twice: SHORT }
    }

    fn judge(&mut self, task: &Task, output: &Tensors) -> Result<(Verdict, u64), Outcome> {
        let digest = output.checksum();
        if self.known_right.contains(&digest) {
            return Ok((Verdict::right("the same bits as an answer that was judged right"), digest));
        }
        let expected = match self.expected.take() {
            Some(expected) => expected,
            None => {
                let make = || {
                    (self.on_step)(Step::Reference);
                    Ok::<_, SetupError>(guarded("the workload's reference", || {
                        task.workload.reference(task.case, task.inputs)
                    })??)
                };
                Cow::Owned(shared::at(self.shared.as_deref(), make).map_err(failed)?)
            }
        };
        (self.on_step)(Step::Check);
        let verdict = check::judge(task, &expected, output);
        self.expected = Some(expected);
        let verdict = verdict?;
        self.known_right.push(digest);
        Ok((verdict, digest))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use ellwand_core::registry::Registry;

    use super::*;
    use crate::awake::fake::Clocks;
    use crate::measure::Instrument;
    use crate::plan::{Plan, Selection};
    use crate::settings::Effort;

    #[test]
    fn a_suspend_within_or_between_slots_ends_the_arm() {
        let mut registry = Registry::new();
        registry.device(Arc::new(crate::Cpu::default()));
        crate::selfcheck::register(&mut registry);
        let workloads = registry.workloads().iter().map(|workload| workload.name().to_string()).take(1).collect();
        let plan = Plan::expand(&registry, &Selection { workloads, ..Selection::default() }).unwrap();
        let (cell, interrupt) = (&plan.cells[0], AtomicBool::new(false));
        let instrument = Instrument::new(&registry, Effort::Quick.settings(), 7, &interrupt);
        let (case, inputs, expected) = instrument.inputs_and_reference(cell).unwrap();
        let task = Task { workload: cell.workload.as_ref(), case: &case, inputs: &inputs, allowed: None };
        let row = &cell.implementations[0];
        let device = instrument.device(row).unwrap();
        let (mut arm, _) = Arm::prepare(task, row, device, Judge::against(&expected), &[]).unwrap();
        let clocks = Clocks::default();
        arm.awake = clocks.watched();
        assert!(arm.sample(false).is_ok());
        clocks.ran.set(Duration::from_secs(60));
        assert!(arm.sample(false).is_ok());
        clocks.suspended.set(Duration::from_secs(60));
        for _ in 0..2 {
            let outcome = arm.sample(true).unwrap_err();
            let reason = outcome.reason().unwrap();
            assert!(
                outcome.word() == "failed" && reason.starts_with("the machine was suspended for 60.000 s"),
                "{reason}"
            );
        }
    }
}
