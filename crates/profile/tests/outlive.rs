//! Guards that outlive the guard of the span around them.
#![allow(clippy::unwrap_used)]

use ellwand_profile::{Measures, Mode, Options, Profiler, span};

#[test]
fn a_guard_that_outlives_the_one_around_covers_only_what_is_inside_it() {
    let busy = |us: u64| {
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_micros(us) {
            std::hint::spin_loop();
        }
    };
    for (mode, measures) in [
        (Mode::Full { bytes: 1 << 20 }, Measures::NONE),
        (Mode::Aggregate, Measures::NONE),
        (Mode::Aggregate, Measures::CPU),
        (Mode::Ring { spans: 9 }, Measures::NONE),
    ] {
        let profiler = Profiler::new(Options { measures, ..Options::new(mode) });
        let entered = profiler.enter();
        for _ in 0..2 {
            let a = span!("a");
            busy(1_000);
            let b = span!("b");
            busy(200);
            drop(a);
            busy(5_000);
            drop(b);
        }
        drop(entered);
        let summary = profiler.finish().summary_by_site();
        let [a, b] = ["a", "b"].map(|name| summary.rows.iter().find(|row| row.name() == name).unwrap());
        // `a` is never shorter than its self time and what `b` lasts inside it; `b` lasts 5 ms after it.
        assert!(a.self_ns > 1.9e6 && a.self_ns < a.total_ns - 0.3e6, "{mode:?}: {a:?}");
        assert!((b.self_ns - b.total_ns).abs() < 1.0 && b.total_ns > 10e6, "{mode:?}: {b:?}");
    }
}
