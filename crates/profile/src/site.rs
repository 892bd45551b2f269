//! Call sites: the source locations where spans start. A site is a static of the program and is numbered once.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A source location where spans start. Every use of [`span!`](crate::span!) makes one.
#[derive(Debug)]
pub struct Site {
    /// Name of its spans.
    pub name: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line.
    pub line: u32,
    /// Number in the table of sites, 0 if not registered yet.
    id: AtomicU32,
}

/// Every site that was entered during a session; the number of a site is its index plus one.
static SITES: Mutex<Vec<&'static Site>> = Mutex::new(Vec::new());

/// Sites of [`scope`](crate::scope), which has no static to store them in.
static SCOPES: OnceLock<Mutex<Scopes>> = OnceLock::new();

type Scopes = HashMap<(&'static str, &'static str, u32), &'static Site>;

/// Locks a table. A panic while it was held leaves it consistent, since each change is one push.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Site {
    /// A site that is not registered yet.
    pub const fn new(name: &'static str, file: &'static str, line: u32) -> Self {
        Self { name, file, line, id: AtomicU32::new(0) }
    }

    /// Its number; registers the site on the first call.
    #[inline]
    pub(crate) fn id(&'static self) -> u32 {
        match self.id.load(Relaxed) {
            0 => self.register(),
            id => id,
        }
    }

    #[cold]
    fn register(&'static self) -> u32 {
        let mut sites = locked(&SITES);
        // Another thread may have registered it; numbers are assigned only under the lock.
        let known = self.id.load(Relaxed);
        if known != 0 {
            return known;
        }
        sites.push(self);
        let id = u32::try_from(sites.len()).unwrap_or(u32::MAX);
        self.id.store(id, Relaxed);
        id
    }

    /// The site of a [`scope`](crate::scope). Names and locations are static, so the table is bounded by the source.
    pub(crate) fn of_scope(name: &'static str, place: &'static Location<'static>) -> &'static Site {
        let mut scopes = locked(SCOPES.get_or_init(Mutex::default));
        scopes
            .entry((name, place.file(), place.line()))
            .or_insert_with(|| Box::leak(Box::new(Site::new(name, place.file(), place.line()))))
    }
}

/// All sites registered so far; the site with number `id` is at index `id - 1`.
pub(crate) fn sites() -> Vec<&'static Site> {
    locked(&SITES).clone()
}
