//! Findings and differences of incomplete profiles: waits, first calls, threads, aggregated spans.

mod common;

use common::{lane, site, span};
use ellwand_profile::{ClockKind, Cost, Detail, Kind, NONE, SiteInfo, Span, SpanCost, Total, Trace, TraceLane};
use ellwand_trace::{Confidence, DiffOptions, Gaps, diff, findings, read_from};

fn of(sites: Vec<SiteInfo>, lanes: Vec<TraceLane>, end: u64) -> Trace {
    Trace { start: 1, end, sites, lanes, ..Trace::in_nanoseconds() }
}

#[test]
fn the_waiting_span_is_named_and_not_the_spans_around_it() {
    // `run` > `request` > `read` measured their waits; `lock` waits because of its kind.
    let cpu = |cpu_ns| Detail { cpu_ns: Some(cpu_ns), ..Detail::default() };
    let measured = |ext, span| Span { ext, ..span };
    let spans = vec![
        measured(1, span(1, NONE, 1, 1001)),
        measured(2, span(2, 0, 1, 981)),
        measured(3, span(3, 1, 101, 801)),
        span(4, 1, 801, 901),
    ];
    let sites =
        vec![site("run", Kind::Cpu), site("request", Kind::Cpu), site("read", Kind::Cpu), site("lock", Kind::Wait)];
    let mut trace = of(sites, vec![lane("main", spans)], 1001);
    trace.lanes[0].details = vec![cpu(190), cpu(180), cpu(10)];
    let waiting = findings(&trace, None).into_iter().find(|finding| finding.rule == "waiting").unwrap();
    let named = waiting.evidence.last().unwrap();
    assert_eq!((named.name.as_str(), named.value), ("waiting in read", 690.0), "{waiting}");
    assert_eq!(waiting.operations, ["lock", "read"]);
    assert_eq!(waiting.confidence, Confidence::Medium, "another program may have had the processor");
}

#[test]
fn of_nested_first_calls_one_is_reported() {
    // Each first call is itself slow and takes half of its caller's time.
    let mut spans = Vec::new();
    for at in 0..10 {
        let start = 1 + 20_000 * at;
        for (depth, first) in [8_000, 4_000, 2_000, 1_000].into_iter().enumerate() {
            let parent = if depth == 0 { NONE } else { spans.len() as u32 - 1 };
            let length = if at == 0 { first } else { 40 - depth as u64 };
            spans.push(span(depth as u32 + 1, parent, start, start + length));
        }
    }
    let sites = ["call", "trace", "lower", "compile"].map(|name| site(name, Kind::Cpu)).to_vec();
    let found = findings(&of(sites, vec![lane("main", spans)], 200_001), None);
    let of_first: Vec<_> = found.iter().filter(|one| one.rule == "first-call").map(|one| &one.operations[..]).collect();
    assert_eq!(of_first, [["call"]]);
}

#[test]
fn a_first_wait_is_no_cold_call() {
    let mut spans = Vec::new();
    for at in 0..10 {
        let (start, longer) = (1 + 20_000 * at, if at == 0 { 8_000 } else { 0 });
        spans.push(span(1, NONE, start, start + longer + 50));
        spans.push(span(2, spans.len() as u32 - 1, start, start + longer + 20));
    }
    for (kind, reported) in [(Kind::Wait, false), (Kind::Cpu, true)] {
        let trace =
            of(vec![site("request", Kind::Cpu), site("lock", kind)], vec![lane("main", spans.clone())], 200_001);
        assert_eq!(findings(&trace, None).iter().any(|one| one.rule == "first-call"), reported, "{kind:?}");
    }
}

#[test]
fn threads_of_which_only_some_spans_are_known_are_not_called_uneven() {
    let kept = |more: fn(&mut Trace)| {
        let lanes = vec![lane("a", vec![span(1, NONE, 1, 1001)]), lane("b", vec![span(1, NONE, 1, 101)])];
        let mut trace = of(vec![site("item", Kind::Cpu)], lanes, 1001);
        more(&mut trace);
        findings(&trace, None).iter().any(|finding| finding.rule == "thread-imbalance")
    };
    assert!(kept(|_| ()));
    assert!(!kept(|trace| trace.sampled_out = 9));
    assert!(!kept(|trace| trace.lanes[1].dropped = 9));
    assert!(!kept(|trace| {
        let total = Total { parent: NONE, site: 1, count: 9, total_ns: 900.0, self_ns: 900.0, ..Total::default() };
        trace.lanes[1] = TraceLane { totals: vec![total], dropped: 9, ..trace.lanes[1].clone() };
    }));
}

#[test]
fn aggregated_profiles_have_ratios_of_their_means_and_the_reason_for_no_interval() {
    let aggregated = |total_ns| {
        let total = Total { parent: NONE, site: 1, count: 10, total_ns, self_ns: total_ns, ..Total::default() };
        of(vec![site("step", Kind::Cpu)], vec![TraceLane { totals: vec![total], ..lane("main", Vec::new()) }], 10_000)
    };
    let result = diff(&aggregated(1_000.0), &aggregated(1_500.0), &DiffOptions::default()).unwrap();
    assert!(result.notes[0].starts_with("both profiles have aggregated spans only"), "{:?}", result.notes);
    assert_eq!(result.ratio, None);
    let text = result.to_string();
    assert!(text.starts_with("time in spans: 1.00 µs -> 1.50 µs (+500 ns), 1.500x (no interval)"), "{text}");
    assert!(text.lines().last().unwrap().contains("1.500x"), "{text}");
}

#[test]
fn the_recorders_own_spans_are_no_operation_of_the_program() {
    let own = "(room for spans)";
    let with_room = |mut trace: Trace| {
        trace.sites.push(site(own, Kind::Instrumentation));
        let (id, end) = (trace.sites.len() as u32, trace.end);
        trace.end = 30 * end;
        // The first of them takes long.
        trace.lanes[0].spans.extend(
            (0..20).map(|at| span(id, NONE, end + 1_000 * at, end + 1_000 * at + if at == 0 { 900 } else { 5 })),
        );
        trace
    };
    let trace = with_room(of(vec![site("a", Kind::Cpu)], vec![lane("main", vec![span(1, NONE, 1, 101)])], 1_000));
    assert!(findings(&trace, None).iter().all(|finding| !finding.operations.contains(&own.to_string())));
    let inside = |solve| {
        let step = |at: u64| {
            [
                span(1, NONE, 1_000 * at, 1_000 * at + solve + at),
                span(2, 2 * at as u32, 1_000 * at + 50, 1_000 * at + 90),
            ]
        };
        let sites = vec![site("step", Kind::Cpu), site("load", Kind::Cpu)];
        let mut trace = with_room(of(sites, vec![lane("main", (0..20).flat_map(step).collect())], 20_000));
        // In the middle of a step, too.
        let id = trace.sites.len() as u32;
        trace.lanes[0].spans.push(span(id, 0, 10, 20));
        trace.lanes[0].spans.swap_remove(1);
        trace
    };
    let result = diff(&inside(900), &inside(950), &DiffOptions::default()).unwrap();
    assert_eq!(result.root.as_deref(), Some("step"));
    assert!(result.nodes.iter().all(|node| !node.path.contains(&own.to_string())), "{result}");
}

#[test]
fn a_file_says_which_dropped_spans_its_totals_hold_and_an_older_one_is_read_as_before() {
    let gaps = |text: &str| {
        let gaps = Gaps::of(&read_from(text.as_bytes()).unwrap().trace);
        (gaps.aggregated, gaps.lost)
    };
    for (aggregated, dropped, by_rule) in [(0, 25, (10, 15)), (10, 25, (10, 15)), (0, 9, (0, 9))] {
        let total = Total { parent: NONE, site: 1, count: 9, open: 1, ..Total::default() };
        let main = TraceLane { totals: vec![total], dropped, aggregated, ..lane("main", Vec::new()) };
        let mut text = Vec::new();
        of(vec![site("step", Kind::Cpu)], vec![main], 1000).write_json(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(gaps(&text), (aggregated, dropped - aggregated));
        let older = text.replace(&format!(",\"aggregated\":{aggregated}"), "");
        assert!(older.len() < text.len());
        assert_eq!(gaps(&older), by_rule);
    }
}

/// 100 repetitions of `step` that take `ns`, each around a call `inner`.
fn steps(ns: u64) -> Trace {
    let step = |at: u64| {
        let start = 1 + 1_000 * at;
        [span(1, NONE, start, start + ns + at % 3), span(2, 2 * at as u32, start + 10, start + 20)]
    };
    of(
        vec![site("step", Kind::Cpu), site("inner", Kind::Cpu)],
        vec![lane("main", (0..100).flat_map(step).collect())],
        100_001,
    )
}

fn known_costs(mut trace: Trace, step: f64, inner: f64) -> Trace {
    trace.span_costs = [step, inner].map(|empty_ns| SpanCost { span_ns: empty_ns, empty_ns }).to_vec();
    trace.cost = Some(Cost::of_span(ClockKind::Tsc, step, 0.0, step));
    trace
}

fn measuring(mut trace: Trace) -> Trace {
    trace.lanes[0].details = vec![Detail { cpu_ns: Some(9), ..Detail::default() }];
    trace.lanes[0].spans[1].ext = 1;
    trace
}

#[test]
fn a_difference_of_modes_or_measures_is_noted_and_its_cost_is_no_verdict() {
    let found = |a: &Trace, b: &Trace| {
        let diff = diff(a, b, &DiffOptions::default()).unwrap();
        (diff.verdict.word(), diff.notes, diff.nodes[0].verdict.word())
    };
    assert_eq!(found(&steps(500), &steps(600)), ("slower", vec![], "slower"));
    let measures = "spans of the baseline measure elapsed time only, those of the candidate CPU time: the times include what measuring costs";
    let unknown = "no verdict: the times suggest slower, but the profiler's own cost, which differs, is unknown";
    let (verdict, notes, node) = found(&steps(500), &measuring(steps(600)));
    assert_eq!((verdict, node, notes), ("undecided", "undecided", vec![measures.to_string(), unknown.into()]));
    // The difference is the cost of measuring `inner`, or less than that.
    let plain = known_costs(steps(500), 1.0, 1.0);
    let (verdict, notes, _) = found(&plain, &known_costs(measuring(steps(600)), 1.0, 101.0));
    let ratio = "no verdict: the times suggest slower, but without the profiler's own cost the mean changed by 1.000x";
    assert_eq!((verdict, notes), ("undecided", vec![measures.to_string(), ratio.into()]));
    let (verdict, notes, _) = found(&plain, &known_costs(measuring(steps(600)), 1.0, 21.0));
    assert_eq!((verdict, notes), ("slower", vec![measures.to_string()]));
    let mut ring = steps(600);
    ring.environment.push(("last spans of a thread".into(), 500.into()));
    let (verdict, notes, _) = found(&steps(500), &ring);
    let modes =
        "the baseline was recorded in full mode, the candidate in ring mode: a span costs a different time in each";
    assert_eq!((verdict, notes[0].as_str(), notes[1].as_str()), ("undecided", modes, unknown));
}

#[test]
fn a_verdict_on_kept_repetitions_must_hold_for_all_of_them() {
    let overflowed = |ns, total_ns: f64| {
        let mut trace = steps(ns);
        let total = Total { parent: NONE, site: 1, count: 900, total_ns, self_ns: total_ns, ..Total::default() };
        (trace.lanes[0].totals, trace.lanes[0].dropped, trace.lanes[0].aggregated) = (vec![total], 900, 900);
        diff(&steps(500), &trace, &DiffOptions::default()).unwrap()
    };
    let whole = overflowed(600, 900.0 * 600.0);
    assert_eq!((whole.verdict.word(), whole.nodes[0].verdict.word(), whole.notes.len()), ("slower", "slower", 2));
    let warm = overflowed(600, 900.0 * 490.0);
    assert_eq!((warm.verdict.word(), warm.nodes[0].verdict.word()), ("undecided", "undecided"));
    let why = "no verdict: the repetitions kept one by one suggest slower, but the mean of all calls changed by 1.000x";
    assert!(warm.notes.contains(&why.to_string()), "{:?}", warm.notes);
    let text = warm.to_string();
    assert!(text.contains("1.200x (99 % interval within the two recordings 1.199"), "{text}");
}
