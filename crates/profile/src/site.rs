//! Call sites: the source locations where spans start. A site is a static of the program and is numbered once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::alloc::apart;
use crate::kind::Kind;
use crate::options::Measures;
use crate::sync::locked;

/// A source location where spans start. Every use of [`span!`](crate::span!) makes one.
#[derive(Debug)]
pub struct Site {
    /// Name of its spans.
    pub name: &'static str,
    /// What its spans spend their time on.
    pub kind: Kind,
    /// What its spans always measure.
    pub measures: Measures,
    /// Source file, as `file!()` gives it.
    pub file: &'static str,
    /// Line in that file, from 1.
    pub line: u32,
    /// Number in the table of sites, 0 if not registered yet.
    id: AtomicU32,
    #[cfg(feature = "itt")]
    pub(crate) handle: crate::itt::Handle,
}

/// Every site that was entered during a recording; the number of a site is its index plus one.
static SITES: Mutex<Vec<&'static Site>> = Mutex::new(Vec::new());

impl Site {
    /// A site of CPU work that is not registered yet.
    pub const fn new(name: &'static str, file: &'static str, line: u32) -> Self {
        Self {
            name,
            kind: Kind::Cpu,
            measures: Measures::NONE,
            file,
            line,
            id: AtomicU32::new(0),
            #[cfg(feature = "itt")]
            handle: crate::itt::Handle::new(),
        }
    }

    /// The site with another kind.
    #[must_use]
    pub const fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The site with spans that always measure `measures`.
    #[must_use]
    pub const fn measure(mut self, measures: Measures) -> Self {
        self.measures = measures;
        self
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
        let _apart = apart();
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
}

/// All sites registered so far; the site with number `id` is at index `id - 1`.
pub(crate) fn sites() -> Vec<&'static Site> {
    locked(&SITES).clone()
}
