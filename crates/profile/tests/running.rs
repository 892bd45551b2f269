//! Snapshots of threads that keep on recording.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

use ellwand_profile::{Mode, Options, Profiler, span};

#[test]
fn a_snapshot_of_a_running_ring_is_of_one_thread_and_ends_after_its_spans() {
    let profiler = Arc::new(Profiler::new(Options::new(Mode::Ring { spans: 500 })));
    let (stop, started) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let thread = std::thread::spawn({
        let (profiler, stop, started) = (profiler.clone(), stop.clone(), started.clone());
        move || {
            let _entered = profiler.enter();
            for number in 0.. {
                let _outer = span!("outer");
                drop(span!("inner"));
                if number == 1000 {
                    started.wait();
                }
                if stop.load(Relaxed) {
                    break;
                }
            }
        }
    });
    started.wait();
    for _ in 0..50 {
        let trace = profiler.snapshot();
        assert_eq!(trace.lanes.iter().filter(|lane| !lane.spans.is_empty()).count(), 1);
        assert!(trace.lanes.iter().flat_map(|lane| &lane.spans).all(|span| span.start <= trace.end));
        assert!(trace.last_spans().is_some_and(|last| last <= 500), "{:?}", trace.last_spans());
    }
    stop.store(true, Relaxed);
    thread.join().unwrap();
}
