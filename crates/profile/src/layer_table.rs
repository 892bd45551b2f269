//! What the layer keeps of each span of `tracing`, in a table with a fixed place for every id: a look-up in the
//! registry and in its map costs five times as much.
//!
//! A span stays in the table from its creation until the registry closes it, and every use of a span falls into that
//! time. So an entry with the id of a span belongs to that span. Two spans rarely have the same place; the later one is
//! then kept in the registry.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

/// Places; a power of two.
const PLACES: usize = if cfg!(miri) { 64 } else { 2048 };

/// A span, on a separate cache line: threads that work on different spans do not contend.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// Id of the span, 0 if the place is free.
    id: AtomicU64,
    metadata: AtomicUsize,
    /// Link of its first entry, 0 before that.
    pub(crate) link: AtomicU32,
    /// True if the registry has fields that are not yet attached to an entry.
    pub(crate) has_args: AtomicBool,
}

impl Entry {
    pub(crate) fn metadata(&self) -> usize {
        self.metadata.load(Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct Spans(Box<[Entry]>);

impl Spans {
    pub(crate) fn new() -> Self {
        Self((0..PLACES).map(|_| Entry::default()).collect())
    }

    fn place(&self, id: u64) -> Option<&Entry> {
        // Span ids differ in their low bits, and by thread in their high ones.
        let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        self.0.get(mixed as usize % PLACES)
    }

    /// Adds a new span; `None` if its place is taken.
    pub(crate) fn add(&self, id: u64, metadata: usize, has_args: bool) -> Option<&Entry> {
        let entry = self.place(id)?;
        // Ordered after all writes for the previous span.
        entry.id.compare_exchange(0, id, Acquire, Relaxed).ok()?;
        // No other thread uses the span before this one passes it on, which orders these writes for that thread.
        entry.metadata.store(metadata, Relaxed);
        entry.link.store(0, Relaxed);
        entry.has_args.store(has_args, Relaxed);
        Some(entry)
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Entry> {
        self.place(id).filter(|entry| entry.id.load(Relaxed) == id)
    }

    pub(crate) fn remove(&self, id: u64) {
        if let Some(entry) = self.get(id) {
            entry.id.store(0, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_belongs_to_one_span_until_it_is_removed() {
        let spans = Spans::new();
        let first = spans.add(1, 10, true).unwrap();
        first.link.store(7, Relaxed);
        // Find another id with the same place.
        let place = std::ptr::from_ref(first);
        let other = (2..).find(|id| std::ptr::eq(place, spans.place(*id).unwrap())).unwrap();
        assert!(spans.add(other, 20, false).is_none() && spans.get(other).is_none());
        spans.remove(other);
        let known = spans.get(1).unwrap();
        assert_eq!((known.metadata(), known.link.load(Relaxed), known.has_args.load(Relaxed)), (10, 7, true));
        spans.remove(1);
        assert!(spans.get(1).is_none());
        let known = spans.add(other, 20, false).unwrap();
        assert_eq!((known.metadata(), known.link.load(Relaxed), known.has_args.load(Relaxed)), (20, 0, false));
    }
}
