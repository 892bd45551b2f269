//! The gate: a kernel that spins until the host has queued all the work to be timed.

use super::{Source, files};

/// The kernel of the gate, the only source that tests cannot run without a GPU.
pub(super) static SOURCE: Source = Source { name: "gate.cu", text: files!("gate.cu"), options: &[] };

/// Maximum number of launches queued after a closed gate. A stream's queue holds about a thousand; a launch into a full
/// queue would deadlock, since the device waits for the host.
pub(super) const MAX_LAUNCHES: u32 = 500;

/// The gate opens by itself after this many nanoseconds.
pub(super) const LIMIT_NS: u64 = 100_000_000;

/// State of a stream's gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nothing is being timed.
    Idle,
    /// The gate holds the stream back; the count is of launches queued since.
    Closed(u32),
    /// Opened early because the queue was nearly full: the device runs while the host still queues.
    Early,
    /// Opened before the end because something had to wait for the device: the device time is invalid.
    Broken,
    /// The end event was recorded and the gate opened.
    Ended,
}

impl Gate {
    /// Call after queueing a launch. True if the gate must be opened now.
    pub(super) fn launched(&mut self) -> bool {
        let Gate::Closed(launches) = self else { return false };
        *launches += 1;
        let full = *launches >= MAX_LAUNCHES;
        if full {
            *self = Gate::Early;
        }
        full
    }

    /// Call before waiting for the device or bypassing the stream. True if the gate must be opened first.
    pub(super) fn disturbed(&mut self) -> bool {
        let closed = matches!(self, Gate::Closed(_));
        if matches!(self, Gate::Closed(_) | Gate::Early) {
            *self = Gate::Broken;
        }
        closed
    }

    /// Call when all work is queued and the host is about to wait. True if the end event must be recorded now.
    pub(super) fn ended(&mut self) -> bool {
        let running = matches!(self, Gate::Closed(_) | Gate::Early);
        if running {
            *self = Gate::Ended;
        }
        running
    }

    /// Returns to idle. True if the two events give a valid time.
    pub(super) fn stopped(&mut self) -> bool {
        std::mem::replace(self, Gate::Idle) == Gate::Ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_only_launches_is_timed_between_its_events() {
        let mut gate = Gate::Closed(0);
        assert!(!gate.launched());
        assert!(gate.ended(), "the first wait records the end");
        assert!(!gate.ended(), "once");
        assert!(gate.stopped());
        assert_eq!(gate, Gate::Idle);
        assert!(!gate.stopped(), "nothing was timed");
    }

    #[test]
    fn a_full_queue_opens_the_gate_once_and_the_time_still_counts() {
        let mut gate = Gate::Closed(0);
        assert_eq!((0..2 * MAX_LAUNCHES).filter(|_| gate.launched()).count(), 1);
        assert!(gate.ended() && gate.stopped());
    }

    #[test]
    fn whatever_waits_in_the_middle_breaks_the_device_time_and_never_hangs() {
        let mut gate = Gate::Closed(3);
        assert!(gate.disturbed(), "it is opened before the host waits");
        assert!(!gate.disturbed() && !gate.ended() && !gate.stopped());
        let mut idle = Gate::Idle;
        assert!(!idle.disturbed() && !idle.launched() && !idle.ended() && !idle.stopped());
    }
}
