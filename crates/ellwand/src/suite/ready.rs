//! Closures prepared for one case.

use std::fmt::Debug;
use std::sync::Arc;

use ellwand_core::{DeviceError, Poison, Prepared, Tensors};

use super::overwrite::{find_pattern, overwrite};
use super::task::{Shared, digest, is_empty, unwritten};
use super::{Borrow, Buffer, Change, Fill, Own};

/// The answer of the last run, or its token once the judge has it.
enum Last<O> {
    Nothing,
    Answer(O),
    Given(Tensors),
}

impl<O: PartialEq + Debug> Last<O> {
    fn give<I: Clone>(&mut self, shared: &Shared<I, O>) -> Tensors {
        let given = match std::mem::replace(self, Last::Nothing) {
            Last::Nothing => Tensors::new(),
            Last::Answer(answer) => shared.answer(answer),
            Last::Given(given) => given,
        };
        if !given.is_empty() {
            *self = Last::Given(given.clone());
        }
        given
    }
}

/// Runs on one input again and again.
pub(super) struct Borrowing<I, O> {
    shared: Arc<Shared<I, O>>,
    run: Arc<Borrow<I, O>>,
    input: I,
    last: Last<O>,
}

impl<I, O> Borrowing<I, O> {
    pub(super) fn new(shared: Arc<Shared<I, O>>, run: Arc<Borrow<I, O>>, input: I) -> Self {
        Self { shared, run, input, last: Last::Nothing }
    }
}

impl<I: Clone, O: PartialEq + Debug> Prepared for Borrowing<I, O> {
    fn run(&mut self) {
        self.run_times(1);
    }
    fn run_times(&mut self, times: u64) {
        if let Some(answer) = (self.run)(&self.input, times) {
            self.last = Last::Answer(answer);
        }
    }
    fn poison(&mut self, _: Poison) {
        self.last = Last::Nothing;
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(self.last.give(&self.shared))
    }
}

/// Writes into one buffer again and again.
pub(super) struct Filling<I, O> {
    shared: Arc<Shared<I, O>>,
    run: Arc<Fill<I, O>>,
    make: Arc<Buffer<I, O>>,
    input: I,
    buffer: O,
    /// What the buffer was overwritten with; `None` if its type is unknown.
    poison: Option<Poison>,
    /// True if the buffer contains an answer that has not been requested yet.
    written: bool,
    last: Last<O>,
}

impl<I, O: PartialEq + Debug + 'static> Filling<I, O> {
    pub(super) fn new(shared: Arc<Shared<I, O>>, run: Arc<Fill<I, O>>, make: Arc<Buffer<I, O>>, input: I) -> Self {
        let buffer = make(&input);
        Self { shared, run, make, input, buffer, poison: None, written: false, last: Last::Nothing }
    }

    /// A new buffer, overwritten if its type is known.
    fn fresh(&self, poison: Poison) -> (O, Option<Poison>) {
        let mut buffer = (self.make)(&self.input);
        let is_known = overwrite(&mut buffer, poison);
        (buffer, is_known.then_some(poison))
    }

    /// Number of values of the answer that no run wrote, and of all its values. A value equal to the pattern may be right,
    /// so it counts only if a run over the other pattern leaves that one there.
    fn unwritten(&mut self, poison: Poison) -> Option<[usize; 2]> {
        let first = find_pattern(&mut self.buffer, poison);
        if first.is_empty() {
            return None;
        }
        let (mut other, _) = self.fresh(poison.other());
        (self.run)(&self.input, &mut other, 1);
        let left = first.also_in(&find_pattern(&mut other, poison.other()));
        (left > 0).then_some([left, first.of])
    }

    /// True if a buffer that could not be overwritten still shows what `.output` made. An empty value cannot have other
    /// contents.
    fn is_unchanged(&self) -> bool {
        let fresh = (self.make)(&self.input);
        digest(&fresh) == digest(&self.buffer) && !is_empty(&fresh)
    }
}

impl<I: Clone, O: PartialEq + Debug + 'static> Prepared for Filling<I, O> {
    fn run(&mut self) {
        self.run_times(1);
    }
    fn run_times(&mut self, times: u64) {
        (self.run)(&self.input, &mut self.buffer, times);
        self.written |= times > 0;
    }
    fn poison(&mut self, poison: Poison) {
        (self.buffer, self.poison) = self.fresh(poison);
        (self.written, self.last) = (false, Last::Nothing);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        if std::mem::take(&mut self.written) {
            // Code that adds to the buffer instead of writing it would be right only in a fresh one, so judge an answer
            // written over an answer.
            (self.run)(&self.input, &mut self.buffer, 1);
            let left = match self.poison {
                Some(poison) => self.unwritten(poison),
                None => self.is_unchanged().then_some([0, 0]),
            };
            let (fresh, poison) = self.fresh(self.poison.unwrap_or(Poison::Mixed));
            let answer = std::mem::replace(&mut self.buffer, fresh);
            self.poison = poison;
            self.last = left.map_or_else(|| Last::Answer(answer), |left| Last::Given(unwritten(left)));
        }
        Ok(self.last.give(&self.shared))
    }
}

/// Consumes a fresh copy of the input in every run.
pub(super) struct Owning<I, O> {
    shared: Arc<Shared<I, O>>,
    run: Arc<Own<I, O>>,
    input: I,
    fresh: Vec<I>,
    answers: Vec<O>,
    last: Last<O>,
    most: u64,
}

impl<I: Clone, O> Owning<I, O> {
    pub(super) fn new(shared: Arc<Shared<I, O>>, run: Arc<Own<I, O>>, input: I, most: u64) -> Self {
        Self { shared, run, fresh: vec![input.clone()], input, answers: Vec::new(), last: Last::Nothing, most }
    }
}

impl<I: Clone, O: PartialEq + Debug> Prepared for Owning<I, O> {
    /// Makes one more than requested, so that a single run after the slot, within a probe, also finds its copy.
    fn load(&mut self, iterations: u64) {
        let wanted = usize::try_from(iterations).unwrap_or(usize::MAX).saturating_add(1);
        self.answers.clear();
        self.answers.reserve(wanted);
        while self.fresh.len() < wanted {
            self.fresh.push(self.input.clone());
        }
    }
    fn most_iterations(&self) -> u64 {
        self.most
    }
    fn run(&mut self) {
        self.run_times(1);
    }
    fn run_times(&mut self, times: u64) {
        let times = usize::try_from(times).unwrap_or(usize::MAX);
        // Runs outside a slot (first, rousing) are not loaded for; only they can find too few copies.
        while self.fresh.len() < times {
            self.fresh.push(self.input.clone());
        }
        (self.run)(self.fresh.drain(self.fresh.len() - times..), &mut self.answers);
    }
    fn poison(&mut self, _: Poison) {
        self.answers.clear();
        self.last = Last::Nothing;
        self.load(0);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        if let Some(answer) = self.answers.pop() {
            self.answers.clear();
            self.last = Last::Answer(answer);
        }
        Ok(self.last.give(&self.shared))
    }
}

/// Turns a fresh copy of the input into the answer in every run.
pub(super) struct Changing<I, O> {
    shared: Arc<Shared<I, O>>,
    run: Arc<Change<I>>,
    answer: fn(I) -> O,
    input: I,
    fresh: Vec<I>,
    /// Number of copies at the end of `fresh` that are already answers. They stay there, because moving them would be
    /// timed.
    changed: usize,
    /// Index of the one that was changed last; the judge gets no older one.
    latest: usize,
    last: Last<O>,
    most: u64,
}

impl<I: Clone, O> Changing<I, O> {
    pub(super) fn new(shared: Arc<Shared<I, O>>, run: Arc<Change<I>>, answer: fn(I) -> O, input: I, most: u64) -> Self {
        Self {
            shared,
            run,
            answer,
            fresh: vec![input.clone()],
            input,
            changed: 0,
            latest: 0,
            last: Last::Nothing,
            most,
        }
    }

    fn fill(&mut self, wanted: usize) {
        self.fresh.truncate(self.fresh.len() - std::mem::take(&mut self.changed));
        while self.fresh.len() < wanted {
            self.fresh.push(self.input.clone());
        }
    }
}

impl<I: Clone, O: PartialEq + Debug> Prepared for Changing<I, O> {
    /// Makes one more than requested, as above.
    fn load(&mut self, iterations: u64) {
        self.fill(usize::try_from(iterations).unwrap_or(usize::MAX).saturating_add(1));
    }
    fn most_iterations(&self) -> u64 {
        self.most
    }
    fn run(&mut self) {
        self.run_times(1);
    }
    fn run_times(&mut self, times: u64) {
        let times = usize::try_from(times).unwrap_or(usize::MAX);
        if self.fresh.len() - self.changed < times {
            self.fill(times);
        }
        let end = self.fresh.len() - self.changed;
        (self.run)(&mut self.fresh[end - times..end]);
        self.changed += times;
        if times > 0 {
            self.latest = end - 1;
        }
    }
    fn poison(&mut self, _: Poison) {
        self.last = Last::Nothing;
        self.load(0);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        if self.changed > 0 {
            // The element that takes its place has been changed too.
            let value = self.fresh.swap_remove(self.latest);
            self.changed -= 1;
            self.fill(0);
            self.last = Last::Answer((self.answer)(value));
        }
        Ok(self.last.give(&self.shared))
    }
}
