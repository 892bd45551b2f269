//! The worker's side: reads questions, prepares one implementation, takes slots, judges.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use ellwand_core::case::Case;
use ellwand_core::device::{CpuScope, Device};
use ellwand_core::error::InputError;
use ellwand_core::implementation::Prepared;
use ellwand_core::reading::Reading;
use ellwand_core::record::{Outcome, Sample};
use ellwand_core::registry::Registry;
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::Verdict;
use ellwand_core::workload::{Fit, Workload};

use super::protocol::{Answer, Ask, Judged, Open, Opened};
use crate::block::stay_on;
use crate::calibrate::{self, Effort};
use crate::check::{self, Task, guarded};
use crate::probe::{self, Probe, Span};
use crate::sample::{self, Slot};
use crate::settle::{self, Drift, Steps};

/// The program that a worker lives in.
pub struct Host<'a> {
    /// What it can measure.
    pub registry: &'a Registry,
    /// Probes read around runs, where the parent asks for them.
    pub probes: &'a [Probe],
    /// Reads the arrays that the user named.
    pub read_given: &'a dyn Fn(&[String]) -> Result<Tensors, InputError>,
}

/// Answers questions until the parent closes, goes away, or the implementation ends.
///
/// # Errors
/// When a question cannot be read or an answer cannot be written.
pub fn serve(host: &Host, questions: impl BufRead, answers: impl Write) -> io::Result<()> {
    die_with_the_parent();
    let mut desk = Desk { answers };
    let mut lines = questions.lines();
    let Some(open) = next(&mut lines)? else { return Ok(()) };
    let Ask::Open(open) = open else { return desk.end(refused("it must be opened first")) };
    // Room only: it moves what comes after it, whether or not anybody writes to it, and every page that is written to costs the
    // system some 2 us.
    let padding = open.padding.map(|bytes| Vec::<u8>::with_capacity(usize::try_from(bytes.min(1 << 24)).unwrap_or(0)));
    std::hint::black_box(&padding);
    let (mut arm, opened) = match Arm::open(host, &open) {
        Ok(opened) => opened,
        Err(outcome) => return desk.end(outcome),
    };
    desk.say(&Answer::Ready(Box::new(opened)))?;
    // Being made ready is nobody's time: that may happen wherever there is a free processor.
    let mut stay = open.core;
    while let Some(ask) = next(&mut lines)? {
        if let Some(core) = stay.take() {
            stay_on(core);
        }
        let answered = match ask {
            Ask::Turn { iterations, count } => arm.turn(Steps { iterations, count }).map(|ns| Answer::Curve { ns }),
            Ask::Shape { slot } => {
                arm.slot = slot;
                continue;
            }
            Ask::Slot { judged } => arm.slot(judged).map(|sample| Answer::Slot { sample }),
            Ask::Again => {
                arm.again(if open.probes { host.probes } else { &[] }).map(|judged| Answer::Judged(Box::new(judged)))
            }
            Ask::Close => break,
            Ask::Open(_) => Err(refused("it is open already")),
        };
        match answered {
            Ok(answer) => desk.say(&answer)?,
            Err(outcome) => return desk.end(outcome),
        }
    }
    // The padding must outlive every slot.
    std::hint::black_box(&padding);
    Ok(())
}

/// Whatever kills the parent (kill -9, a second Ctrl-C) ends the worker too, even one that never reads its questions again.
fn die_with_the_parent() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL) {
        // Without it the worker still ends when its questions do.
        let _ = error;
    }
}

fn next(lines: &mut io::Lines<impl BufRead>) -> io::Result<Option<Ask>> {
    lines.next().map(|line| serde_json::from_str(&line?).map_err(io::Error::other)).transpose()
}

fn refused(why: &str) -> Outcome {
    Outcome::Failed { error: format!("the worker was asked out of turn: {why}") }
}

struct Desk<W> {
    answers: W,
}

impl<W: Write> Desk<W> {
    fn say(&mut self, answer: &Answer) -> io::Result<()> {
        let line = serde_json::to_string(answer)? + "\n";
        self.answers.write_all(line.as_bytes())?;
        self.answers.flush()
    }

    fn end(&mut self, outcome: Outcome) -> io::Result<()> {
        self.say(&Answer::Ended { outcome })
    }
}

/// One implementation, ready.
struct Arm {
    workload: Arc<dyn Workload>,
    device: Arc<dyn Device>,
    scope: CpuScope,
    case: Case,
    inputs: Tensors,
    judge: Judge,
    prepared: Box<dyn Prepared>,
    slot: Slot,
    /// Whether its slots begin settled.
    drift: Drift,
    /// Whether the outputs were spoilt before the last slot.
    spoilt: bool,
}

impl Arm {
    /// The same steps as in one process: inputs, prepare, poison, run, judge, probes, warm-up, shape of the slots.
    fn open(host: &Host, open: &Open) -> Result<(Self, Opened), Outcome> {
        let failed = |error: String| Outcome::Failed { error };
        let (workload, implementation) = find(host.registry, open)?;
        let mut registry = host.registry.clone();
        registry.look_for(implementation.needs);
        let named = |id: &String| registry.devices().iter().find(|device| device.id() == id);
        let device = match open.device.as_ref().and_then(named) {
            Some(device) => device,
            None => registry.device_for(implementation).map_err(|why| Outcome::Unsupported { why })?,
        };
        let device = Arc::clone(device);
        let (case, inputs) = guarded("the workload's inputs", || inputs(host, open, workload.as_ref()))
            .and_then(|made| made.map_err(|error| error.to_string()))
            .map_err(failed)?;
        check::cooled(device.as_ref(), open.caches).map_err(|why| Outcome::Unsupported { why })?;
        let running = probe::begin(if open.probes { host.probes } else { &[] }, Span::Cold);
        let ran = check::first_run(&case, &inputs, implementation, device.as_ref());
        let mut readings = running.end();
        let check::Ran { mut prepared, prepare_ns, first_run_ns } = ran?;
        let mut judge = Judge { known_right: open.known_right.clone(), expected: None };
        let output = check::output(prepared.as_mut())?;
        probe::beside_outputs(&mut readings, &output);
        let (verdict, digest) = judge.judge(workload.as_ref(), &case, &inputs, &output)?;
        drop(output);
        let scope = implementation.parallelism.scope();
        let slot = guarded("run", || {
            warm_up(device.as_ref(), implementation.parallelism, prepared.as_mut(), open, first_run_ns)
        })
        .and_then(|slot| slot)
        .map_err(failed)?;
        let opened = Opened {
            device: device.id().to_string(),
            prepare_ns,
            first_run_ns,
            slot,
            most_iterations: Some(prepared.most_iterations()),
            finest_part_ns: device.finest_part_ns(),
            settles: device.finest_part_ns().is_some(),
            what_ran: prepared.what_ran(),
            digest,
            verdict,
            readings,
        };
        let workload = Arc::clone(workload);
        let (drift, spoilt) = (Drift::default(), false);
        Ok((Self { workload, device, scope, case, inputs, judge, prepared, slot, drift, spoilt }, opened))
    }

    fn turn(&mut self, steps: Steps) -> Result<settle::Curve, Outcome> {
        let (device, prepared) = (self.device.as_ref(), self.prepared.as_mut());
        let taken = guarded("run", || settle::turn(device, self.scope, prepared, steps));
        taken.and_then(|taken| taken).map_err(|error| Outcome::Failed { error })
    }

    fn slot(&mut self, judged: bool) -> Result<Sample, Outcome> {
        let (device, prepared) = (self.device.as_ref(), self.prepared.as_mut());
        self.spoilt = judged;
        let taken = guarded("run", || {
            if judged {
                prepared.poison();
            }
            sample::slot(device, self.scope, prepared, self.slot)
        });
        match taken.and_then(|taken| taken) {
            Ok(taken) => {
                self.drift.saw(&taken.parts_ns);
                let state = sample::state(self.device.as_ref());
                Ok(Sample { state, ..sample::sample(self.slot, &taken) })
            }
            Err(error) => Err(Outcome::Failed { error }),
        }
    }

    fn again(&mut self, probes: &[Probe]) -> Result<Judged, Outcome> {
        let mut readings = self.steady(probes);
        // What the probes ran around is as good as the slot: both came after the outputs were spoilt.
        let output = if std::mem::take(&mut self.spoilt) {
            check::output(self.prepared.as_mut())?
        } else {
            check::rerun(self.prepared.as_mut())?
        };
        let (_, digest) = self.judge.judge(self.workload.as_ref(), &self.case, &self.inputs, &output)?;
        readings.extend(self.prepared.threads().map(Reading::threads));
        readings.extend(self.prepared.readings());
        let mut warnings = Vec::new();
        match guarded("readings", || self.workload.readings(&self.case, &self.inputs, &output)) {
            Ok(quality) => readings.extend(quality),
            Err(error) => warnings.push(format!("its quality could not be read: {error}")),
        }
        Ok(Judged { digest, readings, warnings, unsettled: self.drift.is_unsettled() })
    }

    /// Probes around one run in steady state. A failure here is found again, and reported, by the judgement.
    fn steady(&mut self, probes: &[Probe]) -> Vec<Reading> {
        if probes.is_empty() {
            return Vec::new();
        }
        // It begins as slots do. A failure here would be reported by the next one.
        let _ = check::cooled(self.device.as_ref(), self.slot.caches());
        let running = probe::begin(probes, Span::Steady);
        let ran = guarded("run", || {
            self.prepared.run();
            self.prepared.sync()
        });
        let readings = running.end();
        if matches!(ran, Ok(Ok(()))) { readings } else { Vec::new() }
    }
}

fn find<'a>(
    registry: &'a Registry,
    open: &Open,
) -> Result<(&'a Arc<dyn Workload>, &'a ellwand_core::Implementation), Outcome> {
    let missing = |what: &str, name: &str| Outcome::Failed { error: format!("this program has no {what} '{name}'") };
    let asked = &open.asked;
    let workload = registry.find(&asked.workload).ok_or_else(|| missing("workload", &asked.workload))?;
    let implementation = registry
        .implementations(&asked.workload)
        .into_iter()
        .find(|known| known.name == asked.implementation)
        .ok_or_else(|| missing("implementation", &format!("{}:{}", asked.workload, asked.implementation)))?;
    Ok((workload, implementation))
}

fn inputs(host: &Host, open: &Open, workload: &dyn Workload) -> Result<(Case, Tensors), InputError> {
    let case = open.asked.case();
    if open.given.is_empty() {
        let inputs = workload.inputs(&case, open.seed ^ workload.data_digest(&case))?;
        return Ok((case, inputs));
    }
    workload.adopt(&case, (host.read_given)(&open.given)?, Fit::Case)
}

fn is_long(slot: Slot, open: &Open) -> bool {
    open.long_run_ns > 0 && slot.iterations == 1 && slot.cost_ns >= open.long_run_ns
}

fn warm_up(
    device: &dyn Device,
    parallelism: ellwand_core::Parallelism,
    prepared: &mut dyn Prepared,
    open: &Open,
    first_run_ns: u64,
) -> Result<Slot, String> {
    let Some(shape) = open.slot else {
        let effort = Effort { caches: open.caches, slot_min_ns: open.slot_min_ns, warm_up_ns: open.warm_up_ns };
        return calibrate::shape(device, parallelism, prepared, effort);
    };
    let mut spent = if is_long(shape, open) { first_run_ns } else { 0 };
    while spent < open.warm_up_ns {
        let timing = sample::slot(device, parallelism.scope(), prepared, shape)?.timing;
        spent += timing.wall_ns.max(shape.turn_ns()).max(1);
    }
    Ok(shape)
}

/// Judges outputs, computing the reference only for an answer that nobody has judged yet.
struct Judge {
    known_right: Vec<u64>,
    expected: Option<Tensors>,
}

impl Judge {
    fn judge(
        &mut self,
        workload: &dyn Workload,
        case: &Case,
        inputs: &Tensors,
        output: &Tensors,
    ) -> Result<(Verdict, u64), Outcome> {
        let digest = output.digest();
        if self.known_right.contains(&digest) {
            let detail = "the same bits as an answer that was judged right".to_string();
            return Ok((Verdict { passed: true, max_error: None, detail }, digest));
        }
        if self.expected.is_none() {
            let made = guarded("the workload's reference", || workload.reference(case, inputs))
                .and_then(|made| made.map_err(|error| error.to_string()));
            self.expected = Some(made.map_err(|error| Outcome::Failed { error })?);
        }
        let expected = self.expected.as_ref().ok_or_else(|| refused("it has no reference"))?;
        let verdict = check::judge(&Task { workload, case, inputs, expected }, output)?;
        self.known_right.push(digest);
        Ok((verdict, digest))
    }
}
