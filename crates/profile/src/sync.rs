//! Atomics of the types that one thread writes and another reads; loom's under `cfg(loom)`, so that its tests see every
//! order of these accesses.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a table. Each change to one is a single push or assignment, so a panic leaves it consistent.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
