//! Atomics for values that one thread writes and another reads, and locks through which a lane passes between threads;
//! loom's versions under `cfg(loom)`, so its tests explore every order of these accesses.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::fork::Inside;

/// A locked table. Fields are dropped in this order: the lock is free before a fork may begin.
#[derive(Debug)]
pub(crate) struct Locked<'a, T: ?Sized> {
    value: MutexGuard<'a, T>,
    _inside: Inside,
}

impl<T: ?Sized> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Locks a table. Each change to a table is a single push or assignment, so a panic leaves it consistent.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> Locked<'_, T> {
    let inside = Inside::enter();
    Locked { value: mutex.lock().unwrap_or_else(PoisonError::into_inner), _inside: inside }
}

#[cfg(not(loom))]
pub(crate) use std::sync::Mutex as Handed;

#[cfg(loom)]
pub(crate) use loom::sync::Mutex as Handed;

#[cfg(not(loom))]
pub(crate) use locked as handed;

#[cfg(loom)]
pub(crate) fn handed<T>(mutex: &Handed<T>) -> loom::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
