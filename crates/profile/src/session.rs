//! A session: a recording of the whole process that ends with a value.

use std::fmt;

use crate::options::{DEFAULT_CAPACITY, Mode, Options};
use crate::profiler::Profiler;
use crate::trace::Trace;

/// Why a recording cannot start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionError {
    /// The profiler is already recording; or, for sessions and the global profiler, the other of the two is.
    Running,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str(
                "already recording: the threads that entered no profiler have one session or the global profiler; \
                 finish it first, or use Profiler::new and enter it",
            ),
        }
    }
}

impl std::error::Error for SessionError {}

/// While it lives, records the spans of all threads that have entered no [`Profiler`]. Each span then costs tens of
/// nanoseconds, so times measured in a session are not headline numbers.
#[derive(Debug)]
#[must_use = "spans are recorded until the session is finished or dropped"]
pub struct Session(Profiler);

impl Session {
    /// Starts recording, with room for [`DEFAULT_CAPACITY`] spans.
    ///
    /// # Errors
    /// If a session or the global profiler is recording.
    pub fn start() -> Result<Self, SessionError> {
        Self::with_capacity(DEFAULT_CAPACITY)
    }

    /// Starts recording, with room for `capacity` spans over all threads (32 bytes each; a span with counters counts
    /// twice). Further spans are aggregated, and counted as dropped. Memory is allocated in chunks as needed: [`Mode::Full`].
    ///
    /// # Errors
    /// If a session or the global profiler is recording.
    pub fn with_capacity(capacity: u64) -> Result<Self, SessionError> {
        let profiler = Profiler::idle(true);
        profiler.start(Options::new(Mode::Full { bytes: capacity.saturating_mul(32) }))?;
        Ok(Self(profiler))
    }

    /// Stops recording and returns the trace. Spans that are still open are counted but have no duration.
    pub fn finish(self) -> Trace {
        self.0.finish()
    }
}
