//! Detects that the machine was suspended, or that its clock stepped back, while something was measured.
//!
//! The clock of the slots stops during a suspend, so no time shows it. But the processor wakes with cold caches, cooled
//! down and at another clock rate, so times before and after must not be compared.

use std::cell::Cell;
use std::time::Duration;

use ellwand_core::record::Outcome;
use nix::time::{ClockId, clock_gettime};

/// Shortest suspend or step back that counts. Without one the difference of the two clocks is constant, and the readings
/// bound what a preemption between them adds, so the limit only has to exceed the rounding of the clocks; stopping and
/// waking the devices of a machine takes far longer.
const LEAST: Duration = Duration::from_millis(1);

/// A reading of the clock that goes on during a suspend, between two of the one that stops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    before: Duration,
    going_on: Duration,
    after: Duration,
}

impl Reading {
    /// `None` if the system has no such clocks.
    fn now() -> Option<Self> {
        let read = |clock| clock_gettime(clock).ok().map(Duration::from);
        let (stops, goes_on) = (ClockId::CLOCK_MONOTONIC, ClockId::CLOCK_BOOTTIME);
        Some(Self { before: read(stops)?, going_on: read(goes_on)?, after: read(stops)? })
    }

    /// The least time for which the machine was suspended since `start`, whatever interrupted the two readings.
    fn suspended_since(&self, start: &Self) -> Duration {
        let went_on = self.going_on.saturating_sub(start.going_on);
        went_on.saturating_sub(self.after.saturating_sub(start.before))
    }

    /// How far one of the clocks is behind `last`, an earlier reading.
    fn stepped_back_since(&self, last: &Self) -> Duration {
        let stops = last.after.max(self.before).saturating_sub(self.before.min(self.after));
        stops.max(last.going_on.saturating_sub(self.going_on))
    }
}

/// Watches for a suspend from its creation on.
pub(crate) struct Awake {
    clocks: Box<dyn Fn() -> Option<Reading>>,
    start: Option<Reading>,
    last: Cell<Option<Reading>>,
}

impl Awake {
    pub(crate) fn new() -> Self {
        Self::on(Box::new(Reading::now))
    }

    fn on(clocks: Box<dyn Fn() -> Option<Reading>>) -> Self {
        let start = clocks();
        Self { clocks, start, last: Cell::new(start) }
    }

    /// # Errors
    /// [`Outcome::Failed`] if the machine was suspended, or a clock stepped back, since the watch began.
    pub(crate) fn check(&self) -> Result<(), Outcome> {
        let Some((start, now)) = self.start.zip((self.clocks)()) else { return Ok(()) };
        let back = self.last.replace(Some(now)).map_or(Duration::ZERO, |last| now.stepped_back_since(&last));
        if back >= LEAST {
            let error = format!(
                "the clock of this machine stepped back by {:.3} s while this was measured, so times around it are wrong; \
                 measure again, with a monotonic clock",
                back.as_secs_f64()
            );
            return Err(Outcome::Failed { error });
        }
        let suspended = now.suspended_since(&start);
        if suspended < LEAST {
            return Ok(());
        }
        let error = format!(
            "the machine was suspended for {:.3} s while this was measured, so times before and after it cannot be compared; \
             measure again on a machine that stays awake (systemd-inhibit COMMAND keeps it awake)",
            suspended.as_secs_f64()
        );
        Err(Outcome::Failed { error })
    }
}

/// Two clocks that tests set.
#[cfg(test)]
pub(crate) mod fake {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone, Default)]
    pub(crate) struct Clocks {
        /// Time for which the machine ran, and for which it was suspended.
        pub(crate) ran: Rc<Cell<Duration>>,
        pub(crate) suspended: Rc<Cell<Duration>>,
        /// Time that passes between two readings of clocks.
        pub(crate) preempted: Rc<Cell<Duration>>,
    }

    impl Clocks {
        pub(crate) fn watched(&self) -> Awake {
            let clocks = self.clone();
            Awake::on(Box::new(move || {
                let reading = |clocks: &Clocks| {
                    let now = clocks.ran.get();
                    clocks.ran.set(now + clocks.preempted.get());
                    now
                };
                let before = reading(&clocks);
                let going_on = reading(&clocks) + clocks.suspended.get();
                Some(Reading { before, going_on, after: reading(&clocks) })
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspend_is_distinguished_from_time_and_from_preemption() {
        let clocks = fake::Clocks::default();
        clocks.ran.set(Duration::from_secs(100));
        clocks.preempted.set(Duration::from_millis(40));
        let awake = clocks.watched();
        assert_eq!(awake.check(), Ok(()));
        clocks.ran.set(Duration::from_secs(5000));
        assert_eq!(awake.check(), Ok(()), "time alone is no suspend");
        clocks.preempted.set(Duration::ZERO);
        clocks.suspended.set(Duration::from_micros(999));
        assert_eq!(clocks.watched().check(), Ok(()), "it was suspended before the watch");
        let awake = clocks.watched();
        clocks.suspended.set(Duration::from_micros(999 + 999));
        assert_eq!(awake.check(), Ok(()), "too short");
        clocks.suspended.set(Duration::from_millis(12_346));
        let reason = awake.check().unwrap_err();
        let reason = reason.reason().unwrap();
        assert!(reason.starts_with("the machine was suspended for 12.345 s while this was measured"), "{reason}");
        assert_eq!(Awake::on(Box::new(|| None)).check(), Ok(()), "a system without these clocks");
    }

    #[test]
    fn a_clock_that_steps_back_is_no_suspend() {
        let check = |ran: f64, suspended: f64| {
            let clocks = fake::Clocks::default();
            clocks.ran.set(Duration::from_secs(100));
            let awake = clocks.watched();
            clocks.ran.set(Duration::from_secs(160));
            assert_eq!(awake.check(), Ok(()));
            clocks.ran.set(Duration::from_secs_f64(ran));
            clocks.suspended.set(Duration::from_secs_f64(suspended));
            awake.check().map_err(|outcome| outcome.reason().unwrap().to_string())
        };
        for (ran, suspended, back) in [(90.0, 0.0, "70.000"), (90.0, 80.0, "70.000"), (150.0, 20.0, "10.000")] {
            let reason = check(ran, suspended).unwrap_err();
            assert!(reason.starts_with(&format!("the clock of this machine stepped back by {back} s")), "{reason}");
        }
        assert_eq!(check(159.9995, 0.0), Ok(()), "too short");
        assert!(check(161.0, 20.0).unwrap_err().starts_with("the machine was suspended for 20.000 s"));
    }

    #[test]
    fn this_machine_has_both_clocks() {
        let (first, second) = (Reading::now().unwrap(), Reading::now().unwrap());
        assert!(first.before <= first.after && first.going_on <= second.going_on, "{first:?} {second:?}");
    }
}
