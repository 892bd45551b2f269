//! Which operation of two profiles is compared.
#![allow(clippy::unwrap_used)]

mod common;

use common::{lane, site, span};
use ellwand_profile::{Kind, NONE, Trace, TraceLane};
use ellwand_stats::Difference;
use ellwand_trace::{Diff, DiffOptions, diff, read_from};

fn of(lanes: Vec<TraceLane>, end: u64) -> Trace {
    let sites = ["main", "heartbeat"].map(|name| site(name, Kind::Cpu)).to_vec();
    Trace { start: 1, end, sites, lanes, ..Trace::in_nanoseconds() }
}

/// One outermost span of `length` ns, and a thread with 20 short ones in the first 10 000 ns.
fn with_heartbeats(length: u64) -> Trace {
    let beats = (0..20).map(|at| span(2, NONE, 1 + 500 * at, 31 + 500 * at + at % 3)).collect();
    of(vec![lane("main", vec![span(1, NONE, 1, 1 + length)]), lane("beats", beats)], 1 + length)
}

fn compared(baseline: &Trace, candidate: &Trace, root: Option<&str>) -> Diff {
    diff(baseline, candidate, &DiffOptions { root: root.map(str::to_string), ..DiffOptions::default() }).unwrap()
}

#[test]
fn an_operation_that_covers_little_time_is_not_chosen_as_the_root() {
    let (baseline, candidate) = (with_heartbeats(10_000), with_heartbeats(30_000));
    let whole = compared(&baseline, &candidate, None);
    assert_eq!((&whole.root, whole.notes.len()), (&None, 1), "{:?}", whole.notes);
    assert!(matches!(whole.verdict, Difference::Undecided { .. }) && whole.change_ns == 20_000.0, "{whole}");
    let named = compared(&baseline, &candidate, Some("heartbeat"));
    assert_eq!(
        named.notes,
        [
            "heartbeat covers 6.2 % of the elapsed time of the baseline",
            "heartbeat covers 2.1 % of the elapsed time of the candidate"
        ]
    );
}

#[test]
fn a_root_may_be_short_compared_with_idle_time() {
    let idle = || of(with_heartbeats(10_000).lanes.split_off(1), 100_000);
    let diff = compared(&idle(), &idle(), None);
    assert_eq!((diff.root.as_deref(), diff.notes.len()), (Some("heartbeat"), 2), "{diff}");
}

/// `module` holds 8 steps, each of which overlaps a helper, so the helpers get another lane.
fn with_helpers(scale: u64) -> Trace {
    let event = |name: &str, ts, dur| format!(r#"{{"ph":"X","name":"{name}","ts":{ts},"dur":{dur},"pid":1,"tid":1}}"#);
    let mut events = vec![event("module", 0, 10_000 * scale)];
    for at in 0..8 {
        let start = 10 + 1_200 * scale * at;
        events.extend([event("step", start, 1_000 * scale), event("helper", start + 1_000 * scale - 5, 30)]);
    }
    read_from(format!("[{}]", events.join(",")).as_bytes()).unwrap().trace
}

#[test]
fn spans_that_overlap_others_of_their_thread_are_never_the_root() {
    assert!(with_helpers(1).lanes.iter().any(|lane| lane.name == "thread 1 (overlap 1)"));
    let diff = compared(&with_helpers(1), &with_helpers(3), None);
    // `step` is the outermost repeated operation; `helper` is repeated too, on a lane of overlaps.
    assert_eq!((diff.root.as_deref(), diff.change_ns), (Some("step"), 2e6), "{diff}");
    // The lane is the only one in a profile without the spans that it overlaps.
    let mut alone = with_helpers(1);
    alone.lanes.retain(|lane| lane.name != "thread 1");
    assert_eq!(compared(&alone, &alone, None).root, None);
}

/// One span `train` around 150 spans `step`, each with two parts, after a short span `load`.
fn training(scale: u64) -> Trace {
    let sites = ["load", "train", "step", "forward", "backward"].map(|name| site(name, Kind::Cpu)).to_vec();
    let mut spans = vec![span(1, NONE, 1, 51), span(2, NONE, 60, 60 + 160_000 * scale)];
    for at in 0..150 {
        let (start, parent) = (100 + 1000 * scale * at, spans.len() as u32);
        let (middle, end) = (start + 300 * scale + at % 7, start + 900 * scale);
        spans.extend([span(3, 1, start, end), span(4, parent, start, middle), span(5, parent, middle, end)]);
    }
    Trace { start: 1, end: 170_000 * scale, sites, lanes: vec![lane("main", spans)], ..Trace::in_nanoseconds() }
}

#[test]
fn a_repeated_operation_inside_one_span_is_compared() {
    let (baseline, candidate) = (training(1), training(2));
    let chosen = compared(&baseline, &candidate, None);
    assert_eq!((chosen.root.as_deref(), chosen.baseline.repetitions), (Some("step"), 150), "{chosen}");
    assert_eq!((chosen.verdict, chosen.change_ns), (Difference::Slower, 900.0), "{chosen}");
    assert_eq!(chosen.nodes.len(), 3, "{chosen}");
    let inner = compared(&baseline, &candidate, Some("backward"));
    assert_eq!((inner.verdict, inner.nodes.len()), (Difference::Slower, 1), "{inner}");
}

#[test]
fn a_lost_span_is_one_span() {
    let mut lossy = with_heartbeats(10_000);
    lossy.lost = 1;
    let notes = compared(&lossy, &with_heartbeats(10_000), None).notes;
    assert!(notes.contains(&"baseline: 1 span was lost: calls and times lack them".to_string()), "{notes:?}");
}

#[test]
fn twice_the_calls_are_not_calls_of_twice_the_length() {
    let beats = |count: u64| {
        let beats = (0..count).map(|at| span(2, NONE, 1 + 500 * at, 31 + 500 * at)).collect();
        of(vec![lane("main", beats)], 100_000)
    };
    let text = diff(&beats(1), &beats(2), &DiffOptions::default()).unwrap().to_string();
    assert!(text.contains("time per call\nheartbeat  1 -> 2  30.0 ns -> 30.0 ns"), "{text}");
    let same = diff(&beats(20), &beats(20), &DiffOptions::default()).unwrap();
    assert_eq!(same.nodes[0].baseline_calls, Some(1.0));
    assert!(!same.to_string().contains("time per call"), "{same}");
}
