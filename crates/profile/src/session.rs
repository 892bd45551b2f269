//! A session: the time between switching spans on and off, and what was recorded in it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::{calibration, ticks};
use crate::column::Budget;
use crate::lane::{EPOCH, Lane};
use crate::site;
use crate::trace::{SiteInfo, Trace, TraceLane};

/// Why no session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionError {
    /// One is running: spans of the whole process go to one session at a time.
    Running,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("a session of spans is running already; finish it before another starts"),
        }
    }
}

impl std::error::Error for SessionError {}

/// Spans are recorded while this lives. They cost some ten nanoseconds each then, so that nothing measured meanwhile is
/// a headline number.
///
/// Spans of all threads of the process are recorded. Nothing runs in the background.
#[derive(Debug)]
#[must_use = "the spans are recorded until the session is finished or goes"]
pub struct Session {
    epoch: u32,
    started_unix_ns: u64,
    start: u64,
}

/// The running session, as threads that join it see it.
struct Running {
    epoch: u32,
    budget: Arc<Budget>,
    lanes: Vec<Arc<Lane>>,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
/// Number of the last session.
static LAST: Mutex<u32> = Mutex::new(0);
/// Spans of threads past the end of their life, since the session began.
static LOST: AtomicU64 = AtomicU64::new(0);

fn running() -> MutexGuard<'static, Option<Running>> {
    // Every change is one assignment or one push, so that a panic leaves nothing half done.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Spans of a session unless it is told otherwise: 32 MiB.
pub const DEFAULT_CAPACITY: u64 = 1 << 20;

impl Session {
    /// Switches spans on, with room for [`DEFAULT_CAPACITY`] spans.
    ///
    /// # Errors
    /// When a session runs already.
    pub fn start() -> Result<Self, SessionError> {
        Self::with_capacity(DEFAULT_CAPACITY)
    }

    /// Switches spans on. `capacity` spans (32 bytes each; a span with counters counts twice) find room, over all
    /// threads; further ones are dropped and counted. Memory is taken as it is needed, by chunks.
    ///
    /// # Errors
    /// When a session runs already.
    pub fn with_capacity(capacity: u64) -> Result<Self, SessionError> {
        let mut running = running();
        if running.is_some() {
            return Err(SessionError::Running);
        }
        let epoch = {
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            // 0 means that no session runs.
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

    /// Switches spans off and returns what was recorded. Spans that are still open are counted, without a duration.
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
            activities: Vec::new(),
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

/// A lane for the calling thread, if session `epoch` still runs.
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

/// Counts a span that could not be kept because its thread is past the end of its life.
pub(crate) fn lose_one() {
    LOST.fetch_add(1, Relaxed);
}
