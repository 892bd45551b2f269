//! The open spans of a thread, and two ways to begin and end one.
//!
//! Outside an event loop spans nest, and the recorder's own state is enough. Tasks take turns on one thread while their spans
//! are open. So each span of a task stores its [`Place`], and the task returns there before its next span.

use std::cell::{Cell, RefCell};

use ellwand::profile::host::{self, Closing, Place};
use ellwand::profile::{Guard, Link, Scope, Site};
use pyo3::prelude::*;

use super::recorder::Shared;
use super::tasks;

/// A span that has begun. Fields drop in this order: the span ends while its profiler is still entered.
pub(super) struct Begun {
    pub(super) guard: Guard,
    pub(super) _scope: Option<Scope>,
}

/// An open span that the recorder's fast path does not end.
struct Open {
    /// Address of the object that will end the span.
    key: usize,
    /// The task that began it, or 0.
    task: usize,
    recording: u32,
    /// The place inside it.
    inside: Place,
    /// The step of the event loop in which it began; only for a task's span with measured CPU time.
    step: Option<u64>,
    /// The parent that tasks created by its task had before this span.
    cause: Option<Link>,
    begun: Begun,
}

/// Open spans, innermost last. Spans still open when a thread ends remain open in the profile.
struct Stack(Vec<Open>);

impl Drop for Stack {
    fn drop(&mut self) {
        self.0.drain(..).for_each(std::mem::forget);
    }
}

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack(Vec::new())) };
    /// Open spans of tasks on this thread.
    static TASKS: Cell<usize> = const { Cell::new(0) };
    /// The thread's place before the first of them.
    static BASE: Cell<Option<Place>> = const { Cell::new(None) };
}

fn stack<R>(body: impl FnOnce(&mut Vec<Open>) -> R) -> Option<R> {
    let run = |stack: &RefCell<Stack>| {
        let mut stack = stack.try_borrow_mut().ok()?;
        let result = body(&mut stack.0);
        host::hold(stack.0.len() as u32);
        Some(result)
    };
    STACK.try_with(run).ok().flatten()
}

/// True if a task of this thread has an open span: the recorder's state may then be that of another task.
fn has_tasks() -> bool {
    TASKS.get() != 0
}

/// The task running on this thread, if any of its tasks has an open span; otherwise 0.
pub(super) fn task(py: Python<'_>) -> usize {
    if has_tasks() { tasks::current(py) } else { 0 }
}

/// Changes a span at its beginning or end.
pub(super) type Edit<'a> = Option<&'a dyn Fn(&Guard)>;

/// Begins a span for the object with address `key`; that object ends it with [`end`].
#[inline]
pub(super) fn begin(py: Python<'_>, shared: &Shared, site: &'static Site, key: usize, edit: Edit<'_>) {
    let task = if tasks::are_possible(py) { tasks::current(py) } else { 0 };
    if task != 0 || !begin_here(py, shared, site, edit) {
        begin_elsewhere(py, shared, site, (key, task), edit);
    }
}

/// Begins a span on the recorder's fast path, if that is free.
#[inline]
pub(super) fn begin_here(py: Python<'_>, shared: &Shared, site: &'static Site, edit: Edit<'_>) -> bool {
    let is_open = host::open(shared.recording(), site);
    if is_open && (edit.is_some() || tasks::are_linked()) {
        let cause = tasks::cause(py);
        host::edit(shared.recording(), site, |guard| {
            // Only affects outermost spans, for example of a thread that runs in the context of a task.
            cause.into_iter().for_each(|cause| guard.under(cause));
            edit.iter().for_each(|edit| edit(guard));
        });
    }
    is_open
}

/// Begins a span when the fast path cannot.
#[cold]
pub(super) fn begin_elsewhere(
    py: Python<'_>,
    shared: &Shared,
    site: &'static Site,
    (key, task): (usize, usize),
    edit: Edit<'_>,
) {
    if task == 0 && shared.settle(py) && begin_here(py, shared, site, edit) {
        return;
    }
    let inherited = tasks::cause(py);
    let cause = if task != 0 || has_tasks() { go_to(task, shared.recording(), inherited) } else { inherited };
    let begun = shared.begin(py, site);
    cause.into_iter().for_each(|cause| begun.guard.under(cause));
    edit.iter().for_each(|edit| edit(&begun.guard));
    let step = (task != 0 && shared.measures_cpu()).then(|| tasks::step(py)).flatten();
    if task != 0 {
        TASKS.set(TASKS.get() + 1);
        tasks::set_cause(py, Some(begun.guard.link()));
    }
    let (recording, inside) = (shared.recording(), Place::here());
    stack(|stack| stack.push(Open { key, task, recording, inside, step, cause: inherited, begun }));
}

/// Moves the thread to the innermost span of a task. A task without spans has none; returns the parent for its first span.
fn go_to(task: usize, recording: u32, inherited: Option<Link>) -> Option<Link> {
    let around = stack(|stack| {
        let known = stack.iter().rfind(|open| open.task == task && open.recording == recording);
        known.map(|open| open.inside)
    });
    if let Some(place) = around.flatten() {
        place.resume();
        return None;
    }
    if !has_tasks() {
        // No other task has open spans yet, so the span nests in the currently open ones.
        BASE.set(Some(Place::here()));
        return inherited;
    }
    let base = BASE.get();
    base.iter().for_each(|base| base.resume());
    let cause = inherited.or_else(|| base.filter(|base| !base.is_outside()).map(|_| Link::current()));
    Place::outside(recording).resume();
    cause
}

/// Ends the innermost span that the object with address `key` began in this task; false if this thread has none.
#[inline]
pub(super) fn end(py: Python<'_>, shared: &Shared, site: &'static Site, key: usize, edit: Edit<'_>) -> bool {
    let closing = if edit.is_some() { Closing::Unknown } else { host::close(shared.recording(), site) };
    match closing {
        Closing::Closed => true,
        Closing::Nothing => false,
        Closing::Unknown => end_elsewhere(py, shared, site, key, edit),
    }
}

#[cold]
fn end_elsewhere(py: Python<'_>, shared: &Shared, site: &'static Site, key: usize, edit: Edit<'_>) -> bool {
    let here = task(py);
    let found = stack(|stack| {
        let known = |task: Option<usize>| {
            stack.iter().rposition(|open| open.key == key && task.is_none_or(|task| open.task == task))
        };
        // Another task may close spans that an asynchronous generator left open.
        let at = known(Some(here)).or_else(|| known(None))?;
        Some(stack.remove(at))
    });
    let Some(Open { task, inside, step, cause, begun, .. }) = found.flatten() else {
        edit.iter().for_each(|edit| host::edit(shared.recording(), site, edit));
        return host::close_any(shared.recording(), site);
    };
    if has_tasks() {
        inside.resume();
    }
    edit.iter().for_each(|edit| edit(&begun.guard));
    if step.is_some_and(tasks::has_passed) {
        host::forget_cpu(&begun.guard);
    }
    drop(begun);
    if task != 0 {
        if task == here {
            tasks::set_cause(py, cause);
        }
        TASKS.set(TASKS.get() - 1);
        if !has_tasks()
            && let Some(base) = BASE.take()
        {
            base.resume();
        }
    }
    true
}

/// Runs `body` on the innermost span of this task that the object with address `key` began.
pub(super) fn with_open(
    py: Python<'_>,
    shared: &Shared,
    site: &'static Site,
    key: usize,
    mut body: impl FnMut(&Guard),
) {
    let task = task(py);
    let found = stack(|stack| {
        let open = stack.iter().rfind(|open| open.key == key && open.task == task)?;
        body(&open.begun.guard);
        Some(())
    });
    if found.flatten().is_none() {
        host::edit(shared.recording(), site, body);
    }
}

/// Forgets all open spans in a forked child: they belong to the parent.
pub(super) fn forget() {
    stack(|stack| stack.drain(..).for_each(std::mem::forget));
    TASKS.set(0);
    BASE.set(None);
}
