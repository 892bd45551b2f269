//! Buffers of spans. They live as long as the program and are handed from one recording to the next, so that the hot
//! path holds plain references: no reference count, no lock, no `unsafe`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sync::locked;

/// Entries of a chunk; few for loom and Miri, which follow every access to each.
pub(crate) const CHUNK: usize = if cfg!(loom) {
    4
} else if cfg!(miri) {
    16
} else {
    1024
};

/// A buffer of [`CHUNK`] entries.
pub(crate) trait Chunked: Sync + 'static {
    fn fresh() -> &'static Self;
}

impl<T: Default + Sync + 'static> Chunked for [T] {
    fn fresh() -> &'static Self {
        Vec::leak((0..CHUNK).map(|_| T::default()).collect())
    }
}

/// Chunks that no recording uses.
pub(crate) struct Pool<C: ?Sized + 'static>(Mutex<Vec<&'static C>>);

impl<C: Chunked + ?Sized> Pool<C> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Makes sure that `chunks` are free.
    pub(crate) fn reserve(&self, chunks: usize) {
        let missing = chunks.saturating_sub(locked(&self.0).len());
        let fresh: Vec<&'static C> = (0..missing).map(|_| C::fresh()).collect();
        self.give(fresh);
    }

    /// A chunk, prepared by `clear`.
    pub(crate) fn take(&self, clear: impl Fn(&C)) -> &'static C {
        let known = locked(&self.0).pop();
        let chunk = known.unwrap_or_else(C::fresh);
        clear(chunk);
        chunk
    }

    /// Takes back chunks. The caller ensures that no thread writes to them any more.
    pub(crate) fn give(&self, chunks: impl IntoIterator<Item = &'static C>) {
        locked(&self.0).extend(chunks);
    }
}

/// Bytes that the threads of a recording may still use.
#[derive(Debug)]
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
    fn chunks_return_cleared() {
        static POOL: Pool<[AtomicU64]> = Pool::new();
        let clear = |chunk: &[AtomicU64]| chunk.iter().for_each(|entry| entry.store(0, Relaxed));
        let chunk = POOL.take(clear);
        chunk[7].store(7, Relaxed);
        POOL.give([chunk]);
        let again = POOL.take(clear);
        assert!(std::ptr::eq(chunk, again) && again.iter().all(|entry| entry.load(Relaxed) == 0));
    }
}
