//! A thread's side of the spans of a host ([`crate::host`]): spans that end by their site, and places to return to.

use std::sync::Arc;

use crate::chunk::FreeSlot;
use crate::clock::ticks;
use crate::guard::Guard;
use crate::host::{Closing, Place};
use crate::local::{begin, owner, with_hot};
use crate::owned::Owned;
use crate::position::{Hot, Path};
use crate::recording::Recording;
use crate::site::Site;
use crate::slot::Slot;
use crate::trace::NONE;

/// Starts a span if this thread writes to the recording `epoch`.
#[inline]
pub(crate) fn begin_in(epoch: u32, site: &'static Site, generation: u32) -> Option<Guard> {
    with_hot(|hot| {
        if hot.seen() != generation {
            owner(|owner, _| owner.resolve(generation));
        }
        (hot.epoch() == epoch && hot.path() != Path::Off).then(|| begin(site, generation))
    })
}

/// Starts a span that [`close`] ends, if this thread writes to the recording `epoch` and its fast path is free.
// Not inlined into other crates, where what it calls would not be.
pub(crate) fn open(epoch: u32, site: &'static Site, generation: u32) -> bool {
    with_hot(|hot| {
        if hot.seen() != generation {
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

/// Ends the innermost span if it is one of `site`.
pub(crate) fn close(epoch: u32, site: &'static Site) -> Closing {
    with_hot(|hot| {
        let is_here = hot.epoch() == epoch;
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

/// Ends the innermost open span of `site`; false without one.
#[cold]
pub(crate) fn close_any(epoch: u32, site: &'static Site) -> bool {
    let now = ticks();
    owner(|owner, hot| owner.lane(epoch).is_some_and(|owned| owned.close(hot, site.id(), now))).unwrap_or(false)
}

/// A guard of the innermost open span of `site`, which must be forgotten.
pub(crate) fn guard_of(epoch: u32, site: &'static Site) -> Option<Guard> {
    owner(|owner, hot| {
        let owned = owner.lane(epoch)?;
        let (slot, index) = owned.open_of(hot, site.id())?;
        let key = |number: u32| u64::from(epoch) << 32 | u64::from(number);
        Some(Guard::of_slot(slot, key(index), key(slot.parent())))
    })
    .flatten()
}

/// The innermost open span of this thread.
pub(crate) fn place() -> Place {
    with_hot(|hot| Place { epoch: hot.epoch(), current: hot.current(), node: hot.node.get() })
}

/// Makes a span the innermost one of this thread.
pub(crate) fn resume(place: Place) {
    let is_here = with_hot(|hot| hot.epoch() == place.epoch && hot.path() == Path::Full);
    if is_here {
        with_hot(|hot| hot.set_current(place.current));
        return;
    }
    owner(|owner, hot| {
        if let Some(owned) = owner.lane(place.epoch) {
            owned.resume(hot, place);
        }
    });
}

/// Makes a recording the one of spans of this thread outside any scope.
pub(crate) fn settle(recording: &Arc<Recording>) {
    owner(|owner, _| {
        owner.home = Some(recording.clone());
        with_hot(Hot::forget);
    });
}

/// Names the lanes that this thread joins from now on.
pub(crate) fn name_thread(name: &str) {
    owner(|owner, _| owner.name = Some(name.to_string()));
}

impl Owned {
    /// The innermost open span of a site.
    pub(crate) fn open_of(&self, hot: &Hot, site: u32) -> Option<(&'static Slot, u32)> {
        let mut at = hot.current();
        loop {
            let slot = Some(at).filter(|at| *at != NONE).and_then(|at| self.lane.slot(at))?;
            if slot.site() == site && slot.is_open() {
                return Some((slot, at));
            }
            at = slot.parent();
        }
    }

    /// Ends the innermost open span of a site. Spans inside it that are still open remain around what begins next.
    pub(crate) fn close(&mut self, hot: &Hot, site: u32, now: u64) -> bool {
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

    /// Makes another span the innermost one. A place from before the overflow has a span, but not its node.
    pub(crate) fn resume(&mut self, hot: &Hot, place: Place) {
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
