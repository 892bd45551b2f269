//! A process that forks while its other threads hold locks of the profiler: the child can record and finish.
#![cfg(all(unix, not(miri)))]
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ellwand_profile::alloc::Counting;
use ellwand_profile::{Measures, Mode, Options, Profiler, get_profiler, span};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FORKS: usize = 200;
/// Bounds a hang; no test waits this long otherwise.
const DEADLINE: Duration = Duration::from_secs(60);

/// The child records a span with the global profiler and one with a separate profiler, and checks both traces; 0 if
/// they are right.
fn in_child() -> i32 {
    drop(span!("in the child"));
    let profiler = Profiler::new(Options::new(Mode::Aggregate));
    drop(profiler.profile("own"));
    let calls = profiler.finish().lanes.iter().flat_map(|lane| &lane.totals).map(|total| total.count).sum::<u64>();
    let trace = get_profiler().finish();
    let spans = trace.lanes.iter().flat_map(|lane| &lane.spans);
    let found = spans.filter(|span| trace.name(span) == "in the child" && span.end > 0).count();
    i32::from(found != 1) + 2 * i32::from(calls != 1)
}

/// The exit code of a child; `None` if it hangs.
fn wait(child: Pid) -> Option<i32> {
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap() {
            WaitStatus::Exited(_, code) => return Some(code),
            WaitStatus::StillAlive => std::thread::sleep(Duration::from_millis(1)),
            other => panic!("{other:?}"),
        }
    }
    kill(child, Signal::SIGKILL).unwrap();
    waitpid(child, None).unwrap();
    None
}

#[test]
#[allow(unsafe_code)]
fn a_child_inherits_no_lock_of_a_thread_that_it_lacks() {
    get_profiler().start(Options { measures: Measures::MEMORY, ..Options::default() }).unwrap();
    let done = AtomicBool::new(false);
    let failed = std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while !done.load(Relaxed) {
                    // Registers a recording, joins it, takes buffers, reads them and gives them back; large blocks are
                    // samples of the heap.
                    let profiler = Profiler::new(Options::new(Mode::Aggregate));
                    drop(profiler.profile("parent"));
                    drop(vec![0_u8; 1 << 20]);
                    assert_eq!(profiler.finish().lanes.len(), 1);
                }
            });
        }
        let child = |_| {
            // SAFETY: the child calls only what the profiler promises to work in it, and the allocator, whose locks the
            // C library keeps consistent across a fork; then it ends without running anything else.
            match unsafe { fork() }.unwrap() {
                // SAFETY: ends the process; what it was doing in other threads does not exist here.
                ForkResult::Child => unsafe { nix::libc::_exit(in_child()) },
                ForkResult::Parent { child } => wait(child),
            }
        };
        let failed = (0..FORKS).map(child).find(|code| *code != Some(0));
        done.store(true, Relaxed);
        failed
    });
    assert_eq!(failed, None, "a child hangs (None), lacks its own span (1) or that of its own profiler (2)");
    let trace = get_profiler().finish();
    assert!(trace.lanes.iter().all(|lane| lane.spans.is_empty()), "spans of children are not in the parent");
}

/// In a child, the CPU time of the thread starts at 0.
#[test]
#[allow(unsafe_code)]
fn a_span_around_a_fork_has_no_cpu_time_in_the_child() {
    let profiler = Profiler::new(Options { measures: Measures::CPU, ..Options::default() });
    let _entered = profiler.enter();
    let cpu_of = |name: &str| {
        let trace = profiler.snapshot();
        let lane = &trace.lanes[0];
        let span = lane.spans.iter().find(|span| trace.name(span) == name).unwrap();
        lane.detail_of(span).and_then(|detail| detail.cpu_ns)
    };
    let around = span!("around");
    // SAFETY: as above.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            drop(span!("inside"));
            drop(around);
            let code = i32::from(cpu_of("around").is_some()) + 2 * i32::from(cpu_of("inside").is_none());
            // SAFETY: as above.
            unsafe { nix::libc::_exit(code) }
        }
        ForkResult::Parent { child } => {
            drop(around);
            assert_eq!(wait(child), Some(0), "the span around has CPU time (1), the one inside has none (2)");
            assert!(cpu_of("around").is_some());
        }
    }
}
