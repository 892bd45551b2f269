//! The spans that are open on a thread, and the two ways to begin and end one.
//!
//! Outside an event loop spans nest, and the recorder's own state is enough. Tasks take turns on one thread with their
//! spans open, so each span of a task notes its [`Place`], and the task returns there before its next span.

use std::cell::{Cell, RefCell};

use ellwand::profile::host::Place;
use ellwand::profile::{Guard, Link, Scope, Site};
use pyo3::prelude::*;

use super::recorder::Shared;
use super::tasks;

/// A span that has begun. Fields are dropped in this order: the span ends while its profiler is entered.
pub(super) struct Begun {
    pub(super) guard: Guard,
    pub(super) _scope: Option<Scope>,
}

struct Open {
    /// Address of the object that will end the span.
    key: usize,
    /// The task that began it, 0 for none.
    task: usize,
    of_task: Option<OfTask>,
    begun: Begun,
}

/// What a span of a task needs besides.
struct OfTask {
    recording: u32,
    inside: Place,
    /// The span that tasks created by this one had as their parent before.
    cause: Option<Link>,
}

/// Open spans, innermost last. Those that a thread leaves open when it ends remain open in the profile.
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
    /// Where the thread was before the first of them.
    static BASE: Cell<Option<Place>> = const { Cell::new(None) };
}

fn stack<R>(body: impl FnOnce(&mut Vec<Open>) -> R) -> Option<R> {
    STACK.try_with(|stack| stack.try_borrow_mut().ok().map(|mut stack| body(&mut stack.0))).ok().flatten()
}

/// True if a task of this thread has an open span, so that the recorder's state may be that of another task.
#[inline]
pub(super) fn has_tasks() -> bool {
    TASKS.get() != 0
}

/// Begins a span for the object with address `key`, which ends it by [`end`].
#[inline]
pub(super) fn begin(py: Python<'_>, shared: &Shared, site: &'static Site, key: usize, edit: impl FnOnce(&Guard)) {
    let task = if tasks::are_possible(py) { tasks::current(py) } else { 0 };
    if task != 0 || has_tasks() {
        return begin_in_task(py, shared, site, (key, task), edit);
    }
    let begun = begin_here(py, shared, site);
    edit(&begun.guard);
    stack(|stack| stack.push(Open { key, task, of_task: None, begun }));
}

/// Begins a span that ends before any other task runs.
#[inline]
pub(super) fn begin_here(py: Python<'_>, shared: &Shared, site: &'static Site) -> Begun {
    let begun = shared.begin(py, site);
    if tasks::are_linked()
        && let Some(link) = tasks::cause(py)
    {
        // Has an effect on outermost spans only, such as those of a thread that runs in the context of a task.
        begun.guard.under(link);
    }
    begun
}

#[cold]
fn begin_in_task(
    py: Python<'_>,
    shared: &Shared,
    site: &'static Site,
    (key, task): (usize, usize),
    edit: impl FnOnce(&Guard),
) {
    let recording = shared.recording();
    let around = stack(|stack| {
        let of_task = stack.iter().filter(|open| open.task == task).filter_map(|open| open.of_task.as_ref());
        of_task.filter(|of_task| of_task.recording == recording).next_back().map(|of_task| of_task.inside)
    });
    let inherited = tasks::cause(py);
    let cause = match around.flatten() {
        Some(place) => {
            place.resume();
            None
        }
        // The first span of its task.
        None if has_tasks() => {
            let base = BASE.get();
            base.iter().for_each(|base| base.resume());
            let cause = inherited.or_else(|| base.filter(|base| !base.is_outside()).map(|_| Link::current()));
            Place::outside(recording).resume();
            cause
        }
        None => {
            BASE.set(Some(Place::here()));
            inherited
        }
    };
    let begun = shared.begin(py, site);
    if let Some(cause) = cause {
        begun.guard.under(cause);
    }
    edit(&begun.guard);
    if task != 0 {
        TASKS.set(TASKS.get() + 1);
        tasks::set_cause(py, Some(begun.guard.link()));
    }
    let of_task = Some(OfTask { recording: shared.recording(), inside: Place::here(), cause: inherited });
    stack(|stack| stack.push(Open { key, task, of_task, begun }));
}

/// Ends the innermost span that the object with address `key` began in this task; without effect if there is none.
#[inline]
pub(super) fn end(py: Python<'_>, key: usize, edit: impl FnOnce(&Guard)) {
    let last = match has_tasks() {
        true => None,
        false => stack(|stack| stack.pop_if(|open| open.key == key)).flatten(),
    };
    match last {
        Some(open) => {
            edit(&open.begun.guard);
            drop(open.begun);
        }
        None => end_elsewhere(py, key, edit),
    }
}

#[cold]
fn end_elsewhere(py: Python<'_>, key: usize, edit: impl FnOnce(&Guard)) {
    let task = if has_tasks() { tasks::current(py) } else { 0 };
    let found = stack(|stack| {
        let at = stack.iter().rposition(|open| open.key == key && open.task == task)?;
        Some(stack.remove(at))
    });
    let Some(Open { of_task, begun, .. }) = found.flatten() else { return };
    if let Some(of_task) = &of_task {
        of_task.inside.resume();
    }
    edit(&begun.guard);
    drop(begun);
    if task != 0 {
        tasks::set_cause(py, of_task.and_then(|of_task| of_task.cause));
        TASKS.set(TASKS.get() - 1);
        if !has_tasks()
            && let Some(base) = BASE.take()
        {
            base.resume();
        }
    }
}

/// Runs `body` on the innermost span of this task that the object with address `key` began.
pub(super) fn with_open<R>(py: Python<'_>, key: usize, body: impl FnOnce(&Guard) -> R) -> Option<R> {
    let task = if has_tasks() { tasks::current(py) } else { 0 };
    let found = |stack: &mut Vec<Open>| {
        let open = stack.iter().rfind(|open| open.key == key && open.task == task)?;
        Some(body(&open.begun.guard))
    };
    stack(found).flatten()
}

/// Forgets all open spans, in the child of a fork: they belong to the parent.
pub(super) fn forget() {
    stack(|stack| stack.drain(..).for_each(std::mem::forget));
    TASKS.set(0);
    BASE.set(None);
}
