//! Where a thread writes next: the state of its hot path, and what it keeps for each recording.

use std::cell::Cell;

use crate::ring::Ring;
use crate::slot::{Row, Slot};
use crate::trace::NONE;

/// What [`begin`](crate::local::begin) does on this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// Nothing is recorded here.
    Off,
    /// The next slot of a chunk.
    Full,
    /// A node of the tree.
    Aggregate,
    /// Ring, sampling or measurements: rules that the two fast paths do not know.
    Other,
}

/// State of the recording that the thread writes to at present. It needs no destructor, so that an access is a plain
/// memory access.
#[derive(Debug, Clone)]
pub(crate) struct Hot {
    /// Of the thread, not of a recording: the generation at the time of the last look, 0 for none.
    pub(crate) seen: Cell<u32>,
    /// Of the thread: open spans that a host keeps guards of.
    pub(crate) held: Cell<u32>,
    /// The recording; 0 for none.
    pub(crate) epoch: Cell<u32>,
    pub(crate) path: Cell<Path>,
    /// Inside an outermost span that sampling skips.
    pub(crate) skipping: Cell<bool>,
    /// The chunk, the next slot in it, and the number of slots before it.
    pub(crate) slots: Cell<&'static [Slot]>,
    pub(crate) at: Cell<usize>,
    pub(crate) base: Cell<u32>,
    /// Innermost open span by index, or [`NONE`].
    pub(crate) current: Cell<u32>,
    /// True if a span around it may have ended.
    pub(crate) tangled: Cell<bool>,
    /// Innermost node, and the root of the tree.
    pub(crate) node: Cell<u32>,
    pub(crate) root: Cell<u32>,
    pub(crate) ns_per_tick: Cell<f64>,
}

impl Hot {
    pub(crate) const fn new() -> Self {
        Self {
            seen: Cell::new(0),
            held: Cell::new(0),
            epoch: Cell::new(0),
            path: Cell::new(Path::Off),
            skipping: Cell::new(false),
            slots: Cell::new(&[]),
            at: Cell::new(0),
            base: Cell::new(0),
            current: Cell::new(NONE),
            tangled: Cell::new(false),
            node: Cell::new(0),
            root: Cell::new(0),
            ns_per_tick: Cell::new(0.0),
        }
    }

    /// Takes over all values of a recording.
    pub(crate) fn set(&self, other: &Self) {
        self.epoch.set(other.epoch.get());
        self.path.set(other.path.get());
        self.skipping.set(other.skipping.get());
        self.slots.set(other.slots.get());
        self.at.set(other.at.get());
        self.base.set(other.base.get());
        self.current.set(other.current.get());
        self.tangled.set(other.tangled.get());
        self.node.set(other.node.get());
        self.root.set(other.root.get());
        self.ns_per_tick.set(other.ns_per_tick.get());
    }

    /// True if no span is open.
    pub(crate) fn is_outermost(&self) -> bool {
        self.current.get() == NONE && self.node.get() == self.root.get()
    }
}

/// What a thread keeps for one recording.
#[derive(Debug)]
pub(crate) struct Position {
    /// Values of the hot path while another recording is active on this thread.
    pub(crate) saved: Hot,
    /// Chunks of rows, the number of rows used, and the number that the chunks have room for.
    pub(crate) rows: Vec<&'static [Row]>,
    pub(crate) next_row: u32,
    pub(crate) row_room: u32,
    /// Nodes of the last block: the next unused one, and the one after the last.
    pub(crate) next_node: u32,
    pub(crate) end_node: u32,
    pub(crate) ring: Option<Ring>,
    /// Outermost spans seen, for sampling.
    pub(crate) turn: u32,
    /// True once the budget was used up: further spans are aggregated.
    pub(crate) is_overflowed: bool,
}

impl Position {
    pub(crate) fn new(saved: Hot, ring: Option<Ring>) -> Self {
        Self {
            saved,
            rows: Vec::new(),
            next_row: 0,
            row_room: 0,
            next_node: 0,
            end_node: 0,
            ring,
            turn: 0,
            is_overflowed: false,
        }
    }

    /// The position as the thread ends: spans that are still open get no more children.
    pub(crate) fn closed(mut self) -> Self {
        self.saved.current.set(NONE);
        self.saved.node.set(self.saved.root.get());
        self.saved.skipping.set(false);
        if let Some(ring) = &mut self.ring {
            ring.current = NONE;
        }
        self
    }
}
