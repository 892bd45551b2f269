//! Working memory that jobs on several threads borrow; allocated before anything is timed.

use std::sync::{Mutex, MutexGuard};

use ellwand_core::tensor::Buffer;
use ellwand_simd::pool;

/// One buffer per working thread; a thread that finds none free waits.
pub struct Scratch {
    slots: Vec<Mutex<Buffer<f32>>>,
}

/// A buffer of `len` zeros.
pub fn zeros(len: usize) -> Buffer<f32> {
    Buffer::filled(len, 0.0)
}

impl Scratch {
    /// Allocates `threads` buffers of `len` values.
    pub fn new(threads: usize, len: usize) -> Self {
        Self { slots: (0..threads.max(1)).map(|_| Mutex::new(zeros(len))).collect() }
    }

    /// Borrows a free buffer.
    pub fn borrow(&self) -> MutexGuard<'_, Buffer<f32>> {
        pool::free(&self.slots)
    }

    /// Size of all buffers in bytes.
    pub fn bytes(&self) -> u64 {
        let len = |slot: &Mutex<Buffer<f32>>| slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner).len();
        self.slots.iter().map(|slot| 4 * len(slot) as u64).sum()
    }
}
