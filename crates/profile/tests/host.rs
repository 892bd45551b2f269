//! Spans as the interpreter of another language records them.
#![allow(clippy::unwrap_used)]

use ellwand_profile::host::{self, Closing, Place};
use ellwand_profile::{Guard, LaneKind, Measures, Mode, NONE, Options, Profiler, ROOM_NAME, Trace, span};

fn profiler(spans: u64) -> Profiler {
    Profiler::new(Options::new(Mode::Full { bytes: 32 * spans }))
}

fn begin(profiler: &Profiler, name: &str) -> Guard {
    let site = host::site(name, "script.py", 7);
    if let Some(guard) = Guard::enter_in(profiler.recording_number(), site) {
        return guard;
    }
    profiler.settle();
    Guard::enter_in(profiler.recording_number(), site).expect("the thread has settled")
}

/// Lane, name and parent of every span.
fn spans(trace: &Trace) -> Vec<(String, String, Option<String>)> {
    let name = |lane: usize, at: u32| trace.name(&trace.lanes[lane].spans[at as usize]).to_string();
    let of = |lane: usize| {
        let spans = &trace.lanes[lane].spans;
        spans.iter().enumerate().map(move |(at, span)| {
            let parent = (span.parent != NONE).then(|| name(lane, span.parent));
            (trace.lanes[lane].name.clone(), name(lane, at as u32), parent)
        })
    };
    (0..trace.lanes.len()).flat_map(of).collect()
}

fn row(lane: &str, name: &str, parent: Option<&str>) -> (String, String, Option<String>) {
    (lane.to_string(), name.to_string(), parent.map(str::to_string))
}

#[test]
fn a_thread_settles_and_native_spans_follow() {
    std::thread::spawn(|| {
        host::name_thread("MainThread");
        let (one, two) = (profiler(100), profiler(100));
        let outer = begin(&one, "outer");
        drop(span!("native"));
        drop(outer);
        drop(begin(&two, "other"));
        drop(begin(&one, "outer"));
        let expected = [
            row("MainThread", "outer", None),
            row("MainThread", "native", Some("outer")),
            row("MainThread", "outer", None),
        ];
        let trace = one.finish();
        assert_eq!(spans(&trace), expected);
        let site = trace.site(&trace.lanes[0].spans[0]).unwrap();
        assert_eq!((site.file.as_str(), site.line, &trace.lanes[0].kind), ("script.py", 7, &LaneKind::Thread));
        assert_eq!(spans(&two.finish()), [row("MainThread", "other", None)]);
        assert!(Guard::enter_in(1, host::site("outer", "", 0)).is_none(), "a recording that has finished");
    })
    .join()
    .unwrap();
}

/// Two tasks take turns inside `main`: a begins, b begins, a goes on, both end.
fn take_turns(profiler: &Profiler) {
    let main = begin(profiler, "main");
    let (base, link) = (Place::here(), main.link());
    let first_of_task = |name| {
        Place::outside(profiler.recording_number()).resume();
        let guard = begin(profiler, name);
        guard.under(link);
        (guard, Place::here())
    };
    let (a, in_a) = first_of_task("a");
    let (b, in_b) = first_of_task("b");
    in_a.resume();
    drop(begin(profiler, "inside a"));
    in_b.resume();
    drop(begin(profiler, "inside b"));
    in_a.resume();
    drop(a);
    assert!(Place::here().is_outside());
    in_b.resume();
    drop(b);
    base.resume();
    assert!(!Place::here().is_outside());
    drop(begin(profiler, "inside main"));
    drop(main);
}

#[test]
fn tasks_that_take_turns_keep_their_parents() {
    let whole = profiler(10_000);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            host::name_thread("loop");
            take_turns(&whole);
        });
    });
    let trace = whole.finish();
    let expected = [
        row("loop", "main", None),
        row("loop", "inside main", Some("main")),
        row("loop (2)", "a", None),
        row("loop (2)", "inside a", Some("a")),
        row("loop (3)", "b", None),
        row("loop (3)", "inside b", Some("b")),
    ];
    assert_eq!(spans(&trace), expected);
    let mut paths: Vec<String> = trace.summary().rows.iter().map(|row| row.path.join("/")).collect();
    paths.sort();
    assert_eq!(paths, ["main", "main/a", "main/a/inside a", "main/b", "main/b/inside b", "main/inside main"]);
}

#[test]
fn tasks_keep_their_parents_when_the_budget_is_used_up() {
    // Room for main, a and b. There is no room for the link of a, so everything after it is aggregated.
    let small = profiler(3);
    take_turns(&small);
    let trace = small.finish();
    let mut rows: Vec<(String, u64)> = trace.summary().rows.iter().map(|row| (row.path.join("/"), row.count)).collect();
    rows.sort();
    let inside = |name: &str| rows.iter().find(|(path, _)| path.ends_with(name)).unwrap().0.clone();
    assert_eq!((inside("inside a"), inside("inside b")), ("a/inside a".to_string(), "b/inside b".to_string()));
    assert_eq!(inside("inside main"), "main/inside main");
    assert_eq!(trace.lanes.iter().map(|lane| lane.dropped).sum::<u64>(), 4);
}

#[test]
fn spans_without_guards_end_by_their_site_in_any_order() {
    let profiler = profiler(10_000);
    profiler.settle();
    let number = profiler.recording_number();
    let [a, b, after] = ["a", "b", "after a"].map(|name| host::site(name, "script.py", 1));
    assert_eq!(host::close(number, a), Closing::Nothing, "nothing is open yet");
    assert!(host::open(number, a) && host::open(number, b));
    host::edit(number, b, |guard| guard.arg("n", 7));
    assert_eq!(host::close(number, a), Closing::Unknown, "b is the innermost one");
    assert!(host::close_any(number, a) && !host::close_any(number, a));
    assert!(host::open(number, after));
    assert_eq!(host::close(number, after), Closing::Unknown, "a span around may have ended");
    assert!(host::close_any(number, after));
    assert!(host::close_any(number, b));
    assert!(host::open(number, b) && host::close(number, b) == Closing::Closed);
    host::hold(1);
    assert!(!host::open(number, b) && host::close(number, b) == Closing::Unknown, "a guard is kept");
    host::hold(0);
    // More spans than fit into a chunk.
    for _ in 0..3000 {
        assert!(host::open(number, a) && host::close(number, a) == Closing::Closed);
    }
    let trace = profiler.finish();
    let spans: Vec<_> = spans(&trace).into_iter().filter(|(_, name, _)| name != ROOM_NAME).collect();
    let lane = trace.lanes[0].name.as_str();
    let expected = [row(lane, "a", None), row(lane, "b", Some("a")), row(lane, "after a", None)];
    assert_eq!((&spans[..3], spans.len()), (&expected[..], 3004));
    assert_eq!((trace.open(), trace.dropped()), (0, 0));
    assert_eq!(trace.lanes[0].detail_of(&trace.lanes[0].spans[1]).unwrap().args.len(), 1);
    assert!(!host::open(number, a), "the recording has finished");
}

#[test]
fn the_cpu_time_of_a_span_that_was_suspended_is_not_measured() {
    std::thread::spawn(|| {
        let mode = Mode::default();
        let profiler = Profiler::new(Options { measures: Measures::CPU, ..Options::new(mode) });
        let (kept, suspended) = (begin(&profiler, "kept"), begin(&profiler, "suspended"));
        host::forget_cpu(&suspended);
        drop(suspended);
        drop(kept);
        let summary = profiler.snapshot().summary_by_site();
        let has_cpu = |name: &str| summary.rows.iter().find(|row| row.name() == name).unwrap().cpu_ns.is_some();
        assert_eq!(["kept", "suspended"].map(has_cpu), [true, false]);
    })
    .join()
    .unwrap();
}
