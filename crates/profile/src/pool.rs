//! Buffers of spans. They live as long as the program and are handed from one recording to the next, so that the hot
//! path holds plain references: no reference count, no lock, no `unsafe`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::processor;
use crate::sync::locked;

/// Entries of a chunk; few for loom and Miri, which follow every access to each.
pub(crate) const CHUNK: usize = if cfg!(loom) {
    4
} else if cfg!(miri) {
    16
} else {
    1024
};

pub(crate) trait Chunked: Sync + 'static {
    fn fresh() -> &'static Self;
}

impl<T: Default + Sync + 'static> Chunked for [T] {
    fn fresh() -> &'static Self {
        let mut list = Vec::with_capacity(CHUNK);
        (0..CHUNK).for_each(|_| list.push(T::default()));
        list.leak()
    }
}

/// Chunks that no recording uses, by the processor that gave them back: its caches have their lines, and taking over lines
/// that another processor has changed costs up to 5 ns a span.
pub(crate) struct Pool<C: ?Sized + 'static>(Mutex<Vec<Vec<&'static C>>>);

impl<C: Chunked + ?Sized> Pool<C> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A chunk, prepared by `clear`.
    pub(crate) fn take(&self, clear: impl Fn(&C)) -> &'static C {
        let chunk = self.take_free(processor()).unwrap_or_else(C::fresh);
        clear(chunk);
        chunk
    }

    /// The free chunk that this processor gave back last, or else one of another.
    fn take_free(&self, here: usize) -> Option<&'static C> {
        let mut free = locked(&self.0);
        let own = free.get_mut(here).and_then(Vec::pop);
        own.or_else(|| free.iter_mut().find_map(Vec::pop))
    }

    /// Takes back chunks. The caller ensures that no thread writes to them any more.
    pub(crate) fn give(&self, chunks: &mut Vec<&'static C>) {
        self.give_from(processor(), chunks);
    }

    fn give_from(&self, here: usize, chunks: &mut Vec<&'static C>) {
        let mut free = locked(&self.0);
        while free.len() <= here {
            free.push(Vec::new());
        }
        free[here].append(chunks);
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
        let chunk = || -> &'static [AtomicU64] { Chunked::fresh() };
        let (mine, other, last) = (chunk(), chunk(), chunk());
        let pool: Pool<[AtomicU64]> = Pool::new();
        pool.give_from(1, &mut vec![mine]);
        pool.give_from(2, &mut vec![other, last]);
        let is = |taken: Option<&'static [AtomicU64]>, chunk| taken.is_some_and(|taken| std::ptr::eq(taken, chunk));
        assert!(is(pool.take_free(1), mine));
        assert!(is(pool.take_free(1), last) && is(pool.take_free(7), other));
        assert!(pool.take_free(2).is_none());
    }

    #[test]
    fn chunks_return_cleared() {
        static POOL: Pool<[AtomicU64]> = Pool::new();
        let clear = |chunk: &[AtomicU64]| chunk.iter().for_each(|entry| entry.store(0, Relaxed));
        let chunk = POOL.take(clear);
        chunk[7].store(7, Relaxed);
        POOL.give(&mut vec![chunk]);
        let again = POOL.take(clear);
        assert!(std::ptr::eq(chunk, again) && again.iter().all(|entry| entry.load(Relaxed) == 0));
    }
}
