//! Buffers of spans. They live as long as the program and pass from one recording to the next, so the hot path holds
//! plain references: no reference count, no lock, no `unsafe`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::processor;
use crate::heap;
use crate::sync::locked;

/// Maximum number of entries of a chunk; small for loom and Miri, which track every access.
pub(crate) const CHUNK: usize = if cfg!(loom) {
    4
} else if cfg!(miri) {
    16
} else {
    1024
};

/// Entries of a thread's first chunk. Each further chunk has twice as many, up to [`CHUNK`], so a thread with few spans
/// takes little of the budget.
pub(crate) const FIRST: usize = if cfg!(any(loom, miri)) { 4 } else { 16 };
/// Number of chunk sizes below [`CHUNK`].
const GROWING: usize = (CHUNK / FIRST).ilog2() as usize;

/// Entries of a thread's chunk `number`.
pub(crate) fn length(number: usize) -> usize {
    FIRST << number.min(GROWING)
}

/// The number of the chunk that contains an entry, and the entry's index in it.
pub(crate) fn place(index: usize) -> (usize, usize) {
    let number = ((index / FIRST + 1).ilog2() as usize).min(GROWING);
    let rest = index - FIRST * ((1 << number) - 1);
    (number + rest / length(number), rest % length(number))
}

pub(crate) trait Chunked: Sync + 'static {
    fn fresh(length: usize) -> &'static Self;
}

impl<T: Default + Sync + 'static> Chunked for [T] {
    fn fresh(length: usize) -> &'static Self {
        let mut list = Vec::with_capacity(length);
        (0..length).for_each(|_| list.push(T::default()));
        list.leak()
    }
}

/// Free chunks, by length and by the processor that gave them back: its caches hold their lines, and fetching lines
/// that another processor has changed costs up to 5 ns per span.
pub(crate) struct Pool<C: ?Sized + 'static>([Mutex<Vec<Vec<&'static C>>>; GROWING + 1]);

impl<C: Chunked + ?Sized> Pool<C> {
    pub(crate) const fn new() -> Self {
        Self([const { Mutex::new(Vec::new()) }; GROWING + 1])
    }

    /// A thread's chunk `number`, prepared by `clear`.
    pub(crate) fn take(&self, number: usize, clear: impl Fn(&C)) -> &'static C {
        let chunk = self.take_free(number, processor()).unwrap_or_else(|| {
            let chunk = C::fresh(length(number));
            heap::exclude(size_of_val(chunk));
            chunk
        });
        clear(chunk);
        chunk
    }

    /// The free chunk that this processor gave back last, or else one from another processor.
    fn take_free(&self, number: usize, here: usize) -> Option<&'static C> {
        let mut free = locked(&self.0[number.min(GROWING)]);
        let own = free.get_mut(here).and_then(Vec::pop);
        own.or_else(|| free.iter_mut().find_map(Vec::pop))
    }

    /// Takes back a thread's chunks, in order. The caller ensures that no thread writes to them any more.
    pub(crate) fn give(&self, chunks: &mut Vec<&'static C>) {
        self.give_from(processor(), chunks);
    }

    fn give_from(&self, here: usize, chunks: &mut Vec<&'static C>) {
        for (number, chunk) in chunks.drain(..).enumerate() {
            let mut free = locked(&self.0[number.min(GROWING)]);
            while free.len() <= here {
                free.push(Vec::new());
            }
            free[here].push(chunk);
        }
    }
}

/// Bytes that the threads of a recording may still use.
#[derive(Debug, Default)]
pub(crate) struct Budget(AtomicU64);

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes memory for up to `wanted` entries of `size` bytes; returns the number of entries granted.
    pub(crate) fn claim(&self, wanted: usize, size: usize) -> usize {
        let size = size.max(1) as u64;
        let entries = |left: u64| (left / size).min(wanted as u64);
        let before = self.0.fetch_update(Relaxed, Relaxed, |left| Some(left - entries(left) * size));
        entries(before.unwrap_or_else(|left| left)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_shared_exactly() {
        for bytes in [0, 31, 32, 1000, 1024 * 32, 100_000] {
            let budget = Budget::new(bytes);
            let mut granted = 0;
            loop {
                match budget.claim(CHUNK, 32) {
                    0 => break,
                    entries => granted += entries as u64,
                }
            }
            assert_eq!(granted, bytes / 32);
        }
    }

    #[test]
    fn a_processor_gets_its_own_chunks_back_as_long_as_it_has_any() {
        let chunk = || -> &'static [AtomicU64] { Chunked::fresh(FIRST) };
        let (mine, other, last) = (chunk(), chunk(), chunk());
        let pool: Pool<[AtomicU64]> = Pool::new();
        [(1, mine), (2, other), (2, last)].into_iter().for_each(|(here, chunk)| pool.give_from(here, &mut vec![chunk]));
        let is = |taken: Option<&'static [AtomicU64]>, chunk| taken.is_some_and(|taken| std::ptr::eq(taken, chunk));
        assert!(is(pool.take_free(0, 1), mine));
        assert!(is(pool.take_free(0, 1), last) && is(pool.take_free(0, 7), other));
        assert!(pool.take_free(0, 2).is_none());
    }

    #[test]
    fn chunks_return_cleared() {
        static POOL: Pool<[AtomicU64]> = Pool::new();
        let clear = |chunk: &[AtomicU64]| chunk.iter().for_each(|entry| entry.store(0, Relaxed));
        let chunk = POOL.take(0, clear);
        chunk[3].store(7, Relaxed);
        POOL.give(&mut vec![chunk]);
        let again = POOL.take(0, clear);
        assert!(std::ptr::eq(chunk, again) && again.iter().all(|entry| entry.load(Relaxed) == 0));
    }

    #[test]
    fn chunks_grow_and_return_to_their_length() {
        let lengths: Vec<usize> = (0..=GROWING + 2).map(length).collect();
        assert_eq!((lengths[0], &lengths[GROWING..]), (FIRST, &[CHUNK; 3][..]));
        let places = lengths.iter().enumerate().flat_map(|(number, length)| (0..*length).map(move |at| (number, at)));
        for (index, expected) in places.enumerate() {
            assert_eq!(place(index), expected);
        }
        static POOL: Pool<[AtomicU64]> = Pool::new();
        let take = || (0..lengths.len()).map(|number| POOL.take(number, |_| {})).collect::<Vec<_>>();
        for _ in 0..2 {
            let mut chunks = take();
            assert!(chunks.iter().map(|chunk| chunk.len()).eq(lengths.iter().copied()));
            POOL.give(&mut chunks);
        }
    }
}
