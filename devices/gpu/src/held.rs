//! Device memory held by this process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of device memory held by this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Bytes held now.
    pub now: u64,
    /// Peak of the bytes held.
    pub most: u64,
    /// Bytes of `now` that no array uses: cached for reuse.
    pub kept: u64,
}

/// Counts allocations and frees.
#[derive(Debug, Default)]
pub(crate) struct Held {
    now: AtomicU64,
    most: AtomicU64,
}

impl Held {
    /// Adds an allocation of `bytes`.
    pub(crate) fn take(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Relaxed) + bytes;
        self.most.fetch_max(now, Relaxed);
    }

    /// Subtracts a freed allocation of `bytes`.
    pub(crate) fn give(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Relaxed);
    }

    /// A snapshot; `kept` is the number of bytes cached for reuse.
    pub(crate) fn memory(&self, kept: u64) -> Memory {
        Memory { now: self.now.load(Relaxed), most: self.most.load(Relaxed), kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_held_memory_stays_after_release() {
        let held = Held::default();
        held.take(100);
        held.take(50);
        held.give(100);
        held.take(20);
        assert_eq!(held.memory(7), Memory { now: 70, most: 150, kept: 7 });
    }
}
