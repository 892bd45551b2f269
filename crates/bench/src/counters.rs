//! Processor and kernel counters (perf_event_open(2)) over all threads that exist when counting starts.
//!
//! A virtual machine often has no performance monitoring unit, and the kernel may forbid counting; [`why`] then gives
//! the reason.

/// Events that can be counted, in user mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// CPU cycles, whatever the clock rate.
    Cycles,
    /// Instructions retired, without those of mispredicted paths.
    Instructions,
    /// Last-level cache misses, by the kernel's generic event for this processor.
    CacheMisses,
    /// Page faults, counted by the kernel without hardware.
    Faults,
}

#[cfg(feature = "counters")]
pub(crate) use perf::{start, stop, why};

#[cfg(feature = "counters")]
mod perf {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    use nix::errno::Errno;
    use perf_event::events::{Hardware, Software};
    use perf_event::{Builder, Counter};

    use super::Kind;

    /// Running counters, one per thread.
    static RUNNING: Mutex<Vec<(Kind, Vec<Counter>)>> = Mutex::new(Vec::new());

    fn builder(kind: Kind) -> Builder<'static> {
        match kind {
            Kind::Cycles => Builder::new(Hardware::CPU_CYCLES),
            Kind::Instructions => Builder::new(Hardware::INSTRUCTIONS),
            Kind::CacheMisses => Builder::new(Hardware::CACHE_MISSES),
            Kind::Faults => Builder::new(Software::PAGE_FAULTS),
        }
    }

    fn threads() -> io::Result<Vec<i32>> {
        let tasks = std::fs::read_dir("/proc/self/task")?;
        Ok(tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect())
    }

    fn open(kind: Kind) -> io::Result<Vec<Counter>> {
        let one = |thread| builder(kind).observe_pid(thread).any_cpu().build();
        // The thread ended after it was listed, so there is nothing to count.
        let ended = |made: &io::Result<Counter>| {
            made.as_ref().is_err_and(|error| error.raw_os_error().map(Errno::from_raw) == Some(Errno::ESRCH))
        };
        let made = threads()?.into_iter().map(one).filter(|made| !ended(made));
        let mut counters = made.collect::<io::Result<Vec<_>>>()?;
        // Enable them together, so that no counter counts the opening of another.
        counters.iter_mut().try_for_each(Counter::enable)?;
        Ok(counters)
    }

    /// Starts counting from 0; `None` if that is not possible.
    pub(crate) fn start(kind: Kind) -> Option<u64> {
        let counters = open(kind).ok()?;
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).push((kind, counters));
        Some(0)
    }

    /// Stops counting and returns the count. `None` if the processor multiplexed its counters: a scaled-up part is not
    /// a measurement.
    pub(crate) fn stop(kind: Kind) -> Option<u64> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let at = running.iter().rposition(|(own, _)| *own == kind)?;
        let (_, mut counters) = running.remove(at);
        counters.iter_mut().try_fold(0, |sum: u64, counter| {
            let read = counter.read_count_and_time().ok()?;
            (read.time_enabled == read.time_running).then(|| sum.saturating_add(read.count))
        })
    }

    /// The reason why `kind` cannot be counted here.
    pub(crate) fn why(kind: Kind) -> String {
        let error = match open(kind) {
            Ok(_) => return "the processor has too few counters for all requested events".into(),
            Err(error) => error,
        };
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP) => {
                "this machine has no such counter (a virtual machine without a performance monitoring unit)".into()
            }
            Some(Errno::EACCES | Errno::EPERM) => {
                let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
                let level = level.map_or_else(|_| "unreadable".to_string(), |level| level.trim().to_string());
                format!(
                    "the kernel forbids it: /proc/sys/kernel/perf_event_paranoid is {level}, and 2 or less, or CAP_PERFMON, permits it"
                )
            }
            Some(Errno::ENOSYS) => "this kernel was built without perf events".into(),
            _ => format!("perf_event_open failed: {error}"),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn page_faults_are_counted_or_unavailable_with_the_reason() {
            if start(Kind::Faults).is_none() {
                assert!(why(Kind::Faults).contains("perf"), "{}", why(Kind::Faults));
                return;
            }
            let fresh = std::hint::black_box(vec![0_u8; 64 << 20]);
            let touched: u64 = fresh.iter().step_by(4096).map(|byte| u64::from(std::hint::black_box(*byte))).sum();
            let faults = stop(Kind::Faults).unwrap();
            assert_eq!(touched, 0);
            // A huge page faults once per 2 MB.
            assert!(faults >= 32, "{faults}");
            assert!(stop(Kind::Faults).is_none(), "it ended");
        }
    }
}

#[cfg(not(feature = "counters"))]
pub(crate) fn start(_: Kind) -> Option<u64> {
    None
}

#[cfg(not(feature = "counters"))]
pub(crate) fn stop(_: Kind) -> Option<u64> {
    None
}

#[cfg(not(feature = "counters"))]
pub(crate) fn why(kind: Kind) -> String {
    format!("{kind:?} are not counted: this program was built without the feature `counters`")
}
