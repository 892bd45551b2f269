//! The thread's side of recording: the destination of its spans, and the two fast paths.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::alloc::apart;
use crate::clock::ticks;
use crate::counters::Counters;
use crate::detail::Value;
use crate::guard::{Guard, Way};
use crate::node::{Node, Recent};
use crate::owned::{Begun, Owned, Target, link_of};
use crate::position::{Hot, Path};
use crate::recording::{self, Recording};
use crate::site::Site;
use crate::slot::Slot;
use crate::trace::NONE;

thread_local! {
    static HOT: Hot = const { Hot::new() };
    static RECENT: Recent = const { Recent::new() };
    static OWNER: RefCell<Owner> = const { RefCell::new(Owner::new()) };
}

/// A scope, whose spans go to one recording.
struct Entered {
    /// Number of the recording, 0 for none.
    epoch: u32,
    /// The recording, unless this thread has a lane of it: threads that keep entering and leaving the same recording
    /// would contend for the cache line of its reference count.
    recording: Option<Arc<Recording>>,
}

/// All data of a thread that needs a destructor.
pub(crate) struct Owner {
    owned: Vec<Owned>,
    /// Index of the lane whose state is in [`HOT`].
    active: Option<usize>,
    /// The generation of the last [`resolve`](Owner::resolve) that found a lane, and that lane's recording.
    resolved: (u32, u32),
    /// The enclosing scopes, innermost last.
    entered: Vec<Entered>,
    /// The recording for spans outside any scope if no recording serves the whole process.
    pub(crate) home: Option<Arc<Recording>>,
    /// Name for the lanes of this thread, if the standard library has none.
    pub(crate) name: Option<String>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.store();
        while let Some(owned) = self.owned.pop() {
            owned.park();
        }
    }
}

impl Owner {
    const fn new() -> Self {
        Self { owned: Vec::new(), active: None, resolved: (0, 0), entered: Vec::new(), home: None, name: None }
    }

    /// Saves the state of the hot path in its lane.
    fn store(&mut self) {
        if let Some(active) = self.active.take() {
            HOT.with(|hot| self.owned[active].position.saved.set(hot));
        }
        HOT.with(|hot| hot.set(&Hot::new()));
        RECENT.with(Recent::clear);
    }

    fn load(&mut self, index: usize) {
        if self.active != Some(index) {
            self.store();
            HOT.with(|hot| hot.set(&self.owned[index].position.saved));
            self.active = Some(index);
        }
    }

    fn target(&self) -> Option<Arc<Recording>> {
        match self.entered.last() {
            Some(entered) => entered.recording.clone().or_else(|| {
                let owned = self.owned.iter().find(|owned| owned.recording.epoch == entered.epoch);
                owned.map(|owned| owned.recording.clone())
            }),
            None => recording::of_process().or_else(|| self.home.clone()),
        }
    }

    /// Finds out where spans go as of `generation`.
    #[cold]
    pub(crate) fn resolve(&mut self, generation: u32) {
        self.store();
        HOT.with(|hot| hot.look(generation, Path::Off));
        self.owned.extract_if(.., |owned| owned.recording.is_read()).for_each(|owned| owned.lane.release());
        let Some(recording) = self.target().filter(|recording| recording.is_enabled()) else { return };
        let epoch = recording.epoch;
        let known = self.owned.iter().position(|owned| owned.recording.epoch == epoch);
        let index = known.unwrap_or(self.owned.len());
        if known.is_none() {
            let thread = std::thread::current();
            let Some((lane, position)) = recording.join(self.name.as_deref().or(thread.name())) else {
                return recording.count_lost();
            };
            self.owned.push(Owned::new(lane, position, recording));
        }
        self.load(index);
        HOT.with(|hot| hot.look(generation, self.owned[index].path()));
        self.resolved = (generation, epoch);
    }

    pub(crate) fn current(&mut self) -> Option<&mut Owned> {
        self.owned.get_mut(self.active?)
    }

    /// The lane of the recording `epoch`, made active. `None` if the recording has finished.
    pub(crate) fn lane(&mut self, epoch: u32) -> Option<&mut Owned> {
        let index = self.owned.iter().position(|owned| owned.recording.epoch == epoch)?;
        if self.active != Some(index) {
            // The next span looks up its destination again.
            self.load(index);
        }
        self.owned.get_mut(index)
    }
}

/// Runs `body` on the thread's data, unless the thread is ending. Allocations inside count for the profiler, not for
/// spans.
pub(crate) fn owner<R>(body: impl FnOnce(&mut Owner, &Hot) -> R) -> Option<R> {
    let run = |owner: &RefCell<Owner>| {
        let _apart = apart();
        let mut owner = owner.try_borrow_mut().ok()?;
        Some(HOT.with(|hot| body(&mut owner, hot)))
    };
    OWNER.try_with(run).ok().flatten()
}

/// Reads or changes the state of the hot path. The standard library lets callers inline `try_with`; it never fails,
/// because the data needs no destructor.
#[inline(always)]
fn hot<R: Default>(body: impl FnOnce(&Hot) -> R) -> R {
    HOT.try_with(body).unwrap_or_default()
}

/// Starts a span. Only the path to a slot is inlined into the caller.
#[inline]
pub(crate) fn begin(site: &'static Site, generation: u32) -> Guard {
    // The first registration allocates, and the program's allocator may record spans, so do it before choosing the
    // slot.
    let id = site.id();
    if let Some((free, span)) = hot(|hot| hot.free_slot(generation)) {
        let parent = hot(|hot| hot.open(span));
        free.begin(id, parent as u32, ticks);
        return Guard::of_slot(free.slot, span, parent);
    }
    if let (Some(node), start) = begin_in_node(site, generation) {
        return Guard::of_node(node, hot(Hot::epoch), start);
    }
    begin_slow(site, generation)
}

/// Starts a span at a known child of the current node: the child and the start. `None` if the child is new or spans are
/// not aggregated.
#[inline(never)]
fn begin_in_node(site: &'static Site, generation: u32) -> (Option<&'static Node>, u64) {
    let Some(parent) = hot(|hot| hot.parent_node(generation)) else { return (None, 0) };
    let found = RECENT.try_with(|recent| recent.child(parent, site.id())).ok().flatten();
    let Some(node) = found else { return (None, 0) };
    hot(|hot| hot.node.set(node.number()));
    node.begin();
    (found, ticks())
}

#[cold]
pub(crate) fn begin_slow(site: &'static Site, generation: u32) -> Guard {
    let begun = owner(|owner, hot| {
        if hot.generation() != generation {
            owner.resolve(generation);
        }
        owner.current().map(|owned| owned.begin(hot, site))
    });
    let Some(begun) = begun else {
        // The thread's data is destroyed: count the span as lost.
        if let Some(recording) = recording::of_process() {
            recording.count_lost();
        }
        return Guard::off();
    };
    let begun = begun.unwrap_or(Begun::OFF);
    Guard::listed(begun.way, hot(Hot::epoch), begun.number, begun.target)
}

#[inline]
pub(crate) fn end(guard: &Guard) {
    match (guard.way, guard.slot, guard.node) {
        (Way::Slot, Some(slot), _) => {
            let now = ticks();
            if hot(|hot| hot.close(guard.key, guard.parent)) {
                slot.end(now);
            } else {
                end_in_slot(slot, guard.key, guard.parent, now);
            }
        }
        (Way::Node, _, Some(node)) => end_in_node(node, guard.epoch(), guard.start),
        (_, slot, node) => end_listed(guard, slot, node),
    }
}

#[inline(never)]
fn end_in_node(node: &'static Node, epoch: u32, start: u64) {
    let ns_per_tick = hot(|hot| if hot.close_node(node, epoch) { hot.ns_per_tick.get() } else { 0.0 });
    if ns_per_tick > 0.0 {
        node.end(|| ticks().saturating_sub(start), ns_per_tick);
    } else {
        end_slow(epoch, Target::Node { node, start }, ticks());
    }
}

#[cold]
fn end_in_slot(slot: &'static Slot, key: u64, parent: u64, now: u64) {
    end_slow((key >> 32) as u32, Target::Slot { slot, index: key as u32, parent: parent as u32 }, now);
}

#[inline(never)]
fn end_listed(guard: &Guard, slot: Option<&'static Slot>, node: Option<&'static Node>) {
    let now = ticks();
    if OWNER.try_with(|_| ()).is_ok() {
        on_lane(guard.epoch(), |owned, hot| owned.end_listed(hot, guard.index(), now));
    } else if let Some(slot) = slot {
        recording::end_late(guard.epoch(), Target::Slot { slot, index: NONE, parent: NONE }, now);
    } else if let Some(node) = node {
        recording::end_late(guard.epoch(), Target::Node { node, start: guard.start }, now);
    }
}

/// Ends a span out of order, one of a recording that is not active, or one of a thread whose data is destroyed. If the
/// recording has finished, the span stays open, and its trace counts it.
fn end_slow(epoch: u32, target: Target, now: u64) {
    if OWNER.try_with(|_| ()).is_err() {
        return recording::end_late(epoch, target, now);
    }
    on_lane(epoch, |owned, hot| owned.end(hot, target, now));
}

/// Runs `body` on this thread's lane in a recording.
pub(crate) fn on_lane<R>(epoch: u32, body: impl FnOnce(&mut Owned, &Hot) -> R) -> Option<R> {
    owner(|owner, hot| owner.lane(epoch).map(|owned| body(owned, hot))).flatten()
}

#[inline(never)]
pub(crate) fn count(guard: &Guard, counters: Counters) {
    on_lane(guard.epoch(), |owned, hot| owned.count(hot, guard, counters));
}

pub(crate) fn add_argument(guard: &Guard, name: &'static str, value: Value) {
    on_lane(guard.epoch(), |owned, hot| owned.add_argument(hot, guard, name, value));
}

/// Records the span that caused this one, if this one is the outermost of its thread.
pub(crate) fn set_cause(guard: &Guard, link: u32) {
    on_lane(guard.epoch(), |owned, hot| owned.set_cause(hot, guard, link));
}

/// The link of a span; 0 if the span is not kept.
pub(crate) fn link(guard: &Guard) -> u32 {
    // While this thread writes to the span's recording, it owns the slot.
    if let (Way::Slot, Some(slot)) = (guard.way, guard.slot)
        && hot(Hot::epoch) == guard.epoch()
    {
        return link_of(slot);
    }
    on_lane(guard.epoch(), |owned, _| owned.link(guard)).unwrap_or(0)
}

/// The link of the innermost open span of this thread; 0 without a span.
pub(crate) fn current_link() -> u32 {
    owner(|owner, hot| owner.current().map_or(0, |owned| owned.current_link(hot))).unwrap_or(0)
}

/// True if spans of this thread already go to `recording`.
fn goes_to(owner: &Owner, recording: &Recording) -> bool {
    owner.target().is_some_and(|target| target.epoch == recording.epoch)
}

/// True if the last look-up sent spans of this thread to the recording `epoch`, and it is not outdated.
pub(crate) fn is_at(epoch: u32) -> bool {
    let generation = recording::GENERATION.load(Relaxed);
    generation != 0 && hot(|hot| hot.generation() == generation && hot.epoch() == epoch)
}

/// Sends the spans of this thread to the recording `epoch` again, without a lock. False if that was not the last
/// recording this thread wrote to, or if the rules have changed since. [`leave`] must follow.
pub(crate) fn enter_again(epoch: u32) -> bool {
    let generation = recording::GENERATION.load(Relaxed);
    let entered = owner(|owner, hot| {
        if epoch == 0 || generation == 0 || owner.resolved != (generation, epoch) || hot.epoch() != epoch {
            return false;
        }
        let Some(path) = owner.current().map(|owned| owned.path()) else { return false };
        owner.entered.push(Entered { epoch, recording: None });
        hot.look(generation, path);
        true
    });
    entered.unwrap_or(false)
}

/// Sends the spans of this thread to `recording`, or nowhere. Returns true if [`leave`] must follow.
pub(crate) fn enter(recording: Option<&Arc<Recording>>) -> bool {
    let entered = owner(|owner, _| {
        if recording.is_some_and(|recording| goes_to(owner, recording)) {
            return false;
        }
        let epoch = recording.map_or(0, |recording| recording.epoch);
        owner.entered.push(Entered { epoch, recording: recording.cloned() });
        HOT.with(Hot::forget);
        true
    });
    entered.unwrap_or(false)
}

/// Ends the innermost [`enter`] of this recording.
pub(crate) fn leave(epoch: u32) {
    owner(|owner, _| {
        if let Some(at) = owner.entered.iter().rposition(|entered| entered.epoch == epoch) {
            owner.entered.remove(at);
            HOT.with(Hot::forget);
        }
    });
}

pub(crate) fn with_hot<R>(body: impl FnOnce(&Hot) -> R) -> R {
    HOT.with(body)
}
