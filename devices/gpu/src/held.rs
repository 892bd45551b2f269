//! How much memory of a device this process holds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes held on a device by this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Now.
    pub now: u64,
    /// At most, at any time.
    pub most: u64,
    /// Of what is held now, what nobody's arrays take: kept for the next use.
    pub kept: u64,
}

/// Counts what is allocated and given back.
#[derive(Debug, Default)]
pub(crate) struct Held {
    now: AtomicU64,
    most: AtomicU64,
}

impl Held {
    /// So many bytes were allocated.
    pub(crate) fn take(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Relaxed) + bytes;
        self.most.fetch_max(now, Relaxed);
    }

    /// So many were given back.
    pub(crate) fn give(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Relaxed);
    }

    /// What is held, of which `kept` bytes for the next use.
    pub(crate) fn memory(&self, kept: u64) -> Memory {
        Memory { now: self.now.load(Relaxed), most: self.most.load(Relaxed), kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_was_ever_held_stays_when_it_is_given_back() {
        let held = Held::default();
        held.take(100);
        held.take(50);
        held.give(100);
        held.take(20);
        assert_eq!(held.memory(7), Memory { now: 70, most: 150, kept: 7 });
    }
}
