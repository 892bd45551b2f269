//! Guards that outlive the guard of the span around them.
#![allow(clippy::unwrap_used)]

use ellwand_profile::{Measures, Mode, NONE, Options, Part, Profiler, Trace, span};

fn busy(us: u64) {
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_micros(us) {
        std::hint::spin_loop();
    }
}

fn recorded(mode: Mode, measures: Measures) -> Trace {
    let profiler = Profiler::new(Options { measures, ..Options::new(mode) });
    let entered = profiler.enter();
    for _ in 0..2 {
        let a = span!("a");
        busy(1_000);
        let b = span!("b");
        let c = span!("c");
        busy(200);
        drop(a);
        let after = span!("after");
        busy(5_000);
        drop(b);
        drop(c);
        drop(after);
    }
    drop(entered);
    profiler.finish()
}

/// Tables, files and pictures follow one rule: they show the same spans, and these nest.
#[test]
fn a_span_ends_with_the_one_around_it_also_if_its_guard_lives_on() {
    for mode in [Mode::Full { bytes: 1 << 20 }, Mode::Full { bytes: 32 }, Mode::Aggregate, Mode::Ring { spans: 9 }] {
        for measures in [Measures::NONE, Measures::CPU] {
            let trace = recorded(mode, measures);
            let lane = &trace.lanes[0];
            for span in lane.spans.iter().filter(|span| span.parent != NONE) {
                let around = lane.spans[span.parent as usize];
                assert!(around.start <= span.start && span.end <= around.end, "{mode:?}: {span:?} {around:?}");
            }
            let summary = trace.summary_by_site();
            let row = |name: &str| summary.rows.iter().find(|row| row.name() == name).unwrap();
            let [a, b, c, after] = ["a", "b", "c", "after"].map(row);
            assert_eq!([a.count, b.count, c.count, after.count], [2; 4]);
            assert!(b.self_ns + c.self_ns > 0.4e6 && after.self_ns > 10e6, "{mode:?}");
            assert!((a.self_ns + b.self_ns + c.self_ns - a.total_ns).abs() < 10.0, "{mode:?}: {a:?} {b:?} {c:?}");
            assert!((b.self_ns + c.self_ns - b.total_ns).abs() < 10.0, "{mode:?}: {b:?} {c:?}");
            assert!(summary.rows.iter().map(|row| row.self_ns).sum::<f64>() <= summary.wall_ns);
            for row in [b, c] {
                assert!(row.cpu_ns.is_none_or(|cpu| cpu <= row.total_ns + 1e6), "{mode:?}: {row:?}");
            }
            assert_eq!(trace.open(), 0);
            let breakdown = trace.breakdown();
            let spent = breakdown.wall_ns() - breakdown.ns(Part::Unexplained);
            assert!(spent >= 0.9 * (a.total_ns + after.total_ns), "{mode:?}: {breakdown:?}");
        }
    }
}

#[test]
fn a_leaked_guard_takes_no_time_after_the_span_around_it() {
    let profiler = Profiler::new(Options::new(Mode::Full { bytes: 1 << 20 }));
    let entered = profiler.enter();
    let outer = span!("outer");
    std::mem::forget(span!("leaked"));
    drop(outer);
    busy(5_000);
    drop(entered);
    let trace = profiler.finish();
    assert_eq!(trace.open(), 1);
    assert!(trace.breakdown().ns(Part::Unexplained) >= 5e6, "{:?}", trace.breakdown());
}

thread_local! {
    static KEPT: std::cell::RefCell<Option<ellwand_profile::Guard>> = const { std::cell::RefCell::new(None) };
}

/// The thread's data for spans is destroyed before or after the guard, by the order of their first use.
#[test]
fn a_guard_in_a_thread_local_ends_its_span_with_the_thread() {
    for mode in [Mode::Full { bytes: 1 << 20 }, Mode::Aggregate] {
        for (measures, guard_first) in [Measures::NONE, Measures::CPU].into_iter().flat_map(|m| [(m, false), (m, true)])
        {
            let profiler = Profiler::new(Options { measures, ..Options::new(mode) });
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    if guard_first {
                        KEPT.with_borrow_mut(|kept| assert!(kept.is_none()));
                    }
                    let _entered = profiler.enter();
                    drop(span!("ended"));
                    let span = span!("kept");
                    KEPT.replace(Some(span));
                });
                thread.join().unwrap();
            });
            let trace = profiler.finish();
            let totals = &trace.lanes[0].totals;
            let open = trace.open() + totals.iter().map(|total| total.open).sum::<u64>();
            let ended = trace.spans() + totals.iter().map(|total| total.count).sum::<u64>() - trace.open();
            assert_eq!((ended, open), (2, 0), "{mode:?} {measures:?} {guard_first}");
        }
    }
}
