//! Spans of futures: the span follows the task.
//!
//! Every poll is a span on the thread that polls, so the work of other tasks in between is not charged to it, and spans
//! inside nest as usual. The last poll of a future carries the arguments `polls` and `elapsed_ns` (from the first poll
//! to the last, including waits). A future that is dropped before its end has another span for the drop, with these
//! arguments and `cancelled`, or `panicked` if its last poll panicked.

use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::pin;

use crate::clock::{rough_ns_per_tick, ticks};
use crate::guard::{Guard, Link};
use crate::names;
use crate::profiler::{Profiler, Scope};
use crate::site::Site;

struct Task {
    site: &'static Site,
    profiler: Option<Profiler>,
    /// The span where the future was created or first polled; it is the parent of polls on threads with no open span.
    parent: Link,
    /// Ticks of the first recorded poll, 0 before.
    first: u64,
    polls: u64,
    /// True inside a poll, and after one that panicked.
    is_polled: bool,
    is_done: bool,
}

impl Task {
    fn new(site: &'static Site, profiler: Option<Profiler>, parent: Link) -> Self {
        Self { site, profiler, parent, first: 0, polls: 0, is_polled: false, is_done: false }
    }

    fn enter(&mut self) -> (Guard, Option<Scope>) {
        let scope = self.profiler.as_ref().map(Profiler::enter);
        let guard = Guard::enter(self.site);
        if guard.is_on() {
            guard.under(self.parent);
            if self.first == 0 {
                self.first = ticks();
            }
        }
        (guard, scope)
    }

    fn finish(&mut self, guard: &Guard) {
        self.is_done = true;
        if guard.is_kept() {
            guard.arg("polls", self.polls);
            let elapsed = ticks().saturating_sub(self.first) as f64 * rough_ns_per_tick();
            guard.arg("elapsed_ns", elapsed.round() as u64);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.is_done && self.first != 0 {
            let (guard, _scope) = self.enter();
            self.finish(&guard);
            guard.arg(if self.is_polled { "panicked" } else { "cancelled" }, true);
        }
    }
}

/// Runs a future inside a span at `site`. `#[profile]` on an `async fn` calls this.
#[doc(hidden)]
pub async fn in_site<F: Future>(site: &'static Site, future: F) -> F::Output {
    run(Task::new(site, None, Link::current()), future).await
}

async fn run<F: Future>(mut task: Task, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(move |context| {
        let (guard, _scope) = task.enter();
        task.polls += u64::from(guard.is_on());
        task.is_polled = true;
        let polled = future.as_mut().poll(context);
        task.is_polled = false;
        if polled.is_ready() {
            task.finish(&guard);
        }
        polled
    })
    .await
}

/// Runs a future inside a span with a name known at run time. Its parent is the span that is open now, even if the
/// future is spawned and runs on other threads.
///
/// ```
/// use ellwand_profile::{instrument, span};
/// async fn fetch() -> u32 {
///     let _span = span!("decode"); // no await inside: a guard must not live across one
///     7
/// }
/// let whole = span!("whole");
/// let future = instrument("fetch", fetch()); // to be spawned on any executor
/// # drop(future);
/// ```
#[track_caller]
pub fn instrument<F: Future>(name: impl AsRef<str>, future: F) -> impl Future<Output = F::Output> {
    run(Task::new(names::site(name.as_ref(), Location::caller()), None, Link::current()), future)
}

impl Profiler {
    /// Runs a future inside a span of this profiler; spans inside its polls go to this profiler on any thread.
    #[track_caller]
    pub fn instrument<F: Future>(&self, name: impl AsRef<str>, future: F) -> impl Future<Output = F::Output> {
        let site = names::site(name.as_ref(), Location::caller());
        run(Task::new(site, Some(self.clone()), Link::current()), future)
    }
}
