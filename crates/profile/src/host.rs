//! Spans for the interpreter of another language: the host chooses the recording of each span, names sites at run time,
//! and switches between tasks that share a thread.
//!
//! The spans of a waiting task stay open while other tasks run. A host therefore notes the [`Place`] of a task and
//! returns to it before the task's next span; roots that overlap on a lane are moved to lanes next to it when the trace
//! is read.

use std::sync::atomic::Ordering::Relaxed;

use crate::chunk::FreeSlot;
use crate::clock::ticks;
use crate::guard::Guard;
use crate::local::{begin, on_lane, owner, with_hot};
pub use crate::names::{label, site_at as site};
use crate::owned::Owned;
use crate::position::{Hot, Path};
use crate::profiler::Profiler;
use crate::recording::GENERATION;
use crate::site::Site;
use crate::slot::Slot;
use crate::trace::NONE;

/// The innermost open span of a thread in one recording: new spans begin inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    epoch: u32,
    current: u32,
    node: u32,
}

impl Place {
    /// Where this thread is now.
    pub fn here() -> Self {
        with_hot(|hot| Self { epoch: hot.epoch(), current: hot.current(), node: hot.node.get() })
    }

    /// Outside all spans of a recording.
    pub fn outside(recording: u32) -> Self {
        Self { epoch: recording, current: NONE, node: 0 }
    }

    /// True if no span encloses it.
    pub fn is_outside(self) -> bool {
        let is_root = self.node == 0 || with_hot(|hot| self.node == hot.root.get());
        self.epoch == 0 || self.current == NONE && is_root
    }

    /// Makes this the current place, if the thread still has that recording.
    pub fn resume(self) {
        if self.epoch == 0 {
            return;
        }
        let is_here = with_hot(|hot| hot.epoch() == self.epoch && hot.path() == Path::Full);
        if is_here {
            with_hot(|hot| hot.set_current(self.current));
            return;
        }
        on_lane(self.epoch, |owned, hot| owned.resume(hot, self));
    }
}

/// The result of [`close`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The innermost span belonged to this site and has ended.
    Closed,
    /// No span is open in this recording.
    Nothing,
    /// Unknown here: look among the guards that the host keeps, then call [`close_any`].
    Unknown,
}

/// Starts a span without a guard, which [`close`] ends. False if this thread writes to another recording, measures,
/// aggregates or holds guards ([`hold`]); the host then needs a guard ([`Guard::enter_in`]).
#[inline]
pub fn open(recording: u32, site: &'static Site) -> bool {
    match GENERATION.load(Relaxed) {
        0 => false,
        generation => open_recorded(recording, site, generation),
    }
}

// Not inlined into other crates, where its callees would not be inlined.
fn open_recorded(epoch: u32, site: &'static Site, generation: u32) -> bool {
    with_hot(|hot| {
        if hot.generation() != generation {
            owner(|owner, _| owner.resolve(generation));
        }
        if hot.epoch() != epoch || !hot.is_ready(generation) || hot.held.get() != 0 {
            return false;
        }
        let id = site.id();
        let Some((free, span)) = hot.next_slot().or_else(|| slot_in_new_chunk(hot)) else { return false };
        free.begin(id, hot.open(span) as u32, ticks);
        true
    })
}

/// The next slot, in a new chunk; `None` if the budget is used up.
#[cold]
fn slot_in_new_chunk(hot: &Hot) -> Option<(FreeSlot, u64)> {
    owner(|owner, hot| owner.current().map(|owned| owned.more_room(hot)));
    hot.next_slot()
}

/// Ends the innermost span if it belongs to `site`.
pub fn close(recording: u32, site: &'static Site) -> Closing {
    with_hot(|hot| {
        let is_here = hot.epoch() == recording;
        if hot.held.get() == 0 && (!is_here || hot.current() == NONE && hot.path() == Path::Full) {
            return Closing::Nothing;
        }
        if is_here
            && hot.path() == Path::Full
            && hot.held.get() == 0
            && !hot.tangled.get()
            && let Some(slot) = hot.innermost()
            && slot.site() == site.id()
        {
            slot.end(ticks());
            hot.set_current(slot.parent());
            return Closing::Closed;
        }
        Closing::Unknown
    })
}

/// Ends the innermost open span of `site` that [`open`] began; false without one. Open spans inside it, such as those
/// of a generator that waits, remain open.
#[cold]
pub fn close_any(recording: u32, site: &'static Site) -> bool {
    let now = ticks();
    on_lane(recording, |owned, hot| owned.close(hot, site.id(), now)).unwrap_or(false)
}

/// Runs `body` on the innermost open span of `site` that [`open`] began.
pub fn edit(recording: u32, site: &'static Site, body: impl FnOnce(&Guard)) {
    let guard = on_lane(recording, |owned, hot| {
        let (slot, index) = owned.open_of(hot, site.id())?;
        let key = |number: u32| u64::from(recording) << 32 | u64::from(number);
        Some(Guard::of_slot(slot, key(index), key(slot.parent())))
    });
    if let Some(guard) = guard.flatten() {
        body(&guard);
        // The span stays open.
        std::mem::forget(guard);
    }
}

/// Drops the CPU time of an open span: the thread's clock also counted what ran while its task was suspended.
pub fn forget_cpu(guard: &Guard) {
    on_lane(guard.epoch(), |owned, _| owned.forget_cpu(guard));
}

/// Sets the number of guards that this thread keeps: while it is above 0, [`open`] and [`close`] leave spans to the
/// host.
pub fn hold(guards: u32) {
    with_hot(|hot| hot.held.set(guards));
}

/// Names this thread before its first span, because this crate does not know the names of foreign threads.
pub fn name_thread(name: &str) {
    owner(|owner, _| owner.name = Some(name.to_string()));
}

impl Profiler {
    /// A number that is never 0 and differs between recordings; 0 if nothing is being recorded.
    pub fn recording_number(&self) -> u32 {
        self.recording().map_or(0, |recording| recording.epoch)
    }

    /// Sends the spans that this thread begins outside any scope to this profiler from now on, unless the global
    /// profiler or a session is recording.
    pub fn settle(&self) {
        if let Some(recording) = self.recording() {
            owner(|owner, _| {
                owner.home = Some(recording);
                with_hot(Hot::forget);
            });
        }
    }
}

impl Guard {
    /// Starts a span in the recording with this number; `None` if spans of this thread do not go there
    /// ([`Profiler::settle`], [`Profiler::enter`]).
    #[inline]
    pub fn enter_in(recording: u32, site: &'static Site) -> Option<Self> {
        match GENERATION.load(Relaxed) {
            0 => None,
            generation => with_hot(|hot| {
                if hot.generation() != generation {
                    owner(|owner, _| owner.resolve(generation));
                }
                (hot.epoch() == recording && hot.path() != Path::Off).then(|| begin(site, generation))
            }),
        }
    }
}

impl Default for Guard {
    /// A span that is not recorded.
    fn default() -> Self {
        Self::off()
    }
}

impl Owned {
    fn open_of(&self, hot: &Hot, site: u32) -> Option<(&'static Slot, u32)> {
        let mut at = hot.current();
        loop {
            let slot = Some(at).filter(|at| *at != NONE).and_then(|at| self.lane.slot(at))?;
            if slot.site() == site && slot.is_open() {
                return Some((slot, at));
            }
            at = slot.parent();
        }
    }

    /// Ends the innermost open span of a site. Open spans inside it continue to enclose what begins next.
    fn close(&mut self, hot: &Hot, site: u32, now: u64) -> bool {
        let Some((slot, _)) = self.open_of(hot, site) else { return false };
        slot.end(now);
        let mut at = hot.current();
        while let Some(slot) = Some(at).filter(|at| *at != NONE).and_then(|at| self.lane.slot(at)) {
            if slot.is_open() {
                break;
            }
            at = slot.parent();
        }
        hot.set_current(at);
        hot.tangled.set(at != NONE);
        if self.position.is_overflowed {
            hot.node.set(self.node_of(hot, at));
        }
        true
    }

    /// Makes another span the innermost one. A place noted before the overflow has a span, but no node.
    fn resume(&mut self, hot: &Hot, place: Place) {
        hot.set_current(place.current);
        let has_node = place.node != 0 && place.node != hot.root.get();
        let node = match self.position.is_overflowed && !has_node {
            true => self.node_of(hot, place.current),
            false if has_node => place.node,
            false => hot.root.get(),
        };
        hot.node.set(node);
    }
}
