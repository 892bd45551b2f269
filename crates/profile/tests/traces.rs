//! Summaries and exports of a trace with fixed numbers.

use ellwand_profile::{Activity, Calibration, ClockKind, Counters, Detail, NONE, SiteInfo, Span, Trace, TraceLane};
use serde_json::Value;

fn span(site: u32, parent: u32, start: u64, end: u64) -> Span {
    Span { start, end, site, parent, corr: 0, ext: 0 }
}

fn site(name: &str, line: u32) -> SiteInfo {
    SiteInfo { name: name.into(), file: "src/model \"x\".rs".into(), line, ..SiteInfo::default() }
}

/// Two iterations of 100 and 200 ns with `norm` and `attention`, which calls `softmax`. A worker helps in the second
/// one and continues after it. A tick is half a nanosecond.
fn trace() -> Trace {
    let counted = Span { ext: 1, corr: 7, ..span(4, 3, 1340, 1380) };
    let main = vec![
        span(1, NONE, 1000, 1200),
        span(2, 0, 1020, 1060),
        span(1, NONE, 1300, 1700),
        span(3, 2, 1320, 1620),
        counted,
        span(4, 3, 1400, 1500),
        span(2, NONE, 1710, 1720),
        span(1, NONE, 1800, 0),
        span(2, 7, 1810, 1820),
    ];
    let worker = vec![span(4, NONE, 1350, 1550), span(4, NONE, 1700, 1750), span(2, NONE, 1250, 1260)];
    let lane = |name: &str, spans, counters, dropped| TraceLane {
        name: name.into(),
        spans,
        details: details(counters),
        dropped,
        ..TraceLane::default()
    };
    Trace {
        started_unix_ns: 1_795_238_760_000_000_000,
        start: 1000,
        end: 2000,
        clock: Calibration { kind: ClockKind::Tsc, ns_per_tick: 0.5, relative_error: 1e-6 },
        sites: vec![site("iteration", 1), site("norm", 2), site("attention", 3), site("softmax", 4)],
        lanes: vec![
            lane("main", main, vec![Counters { bytes: 64, items: 0, flops: 1e3 }], 0),
            lane("wor\nker", worker, Vec::new(), 3),
        ],
        lost: 1,
        ..Trace::in_nanoseconds()
    }
}

fn details(counters: Vec<Counters>) -> Vec<Detail> {
    counters.into_iter().map(|counters| Detail { counters, ..Detail::default() }).collect()
}

#[test]
fn the_summary_has_totals_and_self_times_by_path() {
    let summary = trace().summary();
    let rows: Vec<(String, u64, f64, f64)> =
        summary.rows.iter().map(|row| (row.path.join("/"), row.count, row.total_ns, row.self_ns)).collect();
    assert_eq!(
        rows,
        [
            ("iteration".into(), 2, 300.0, 130.0),
            ("iteration/attention".into(), 1, 150.0, 80.0),
            ("iteration/attention/softmax".into(), 2, 70.0, 70.0),
            ("iteration/norm".into(), 2, 25.0, 25.0),
            ("softmax".into(), 2, 125.0, 125.0),
            ("norm".into(), 2, 10.0, 10.0),
        ]
    );
    let softmax = &summary.rows[2];
    assert_eq!((softmax.min_ns, softmax.median_ns, softmax.p99_ns, softmax.max_ns), (20.0, 35.0, 50.0, 50.0));
    assert_eq!(softmax.counters, Counters { bytes: 64, items: 0, flops: 1e3 });
    assert_eq!(summary.rows[0].open, 1);
    assert_eq!(summary.rows[1].share(&summary), 150.0 / 500.0);
    let norm = summary.rows.last().unwrap();
    assert_eq!((norm.lanes, norm.line), (2, 2));
}

#[test]
fn the_summary_by_site_joins_paths() {
    let summary = trace().summary_by_site();
    let rows: Vec<(&str, u64, f64)> = summary.rows.iter().map(|row| (row.name(), row.count, row.self_ns)).collect();
    assert_eq!(rows, [("softmax", 4, 195.0), ("iteration", 2, 130.0), ("attention", 1, 80.0), ("norm", 4, 35.0)]);
}

#[test]
fn components_add_up_to_their_frames() {
    let frames = trace().frames("iteration");
    assert_eq!(frames.wall_ns, [100.0, 200.0], "an open span is no frame");
    let rows: Vec<(String, bool, &[f64], &[f64])> = frames
        .rows
        .iter()
        .map(|row| (row.row.path.join("/"), row.inside, &row.total_ns[..], &row.self_ns[..]))
        .collect();
    assert_eq!(
        rows,
        [
            ("attention".into(), true, &[0.0, 150.0][..], &[0.0, 80.0][..]),
            ("attention/softmax".into(), true, &[0.0, 70.0], &[0.0, 70.0]),
            ("softmax".into(), false, &[0.0, 100.0], &[0.0, 100.0]),
            ("norm".into(), true, &[20.0, 0.0], &[20.0, 0.0]),
        ]
    );
    assert_eq!(trace().frames("norm").wall_ns, [5.0], "a nested span is no frame");
    assert_eq!(trace().frames("nothing").wall_ns, [0.0; 0]);
}

#[test]
fn losses_are_counted() {
    let trace = trace();
    assert_eq!((trace.spans(), trace.open(), trace.dropped(), trace.dropped_details()), (12, 1, 4, 0));
    assert_eq!(trace.since_start_ns(990), -5.0);
    assert_eq!(Trace { lost: u64::MAX, ..trace }.dropped(), u64::MAX, "a damaged file may claim any number");
}

#[test]
fn chrome_events_nest_and_name_their_threads() {
    let mut out = Vec::new();
    trace().write_chrome("lattice \"simd\"", &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    insta::assert_snapshot!(text);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["otherData"]["dropped"], "4");
    let events = value["traceEvents"].as_array().unwrap();
    assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), 11);
    assert_eq!(events.iter().filter(|event| event["ph"] == "B").count(), 1);
}

#[test]
fn device_activities_have_an_arrow_from_their_launch() {
    let one = |name: &str, lane: &str, start_ns, corr, call| Activity {
        name: name.into(),
        lane: lane.into(),
        start_ns,
        ns: 250,
        corr,
        call,
        detail: "a \"detail\"".into(),
    };
    let activities = vec![
        one("cuLaunchKernel", "driver, thread 5", -500, 77, true),
        one("softmax", "stream 13", 1250, 77, false),
        // An activity without a partner has no arrow.
        one("cuMemAlloc", "driver, thread 5", 10, 78, true),
        one("set", "stream 13", 20, 0, false),
    ];
    let (mut trace, mut out) = (trace(), Vec::new());
    trace.add_activities(activities);
    trace.write_chrome("x", &mut out).unwrap();
    let value: Value = serde_json::from_slice(&out).unwrap();
    let events = value["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let named = |name: &str| of("M").iter().filter(|event| event["args"]["name"] == name).count();
    assert_eq!(["device", "driver, thread 5", "stream 13"].map(named), [1, 1, 1]);
    let (starts, ends) = (of("s"), of("f"));
    assert_eq!((starts.len(), ends.len()), (1, 1));
    assert_eq!(starts[0]["id"], ends[0]["id"]);
    assert_eq!((starts[0]["ts"].as_f64(), ends[0]["ts"].as_f64()), (Some(-0.5), Some(1.25)));
    assert_ne!(starts[0]["tid"], ends[0]["tid"]);
    let detailed = of("X").iter().filter(|event| event["args"]["detail"] == "a \"detail\"").count();
    assert_eq!(detailed, 4);
}

#[test]
fn an_empty_trace_is_valid() {
    let empty = Trace { lanes: Vec::new(), sites: Vec::new(), ..trace() };
    let mut out = Vec::new();
    empty.write_chrome("nothing", &mut out).unwrap();
    serde_json::from_slice::<Value>(&out).unwrap();
    assert!(empty.summary().rows.is_empty() && empty.summary_by_site().rows.is_empty());
}

/// Links between threads; the linked span is on an earlier or a later lane than its children.
#[test]
fn spans_are_listed_under_linked_spans_of_other_threads() {
    let linked = |corr: u32, span: Span| Span { corr, ..span };
    let lane = |spans| TraceLane { name: "x".into(), spans, ..TraceLane::default() };
    let early = vec![linked(2, span(4, NONE, 1400, 1450)), linked(9, span(4, NONE, 1460, 1470))];
    let caller = vec![span(1, NONE, 1100, 1900), linked(2, span(3, 0, 1200, 1800)), linked(3, span(4, 1, 1210, 1220))];
    let late = vec![linked(2, span(4, NONE, 1300, 1500)), span(2, 0, 1310, 1330), linked(3, span(2, NONE, 1600, 1602))];
    let trace = Trace { lanes: vec![lane(early), lane(caller), lane(late)], ..trace() };
    let rows: Vec<(String, bool, Vec<f64>)> = trace
        .frames("iteration")
        .rows
        .iter()
        .map(|row| (row.row.path.join("/"), row.inside, row.total_ns.clone()))
        .collect();
    assert_eq!(
        rows,
        [
            ("attention".into(), true, vec![300.0]),
            ("attention/softmax".into(), false, vec![125.0]),
            ("attention/softmax/norm".into(), false, vec![10.0]),
            ("attention/softmax".into(), true, vec![5.0]),
            ("attention/softmax/norm".into(), false, vec![1.0]),
            ("softmax".into(), false, vec![5.0]),
        ]
    );
    let attention = &trace.frames("iteration").rows[0];
    assert_eq!(attention.self_ns, [295.0], "time of other threads is not subtracted");
}

/// Circular links must not hang the summary.
#[test]
fn circular_links_end() {
    let linked = |corr: u32, span: Span| Span { corr, ..span };
    let lane = |spans| TraceLane { name: "x".into(), spans, ..TraceLane::default() };
    let a = vec![linked(1, span(1, NONE, 1010, 1100)), linked(2, span(2, 0, 1010, 1020))];
    let b = vec![linked(2, span(3, NONE, 1020, 1100)), linked(1, span(4, 0, 1000, 1020))];
    let trace = Trace { lanes: vec![lane(a), lane(b)], ..trace() };
    assert_eq!(trace.summary().rows.iter().map(|row| row.count).sum::<u64>(), 4);
}
