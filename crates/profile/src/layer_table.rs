//! What the layer keeps of each span of `tracing`, in a table with a fixed place for every number: a look-up in the
//! registry and a value in its map cost five times as much.
//!
//! A span stays in the table from its creation until the registry closes it, and everything that asks for a span happens
//! after its creation and while it lives. So an entry with the number of a span is that of the span. Two spans with the
//! same place are rare; the later one is kept in the registry.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

/// Places; a power of two.
const PLACES: usize = if cfg!(miri) { 64 } else { 2048 };

/// A span, on a cache line: threads that work on different spans do not wait for each other.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// Number of the span, 0 if the place is free.
    id: AtomicU64,
    metadata: AtomicUsize,
    /// Link of its first entry, 0 before.
    pub(crate) link: AtomicU32,
    /// True if the registry has fields that no entry has yet.
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
        // Numbers of spans differ in their low bits, and by thread in their high ones.
        let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        self.0.get(mixed as usize % PLACES)
    }

    /// Adds a span that was just created; `None` if its place is taken.
    pub(crate) fn add(&self, id: u64, metadata: usize, has_args: bool) -> Option<&Entry> {
        let entry = self.place(id)?;
        // After everything that was written for the span before.
        entry.id.compare_exchange(0, id, Acquire, Relaxed).ok()?;
        // No other thread asks for the span before this one hands it on, which orders these writes for it.
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
        // Some number has the same place.
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
