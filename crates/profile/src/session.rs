//! A session: the time during which spans are on, and what was recorded in it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::{calibration, ticks};
use crate::column::Budget;
use crate::lane::{EPOCH, Lane};
use crate::site;
use crate::trace::{SiteInfo, Trace, TraceLane};

/// Why a session cannot start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionError {
    /// A session is running; the spans of a process go to one session at a time.
    Running,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("a session of spans is running already; finish it before starting another"),
        }
    }
}

impl std::error::Error for SessionError {}

/// Records spans while it lives. Each span then costs some ten nanoseconds, so times measured in a session are not
/// headline numbers.
///
/// Records the spans of all threads of the process. Nothing runs in the background.
#[derive(Debug)]
#[must_use = "spans are recorded until the session is finished or dropped"]
pub struct Session {
    epoch: u32,
    started_unix_ns: u64,
    start: u64,
}

/// The running session as seen by threads that join it.
struct Running {
    epoch: u32,
    budget: Arc<Budget>,
    lanes: Vec<Arc<Lane>>,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
/// Number of the latest session.
static LAST: Mutex<u32> = Mutex::new(0);
/// Spans lost since the session began because their threads were ending.
static LOST: AtomicU64 = AtomicU64::new(0);

fn running() -> MutexGuard<'static, Option<Running>> {
    // Every change is one assignment or one push, so a panic leaves no partial change.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Spans per session by default: 32 MiB.
pub const DEFAULT_CAPACITY: u64 = 1 << 20;

impl Session {
    /// Starts recording, with room for [`DEFAULT_CAPACITY`] spans.
    ///
    /// # Errors
    /// If a session is running.
    pub fn start() -> Result<Self, SessionError> {
        Self::with_capacity(DEFAULT_CAPACITY)
    }

    /// Starts recording, with room for `capacity` spans over all threads (32 bytes each; a span with counters counts
    /// twice). Further spans are dropped and counted. Memory is allocated in chunks as needed.
    ///
    /// # Errors
    /// If a session is running.
    pub fn with_capacity(capacity: u64) -> Result<Self, SessionError> {
        let mut running = running();
        if running.is_some() {
            return Err(SessionError::Running);
        }
        let epoch = {
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            // 0 is reserved for "no session".
            *last = last.checked_add(1).unwrap_or(1);
            *last
        };
        LOST.store(0, Relaxed);
        *running = Some(Running { epoch, budget: Arc::new(Budget::new(capacity)), lanes: Vec::new() });
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_unix_ns = u64::try_from(started.as_nanos()).unwrap_or(u64::MAX);
        let start = ticks();
        EPOCH.store(epoch, Relaxed);
        Ok(Self { epoch, started_unix_ns, start })
    }

    /// Stops recording and returns the trace. Spans that are still open are counted but have no duration.
    pub fn finish(self) -> Trace {
        EPOCH.store(0, Relaxed);
        let end = ticks();
        let lanes = running().take().map(|running| running.lanes).unwrap_or_default();
        let sites = site::sites().iter().map(|site| SiteInfo::of(site)).collect();
        let lanes: Vec<TraceLane> = lanes.iter().map(|lane| TraceLane::of(&lane.name, lane.read())).collect();
        Trace {
            started_unix_ns: self.started_unix_ns,
            start: self.start,
            end,
            clock: calibration(),
            sites,
            lanes,
            lost: LOST.load(Relaxed),
            ..Trace::in_nanoseconds()
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut running = running();
        if running.as_ref().is_some_and(|running| running.epoch == self.epoch) {
            EPOCH.store(0, Relaxed);
            *running = None;
        }
    }
}

/// A lane for the calling thread, if session `epoch` is still running.
pub(crate) fn join(epoch: u32) -> Option<Arc<Lane>> {
    let mut running = running();
    let running = running.as_mut().filter(|running| running.epoch == epoch)?;
    let thread = std::thread::current();
    let number = running.lanes.len();
    let name = thread.name().map_or_else(|| format!("thread {number}"), str::to_string);
    let lane = Arc::new(Lane::new(name, running.budget.clone()));
    running.lanes.push(lane.clone());
    Some(lane)
}

/// Counts a span lost because its thread is ending.
pub(crate) fn count_lost() {
    LOST.fetch_add(1, Relaxed);
}
