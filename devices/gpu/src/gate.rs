//! The gate: a kernel that spins until the host says that everything to be timed is queued.

use super::{Source, files};

/// The kernel of the gate. It is the one source that the tests cannot run without a GPU.
pub(super) static SOURCE: Source = Source { name: "gate.cu", text: files!("gate.cu"), options: &[] };

/// Launches that may wait behind a closed gate. The queue of a stream holds about a thousand; a launch into a full queue
/// would wait for a device that waits for us.
pub(super) const MOST_LAUNCHES: u32 = 500;

/// After this time the gate opens by itself.
pub(super) const LIMIT_NS: u64 = 100_000_000;

/// Where the gate of a stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nothing is being timed.
    Idle,
    /// The stream is held back; so many launches are queued behind it.
    Closed(u32),
    /// It was opened early because the queue was getting full: the device runs while the host still queues.
    Early,
    /// It was opened because something had to wait for the device before the end: the device's clock says nothing.
    Broken,
    /// The end was recorded and the gate opened.
    Ended,
}

impl Gate {
    /// A launch is queued; whether the gate must be opened now.
    pub(super) fn launched(&mut self) -> bool {
        let Gate::Closed(launches) = self else { return false };
        *launches += 1;
        let full = *launches >= MOST_LAUNCHES;
        if full {
            *self = Gate::Early;
        }
        full
    }

    /// Something is about to wait for the device, or touches it outside the stream; whether the gate must be opened first.
    pub(super) fn disturbed(&mut self) -> bool {
        let closed = matches!(self, Gate::Closed(_));
        if matches!(self, Gate::Closed(_) | Gate::Early) {
            *self = Gate::Broken;
        }
        closed
    }

    /// The work is all queued and the host is about to wait for it; whether the end must be recorded now.
    pub(super) fn ended(&mut self) -> bool {
        let running = matches!(self, Gate::Closed(_) | Gate::Early);
        if running {
            *self = Gate::Ended;
        }
        running
    }

    /// Back to idle; whether the two events tell a time.
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
        assert_eq!((0..2 * MOST_LAUNCHES).filter(|_| gate.launched()).count(), 1);
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
