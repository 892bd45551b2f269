//! A lane: the spans of one thread in one session. Only that thread writes them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use Ordering::{Acquire, Relaxed, Release};

use crate::clock::ticks;
use crate::column::{Budget, Column};
use crate::counters::Counters;
use crate::guard::Guard;
use crate::site::Site;
use crate::trace::{NONE, Span};

/// Number of the running session, 0 if none runs. Every span reads this first.
pub(crate) static EPOCH: AtomicU32 = AtomicU32::new(0);

/// Name of spans that cover the allocation of buffers for more spans, so that this time is not charged to the user's
/// code.
pub const ROOM_NAME: &str = "(room for spans)";
static ROOM: Site = Site::new(ROOM_NAME, file!(), line!());

/// A span while it is written: 32 bytes. The end is written last; while it is 0 the span is open.
#[derive(Debug, Default)]
struct Slot {
    start: AtomicU64,
    end: AtomicU64,
    /// Site in the low half, parent in the high half.
    place: AtomicU64,
    /// Correlation in the low half, row of counters (0: none) in the high half.
    links: AtomicU64,
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn unpair(pair: u64) -> (u32, u32) {
    (pair as u32, (pair >> 32) as u32)
}

impl Slot {
    fn read(&self) -> Span {
        // Read the end first: once it is set, all other fields are complete.
        let end = self.end.load(Acquire);
        let (site, parent) = unpair(self.place.load(Relaxed));
        let (corr, ext) = unpair(self.links.load(Relaxed));
        Span { start: self.start.load(Relaxed), end, site, parent, corr, ext }
    }
}

/// Counters of one span.
#[derive(Debug, Default)]
struct Row {
    bytes: AtomicU64,
    items: AtomicU64,
    /// Bit pattern of an `f64`.
    flops: AtomicU64,
}

impl Row {
    fn read(&self) -> Counters {
        Counters {
            bytes: self.bytes.load(Relaxed),
            items: self.items.load(Relaxed),
            flops: f64::from_bits(self.flops.load(Relaxed)),
        }
    }

    /// Adds to the counters. Only the owning thread calls this; others read.
    fn add(&self, more: Counters) {
        let sum = self.read().plus(more);
        self.bytes.store(sum.bytes, Relaxed);
        self.items.store(sum.items, Relaxed);
        self.flops.store(sum.flops.to_bits(), Relaxed);
    }
}

/// The data that one thread writes and the session reads.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) name: String,
    slots: Column<Slot>,
    rows: Column<Row>,
    budget: Arc<Budget>,
    /// Spans lost because the buffer was full.
    dropped: AtomicU64,
    /// Counters lost because the buffer was full; their spans are kept.
    dropped_counters: AtomicU64,
}

/// The content of a lane at the end of a session.
#[derive(Debug, Default)]
pub(crate) struct LaneRead {
    pub(crate) spans: Vec<Span>,
    pub(crate) counters: Vec<Counters>,
    pub(crate) dropped: u64,
    pub(crate) dropped_counters: u64,
}

impl Lane {
    pub(crate) fn new(name: String, budget: Arc<Budget>) -> Self {
        let lane = Self {
            name,
            slots: Column::new(),
            rows: Column::new(),
            budget,
            dropped: AtomicU64::new(0),
            dropped_counters: AtomicU64::new(0),
        };
        // Allocate the first chunk while the thread joins, before any of its spans is open.
        lane.slots.grow(&lane.budget);
        lane
    }

    pub(crate) fn read(&self) -> LaneRead {
        let slots = (0..self.slots.len()).filter_map(|index| Some(self.slots.get(index)?.read()));
        let rows = (0..self.rows.len()).filter_map(|index| Some(self.rows.get(index)?.read()));
        LaneRead {
            spans: slots.collect(),
            counters: rows.collect(),
            dropped: self.dropped.load(Relaxed),
            dropped_counters: self.dropped_counters.load(Relaxed),
        }
    }

    /// Starts a span; returns its index, or [`NONE`] if the buffer is full.
    #[inline]
    fn begin(&self, site: u32, parent: u32) -> u32 {
        if self.slots.is_due() {
            self.more_room(parent);
        }
        let index = self.slots.next();
        let Some(slot) = self.slots.get(index) else {
            self.dropped.store(self.dropped.load(Relaxed) + 1, Relaxed);
            return NONE;
        };
        slot.place.store(pair(site, parent), Relaxed);
        self.slots.append();
        // Read the clock last: the time until here belongs to the parent.
        slot.start.store(ticks(), Relaxed);
        index
    }

    #[cold]
    fn more_room(&self, parent: u32) {
        let start = ticks();
        self.slots.grow(&self.budget);
        let Some(slot) = self.slots.get(self.slots.next()) else { return };
        slot.place.store(pair(ROOM.id(), parent), Relaxed);
        slot.start.store(start, Relaxed);
        slot.end.store(ticks(), Release);
        self.slots.append();
    }

    #[inline]
    fn end(&self, index: u32, end: u64) {
        if let Some(slot) = self.slots.get(index) {
            slot.end.store(end, Release);
        }
    }

    fn parent(&self, index: u32) -> u32 {
        self.slots.get(index).map_or(NONE, |slot| unpair(slot.place.load(Relaxed)).1)
    }

    fn correlation(&self, index: u32) -> u32 {
        self.slots.get(index).map_or(0, |slot| unpair(slot.links.load(Relaxed)).0)
    }

    fn correlate(&self, index: u32, corr: u32) {
        if let Some(slot) = self.slots.get(index) {
            let (_, ext) = unpair(slot.links.load(Relaxed));
            slot.links.store(pair(corr, ext), Relaxed);
        }
    }

    fn count(&self, index: u32, counters: Counters) {
        let Some(slot) = self.slots.get(index) else { return };
        let (corr, ext) = unpair(slot.links.load(Relaxed));
        if let Some(row) = ext.checked_sub(1).and_then(|row| self.rows.get(row)) {
            return row.add(counters);
        }
        if self.rows.is_due() {
            self.rows.grow(&self.budget);
        }
        let next = self.rows.next();
        match self.rows.get(next) {
            Some(row) => {
                row.add(counters);
                self.rows.append();
                slot.links.store(pair(corr, next + 1), Relaxed);
            }
            None => self.dropped_counters.store(self.dropped_counters.load(Relaxed) + 1, Relaxed),
        }
    }
}

/// The state of a thread's current lane.
struct Local {
    /// Session that `lane` belongs to.
    epoch: Cell<u32>,
    /// The innermost open span.
    current: Cell<u32>,
    lane: RefCell<Option<Arc<Lane>>>,
}

thread_local! {
    static LOCAL: Local =
        const { Local { epoch: Cell::new(0), current: Cell::new(NONE), lane: RefCell::new(None) } };
}

impl Local {
    /// Runs `body` on the lane if it belongs to session `epoch`.
    #[inline]
    fn on<R>(&self, epoch: u32, body: impl FnOnce(&Lane) -> R) -> Option<R> {
        if self.epoch.get() != epoch {
            return None;
        }
        self.lane.borrow().as_deref().map(body)
    }

    /// Joins session `epoch` with an empty lane.
    #[cold]
    fn join(&self, epoch: u32) {
        let lane = crate::session::join(epoch);
        self.epoch.set(if lane.is_some() { epoch } else { 0 });
        self.current.set(NONE);
        self.lane.replace(lane);
    }
}

/// Starts a span in session `epoch`.
#[inline(never)]
pub(crate) fn begin(site: &'static Site, epoch: u32) -> Guard {
    let begun = LOCAL.try_with(|local| {
        if local.epoch.get() != epoch {
            local.join(epoch);
        }
        local.on(epoch, |lane| {
            let parent = local.current.get();
            let index = lane.begin(site.id(), parent);
            if index != NONE {
                local.current.set(index);
            }
            Guard::new(epoch, index, parent)
        })
    });
    match begun {
        Ok(Some(guard)) => guard,
        // The session ended in the meantime.
        Ok(None) => Guard::off(),
        // The thread's storage is already destroyed: count the span as lost.
        Err(_) => {
            crate::session::count_lost();
            Guard::off()
        }
    }
}

/// Ends a span.
#[inline(never)]
pub(crate) fn end(epoch: u32, index: u32, parent: u32) {
    let end = ticks();
    // If the thread's storage is destroyed or it joined a later session, the span stays open and the trace counts it.
    let _ = LOCAL.try_with(|local| {
        local.on(epoch, |lane| {
            lane.end(index, end);
            if local.current.get() == index {
                local.current.set(parent);
            } else {
                end_out_of_order(local, lane, index, parent);
            }
        })
    });
}

/// Ends a guard that outlived guards created after it: spans still open inside it get no more children. Guards skipped
/// in this way have no effect when they are dropped.
#[cold]
fn end_out_of_order(local: &Local, lane: &Lane, index: u32, parent: u32) {
    let mut open = local.current.get();
    while open != NONE {
        if open == index {
            local.current.set(parent);
            return;
        }
        open = lane.parent(open);
    }
}

/// Adds to the counters of a span.
#[inline(never)]
pub(crate) fn count(epoch: u32, index: u32, counters: Counters) {
    let _ = LOCAL.try_with(|local| local.on(epoch, |lane| lane.count(index, counters)));
}

/// The correlation number of a span, 0 for none.
pub(crate) fn correlation(epoch: u32, index: u32) -> u32 {
    LOCAL.try_with(|local| local.on(epoch, |lane| lane.correlation(index))).ok().flatten().unwrap_or(0)
}

/// Sets the correlation number of a span.
pub(crate) fn correlate(epoch: u32, index: u32, corr: u32) {
    let _ = LOCAL.try_with(|local| local.on(epoch, |lane| lane.correlate(index, corr)));
}
