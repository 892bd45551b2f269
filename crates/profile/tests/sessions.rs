//! Sessions as a program uses them. A process has one session at a time, so the tests take turns.

use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use ellwand_profile::{Counters, Guard, NONE, Part, ROOM_NAME, Session, SessionError, Trace, scope, span};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of each span of a lane, in the order in which the spans started.
fn paths(trace: &Trace, lane: usize) -> Vec<String> {
    let spans = &trace.lanes[lane].spans;
    let path = |span| {
        let mut names = vec![trace.name(span)];
        let mut parent = span.parent;
        while parent != NONE {
            names.insert(0, trace.name(&spans[parent as usize]));
            parent = spans[parent as usize].parent;
        }
        names.join("/")
    };
    spans.iter().map(path).collect()
}

fn layer(heads: usize) {
    let _layer = span!("layer");
    for _ in 0..heads {
        let _head = span!("head", bytes = 4 * heads, flops = 2.5, items = 1);
        scope("softmax", || std::hint::black_box(heads));
    }
}

#[test]
fn spans_nest_and_carry_their_counters() {
    let _turn = turn();
    let session = Session::start().unwrap();
    layer(2);
    let trace = session.finish();
    assert_eq!(trace.lanes.len(), 1);
    assert_eq!(paths(&trace, 0), ["layer", "layer/head", "layer/head/softmax", "layer/head", "layer/head/softmax"]);
    assert_eq!((trace.open(), trace.dropped(), trace.dropped_details()), (0, 0, 0));
    let lane = &trace.lanes[0];
    for span in &lane.spans {
        assert!(span.start >= trace.start && span.end >= span.start && span.end <= trace.end);
        if span.parent != NONE {
            let outer = &lane.spans[span.parent as usize];
            assert!(outer.start <= span.start && span.end <= outer.end);
        }
    }
    let summary = trace.summary();
    let rows: Vec<(String, u64, Counters)> =
        summary.rows.iter().map(|row| (row.path.join("/"), row.count, row.counters)).collect();
    assert_eq!(
        rows,
        [
            ("layer".into(), 1, Counters::default()),
            ("layer/head".into(), 2, Counters { bytes: 16, items: 2, flops: 5.0 }),
            ("layer/head/softmax".into(), 2, Counters::default()),
        ]
    );
    assert!(summary.rows[0].file.ends_with("sessions.rs"));
    let selves: f64 = summary.rows.iter().map(|row| row.self_ns).sum();
    assert!((selves - summary.rows[0].total_ns).abs() < 1e-6, "self times add up to the total");
}

#[test]
fn nothing_is_recorded_without_a_session() {
    let _turn = turn();
    assert!(!span!("before").is_on());
    let mut computed = false;
    let guard = span!(
        "before",
        bytes = {
            computed = true;
            1_u64
        }
    );
    assert!(!guard.is_on() && !computed, "counters are evaluated only while a session runs");
    let session = Session::start().unwrap();
    drop(guard);
    let within = span!("within");
    assert!(within.is_on());
    let trace = session.finish();
    drop(within);
    assert!(!span!("after").is_on());
    assert_eq!(paths(&trace, 0), ["within"]);
    assert_eq!(trace.open(), 1);
    let row = &trace.summary().rows[0];
    assert_eq!((row.count, row.open, row.total_ns), (0, 1, 0.0));
    assert!(row.median_ns.is_nan(), "an open span has no duration");
}

#[test]
fn one_session_at_a_time_and_a_dropped_one_ends() {
    let _turn = turn();
    let first = Session::start().unwrap();
    assert_eq!(Session::start().unwrap_err(), SessionError::Running);
    let cost = ellwand_profile::cost();
    assert!(cost.on_ns > 0.0 && cost.aggregate_ns > 0.0 && cost.ring_ns > 0.0, "{cost}");
    drop(first);
    assert!(!span!("off").is_on());
    assert!(Session::start().unwrap().finish().lanes.is_empty());
}

#[test]
fn a_guard_of_an_earlier_session_does_not_affect_later_ones() {
    let _turn = turn();
    let first = Session::start().unwrap();
    let old = span!("old");
    drop(first);
    let second = Session::start().unwrap();
    let new = span!("new");
    drop(old);
    drop(span!("inside"));
    drop(new);
    let trace = second.finish();
    assert_eq!(paths(&trace, 0), ["new", "new/inside"]);
    assert_eq!(trace.open(), 0);
}

#[test]
fn lost_spans_are_counted_and_work_is_never_lost() {
    let _turn = turn();
    let session = Session::with_capacity(100).unwrap();
    for _ in 0..70 {
        let _outer = span!("outer");
        drop(span!("inner"));
    }
    let trace = session.finish();
    assert_eq!((trace.spans(), trace.dropped(), trace.open()), (100, 40, 0));
    assert_eq!(paths(&trace, 0)[98..], ["outer", "outer/inner"]);

    // Spans for which there is no room are completely in the totals.
    for capacity in [0, 1, 16, 100, 1024, 5000] {
        let session = Session::with_capacity(capacity).unwrap();
        (0..500).for_each(|_| drop(span!("counted", bytes = 8)));
        let trace = session.finish();
        let row = &trace.summary().rows[0];
        assert_eq!((row.count, row.counters.bytes, trace.dropped_details()), (500, 4000, 0), "room for {capacity}");
        // With less than 64 bytes per span, and room for 16 at a time.
        assert!(
            trace.spans() >= (capacity / 4).saturating_sub(16).min(500),
            "{} kept with room for {capacity}",
            trace.spans()
        );
    }
}

#[test]
fn a_span_that_lost_several_arguments_counts_once_and_no_work_is_lost() {
    let _turn = turn();
    let mut lost = Vec::new();
    for room in [1, 16, 34, 40, 50, 2000] {
        let session = Session::with_capacity(room).unwrap();
        for _ in 0..2 {
            let outer = span!("outer", bytes = 8, first = 1, second = 2);
            let inner = span!("inner", items = 3, first = 1, second = 2, third = 3);
            outer.arg("third", 3);
            inner.bytes(8_u64);
            outer.items(1_u64);
        }
        let trace = session.finish();
        let lane = &trace.lanes[0];
        let is_whole = |span| lane.detail_of(span).is_some_and(|detail| detail.args.len() == 3);
        let lacking = lane.spans.iter().filter(|span| !is_whole(span)).count() as u64;
        assert_eq!(trace.dropped_details(), lacking, "room for {room}");
        assert!(lane.spans.iter().all(|span| span.ext as usize <= lane.details.len()));
        let rows = trace.summary().rows;
        let work = |row: usize| (rows[row].count, rows[row].counters.bytes, rows[row].counters.items);
        assert_eq!((work(0), work(1)), ((2, 16, 2), (2, 16, 6)), "room for {room}");
        lost.push(lacking);
    }
    assert!(lost[0] == 1 && lost.contains(&2) && lost.ends_with(&[0]), "{lost:?}");
}

#[test]
fn threads_with_few_spans_leave_the_budget_to_others() {
    let _turn = turn();
    // Three spans with an argument per thread: 16 spans, 16 rows and 3 arguments.
    let threads = if cfg!(miri) { 4 } else { 50 };
    let session = Session::with_capacity(threads * (16 + 16 + 3 * 2)).unwrap();
    let all = std::sync::Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                (0..3).for_each(|number| drop(span!("request", number = number)));
                all.wait();
            });
        }
    });
    let trace = session.finish();
    assert_eq!((trace.spans(), trace.dropped(), trace.dropped_details()), (3 * threads, 0, 0));
}

#[test]
fn guards_dropped_in_any_order_leave_a_tree() {
    let _turn = turn();
    let session = Session::start().unwrap();
    let (a, b) = (span!("a"), span!("b"));
    drop(a);
    let c = span!("c");
    drop(b);
    let d = span!("d");
    drop(d);
    drop(c);
    drop(span!("e"));
    let kept: Vec<Guard> = (0..3).map(|_| span!("f")).collect();
    kept.into_iter().for_each(drop);
    drop(span!("g"));
    let trace = session.finish();
    assert_eq!(paths(&trace, 0), ["a", "a/b", "c", "c/d", "e", "f", "f/f", "f/f/f", "g"]);
    assert_eq!(trace.open(), 0);
    let by_site = trace.summary_by_site();
    let f = by_site.rows.iter().find(|row| row.name() == "f").unwrap();
    let outer = trace.lanes[0].spans.iter().find(|span| trace.name(span) == "f").unwrap();
    assert_eq!(f.total_ns, trace.duration_ns(outer), "recursive time counts once");
}

#[test]
fn a_panic_closes_its_spans() {
    let _turn = turn();
    let session = Session::start().unwrap();
    let caught = std::panic::catch_unwind(|| {
        let _outer = span!("outer");
        let _inner = span!("inner");
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(caught.is_err());
    drop(span!("after"));
    let trace = session.finish();
    assert_eq!(paths(&trace, 0), ["outer", "outer/inner", "after"]);
    assert_eq!(trace.open(), 0);
}

#[test]
fn every_thread_has_its_own_lane() {
    let _turn = turn();
    let (threads, rounds) = (4, 5_000);
    let session = Session::start().unwrap();
    let ready = Barrier::new(threads);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let ready = &ready;
            let work = move || {
                ready.wait();
                for round in 0..rounds {
                    let _outer = span!("outer", items = round);
                    drop(span!("inner"));
                }
            };
            std::thread::Builder::new().name(format!("worker {number}")).spawn_scoped(scope, work).unwrap();
        }
    });
    let trace = session.finish();
    let mut names: Vec<&str> = trace.lanes.iter().map(|lane| lane.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["worker 0", "worker 1", "worker 2", "worker 3"]);
    assert_eq!((trace.open(), trace.dropped()), (0, 0));
    let summary = trace.summary();
    let row = |path: &[&str]| summary.rows.iter().find(|row| row.path == path).unwrap();
    let total = (threads * rounds) as u64;
    assert_eq!((row(&["outer"]).count, row(&["outer", "inner"]).count), (total, total));
    assert_eq!(row(&["outer"]).lanes, threads);
    assert_eq!(row(&["outer"]).counters.items, (threads * rounds * (rounds - 1) / 2) as u64);
    // Lanes grew several times; user code is not charged for that time, and it is not one of its operations.
    assert!(trace.lanes.iter().any(|lane| lane.spans.iter().any(|span| trace.name(span) == ROOM_NAME)));
    assert!(trace.breakdown().ticks(Part::Instrumentation) > 0);
    for summary in [&summary, &trace.summary_by_site()] {
        assert!(summary.rows.iter().all(|row| row.name() != ROOM_NAME));
    }
    assert!(trace.bottlenecks(100).iter().all(|one| one.operation != ROOM_NAME));
}

/// Ends the threads of a test, even if it fails.
struct Stop<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Sessions start and end under threads that never stop; every trace must be consistent.
#[test]
fn sessions_come_and_go_under_running_threads() {
    let _turn = turn();
    let stop = &std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(stop);
        for _ in 0..3 {
            scope.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let _a = span!("a", bytes = 8, items = 1);
                    let _b = span!("b");
                    drop(span!("c", bytes = 2));
                }
            });
        }
        for capacity in (0..40).map(|n| 100 * n) {
            let session = Session::with_capacity(capacity).unwrap();
            drop(span!("main"));
            std::thread::yield_now();
            let trace = session.finish();
            assert!(trace.spans() <= capacity);
            for lane in &trace.lanes {
                assert!(lane.spans.iter().filter(|span| span.is_open()).count() <= 3);
                for (index, span) in lane.spans.iter().enumerate() {
                    assert!(span.parent == NONE || (span.parent as usize) < index);
                    assert!(span.is_open() || span.end >= span.start);
                    let expected: &[u64] = match trace.name(span) {
                        "a" => &[8],
                        "c" => &[2],
                        "b" | "main" | ROOM_NAME => &[],
                        other => panic!("a span of an unknown site: {other}"),
                    };
                    if let Some(counters) = lane.counters_of(span) {
                        assert!(expected.contains(&counters.bytes));
                    }
                }
            }
            trace.summary();
            trace.summary_by_site();
        }
    });
}

#[test]
fn linked_work_of_other_threads_is_listed_under_its_parent() {
    let _turn = turn();
    let parallel = || {
        let whole = span!("whole");
        let link = whole.link();
        assert_eq!(link, whole.link(), "one number per span");
        let all = &Barrier::new(3);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(move || {
                    all.wait();
                    let part = span!("part");
                    part.under(link);
                    drop(span!("step"));
                });
            }
        });
    };
    parallel();
    let session = Session::start().unwrap();
    parallel();
    let trace = session.finish();
    let rows: Vec<(String, u64, usize)> =
        trace.summary().rows.iter().map(|row| (row.path.join("/"), row.count, row.lanes)).collect();
    assert_eq!(rows, [("whole".into(), 1, 1), ("whole/part".into(), 3, 3), ("whole/part/step".into(), 3, 3)]);
}
