//! A thread's side of the spans of a host ([`crate::host`]): spans that end by their site, and places to return to.

use std::sync::Arc;

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
        if hot.seen.get() != generation {
            owner(|owner, _| owner.resolve(generation));
        }
        (hot.epoch.get() == epoch && hot.path.get() != Path::Off).then(|| begin(site, generation))
    })
}

/// Starts a span that [`close`] ends, if this thread writes to the recording `epoch` and its fast path is free.
// Not inlined into other crates, where what it calls would not be.
pub(crate) fn open(epoch: u32, site: &'static Site, generation: u32) -> bool {
    with_hot(|hot| {
        if hot.seen.get() != generation {
            owner(|owner, _| owner.resolve(generation));
        }
        if hot.epoch.get() != epoch || hot.path.get() != Path::Full || hot.held.get() != 0 {
            return false;
        }
        let Some(slot) = hot.slots.get().get(hot.at.get()).or_else(|| next_slot(hot)) else { return false };
        let at = hot.at.get();
        let index = hot.base.get().wrapping_add(at as u32);
        hot.at.set(at + 1);
        slot.prepare(site.id(), hot.current.replace(index));
        slot.begin(ticks());
        true
    })
}

/// The next slot, in a new chunk; `None` if the budget is used up.
#[cold]
fn next_slot(hot: &Hot) -> Option<&'static Slot> {
    owner(|owner, hot| owner.current().map(|owned| owned.more_room(hot)));
    if hot.path.get() == Path::Full { hot.slots.get().get(hot.at.get()) } else { None }
}

/// Ends the innermost span if it is one of `site`.
pub(crate) fn close(epoch: u32, site: &'static Site) -> Closing {
    with_hot(|hot| {
        let is_here = hot.epoch.get() == epoch;
        if hot.held.get() == 0 && (!is_here || hot.current.get() == NONE && hot.path.get() == Path::Full) {
            return Closing::Nothing;
        }
        if is_here && hot.path.get() == Path::Full && hot.held.get() == 0 && !hot.tangled.get() {
            let at = hot.current.get().wrapping_sub(hot.base.get());
            if let Some(slot) = hot.slots.get().get(at as usize)
                && slot.site() == site.id()
            {
                slot.end(ticks());
                hot.current.set(slot.parent());
                return Closing::Closed;
            }
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
        Some(Guard::of_slot(slot, epoch, index, slot.parent()))
    })
    .flatten()
}

/// The innermost open span of this thread.
pub(crate) fn place() -> Place {
    with_hot(|hot| Place { epoch: hot.epoch.get(), current: hot.current.get(), node: hot.node.get() })
}

/// Makes a span the innermost one of this thread.
pub(crate) fn resume(place: Place) {
    let is_here = with_hot(|hot| hot.epoch.get() == place.epoch && hot.path.get() == Path::Full);
    if is_here {
        with_hot(|hot| hot.current.set(place.current));
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
        with_hot(|hot| hot.seen.set(0));
    });
}

/// Names the lanes that this thread joins from now on.
pub(crate) fn name_thread(name: &str) {
    owner(|owner, _| owner.name = Some(name.to_string()));
}

impl Owned {
    /// The innermost open span of a site.
    pub(crate) fn open_of(&self, hot: &Hot, site: u32) -> Option<(&'static Slot, u32)> {
        let mut at = hot.current.get();
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
        let mut at = hot.current.get();
        while let Some(slot) = Some(at).filter(|at| *at != NONE).and_then(|at| self.lane.slot(at)) {
            if slot.is_open() {
                break;
            }
            at = slot.parent();
        }
        hot.current.set(at);
        hot.tangled.set(at != NONE);
        if self.position.is_overflowed {
            hot.node.set(self.node_of(hot, at));
        }
        true
    }

    /// Makes another span the innermost one. A place from before the overflow has a span, but not its node.
    pub(crate) fn resume(&mut self, hot: &Hot, place: Place) {
        hot.current.set(place.current);
        let has_node = place.node != 0 && place.node != hot.root.get();
        let node = match self.position.is_overflowed && !has_node {
            true => self.node_of(hot, place.current),
            false if has_node => place.node,
            false => hot.root.get(),
        };
        hot.node.set(node);
    }
}
