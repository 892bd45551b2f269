//! Where a thread writes next: the state of its hot path, and its data for each recording.

use std::cell::Cell;

use crate::chunk::{Chunk, FreeSlot};
use crate::node::Node;
use crate::pool::place;
use crate::ring::Ring;
use crate::slot::{Row, Slot};
use crate::trace::NONE;

/// What [`begin`](crate::local::begin) does on this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// Records nothing here.
    Off,
    /// Writes the next slot of a chunk.
    Full,
    /// Adds to a node of the tree.
    Aggregate,
    /// Ring, sampling or measurements, which the two fast paths do not handle.
    Other,
}

/// State of the recording that the thread currently writes to. It needs no destructor, so an access is a plain memory
/// access.
#[derive(Debug, Clone)]
pub(crate) struct Hot {
    /// [`GENERATION`](crate::recording::GENERATION) at the last look-up, 0 for none, and the path found then.
    generation: Cell<u32>,
    path: Cell<Path>,
    /// `generation` if the path is [`Path::Full`], otherwise 0, so one comparison admits a span to its slot.
    ready: Cell<u32>,
    /// Number of the span in the first slot of the chunk, minus the index of that slot.
    base: Cell<u32>,
    chunk: Cell<Option<&'static Chunk>>,
    /// Innermost open span: the recording in the high half, its number or [`NONE`] in the low half. Without a recording
    /// in the high half, no span ends on the fast path.
    current: Cell<u64>,
    /// The recording in the high half; 0 for none.
    epoch: Cell<u64>,
    /// True if an enclosing span may have ended.
    pub(crate) tangled: Cell<bool>,
    /// Innermost node, and the root of the tree.
    pub(crate) node: Cell<u32>,
    pub(crate) root: Cell<u32>,
    pub(crate) ns_per_tick: Cell<f64>,
    /// True inside an outermost span that sampling skips.
    pub(crate) skipping: Cell<bool>,
    /// Per thread, not per recording: open spans whose guards a host keeps.
    pub(crate) held: Cell<u32>,
}

impl Default for Hot {
    fn default() -> Self {
        Self::new()
    }
}

impl Hot {
    pub(crate) const fn new() -> Self {
        Self {
            generation: Cell::new(0),
            path: Cell::new(Path::Off),
            ready: Cell::new(0),
            base: Cell::new(0),
            chunk: Cell::new(None),
            current: Cell::new(NONE as u64),
            epoch: Cell::new(0),
            tangled: Cell::new(false),
            node: Cell::new(0),
            root: Cell::new(0),
            ns_per_tick: Cell::new(0.0),
            skipping: Cell::new(false),
            held: Cell::new(0),
        }
    }

    /// Takes over the state of a recording; the next span looks up its destination again.
    pub(crate) fn set(&self, other: &Self) {
        self.forget();
        self.base.set(other.base.get());
        self.chunk.set(other.chunk.get());
        self.current.set(other.current.get());
        self.epoch.set(other.epoch.get());
        self.tangled.set(other.tangled.get());
        self.node.set(other.node.get());
        self.root.set(other.root.get());
        self.ns_per_tick.set(other.ns_per_tick.get());
        self.skipping.set(other.skipping.get());
    }

    /// The next slot, if spans go to slots as of `generation`.
    #[inline]
    pub(crate) fn free_slot(&self, generation: u32) -> Option<(FreeSlot, u64)> {
        if self.is_ready(generation) { self.next_slot() } else { None }
    }

    /// The next slot of the chunk and the arguments of [`Hot::open`]; `None` if all slots are used.
    #[inline]
    pub(crate) fn next_slot(&self) -> Option<(FreeSlot, u64)> {
        let free = self.chunk.get()?.next()?;
        Some((free, self.epoch.get() | u64::from(self.base.get().wrapping_add(free.at))))
    }

    /// True if spans go to slots as of `generation`.
    #[inline]
    pub(crate) fn is_ready(&self, generation: u32) -> bool {
        self.ready.get() == generation
    }

    /// The slot of the innermost open span, if it is in the current chunk.
    #[inline]
    pub(crate) fn innermost(&self) -> Option<&'static Slot> {
        let chunk = self.chunk.get()?;
        let number = self.current().wrapping_sub(self.base.get()).wrapping_sub(chunk.first());
        chunk.slot(number as usize)
    }

    /// Number of spans in the chunks so far, if the last one is full.
    pub(crate) fn used(&self) -> u32 {
        self.chunk.get().map_or(0, |chunk| self.base.get().wrapping_add(chunk.length() as u32))
    }

    /// False if the budget granted less than a whole chunk, so it is the last one.
    pub(crate) fn is_chunk_whole(&self) -> bool {
        self.chunk.get().is_none_or(|chunk| chunk.first() == 0)
    }

    /// Makes a span the innermost one, and returns the previous one.
    #[inline]
    pub(crate) fn open(&self, span: u64) -> u64 {
        self.current.replace(span)
    }

    /// Makes `parent` the innermost span if `span` is; otherwise returns false.
    #[inline]
    pub(crate) fn close(&self, span: u64, parent: u64) -> bool {
        let is_innermost = self.current.get() == span;
        if is_innermost {
            self.current.set(parent);
        }
        is_innermost
    }

    /// Number of the innermost open span, or [`NONE`].
    #[inline]
    pub(crate) fn current(&self) -> u32 {
        self.current.get() as u32
    }

    #[inline]
    pub(crate) fn set_current(&self, number: u32) {
        self.current.set(self.current.get() >> 32 << 32 | u64::from(number));
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        (self.epoch.get() >> 32) as u32
    }

    pub(crate) fn set_epoch(&self, epoch: u32) {
        self.epoch.set(u64::from(epoch) << 32);
        self.current.set(u64::from(epoch) << 32 | u64::from(self.current()));
    }

    /// Writes to `chunk` from now on; the chunks before it hold `before` spans.
    pub(crate) fn use_chunk(&self, chunk: &'static Chunk, before: u32) {
        self.base.set(before.wrapping_sub(chunk.first()));
        self.chunk.set(Some(chunk));
    }

    /// Stops writing to slots; [`Owned::end`](crate::owned::Owned::end) ends spans in slots from now on.
    pub(crate) fn overflow(&self) {
        self.chunk.set(None);
        self.current.set(u64::from(self.current()));
    }

    /// Stores the result of a look-up as of `generation`.
    pub(crate) fn look(&self, generation: u32, path: Path) {
        self.generation.set(generation);
        self.path.set(path);
        self.ready.set(if path == Path::Full { generation } else { 0 });
    }

    /// Makes the next span look up its destination again.
    pub(crate) fn forget(&self) {
        self.look(0, Path::Off);
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.get()
    }

    pub(crate) fn path(&self) -> Path {
        self.path.get()
    }

    /// The innermost node, if spans go to nodes as of `generation`.
    #[inline]
    pub(crate) fn parent_node(&self, generation: u32) -> Option<u32> {
        (self.path.get() == Path::Aggregate && self.generation.get() == generation).then(|| self.node.get())
    }

    /// Makes the parent of `node` the innermost one if `node` is; otherwise returns false.
    #[inline]
    pub(crate) fn close_node(&self, node: &Node, epoch: u32) -> bool {
        let is_innermost = self.epoch() == epoch && self.node.get() == node.number();
        if is_innermost {
            self.node.set(node.parent());
        }
        is_innermost
    }

    pub(crate) fn is_outermost(&self) -> bool {
        self.current() == NONE && self.node.get() == self.root.get()
    }
}

/// A thread's data for one recording.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// Values of the hot path while another recording is active on this thread.
    pub(crate) saved: Hot,
    /// Chunks of rows, the number of rows used, and the number that the chunks have room for.
    pub(crate) rows: Vec<&'static [Row]>,
    pub(crate) next_row: u32,
    pub(crate) row_room: u32,
    /// Number of rows in use when the last chunk of slots was taken.
    pub(crate) rows_before: u32,
    /// Node numbers of the last block: the next unused one, and the one after the last.
    pub(crate) next_node: u32,
    pub(crate) end_node: u32,
    pub(crate) ring: Option<Ring>,
    /// Number of outermost spans seen, for sampling.
    pub(crate) turn: u32,
    /// An odd number that makes each lane sample different spans.
    pub(crate) seed: u32,
    /// True once the budget is used up: further spans are aggregated.
    pub(crate) is_overflowed: bool,
}

impl Position {
    /// True if sampling records the next outermost span: one in each group of `one_in`, the first of the first group.
    /// Its place in the group comes from a hash, because a fixed place would always hit the same part of a periodic
    /// program.
    pub(crate) fn is_sampled(&mut self, one_in: u32) -> bool {
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        let (group, place) = (turn / one_in, turn % one_in);
        // The finalizer of MurmurHash3, which maps 0 to 0.
        let mut hash = group.wrapping_mul(self.seed);
        hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
        hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
        hash ^= hash >> 16;
        u64::from(place) == (u64::from(hash) * u64::from(one_in)) >> 32
    }

    /// The row with a number, usually in the last chunk.
    pub(crate) fn row(&self, number: u32) -> Option<&'static Row> {
        let last: &'static [Row] = self.rows.last()?;
        let before = self.row_room - last.len() as u32;
        if number >= before {
            return last.get((number - before) as usize);
        }
        let (chunk, at) = place(number as usize);
        self.rows.get(chunk)?.get(at)
    }

    /// The position when the thread ends: spans that are still open get no more children.
    pub(crate) fn closed(mut self) -> Self {
        self.saved.set_current(NONE);
        self.saved.node.set(self.saved.root.get());
        self.saved.skipping.set(false);
        if let Some(ring) = &mut self.ring {
            ring.current = NONE;
        }
        self
    }
}

/// True if `wanted` is `from` or one of its ancestors; `none` ends the chain.
pub(crate) fn is_around(from: u32, wanted: u32, none: u32, parent: impl Fn(u32) -> Option<u32>) -> bool {
    let mut at = Some(from);
    while let Some(number) = at.filter(|number| *number != none) {
        if number == wanted {
            return true;
        }
        at = parent(number);
    }
    false
}
