//! The worker's side: reads questions, prepares one implementation, takes slots and checks answers.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, Write};
use std::sync::Arc;

use ellwand_core::case::Case;
use ellwand_core::device::{Caches, Device};
use ellwand_core::error::InputError;
use ellwand_core::implementation::Implementation;
use ellwand_core::record::Outcome;
use ellwand_core::registry::Registry;
use ellwand_core::tensor::Tensors;
use ellwand_core::workload::{Fit, Workload};

use super::examine::Examiner;
use super::protocol::{Answer, Ask, Open, Opened, Pose, Step};
use super::shared;
use crate::arm::{Arm, Judge};
use crate::block::stay_on;
use crate::calibrate::SlotNeeds;
use crate::check::{self, Task, failed, guarded, unsupported};
use crate::probe::Probe;
use crate::sample::Slot;
use crate::settle::Steps;

/// The program that a worker is part of.
pub struct Host<'a> {
    /// Workloads, implementations and devices.
    pub registry: &'a Registry,
    /// Probes to read if the parent asks for them.
    pub probes: &'a [Probe],
    /// Reads the arrays named by the user.
    pub read_given: &'a dyn Fn(&[String]) -> Result<Tensors, InputError>,
}

/// Answers questions until the parent closes or exits, or the implementation ends.
///
/// # Errors
/// If a question cannot be read or an answer cannot be written.
pub fn serve(host: &Host, questions: &mut dyn BufRead, answers: &mut dyn Write) -> io::Result<()> {
    die_with_the_parent();
    let desk = Desk { answers: RefCell::new(answers) };
    let mut lines = questions.lines();
    let open = match next(&mut lines)? {
        Some(Ask::Open(open)) => open,
        Some(Ask::Pose(pose)) => return examine(host, pose, &mut lines, &desk),
        Some(Ask::Close) | None => return Ok(()),
        Some(_) => return desk.end(refused("it must be opened first")),
    };
    // Never written: reserving it already shifts all later allocations, and every written page costs the system about 2
    // us.
    let padding = open.padding.map(|bytes| Vec::<u8>::with_capacity(usize::try_from(bytes.min(1 << 24)).unwrap_or(0)));
    std::hint::black_box(&padding);
    let opening = Cell::new(open.steps);
    let on_step = |step| {
        if opening.get() {
            // If the parent is gone, the next answer fails.
            let _ = desk.send(&Answer::Step { step });
        }
    };
    let found = match Found::new(host, &open, &on_step) {
        Ok(found) => found,
        Err(outcome) => return desk.end(outcome),
    };
    let (mut arm, opened) = match found.arm(host, &open, &on_step) {
        Ok(opened) => opened,
        Err(outcome) => return desk.end(outcome),
    };
    opening.set(false);
    desk.send(&Answer::Ready(Box::new(opened)))?;
    // Preparation is not timed here, so it may use any free processor.
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
            Ask::Slot { judged } => arm.sample(judged).map(|sample| Answer::Slot { sample }),
            Ask::Again => {
                arm.rejudge(open.probes.then_some(host.probes)).map(|judged| Answer::Judged(Box::new(judged)))
            }
            Ask::Close => break,
            Ask::Open(_) | Ask::Pose(_) | Ask::Check { .. } => Err(refused("it is open already")),
        };
        match answered {
            Ok(answer) => desk.send(&answer)?,
            Err(outcome) => return desk.end(outcome),
        }
    }
    // Keep the padding alive beyond every slot.
    std::hint::black_box(&padding);
    Ok(())
}

/// Judges implementations at one case after the other.
fn examine(host: &Host, first: Box<Pose>, lines: &mut Lines, desk: &Desk) -> io::Result<()> {
    let mut next_case = Some(first);
    let mut registry = host.registry.clone();
    while let Some(pose) = next_case.take() {
        let mut examiner = match Examiner::new(&mut registry, &pose) {
            Ok(examiner) => examiner,
            Err(outcome) => return desk.end(outcome),
        };
        desk.send(&Answer::Posed)?;
        let mut is_lost = false;
        while let Some(ask) = next(lines)? {
            match ask {
                Ask::Check { implementation, device } => {
                    let found = examiner.check(&implementation, device.as_deref());
                    is_lost |= matches!(found, Err(Outcome::Failed { .. }));
                    desk.send(&Answer::Checked { found })?;
                }
                Ask::Pose(pose) => {
                    next_case = Some(pose);
                    break;
                }
                Ask::Close => return Ok(()),
                _ => return desk.end(refused("it judges and does not measure")),
            }
        }
        if is_lost {
            // A failure may have lost the device, which a new search opens again.
            registry = host.registry.clone();
        }
    }
    Ok(())
}

/// Ends the worker with its parent, however that dies (kill -9, a second Ctrl-C), even if it never reads another
/// question.
fn die_with_the_parent() {
    // Without it the worker still ends at the end of stdin.
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
}

type Lines<'a> = io::Lines<&'a mut dyn BufRead>;

fn next(lines: &mut Lines) -> io::Result<Option<Ask>> {
    lines.next().map(|line| Ask::read(&line?).map_err(io::Error::other)).transpose()
}

fn refused(why: &str) -> Outcome {
    Outcome::Failed { error: format!("the worker was asked out of turn: {why}") }
}

struct Desk<'a> {
    answers: RefCell<&'a mut dyn Write>,
}

impl Desk<'_> {
    fn send(&self, answer: &Answer) -> io::Result<()> {
        let line = serde_json::to_string(answer)? + "\n";
        let mut answers = self.answers.borrow_mut();
        answers.write_all(line.as_bytes())?;
        answers.flush()
    }

    fn end(&self, outcome: Outcome) -> io::Result<()> {
        self.send(&Answer::Ended { outcome })
    }
}

/// What a worker measures, looked up by name.
struct Found<'a> {
    workload: &'a Arc<dyn Workload>,
    implementation: &'a Implementation,
    device: Arc<dyn Device>,
    case: Case,
    inputs: Tensors,
}

impl<'a> Found<'a> {
    fn new(host: &Host<'a>, open: &Open, on_step: &dyn Fn(Step)) -> Result<Self, Outcome> {
        let workload = workload(host.registry, open.asked.workload())?;
        let implementation = implementation(host.registry, workload.name(), &open.asked.implementation)?;
        let mut registry = host.registry.clone();
        registry.look_for(implementation.needs);
        let named = |id: &String| registry.devices().iter().find(|device| device.id() == id);
        let device = match open.device.as_ref().and_then(named) {
            Some(device) => device,
            None => registry.device_for(implementation).map_err(unsupported)?,
        };
        let device = Arc::clone(device);
        on_step(Step::Inputs);
        let (case, inputs) = guarded("the workload's inputs", || inputs(host, open, workload.as_ref()))
            .map_err(failed)?
            .map_err(failed)?;
        if open.caches == Caches::Cold {
            on_step(Step::Flush);
        }
        check::cooled(device.as_ref(), open.caches).map_err(unsupported)?;
        Ok(Self { workload, implementation, device, case, inputs })
    }

    /// The prepared arm, warmed up and with a slot shape.
    fn arm<'b>(&'b self, host: &Host, open: &Open, on_step: &'b dyn Fn(Step)) -> Result<(Arm<'b>, Opened), Outcome> {
        let (workload, case, inputs) = (self.workload.as_ref(), &self.case, &self.inputs);
        let task = Task { workload, case, inputs, allowed: open.allowed };
        let judge = Judge::with_digests(open.known_right.clone(), open.reference.clone(), on_step);
        let probes = if open.probes { host.probes } else { &[] };
        let (mut arm, mut opened) = Arm::prepare(task, self.implementation, self.device.as_ref(), judge, probes)?;
        on_step(Step::WarmUp);
        match open.slot {
            Some(shape) => {
                // The first run already warms up a long iteration.
                let spent = if is_long(shape, open) { opened.first_run_ns } else { 0 };
                arm.warm_up(shape, open.warm_up_ns.saturating_sub(spent))?;
            }
            None if may_be_long(&opened, open) && arm.warm_up_once(probes, open.long_run_ns) => {}
            None => {
                let (slot_min_ns, warm_up_ns) = (open.slot_min_ns, open.warm_up_ns);
                arm.calibrate(SlotNeeds { caches: open.caches, slot_min_ns, warm_up_ns })?;
            }
        }
        opened.slot = arm.slot;
        Ok((arm, opened))
    }
}

/// How the reason begins for which a program cannot measure what it does not have.
pub(crate) const MISSING: &str = "this program has no ";

fn missing(what: &str, name: &str) -> Outcome {
    Outcome::Failed { error: format!("{MISSING}{what} '{name}'") }
}

pub(super) fn workload<'a>(registry: &'a Registry, name: &str) -> Result<&'a Arc<dyn Workload>, Outcome> {
    registry.find(name).ok_or_else(|| missing("workload", name))
}

pub(super) fn implementation<'a>(
    registry: &'a Registry,
    workload: &str,
    name: &str,
) -> Result<&'a Implementation, Outcome> {
    let mut all = registry.implementations(workload).into_iter();
    all.find(|known| known.name == name).ok_or_else(|| missing("implementation", &format!("{workload}:{name}")))
}

fn inputs(host: &Host, open: &Open, workload: &dyn Workload) -> Result<(Case, Tensors), InputError> {
    let case = &open.asked.case();
    if open.given.is_empty() {
        let make = || workload.inputs(case, open.seed ^ workload.data_digest(case));
        return Ok((case.clone(), shared::at(open.inputs.as_deref(), make)?));
    }
    workload.adopt(case, (host.read_given)(&open.given)?, Fit::Case)
}

fn is_long(slot: Slot, open: &Open) -> bool {
    open.long_run_ns > 0 && slot.iterations == 1 && slot.cost_ns >= open.long_run_ns
}

/// True if a second run may be long, too: the first one was, unless it compiled. Slots on cold caches are shaped by slots.
fn may_be_long(opened: &Opened, open: &Open) -> bool {
    let is_first_long = open.long_run_ns > 0 && opened.first_run_ns >= open.long_run_ns;
    is_first_long && open.probes && open.caches == Caches::Warm
}
