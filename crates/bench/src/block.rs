//! A block: all arms of a comparison, each in a fresh process, started and then sampled in turns.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ellwand_core::record::{Counts, Outcome, Sample, Settling};
use ellwand_core::verdict::Verdict;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::{IndexedRandom, SliceRandom};

use crate::measure::Interrupted;
use crate::sample::Slot;
use crate::settle;
use crate::worker::shared::Shared;
use crate::worker::{Answer, Ask, Judged, Launch, Limits, Lost, Open, Opened, Worker};

/// Upper bounds of the random padding of a worker's environment, heap and mappings, in bytes.
const PADDING: [u64; 3] = [4 << 10, 64 << 10, 4 << 20];

/// How to run one arm. The block fills in the padding, the digests of known correct outputs and the known slots.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program to start.
    pub launch: Launch,
    /// The question that opens it.
    pub open: Open,
    /// True if the arm may be prepared in parallel with the others once its slot shape is known. Its preparation time
    /// is then not reported. On a busy machine three processes that wait in parallel take a third of the time.
    pub together: bool,
}

impl Spec {
    /// Key under which [`Known`] keeps the slots of this arm.
    pub(crate) fn key(&self) -> (PathBuf, String) {
        (self.launch.program.clone(), self.open.asked.implementation.clone())
    }

    fn ask(&self, padding: [u64; 2], core: Option<u32>, known: &Known) -> Ask {
        let right = known.right.keys().filter(|(program, _)| *program == self.launch.program);
        let shared = known.shared.get(&self.launch.program);
        let path = |which: usize| Some(shared?[which].as_ref()?.path());
        Ask::Open(Box::new(Open {
            padding,
            core: core.filter(|_| self.open.pin),
            known_right: right.map(|(_, digest)| *digest).collect(),
            slot: known.slots.get(&self.key()).copied(),
            reference: path(0),
            inputs: path(1),
            ..self.open.clone()
        }))
    }
}

/// What earlier processes of the same cell learned, by program, so that later ones need not repeat it.
#[derive(Debug, Default)]
pub struct Known {
    /// Verdicts on outputs known to be correct, by digest.
    pub right: BTreeMap<(PathBuf, u64), Verdict>,
    /// Slot shapes, by implementation.
    pub slots: BTreeMap<(PathBuf, String), Slot>,
    /// Settling curves, by implementation.
    pub settling: BTreeMap<(PathBuf, String), Settling>,
    /// True if the first arm must leave the others time to get ready, because no earlier block shows how long that
    /// takes.
    pub(crate) leaves_time: bool,
    /// Reference outputs and inputs, which the workers of a program share.
    shared: BTreeMap<PathBuf, [Option<Shared>; 2]>,
}

impl Known {
    /// True unless these are two programs without a common answer.
    pub(crate) fn agree(&self, one: &Path, other: &Path) -> bool {
        let of = |program: &Path| {
            let own = self.right.keys().filter(|(known, _)| known == program);
            own.map(|(_, digest)| *digest).collect::<BTreeSet<u64>>()
        };
        one == other || !of(one).is_disjoint(&of(other))
    }
}

/// If a process had less time than this to get ready, missing the deadline is not a failure.
const READY: Duration = Duration::from_secs(1);
/// Nor is it if the process had less than this many times what the processes of an earlier block needed.
const READY_TIMES: u32 = 3;
/// Without an earlier block, a process lags if it had this many times what the others of its block needed.
const LAGS_TIMES: u32 = 10;

/// Time after which a process that is not ready hangs, if the processes of an earlier block needed `before`.
pub(crate) fn hang_time(before: Duration) -> Duration {
    READY.max(before.saturating_mul(READY_TIMES))
}

/// The running arms of one block.
#[derive(Debug)]
pub struct Block<'a> {
    arms: Vec<Arm>,
    /// True if the arms were prepared in parallel.
    together: bool,
    limits: Limits,
    /// Deadline of the block.
    end: Option<Instant>,
    /// Arms that were not ready at the deadline; the first of them used up the time.
    late: Vec<usize>,
    /// How long the processes took to get ready.
    opening: Duration,
    interrupt: &'a AtomicBool,
}

#[derive(Debug)]
struct Arm {
    worker: Option<Worker>,
    state: Result<Opened, Outcome>,
    /// How long it took to get ready, or how long the block waited for it.
    took: Duration,
    /// True if it did not answer because a signal had stopped its process.
    stopped: bool,
}

impl<'a> Block<'a> {
    /// Starts a process for each spec, in random order and with random padding of environment, heap and mappings, and
    /// prepares it. Calls `on_wait` with each arm that is getting ready and its current step. An arm that fails keeps
    /// its outcome in [`Block::state`] and does not affect the others. All arms share the time until `end`, when those
    /// that are not ready are killed.
    ///
    /// # Errors
    /// If the user interrupts.
    pub fn open(
        specs: &[Spec],
        known: &mut Known,
        (limits, end): (Limits, Option<Instant>),
        coin: &mut ChaCha8Rng,
        interrupt: &'a AtomicBool,
        on_wait: &mut dyn FnMut(usize, &'static str),
    ) -> Result<Self, Interrupted> {
        let begin = Instant::now();
        let mut order: Vec<usize> = (0..specs.len()).collect();
        order.shuffle(coin);
        for spec in specs {
            let place = known.shared.entry(spec.launch.program.clone());
            place.or_insert_with(|| [Shared::new(), Shared::new()]);
        }
        let not_ready =
            |_: &Spec| Arm { worker: None, state: Err(Outcome::Measured), took: Duration::ZERO, stopped: false };
        let mut arms: Vec<Arm> = specs.iter().map(not_ready).collect();
        for index in &order {
            let padding = usize::try_from(coin.random_range(0..PADDING[0])).unwrap_or(0);
            match Worker::spawn(&specs[*index].launch, padding) {
                Ok(worker) => arms[*index].worker = Some(worker),
                Err(lost) => arms[*index].end(Outcome::Failed { error: lost.to_string() }),
            }
        }
        let core = allowed_cores().choose(coin).copied();
        let together = specs.iter().all(|spec| spec.together && known.slots.contains_key(&spec.key()));
        let (mut late, first) = (Vec::new(), order.first().copied());
        let left = end.map(|end| end.saturating_duration_since(begin)).filter(|_| known.leaves_time);
        let first_end = end.map(|end| end - left.map_or(Duration::ZERO, |left| READY.min(left / 4)));
        let mut opened = |index: usize, arm: &mut Arm, known: &mut Known| {
            let (asked, end) = (Instant::now(), if Some(index) == first { first_end } else { end });
            let opened =
                arm.opened(&specs[index], known, limits.until(end), interrupt, &mut |step| on_wait(index, step));
            arm.took = asked.elapsed();
            let is_late = arm.state.is_err() && end.is_some_and(|end| Instant::now() >= end);
            if is_late {
                late.push(index);
            }
            opened.map(|()| is_late)
        };
        for at in 0..order.len() {
            let index = order[at];
            let padding = [coin.random_range(0..PADDING[1]), coin.random_range(0..PADDING[2])];
            arms[index].put(specs[index].ask(padding, core, known));
            // Otherwise one by one: parallel preparations would disturb each other's first run, and a digest learned
            // from the first arm saves the second from computing the reference.
            if !together && opened(index, &mut arms[index], known)? {
                // Start copies of a late arm last: they would use up the time in which the others can get ready.
                order[at + 1..].sort_by_key(|other| specs[*other].key() == specs[index].key());
            }
        }
        if together {
            arms.iter_mut().enumerate().try_for_each(|(index, arm)| opened(index, arm, known).map(drop))?;
        }
        Ok(Self { arms, together, limits, end, late, opening: begin.elapsed(), interrupt })
    }

    /// Records the settling curves of all arms, unless earlier processes did, and shapes slots of at least `slot_ns` by
    /// them. Returns the new curves; `None` for an arm whose device or program cannot record one.
    ///
    /// # Errors
    /// If the user interrupts.
    pub fn settle(
        &mut self,
        specs: &[Spec],
        known: &mut Known,
        coin: &mut ChaCha8Rng,
        slot_ns: u64,
    ) -> Result<Vec<Option<Settling>>, Interrupted> {
        let shape = |(arm, spec): (&Arm, &Spec)| {
            let opened = arm.state.as_ref().ok().filter(|opened| opened.settles)?;
            (!known.settling.contains_key(&spec.key())).then_some(opened.slot)
        };
        let shapes: Vec<Option<Slot>> = self.arms.iter().zip(specs).map(shape).collect();
        let end = self.end;
        let learnt = settle::rehearse(specs.len(), coin, &|arm| shapes[arm], &mut |arm, steps| {
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(None);
            }
            let (settle::Steps { iterations, count }, cost) = (steps, shapes[arm].unwrap_or(Slot::whole(1, 0)));
            let limit = self.slot_limit((cost.iteration_ns() * (iterations * count) as f64) as u64);
            match self.arms[arm].ask(&Ask::Turn { iterations, count }, limit, self.interrupt)? {
                Some(Answer::Curve { ns }) => Ok(Some(ns)),
                other => self.arms[arm].unexpected(other),
            }
        })?;
        for (arm, (spec, learnt)) in specs.iter().zip(&learnt).enumerate() {
            let (Some(learnt), Ok(opened)) = (learnt, &self.arms[arm].state) else { continue };
            let slot = settle::slot(learnt, slot_ns, opened.max_iterations(), opened.finest_part_ns);
            known.slots.insert(spec.key(), slot);
            known.settling.insert(spec.key(), learnt.clone());
            self.shape(arm, slot);
        }
        Ok(learnt)
    }

    /// Gives the slots of all arms the user's counts, without settling curves.
    pub fn count(&mut self, specs: &[Spec], known: &mut Known, counts: Counts) {
        for (arm, spec) in specs.iter().enumerate() {
            let Ok(opened) = &self.arms[arm].state else { continue };
            let slot = opened.slot.counted(counts, opened.max_iterations(), opened.finest_part_ns);
            known.slots.insert(spec.key(), slot);
            self.shape(arm, slot);
        }
    }

    /// Changes the slot shape of an arm.
    pub fn shape(&mut self, arm: usize, slot: Slot) {
        if let Ok(opened) = &mut self.arms[arm].state
            && opened.slot != slot
        {
            opened.slot = slot;
            self.arms[arm].put(Ask::Shape { slot });
        }
    }

    /// Moves the deadline of a block whose processes had to be ready before it.
    pub(crate) fn extend(&mut self, end: Option<Instant>) {
        self.end = end;
    }

    /// What an arm reported when it was ready, or how it ended.
    pub fn state(&self, arm: usize) -> Result<&Opened, &Outcome> {
        self.arms[arm].state.as_ref()
    }

    /// Arms that were not ready at the deadline; the first of them used up the time.
    pub fn late(&self) -> &[usize] {
        &self.late
    }

    /// True if an arm that was not ready at the deadline hangs, so more time would not help: it had `left`, while the
    /// processes of earlier blocks, if any, needed `before`.
    pub(crate) fn hangs(&self, arm: usize, left: Duration, before: Option<Duration>) -> bool {
        self.late.first() == Some(&arm)
            && (self.arms[arm].stopped || before.is_some_and(|before| left >= hang_time(before)))
    }

    /// True if an arm that was not ready at the deadline had far more time than the ready ones needed.
    pub(crate) fn lags(&self, arm: usize) -> bool {
        let ready = self.arms.iter().filter(|arm| arm.state.is_ok()).map(|arm| arm.took).max();
        ready.is_some_and(|longest| self.arms[arm].took >= READY.max(longest * LAGS_TIMES))
    }

    /// Process ids of the arms that are alive.
    pub fn processes(&self) -> Vec<u32> {
        self.arms.iter().filter_map(|arm| arm.worker.as_ref().map(Worker::id)).collect()
    }

    /// Takes one slot of an arm; `None` if the arm has ended. If `judged`, the worker poisons the outputs first, and
    /// [`Block::rejudge`] checks this slot's answer.
    ///
    /// # Errors
    /// If the user interrupts.
    pub fn slot(&mut self, arm: usize, judged: bool) -> Result<Option<Sample>, Interrupted> {
        let Ok(opened) = &self.arms[arm].state else { return Ok(None) };
        let limit = self.slot_limit(opened.slot.turn_ns());
        match self.arms[arm].ask(&Ask::Slot { judged }, limit, self.interrupt)? {
            Some(Answer::Slot { sample }) => Ok(Some(sample)),
            other => self.arms[arm].unexpected(other),
        }
    }

    /// Lets the process of an arm run for about `ns` nanoseconds, untimed, if its iterations are shorter than that.
    ///
    /// # Errors
    /// If the user interrupts.
    pub fn age(&mut self, arm: usize, ns: f64) -> Result<(), Interrupted> {
        let Ok(opened) = &self.arms[arm].state else { return Ok(()) };
        let (whole, most) = (opened.slot.iteration_ns(), opened.most_iterations.unwrap_or(u64::MAX));
        let needed = (ns / whole.max(1.0)) as u64;
        if !opened.settles || needed < 2 {
            return Ok(());
        }
        let iterations = needed.min(most.max(1));
        let limit = self.slot_limit(ns as u64);
        match self.arms[arm].ask(&Ask::Turn { iterations, count: needed / iterations }, limit, self.interrupt)? {
            Some(Answer::Curve { .. }) => Ok(()),
            other => self.arms[arm].unexpected::<()>(other).map(|_| ()),
        }
    }

    /// Checks an arm's answer again: that of the last slot if it was taken with `judged`, otherwise that of one more
    /// run on poisoned outputs. `None` if the arm has ended or ends now.
    ///
    /// # Errors
    /// If the user interrupts.
    pub fn rejudge(&mut self, arm: usize) -> Result<Option<Judged>, Interrupted> {
        let (limit, arm) = (self.check_limit(), &mut self.arms[arm]);
        arm.put(Ask::Again);
        arm.judged(limit, self.interrupt)
    }

    /// Time limit of slots that are expected to take `cost_ns`.
    fn slot_limit(&self, cost_ns: u64) -> Duration {
        self.limits.slot(cost_ns, self.end.map(|end| end.saturating_duration_since(Instant::now())))
    }

    /// Time limit of a second check: until the deadline, or until the arm counts as hanging.
    fn check_limit(&self) -> Duration {
        let left = self.limits.until(self.end).open;
        left.max(hang_time(self.opening)).min(self.limits.open)
    }

    /// Checks every arm again, as [`Block::rejudge`] does, in parallel if the arms were prepared in parallel.
    ///
    /// # Errors
    /// If the user interrupts.
    pub fn rejudge_all(&mut self) -> Result<Vec<Option<Judged>>, Interrupted> {
        let limit = self.check_limit();
        if !self.together {
            return (0..self.arms.len()).map(|arm| self.rejudge(arm)).collect();
        }
        self.arms.iter_mut().for_each(|arm| arm.put(Ask::Again));
        let interrupt = self.interrupt;
        self.arms.iter_mut().map(|arm| arm.judged(limit, interrupt)).collect()
    }

    /// Ends every process.
    pub fn close(mut self) {
        // Ask all workers to close before waiting for any, so that they end in parallel.
        for worker in self.arms.iter_mut().filter_map(|arm| arm.worker.as_mut()) {
            let _ = worker.put(&Ask::Close);
        }
        self.arms.into_iter().filter_map(|arm| arm.worker).for_each(Worker::close);
    }
}

/// Processors available to this process, and so to its workers; none if the system does not report them.
pub fn allowed_cores() -> Vec<u32> {
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).map(|core| core as u32).collect()
}

/// Pins the calling thread to one processor. If the system refuses (a container with fewer processors), the scheduler
/// decides as usual.
pub(crate) fn stay_on(core: u32) {
    let mut only = CpuSet::new();
    if only.set(core as usize).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &only);
    }
}

impl Arm {
    /// Sends a question without waiting. If the worker is gone, records how it ended.
    fn put(&mut self, ask: Ask) {
        if let Some(Err(lost)) = self.worker.as_mut().map(|worker| worker.put(&ask)) {
            self.end(Outcome::Failed { error: lost.to_string() });
        }
    }

    /// Waits until the worker is ready or has ended.
    fn opened(
        &mut self,
        spec: &Spec,
        known: &mut Known,
        limits: Limits,
        interrupt: &AtomicBool,
        on_wait: &mut dyn FnMut(&'static str),
    ) -> Result<(), Interrupted> {
        match self.receive(limits.open, interrupt, on_wait)? {
            Some(Answer::Ready(mut opened)) => {
                let digest = (spec.launch.program.clone(), opened.digest);
                opened.verdict = known.right.entry(digest).or_insert(opened.verdict).clone();
                known.slots.entry(spec.key()).or_insert(opened.slot);
                self.state = Ok(*opened);
            }
            other => {
                self.unexpected::<()>(other)?;
            }
        }
        Ok(())
    }

    /// Waits for the result of a second check; `None` if the arm has ended or ends now.
    fn judged(&mut self, limit: Duration, interrupt: &AtomicBool) -> Result<Option<Judged>, Interrupted> {
        match self.receive(limit, interrupt, &mut |_| {})? {
            Some(Answer::Judged(judged)) => Ok(Some(*judged)),
            other => self.unexpected(other),
        }
    }

    /// Asks a live worker; if it is gone, records how it ended.
    fn ask(&mut self, ask: &Ask, limit: Duration, interrupt: &AtomicBool) -> Result<Option<Answer>, Interrupted> {
        self.put(ask.clone());
        self.receive(limit, interrupt, &mut |_| {})
    }

    /// Waits for the answer of a live worker; if it is gone, records how it ended.
    fn receive(
        &mut self,
        limit: Duration,
        interrupt: &AtomicBool,
        on_wait: &mut dyn FnMut(&'static str),
    ) -> Result<Option<Answer>, Interrupted> {
        let Some(worker) = &mut self.worker else { return Ok(None) };
        match worker.receive(limit, interrupt, on_wait) {
            Ok(answer) => Ok(Some(answer)),
            Err(Lost::Interrupted) => Err(Interrupted),
            Err(Lost::Broken(error)) => {
                self.stopped = worker.was_stopped();
                self.end(Outcome::Failed { error });
                Ok(None)
            }
        }
    }

    /// Ends the arm: the answer does not match the question.
    fn unexpected<T>(&mut self, answer: Option<Answer>) -> Result<Option<T>, Interrupted> {
        match answer {
            None => {}
            Some(Answer::Ended { outcome }) => self.end(outcome),
            Some(_) => self.end(Outcome::Failed { error: "the worker's answer does not match the question".into() }),
        }
        Ok(None)
    }

    fn end(&mut self, outcome: Outcome) {
        self.state = Err(outcome);
        self.worker = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_hang_is_not_reported_as_lack_of_time() {
        let is_enough =
            |left_s, before_s| Duration::from_secs_f64(left_s) >= hang_time(Duration::from_secs_f64(before_s));
        assert!(is_enough(8.0, 0.3), "also after 12 of 20 seconds");
        assert!(!is_enough(8.0, 4.0), "a start may take longer than the others");
        assert!(!is_enough(0.5, 0.01), "nor is a busy machine a hang");
    }

    #[test]
    fn programs_agree_if_one_answer_of_both_is_the_same() {
        let answers = |of: &[(&str, u64)]| Known {
            right: of.iter().map(|(program, digest)| (((*program).into(), *digest), Verdict::right(""))).collect(),
            ..Known::default()
        };
        let (old, new) = (Path::new("old"), Path::new("new"));
        assert!(answers(&[("old", 1), ("old", 2), ("new", 2)]).agree(old, new));
        let differ = answers(&[("old", 1), ("new", 2)]);
        assert!(!differ.agree(old, new) && differ.agree(old, old));
    }
}
