//! The thread's side of recording: where its spans go, and the two fast paths.

use std::cell::RefCell;
use std::sync::Arc;

use crate::clock::ticks;
use crate::counters::Counters;
use crate::detail::Value;
use crate::guard::{Guard, Way};
use crate::node::{Node, Recent};
use crate::owned::{Begun, Ending, Owned};
use crate::position::{Hot, Path};
use crate::recording::{self, Recording};
use crate::site::Site;
use crate::slot::Slot;

thread_local! {
    static HOT: Hot = const { Hot::new() };
    static RECENT: Recent = const { Recent::new() };
    static OWNER: RefCell<Owner> = const { RefCell::new(Owner::new()) };
}

/// Everything of a thread that needs a destructor.
pub(crate) struct Owner {
    owned: Vec<Owned>,
    /// Index of the lane whose state is in [`HOT`].
    active: Option<usize>,
    /// Recordings of the scopes around, innermost last.
    entered: Vec<Option<Arc<Recording>>>,
    /// The recording of spans outside any scope if no recording serves the whole process.
    pub(crate) home: Option<Arc<Recording>>,
    /// Name for the lanes of this thread, if the standard library knows none.
    pub(crate) name: Option<String>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.store();
        HOT.with(|hot| hot.seen.set(0));
        HOT.with(|hot| hot.set(&Hot::new()));
        self.owned.drain(..).for_each(Owned::park);
    }
}

impl Owner {
    const fn new() -> Self {
        Self { owned: Vec::new(), active: None, entered: Vec::new(), home: None, name: None }
    }

    /// Moves the state of the hot path to its lane.
    fn store(&mut self) {
        if let Some(owned) = self.active.take().and_then(|active| self.owned.get(active)) {
            HOT.with(|hot| owned.position.saved.set(hot));
        }
        HOT.with(|hot| {
            hot.epoch.set(0);
            hot.path.set(Path::Off);
        });
        RECENT.with(Recent::clear);
    }

    /// Makes a lane the active one.
    fn load(&mut self, index: usize) {
        if self.active != Some(index) {
            self.store();
            if let Some(owned) = self.owned.get(index) {
                HOT.with(|hot| hot.set(&owned.position.saved));
                self.active = Some(index);
            }
        }
    }

    /// The recording that spans of this thread go to.
    fn target(&self) -> Option<Arc<Recording>> {
        match self.entered.last() {
            Some(entered) => entered.clone(),
            None => recording::of_process().or_else(|| self.home.clone()),
        }
    }

    /// Looks where spans go as of `generation`.
    #[cold]
    pub(crate) fn resolve(&mut self, generation: u32) {
        self.store();
        HOT.with(|hot| hot.seen.set(generation));
        for at in (0..self.owned.len()).rev() {
            if self.owned.get(at).is_some_and(|owned| owned.recording.is_read()) {
                self.owned.swap_remove(at).release();
            }
        }
        let Some(recording) = self.target().filter(|recording| recording.is_enabled()) else { return };
        let known = self.owned.iter().position(|owned| owned.recording.epoch == recording.epoch);
        let index = known.or_else(|| {
            let thread = std::thread::current();
            match recording.join(self.name.as_deref().or(thread.name())) {
                Some((lane, position)) => {
                    self.owned.push(Owned::new(lane, position, recording));
                    Some(self.owned.len() - 1)
                }
                None => {
                    recording.lose();
                    None
                }
            }
        });
        if let Some(index) = index {
            self.load(index);
            if let Some(owned) = self.owned.get(index) {
                HOT.with(|hot| hot.path.set(owned.path()));
            }
        }
    }

    /// The active lane, if spans are recorded.
    pub(crate) fn current(&mut self) -> Option<&mut Owned> {
        self.owned.get_mut(self.active?)
    }

    /// The lane of the recording `epoch`, made active. `None` if the recording has finished.
    pub(crate) fn lane(&mut self, epoch: u32) -> Option<&mut Owned> {
        let index = self.owned.iter().position(|owned| owned.recording.epoch == epoch)?;
        if self.active != Some(index) {
            self.load(index);
            // The next span looks again where it belongs.
            HOT.with(|hot| hot.seen.set(0));
        }
        self.owned.get_mut(index)
    }
}

/// Runs `body` on the thread's data, unless the thread is ending.
pub(crate) fn owner<R>(body: impl FnOnce(&mut Owner, &Hot) -> R) -> Option<R> {
    let run =
        |owner: &RefCell<Owner>| owner.try_borrow_mut().ok().map(|mut owner| HOT.with(|hot| body(&mut owner, hot)));
    OWNER.try_with(run).ok().flatten()
}

/// Starts a span.
#[inline]
pub(crate) fn begin(site: &'static Site, generation: u32) -> Guard {
    HOT.with(|hot| {
        if hot.seen.get() == generation {
            if hot.path.get() == Path::Full
                && let Some(slot) = hot.slots.get().get(hot.at.get())
            {
                return begin_in_slot(hot, site, slot);
            }
            if hot.path.get() == Path::Aggregate {
                let (node, start) = begin_in_node(hot, site);
                if let Some(node) = node {
                    return Guard::of_node(node, hot.epoch.get(), start);
                }
            }
        }
        let begun = begin_slow(site, generation);
        Guard::new(begun.way(), hot.epoch.get(), begun.number)
    })
}

#[inline]
fn begin_in_slot(hot: &Hot, site: &'static Site, slot: &'static Slot) -> Guard {
    let at = hot.at.get();
    let index = hot.base.get().wrapping_add(at as u32);
    hot.at.set(at + 1);
    let parent = hot.current.replace(index);
    slot.prepare(site.id(), parent);
    // The clock is read last: the time until here belongs to the parent.
    slot.begin(ticks());
    Guard::of_slot(slot, hot.epoch.get(), index, parent)
}

/// Starts a span at a known child of the current node: the child and the start. `None` if the child is new.
#[inline(never)]
fn begin_in_node(hot: &Hot, site: &'static Site) -> (Option<&'static Node>, u64) {
    let found = RECENT.with(|recent| recent.child(hot.node.get(), site.id()));
    let Some(node) = found else { return (None, 0) };
    hot.node.set(node.number());
    node.begin();
    (found, ticks())
}

#[cold]
fn begin_slow(site: &'static Site, generation: u32) -> Begun {
    let begun = owner(|owner, hot| {
        if hot.seen.get() != generation {
            owner.resolve(generation);
        }
        owner.current().map(|owned| owned.begin(hot, site))
    });
    match begun {
        Some(begun) => begun.unwrap_or(Begun::OFF),
        None => {
            // The thread's data is destroyed: count the span as lost.
            if let Some(recording) = recording::of_process() {
                recording.lose();
            }
            Begun::OFF
        }
    }
}

/// Starts a span that measures something by its site.
pub(crate) fn begin_measured(site: &'static Site, generation: u32) -> Guard {
    let begun = begin_slow(site, generation);
    HOT.with(|hot| Guard::new(begun.way(), hot.epoch.get(), begun.number))
}

/// Ends a span.
#[inline]
pub(crate) fn end(guard: &Guard) {
    HOT.with(|hot| match (guard.way, guard.slot, guard.node) {
        (Way::Slot, Some(slot), _) => {
            let now = ticks();
            if hot.epoch.get() == guard.epoch && hot.current.get() == guard.index && hot.path.get() == Path::Full {
                slot.end(now);
                hot.current.set(guard.parent);
            } else {
                end_slow(guard.epoch, Ending::Slot { slot, index: guard.index, parent: guard.parent }, now);
            }
        }
        (Way::Node, _, Some(node)) => end_in_node(hot, node, guard.epoch, guard.start),
        _ => end_slow(guard.epoch, Ending::Listed(guard.index), ticks()),
    });
}

#[inline(never)]
fn end_in_node(hot: &Hot, node: &'static Node, epoch: u32, start: u64) {
    if hot.epoch.get() == epoch && hot.node.get() == node.number() {
        node.end(|| ticks().saturating_sub(start), hot.ns_per_tick.get());
        hot.node.set(node.parent());
    } else {
        end_slow(epoch, Ending::Node { node, start }, ticks());
    }
}

/// Ends a span out of order, of a recording that is not active, or one from the table. If the thread's data is
/// destroyed or the recording has finished, the span stays open and its trace counts it.
#[cold]
fn end_slow(epoch: u32, ending: Ending, now: u64) {
    owner(|owner, hot| {
        if let Some(owned) = owner.lane(epoch) {
            owned.end(hot, ending, now);
        }
    });
}

/// Runs `body` on the lane of a span.
fn on_lane<R>(guard: &Guard, body: impl FnOnce(&mut Owned) -> R) -> Option<R> {
    owner(|owner, _| owner.lane(guard.epoch).map(body)).flatten()
}

/// Adds to the counters of a span.
#[inline(never)]
pub(crate) fn count(guard: &Guard, counters: Counters) {
    on_lane(guard, |owned| owned.count(guard, counters));
}

/// Adds an argument to a span.
pub(crate) fn add_argument(guard: &Guard, name: &'static str, value: Value) {
    on_lane(guard, |owned| owned.argue(guard, name, value));
}

/// Records which span caused this one, if it is the outermost of its thread.
pub(crate) fn set_cause(guard: &Guard, link: u32) {
    on_lane(guard, |owned| owned.set_cause(guard, link));
}

/// The link of a span, issued by `issue` if it has none yet; 0 if the span is not kept.
pub(crate) fn link(guard: &Guard, issue: impl FnOnce() -> u32) -> u32 {
    on_lane(guard, |owned| owned.link(guard, issue)).unwrap_or(0)
}

/// The link of the innermost open span of this thread, issued by `issue` if it has none yet; 0 without a span.
pub(crate) fn current_link(issue: impl FnOnce() -> u32) -> u32 {
    owner(|owner, hot| owner.current().map_or(0, |owned| owned.current_link(hot, issue))).unwrap_or(0)
}

/// True if spans of this thread go to `recording` already.
fn goes_to(owner: &Owner, recording: &Recording) -> bool {
    owner.target().is_some_and(|target| target.epoch == recording.epoch)
}

/// Sends the spans of this thread to `recording`, or nowhere. Returns true if [`leave`] must follow.
pub(crate) fn enter(recording: Option<&Arc<Recording>>) -> bool {
    let entered = owner(|owner, _| {
        if recording.is_some_and(|recording| goes_to(owner, recording)) {
            return false;
        }
        owner.entered.push(recording.cloned());
        HOT.with(|hot| hot.seen.set(0));
        true
    });
    entered.unwrap_or(false)
}

/// Ends the innermost [`enter`] of this recording.
pub(crate) fn leave(epoch: u32) {
    owner(|owner, _| {
        let of = |entered: &Option<Arc<Recording>>| entered.as_ref().map_or(0, |recording| recording.epoch);
        if let Some(at) = owner.entered.iter().rposition(|entered| of(entered) == epoch) {
            owner.entered.remove(at);
            HOT.with(|hot| hot.seen.set(0));
        }
    });
}

/// Reads the state of the hot path.
pub(crate) fn with_hot<R>(body: impl FnOnce(&Hot) -> R) -> R {
    HOT.with(body)
}
