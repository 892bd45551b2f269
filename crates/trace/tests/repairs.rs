//! Chrome traces whose times are exact, rounded, overlapping or impossible, and the notes on them.
#![allow(clippy::unwrap_used)]

use ellwand_profile::Trace;
use ellwand_trace::{Imported, findings, read_from};

fn from_text(text: &str) -> Imported {
    read_from(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// An event on the only thread.
fn event(name: &str, ts: &str, dur: &str) -> String {
    format!(r#"{{"ph":"X","name":"{name}","ts":{ts},"dur":{dur},"pid":1,"tid":1}}"#)
}

/// Start and duration of every span, in nanoseconds.
fn times(trace: &Trace) -> Vec<(f64, f64)> {
    let spans = trace.lanes.iter().flat_map(|lane| &lane.spans);
    spans.map(|span| (trace.since_start_ns(span.start), trace.duration_ns(span))).collect()
}

#[test]
fn overlapping_short_spans_keep_their_durations() {
    let events = [event("A", "0", "0.9"), event("B", "0.15", "0.9"), event("C", "0.3", "0.9")];
    let imported = from_text(&format!("[{}]", events.join(",")));
    assert_eq!(times(&imported.trace), [(0.0, 900.0), (150.0, 900.0), (300.0, 900.0)]);
    assert_eq!(imported.notes, ["2 lanes were added for spans that overlap others of their thread"]);
    let two = from_text(&format!("[{}]", events[..2].join(",")));
    assert_eq!(two.notes, ["1 lane was added for spans that overlap others of their thread"]);
}

#[test]
fn dates_keep_their_nanoseconds() {
    let starts = ["1763900000000000.100", "1763900000000000.3", "\"1763900000000000.4996\"", "1763900000000001"];
    let events = starts.map(|start| event("a", start, "0.1"));
    let trace = from_text(&format!("[{}]", events.join(","))).trace;
    let at: Vec<f64> = times(&trace).iter().map(|time| time.0).collect();
    assert_eq!((trace.started_unix_ns, at), (1_763_900_000_000_000_100, vec![0.0, 200.0, 400.0, 900.0]));
    // Other ways to write a number.
    let events = [event("a", "-0.5", "0.1"), event("b", "1e-1", "0.1"), event("c", "2.5E+0", "0.1")];
    let at: Vec<f64> = times(&from_text(&format!("[{}]", events.join(","))).trace).iter().map(|time| time.0).collect();
    assert_eq!(at, [0.0, 600.0, 3_000.0]);
    for none in ["null", "\"\"", "\"-\"", "\"soon\"", "[1]", "{\"a\":1}", "true"] {
        let imported = from_text(&format!("[{}]", event("a", none, "1")));
        assert_eq!(imported.notes, ["skipped events: 1 of phase 'X'"], "{none}");
    }
}

#[test]
fn an_overlap_lane_is_no_thread() {
    let packed = &include_bytes!("files/pytorch-cpu.json.gz")[..];
    let trace = read_from(packed).unwrap().trace;
    assert_eq!(trace.lanes.len(), 2);
    let rules: Vec<&str> = findings(&trace, None).iter().map(|finding| finding.rule).collect();
    assert!(!rules.contains(&"thread-imbalance"), "{rules:?}");
}

#[test]
fn impossible_times_are_noted() {
    let what = "(a negative duration, or beyond 146 years), changed to the nearest possible";
    let back = r#"{"ph":"B","name":"a","ts":9,"pid":1,"tid":1},{"ph":"E","ts":5,"pid":1,"tid":1}"#;
    for one in [event("a", "20", "-5"), event("a", "9.2e18", "1"), event("a", "0", "1e300"), back.to_string()] {
        let notes = from_text(&format!("[{one}]")).notes;
        assert_eq!(notes, [format!("1 event has an impossible time {what}")], "{one}");
    }
    let both = format!("[{},{}]", event("a", "1", "-5"), event("a", "-9e300", "5"));
    assert_eq!(from_text(&both).notes, [format!("2 events have impossible times {what}")]);
    assert_eq!(times(&from_text(&format!("[{}]", event("a", "20", "-5"))).trace), [(0.0, 0.0)]);
}

#[test]
fn facts_about_the_recording_are_read_from_our_export() {
    let file = |facts: &str| {
        let events = event("copy", "0.1", "1");
        from_text(&format!(r#"{{"otherData":{{"program":"ellwand"{facts}}},"traceEvents":[{events}]}}"#))
    };
    let imported = file(r#","aggregated":"1000","wall_ns":"2000000""#);
    assert_eq!(imported.notes, ["1000 aggregated spans are not in this file; its times lack them"]);
    assert_eq!((imported.trace.wall_ns(), times(&imported.trace)), (2e6, vec![(100.0, 1_000.0)]));
    assert!(imported.trace.environment.is_empty(), "{:?}", imported.trace.environment);
    // Files of earlier versions lack the elapsed time.
    assert_eq!((file("").notes, file("").trace.wall_ns()), (vec![], 1_000.0));
}
