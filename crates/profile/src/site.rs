//! Call sites: where in the source a span begins. A site is a static of the program and gets its number once.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A place in the source where spans begin. [`span!`](crate::span!) makes one for each place it stands at.
#[derive(Debug)]
pub struct Site {
    /// Name of the spans.
    pub name: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line.
    pub line: u32,
    /// Number in the table of sites, 0 while it has none.
    id: AtomicU32,
}

/// Every site that has ever been entered with spans on; a site's number is its place here plus one.
static SITES: Mutex<Vec<&'static Site>> = Mutex::new(Vec::new());

/// Sites of [`scope`](crate::scope), which has no static of its own to keep them in.
static SCOPES: OnceLock<Mutex<Scopes>> = OnceLock::new();

type Scopes = HashMap<(&'static str, &'static str, u32), &'static Site>;

/// A panic while one of these locks was held leaves the table whole: each change is one push.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Site {
    /// A site that has no number yet.
    pub const fn new(name: &'static str, file: &'static str, line: u32) -> Self {
        Self { name, file, line, id: AtomicU32::new(0) }
    }

    /// Its number, given now if it has none.
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
        // Another thread may have been faster; numbers are given under the lock only.
        let known = self.id.load(Relaxed);
        if known != 0 {
            return known;
        }
        sites.push(self);
        let id = u32::try_from(sites.len()).unwrap_or(u32::MAX);
        self.id.store(id, Relaxed);
        id
    }

    /// The site of a [`scope`](crate::scope). Names and places are static, so the table ends at what the source holds.
    pub(crate) fn of_scope(name: &'static str, place: &'static Location<'static>) -> &'static Site {
        let mut scopes = locked(SCOPES.get_or_init(Mutex::default));
        scopes
            .entry((name, place.file(), place.line()))
            .or_insert_with(|| Box::leak(Box::new(Site::new(name, place.file(), place.line()))))
    }
}

/// The sites known now; the site with number `id` stands at `id - 1`.
pub(crate) fn sites() -> Vec<&'static Site> {
    locked(&SITES).clone()
}
