//! A lock-free column: one thread appends while any thread reads.
//!
//! Chunks double in size and never move, so a reader never sees one freed. Entries consist of atomics: the owner writes
//! them with relaxed stores (plain stores on common CPUs), and an early reader sees an old value, never a torn one.
//! Therefore no `unsafe` is needed here.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Entries in the first chunk; each next chunk doubles.
const FIRST: usize = 1024;
/// Number of chunks that covers every `u32` index.
const CHUNKS: usize = 22;

/// A number of entries shared by several columns.
#[derive(Debug)]
pub(crate) struct Budget(AtomicU64);

impl Budget {
    pub(crate) fn new(entries: u64) -> Self {
        Self(AtomicU64::new(entries))
    }

    /// Takes up to `wanted` entries; returns the number taken.
    fn claim(&self, wanted: u64) -> u64 {
        let taken = self.0.fetch_update(Relaxed, Relaxed, |left| Some(left - left.min(wanted)));
        taken.unwrap_or_else(|left| left).min(wanted)
    }
}

/// An append-only column. Callers ensure that only one thread appends; a second one could lose entries, but nothing
/// worse.
#[derive(Debug)]
pub(crate) struct Column<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
    length: AtomicU32,
}

impl<T: Default> Column<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS], length: AtomicU32::new(0) }
    }

    /// The chunk of `index` and the position in it.
    #[inline]
    fn place(index: u32) -> (usize, usize) {
        let shifted = index as usize + FIRST;
        let chunk = (shifted.ilog2() - FIRST.ilog2()) as usize;
        (chunk, shifted - (FIRST << chunk))
    }

    /// The entry at `index`, if its chunk is allocated.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (chunk, at) = Self::place(index);
        self.chunks.get(chunk)?.get()?.get(at)
    }

    /// Number of entries appended. Values written to an entry before it was appended are visible after this call.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.length.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Index of the next entry, for the appending thread.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.length.load(Relaxed)
    }

    /// Publishes the entry at [`Column::next`], which its owner has filled.
    #[inline]
    pub(crate) fn append(&self) {
        self.length.store(self.next() + 1, std::sync::atomic::Ordering::Release);
    }

    /// Allocates the next chunk if the entry at [`Column::next`] needs one. It takes entries from `budget`; a chunk
    /// shortened by the budget is the last one.
    #[cold]
    pub(crate) fn grow(&self, budget: &Budget) {
        let (chunk, _) = Self::place(self.next());
        let Some(room) = self.chunks.get(chunk) else { return };
        room.get_or_init(|| {
            let entries = budget.claim((FIRST << chunk) as u64);
            (0..entries).map(|_| T::default()).collect()
        });
    }

    /// True if the chunk of the next entry has not been requested yet.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let (chunk, _) = Self::place(self.next());
        self.chunks.get(chunk).is_some_and(|room| room.get().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(column: &Column<AtomicU64>, budget: &Budget, value: u64) -> bool {
        if column.is_due() {
            column.grow(budget);
        }
        let Some(entry) = column.get(column.next()) else { return false };
        entry.store(value, Relaxed);
        column.append();
        true
    }

    #[test]
    fn indices_map_to_consecutive_places() {
        let mut expected = (0, 0);
        for index in 0..100_000 {
            assert_eq!(Column::<AtomicU64>::place(index), expected, "{index}");
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(Column::<AtomicU64>::place(u32::MAX - 1).0 < CHUNKS + 1);
    }

    #[test]
    fn the_budget_limits_the_column_exactly() {
        for entries in [0, 1, 1023, 1024, 1025, 5000] {
            let (column, budget) = (Column::new(), Budget::new(entries));
            let pushed = (0..10_000).filter(|value| push(&column, &budget, *value)).count() as u64;
            assert_eq!((pushed, u64::from(column.len())), (entries, entries));
        }
    }

    #[test]
    fn a_reader_sees_every_appended_entry_whole_while_the_owner_writes() {
        let entries = if cfg!(miri) { 2_000 } else { 300_000 };
        let (column, budget) = (Column::new(), Budget::new(entries));
        std::thread::scope(|threads| {
            threads.spawn(|| (0..entries).for_each(|value| assert!(push(&column, &budget, value ^ 0xABCD))));
            for _ in 0..2 {
                threads.spawn(|| {
                    let mut seen = 0;
                    while u64::from(seen) < entries {
                        let length = column.len();
                        assert!(length >= seen);
                        for index in seen..length {
                            let value = column.get(index).map(|entry| entry.load(Relaxed));
                            assert_eq!(value, Some(u64::from(index) ^ 0xABCD));
                        }
                        seen = length;
                        std::thread::yield_now();
                    }
                });
            }
        });
    }
}
