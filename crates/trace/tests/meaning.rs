//! Findings, routing and differences.

mod common;

use common::{lane, nested_spans, site, span, step, stream};
use ellwand_profile::{
    ClockKind, Cost, Counters, Detail, Kind, MemoryUse, NONE, SiteInfo, Span, Total, Trace, TraceLane, Value,
};
use ellwand_stats::Difference;
use ellwand_trace::{
    Ceilings, Confidence, DiffError, DiffOptions, Limits, Processor, ProfileFinding, RULES, Reached, Routing,
    RoutingError, Timing, diff, findings, reached_limits, timings,
};
use proptest::prelude::*;

fn rules(findings: &[ProfileFinding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.rule).collect()
}

fn of(sites: Vec<SiteInfo>, lanes: Vec<TraceLane>, end: u64) -> Trace {
    Trace { start: 1, end, sites, lanes, ..Trace::in_nanoseconds() }
}

fn all_threads(limits: Limits) -> Ceilings {
    Ceilings { all_threads: limits, ..Ceilings::default() }
}

/// For each rule, a trace that it reports; ticks are nanoseconds.
fn reported() -> Vec<(&'static str, Trace, Option<Ceilings>)> {
    let kinds = || {
        vec![
            site("step", Kind::Cpu),
            site("launch", Kind::Launch),
            site("copy", Kind::HostToDevice),
            site("gemm", Kind::Kernel),
            site("sync", Kind::Sync),
            site("grow", Kind::Allocation),
            site("lock", Kind::Wait),
        ]
    };
    let plain = |spans: Vec<Span>, end| of(kinds(), vec![lane("main", spans)], end);
    let launches = of(
        kinds(),
        vec![
            lane(
                "main",
                (0..20)
                    .map(|at| Span { corr: at + 1, ..span(2, NONE, 1 + 100 * u64::from(at), 40 + 100 * u64::from(at)) })
                    .collect(),
            ),
            stream(
                "s",
                (0..20)
                    .map(|at| Span {
                        corr: at + 1,
                        ..span(4, NONE, 40 + 100 * u64::from(at), 70 + 100 * u64::from(at))
                    })
                    .collect(),
            ),
        ],
        2_001,
    );
    let copies = of(kinds(), vec![stream("s", vec![span(3, NONE, 1, 501), span(4, NONE, 501, 1001)])], 1001);
    let turns = of(
        kinds(),
        vec![
            lane("main", vec![span(1, NONE, 1, 301), span(5, NONE, 301, 1001)]),
            stream("s", vec![span(4, NONE, 301, 1001)]),
        ],
        1001,
    );
    let mut churn = plain(vec![Span { ext: 1, ..span(1, NONE, 1, 1001) }], 1001);
    let memory = MemoryUse { allocations: 5_000, allocated_bytes: 1 << 20, freed_bytes: 1 << 20, peak_bytes: 1 << 10 };
    churn.lanes[0].details = vec![Detail { memory: Some(memory), ..Detail::default() }];
    let first = plain(
        (0..10).map(|at| span(1, NONE, 1 + 2_000 * at, 1 + 2_000 * at + if at == 0 { 1_500 } else { 20 })).collect(),
        20_001,
    );
    let noisy = plain(
        (0..100).map(|at| span(1, NONE, 1 + 100 * at, 11 + 100 * at + if at % 30 == 7 { 80 } else { 0 })).collect(),
        10_001,
    );
    let threads = of(
        kinds(),
        vec![
            lane("a", vec![span(1, NONE, 1, 1001)]),
            lane("b", vec![span(1, NONE, 1, 301)]),
            lane("c", vec![span(1, NONE, 1, 301)]),
        ],
        1001,
    );
    let counted = |bytes, flops| {
        let mut trace = plain(vec![Span { ext: 1, ..span(1, NONE, 1, 1001) }], 1001);
        trace.lanes[0].details = vec![Detail { counters: Counters { bytes, items: 0, flops }, ..Detail::default() }];
        trace
    };
    let limits = Some(all_threads(Limits { bandwidths: vec![(1, 1e10)], flops_per_s: Some(1e11) }));
    let own = Trace {
        cost: Some(Cost {
            clock: ClockKind::Tsc,
            off_ns: 0.0,
            on_ns: 10.0,
            counted_ns: 10.0,
            argued_ns: 10.0,
            scope_ns: 10.0,
            empty_ns: 5.0,
            aggregate_ns: 3.0,
            ring_ns: 3.0,
        }),
        ..plain((0..10).map(|at| span(1, NONE, 1 + 100 * at, 101 + 100 * at)).collect(), 1001)
    };
    vec![
        ("incomplete", Trace { lost: 3, ..plain(vec![span(1, NONE, 1, 1001)], 1001) }, None),
        ("own-cost", own, None),
        ("launch-bound", launches, None),
        ("transfer-bound", copies, None),
        ("sync-bound", turns, None),
        ("waiting", plain(vec![span(1, NONE, 1, 601), span(7, 0, 101, 501)], 601), None),
        ("allocation-churn", churn, None),
        ("first-call", first, None),
        ("noisy", noisy, None),
        ("thread-imbalance", threads, None),
        ("bandwidth-bound", counted(9_000, 100.0), limits.clone()),
        ("compute-bound", counted(10, 90_000.0), limits),
        ("too-small-for-gpu", by_size(), None),
    ]
}

/// `encode` by size on both sides: the CPU takes 1 ns per item, the GPU 1000 ns plus 0.1 ns per item.
fn by_size() -> Trace {
    let (mut host, mut device, mut details, mut now) = (Vec::new(), Vec::new(), Vec::new(), 1);
    for round in 0..5 {
        for size in [100_u64, 400, 1_600, 6_400] {
            for gpu in [false, true] {
                let length = if gpu { 1_000 + size / 10 } else { size } + round;
                details.push(Detail { counters: Counters { bytes: 0, items: size, flops: 0.0 }, ..Detail::default() });
                let (parent, ext) = (host.len() as u32, details.len() as u32);
                host.push(Span { ext, ..span(1, NONE, now, now + length) });
                if gpu {
                    let corr = device.len() as u32 + 1;
                    host.push(Span { corr, ..span(2, parent, now + 1, now + 10) });
                    device.push(Span { corr, ..span(4, NONE, now + 20, now + 20 + size / 10) });
                }
                now += length + 50;
            }
        }
    }
    let sites = vec![
        site("encode", Kind::Cpu),
        site("launch", Kind::Launch),
        site("x", Kind::Cpu),
        site("kernel", Kind::Kernel),
    ];
    let main = TraceLane { details, ..lane("main", host) };
    of(sites, vec![main, stream("s", device)], now)
}

#[test]
fn every_rule_reports_its_case_with_numbers_and_a_next_step() {
    let mut text = Vec::new();
    for (rule, trace, ceilings) in reported() {
        let found = findings(&trace, ceilings);
        let one =
            found.iter().find(|finding| finding.rule == rule).unwrap_or_else(|| panic!("{rule}: {:?}", rules(&found)));
        assert!(
            !one.evidence.is_empty() && one.saving_upper_bound.is_none_or(|share| (0.0..=1.0).contains(&share)),
            "{one:?}"
        );
        text.push(format!("{one}\n  at {:?} {:?}", one.operations, &one.ranges[..one.ranges.len().min(2)]));
    }
    insta::assert_snapshot!(text.join("\n\n"));
    let known: Vec<&str> = reported().iter().map(|case| case.0).collect();
    assert_eq!(known, RULES.iter().map(|rule| rule.id).collect::<Vec<_>>());
}

/// Aggregated copies have no position in time, so whether something hides them is unknown.
#[test]
fn aggregated_copies_are_a_less_certain_cause() {
    let total = Total { parent: NONE, site: 1, count: 4, total_ns: 500.0, self_ns: 500.0, ..Total::default() };
    let confidence = |lane: TraceLane| {
        let found = findings(&of(vec![site("copy", Kind::HostToDevice)], vec![lane], 1_001), None);
        found.iter().find(|one| one.rule == "transfer-bound").map(|one| one.confidence)
    };
    assert_eq!(confidence(lane("main", vec![span(1, NONE, 1, 501)])), Some(Confidence::High));
    assert_eq!(confidence(TraceLane { totals: vec![total], ..lane("main", Vec::new()) }), Some(Confidence::Medium));
}

#[test]
fn declared_work_is_a_share_of_each_limit() {
    let (_, trace, limits) = reported().into_iter().find(|case| case.0 == "bandwidth-bound").unwrap();
    assert_eq!(
        reached_limits(&trace, limits.unwrap()),
        [(
            "step".to_string(),
            [Some(0.9), Some(0.001)].map(|share| share.map(|share| Reached { share, of_all_threads: true }))
        )]
    );
    assert_eq!(reached_limits(&trace, Ceilings::default()), []);
}

#[test]
fn a_quiet_profile_has_no_findings() {
    let spans = (0..50).map(|at| span(1, NONE, 1 + 100 * at, 99 + 100 * at)).collect();
    let trace = of(vec![site("step", Kind::Cpu)], vec![lane("main", spans)], 5_001);
    assert_eq!(
        rules(&findings(&trace, Some(all_threads(Limits { bandwidths: vec![(1, 1e9)], flops_per_s: None })))),
        [""; 0]
    );
    assert_eq!(rules(&findings(&Trace::in_nanoseconds(), None)), [""; 0]);
}

/// 99 calls with an argument; returns what the rule `noisy` reports about them. A call of 10 ns takes `slow(at)`
/// longer.
fn calls(name: &str, size: impl Fn(u64) -> i64, slow: impl Fn(u64) -> u64) -> Vec<ProfileFinding> {
    let detail = |at| Detail { args: vec![(name.to_string(), Value::Int(size(at)))], ..Detail::default() };
    let (mut spans, mut details) = (Vec::new(), Vec::new());
    for at in 0..99 {
        details.push(detail(at));
        let (outer, start) = (spans.len() as u32, 1 + 1_000 * at);
        spans.push(Span { ext: details.len() as u32, ..span(1, NONE, start, start + 10 + slow(at)) });
        // Inside, without a declared size.
        spans.push(span(2, outer, start + 1, start + 9 + slow(at)));
    }
    let sites = vec![site("encode", Kind::Cpu), site("inner", Kind::Cpu)];
    let trace = of(sites, vec![TraceLane { details, ..lane("main", spans) }], 9_901);
    findings(&trace, None).into_iter().filter(|finding| finding.rule == "noisy").collect()
}

#[test]
fn calls_with_inputs_of_different_sizes_are_not_called_noisy() {
    let by_size = |at: u64| if at.is_multiple_of(10) { 4_096 } else { 64 };
    let slow_by_size = |at: u64| if at.is_multiple_of(10) { 90 } else { 0 };
    assert_eq!(calls("n", by_size, slow_by_size), []);
    assert_eq!(calls("batch_size", |at| at as i64, slow_by_size), [], "no two calls can be compared");
    let by_request = calls("request", |at| at as i64, slow_by_size);
    assert_eq!(by_request.len(), 2, "a number of a request is no size: {by_request:?}");
    let slow_at_one_size = |at: u64| slow_by_size(at) + if at % 30 == 7 { 80 } else { 0 };
    let found = calls("n", by_size, slow_at_one_size);
    let titles: Vec<&str> = found.iter().map(|finding| finding.title.as_str()).collect();
    assert_eq!(titles, ["Calls of encode with n = 64 differ much", "Calls of inner with n = 64 differ much"]);
    let numbers: Vec<(&str, f64)> = found[0].evidence.iter().map(|one| (one.name.as_str(), one.value)).collect();
    assert_eq!(numbers[1..], [("median", 10.0), ("calls", 89.0), ("sizes with such calls", 1.0), ("sizes", 2.0)]);
}

/// Spans of a function that works for 30 ns and calls itself twice, `depth` times; returns the end.
fn recursive(spans: &mut Vec<Span>, parent: u32, start: u64, depth: u32) -> u64 {
    let own = spans.len() as u32;
    spans.push(span(1, parent, start, 0));
    let inside = (0..if depth > 0 { 2 } else { 0 }).fold(start + 30, |at, _| recursive(spans, own, at, depth - 1));
    spans[own as usize].end = inside;
    inside
}

#[test]
fn calls_inside_calls_of_the_same_function_are_not_compared() {
    let (mut first, mut second, mut end) = (Vec::new(), Vec::new(), 0);
    for spans in [&mut first, &mut second] {
        // One of the two threads calls it deeper, but works equally long.
        let depths = if spans.is_empty() && end == 0 { vec![8] } else { vec![7, 7] };
        end = depths.into_iter().fold(1, |at, depth| recursive(spans, NONE, at, depth));
    }
    let trace = of(vec![site("rec", Kind::Cpu)], vec![lane("main", first), lane("other", second)], end + 30);
    assert_eq!(findings(&trace, None), []);
}

#[test]
fn short_lived_threads_are_not_called_uneven() {
    let titles = |lanes: Vec<(&str, Vec<(u64, u64)>)>| {
        let of_lane = |(name, calls): (&str, Vec<(u64, u64)>)| {
            lane(name, calls.into_iter().map(|(start, end)| span(1, NONE, start, end)).collect())
        };
        let lanes = lanes.into_iter().map(of_lane).collect();
        let found = findings(&of(vec![site("request", Kind::Cpu)], lanes, 1_001), None);
        found.into_iter().map(|finding| finding.title).collect::<Vec<_>>()
    };
    let uneven = ["Threads share request unevenly"];
    let many = vec![(1, 301), (301, 601), (601, 1_001)];
    for later in ["a and 1 later thread", "a and 24 later threads", "a and 24 later threads (2)"] {
        let lanes = vec![(later, many.clone()), ("b", vec![(1, 301)]), ("c", vec![(1, 301)])];
        assert_eq!(titles(lanes), [""; 0], "{later} is not one thread");
    }
    assert_eq!(titles(vec![("cats and later threads", many), ("b", vec![(1, 301)])]), uneven);
    // Each works for as long as it lives: fair if they began at different times, uneven if together.
    let came = vec![("a", vec![(1, 901)]), ("b", vec![(301, 401)]), ("c", vec![(801, 901)])];
    assert_eq!(titles(came), [""; 0]);
    assert_eq!(titles(vec![("a", vec![(1, 901)]), ("b", vec![(11, 401)]), ("c", vec![(2, 101)])]), uneven);
    // One began late and works little.
    assert_eq!(titles(vec![("a", vec![(1, 901)]), ("b", vec![(301, 351), (850, 901)])]), uneven);
}

#[test]
fn no_bound_exceeds_the_time_in_which_the_operation_runs() {
    // On four threads at once, a tenth of the calls are slow; nothing runs in the second half of the recording.
    let calls = || (0..100).map(|at| span(1, NONE, 1 + 100 * at, if at % 10 == 7 { 91 } else { 6 } + 100 * at));
    let lanes = ["a", "b", "c", "d"].map(|name| lane(name, calls().collect())).to_vec();
    let found = findings(&of(vec![site("step", Kind::Cpu)], lanes, 20_001), None);
    let busy = f64::from(10 * 90 + 89 * 5) / 20_000.0;
    assert_eq!(rules(&found), ["noisy"]);
    assert_eq!(
        found[0].saving_upper_bound,
        Some(busy),
        "the first calls do not count; the four are slow for 3400 ns together"
    );
}

/// Spans of `bytes` each on two threads at the same time; returns what the roofline rule reports about them.
fn streamed(bytes: u64, bandwidths: &[(u64, f64)]) -> Vec<ProfileFinding> {
    let counters = Counters { bytes, items: 0, flops: 0.0 };
    let thread = |name: &str| TraceLane {
        details: vec![Detail { counters, ..Detail::default() }],
        ..lane(name, vec![Span { ext: 1, ..span(1, NONE, 1, 1001) }])
    };
    let trace = of(vec![site("stream", Kind::Cpu)], vec![thread("a"), thread("b")], 1001);
    findings(&trace, Some(all_threads(Limits { bandwidths: bandwidths.to_vec(), flops_per_s: None })))
}

#[test]
fn threads_share_the_bandwidth_of_the_level_that_their_data_may_lie_in() {
    // Main memory moves 10 bytes per nanosecond, the cache of 1000 bytes 100.
    let machine = [(1_000, 1e11), (4_000, 1e10)];
    let found = streamed(4_500, &machine);
    assert_eq!(rules(&found), ["bandwidth-bound"], "4.5 of 10 bytes a nanosecond on each of two threads");
    assert_eq!(found[0].evidence[0].value, 0.9);
    assert_eq!(rules(&streamed(3_900, &machine)), ["bandwidth-bound"], "the data do not fit into the cache");
    assert_eq!(rules(&streamed(900, &machine)), [""; 0], "the data may lie in the cache, which is faster");
}

#[test]
fn device_work_is_not_compared_with_processor_limits() {
    let counters = Counters { bytes: 9_000, items: 0, flops: 0.0 };
    let host = TraceLane {
        details: vec![Detail { counters, ..Detail::default() }],
        ..lane("main", vec![Span { ext: 1, ..span(1, NONE, 1, 1001) }, Span { corr: 1, ..span(2, 0, 2, 10) }])
    };
    let device = stream("s", vec![Span { corr: 1, ..span(3, NONE, 10, 900) }]);
    let sites = vec![site("step", Kind::Cpu), site("launch", Kind::Launch), site("copy", Kind::Kernel)];
    let trace = of(sites, vec![host, device], 1001);
    let found = findings(&trace, Some(all_threads(Limits { bandwidths: vec![(1, 1e10)], flops_per_s: None })));
    assert!(!rules(&found).contains(&"bandwidth-bound"), "{found:?}");
}

#[test]
fn a_routing_table_knows_its_crossover_and_survives_its_file() {
    let both = timings(&by_size());
    assert_eq!((both.len(), both[0].cpu.len(), both[0].gpu.len()), (1, 20, 20));
    let routing = Routing::of(&both[0].operation, &both[0].cpu, &both[0].gpu).unwrap();
    let crossover = routing.crossover.clone().unwrap();
    // 1 n = 1000 + 0.1 n at n = 1111.
    assert!((crossover.size - 1111.0).abs() < 60.0, "{crossover:?}");
    assert!(crossover.low.unwrap() <= crossover.size && crossover.size <= crossover.high.unwrap(), "{crossover:?}");
    assert_eq!(
        [1, 1_000, 1_300, 1 << 40].map(|size| routing.side(size)),
        [Processor::Cpu, Processor::Cpu, Processor::Gpu, Processor::Gpu]
    );
    assert_eq!(Routing::from_json(&routing.to_json()).unwrap(), routing);
    insta::assert_snapshot!(routing.to_json());
    assert!(matches!(Routing::from_json("{\"version\":9}"), Err(RoutingError::Version(9))));
    assert!(matches!(Routing::from_json("nothing"), Err(RoutingError::Json(_))));
    let one = [Timing { size: 4, ns: 1.0 }, Timing { size: 8, ns: f64::NAN }];
    let error = Routing::of("encode", &one, &one).unwrap_err();
    assert_eq!(error.to_string(), "encode: the number of sizes timed on both CPU and GPU is 1; expected at least 2");
}

#[test]
fn a_side_that_always_wins_needs_no_crossover() {
    let slow: Vec<Timing> = (1..5).map(|size| Timing { size, ns: 100.0 }).collect();
    let fast: Vec<Timing> = (1..5).map(|size| Timing { size, ns: 1.0 }).collect();
    for (cpu, gpu, side) in [(&slow, &fast, Processor::Gpu), (&fast, &slow, Processor::Cpu)] {
        let routing = Routing::of("x", cpu, gpu).unwrap();
        assert_eq!((routing.crossover.is_none(), routing.side(1), routing.side(9)), (true, side, side));
    }
    // Within the noise the crossover may be anywhere, so the interval has no ends.
    let noisy = |seed: u64| {
        (0..40)
            .map(|at| Timing { size: 10 * (1 + at % 4), ns: 100.0 + ((at * 7 + seed * 13) % 11) as f64 })
            .collect::<Vec<_>>()
    };
    let crossover = (1..9).find_map(|seed| Routing::of("x", &noisy(0), &noisy(seed)).unwrap().crossover).unwrap();
    assert!(crossover.low.is_none() || crossover.high.is_none(), "{crossover:?}");
}

/// `steps` repetitions of a step with two parts; `load` takes `load` ns and `solve` `solve` ns, with a small spread.
fn repeated(steps: u64, load: u64, solve: u64, third: bool) -> Trace {
    let (mut spans, mut now) = (Vec::new(), 1);
    for at in 0..steps {
        let wobble = at * 7 % 5;
        let parent = spans.len() as u32;
        let more = if third { 300 } else { 0 };
        spans.push(span(1, NONE, now, now + load + solve + more + 200 + wobble));
        spans.push(span(2, parent, now + 50, now + 50 + load));
        spans.push(span(3, parent, now + 100 + load, now + 100 + load + solve + wobble));
        if third {
            spans.push(span(4, parent, now + 110 + load + solve + wobble, now + 410 + load + solve));
        }
        now += load + solve + more + 1_000;
    }
    let sites = ["step", "load", "solve", "check"].map(|name| site(name, Kind::Cpu)).to_vec();
    Trace { name: format!("{solve}"), ..of(sites, vec![lane("main", spans)], now) }
}

#[test]
fn a_slower_part_is_found_with_its_interval_and_its_contribution() {
    let result =
        diff(&repeated(200, 5_000, 10_000, false), &repeated(150, 5_000, 12_000, true), &DiffOptions::default())
            .unwrap();
    insta::assert_snapshot!(format!("{result}\n\n{}", result.to_json()));
    assert_eq!((result.verdict, result.root.as_deref()), (Difference::Slower, Some("step")));
    let new = result.nodes.iter().filter(|node| node.baseline_ns.is_none());
    assert_eq!(new.map(|node| node.path.join("/")).collect::<Vec<_>>(), ["step/check"]);
    assert!(result.nodes.iter().all(|node| node.candidate_ns.is_some()));
    let back = diff(&repeated(150, 5_000, 12_000, true), &repeated(200, 5_000, 10_000, false), &DiffOptions::default())
        .unwrap();
    let gone = back.nodes.iter().filter(|node| node.candidate_ns.is_none());
    assert_eq!((back.verdict, gone.count()), (Difference::Faster, 1));
}

#[test]
fn a_difference_fits_the_terminal() {
    let (mut a, mut b) = (repeated(20, 500, 900, false), repeated(20, 500, 1_900, true));
    for trace in [&mut a, &mut b] {
        trace.sites[2].name = format!("start {} end", "x".repeat(90));
        // A different number of calls.
        trace.sites[3].name = "load".into();
    }
    let diff = diff(&a, &b, &DiffOptions { root: Some("step".into()), ..DiffOptions::default() }).unwrap();
    let free = diff.to_string();
    assert_eq!((format!("{diff:500}"), free.contains("hidden")), (free.clone(), false));
    for width in [100, 80, 60, 48] {
        let text = format!("{diff:width$}");
        let tables = text.split_once("\n\n").unwrap().1;
        // The command line wraps the note.
        let fits = |line: &str| line.chars().count() <= width || line.starts_with("hidden");
        assert!(tables.lines().all(fits), "{width}: {text}");
        assert!(tables.contains("hidden at this width: interval") && tables.contains("verdict"), "{text}");
    }
}

#[test]
fn the_same_profile_is_the_same_and_one_repetition_is_undecided() {
    let same = diff(&repeated(100, 500, 900, false), &repeated(100, 500, 900, false), &DiffOptions::default()).unwrap();
    assert_eq!(same.verdict, Difference::Same);
    assert!(same.nodes.iter().all(|node| node.verdict == Difference::Same && node.contribution_ns == 0.0));
    let once = diff(&repeated(1, 500, 900, false), &repeated(1, 500, 950, false), &DiffOptions::default()).unwrap();
    assert_eq!((once.verdict.word(), once.root, once.notes.len()), ("undecided", None, 1));
    assert!((once.change_ns - 50.0).abs() < 1e-9);
    let empty = diff(&Trace::in_nanoseconds(), &step(), &DiffOptions::default()).unwrap();
    assert!(empty.nodes.iter().any(|node| node.baseline_ns.is_none()) && empty.ratio.is_none());
    assert!(!empty.to_string().is_empty());
}

#[test]
fn a_missing_root_or_a_wrong_setting_is_an_error_that_names_it() {
    let trace = repeated(9, 5, 5, false);
    let with = |options| diff(&trace, &trace, &options).unwrap_err();
    let error = with(DiffOptions { root: Some("epoch".into()), ..DiffOptions::default() });
    assert_eq!(
        error.to_string(),
        "the baseline has no span called \"epoch\" that ended; its spans are: step, load, solve"
    );
    assert!(matches!(
        with(DiffOptions { rope: -1.0, ..DiffOptions::default() }),
        DiffError::Setting { name: "rope", .. }
    ));
    assert!(matches!(
        with(DiffOptions { alpha: 0.9, ..DiffOptions::default() }),
        DiffError::Setting { name: "alpha", .. }
    ));
}

proptest! {
    #[test]
    fn contributions_add_up_to_the_change(a in nested_spans(4, 120), b in nested_spans(4, 120), whole in any::<bool>()) {
        let sites = ["a", "b", "c", "d"].map(|name| site(name, Kind::Cpu)).to_vec();
        let traces = [a, b].map(|mut spans: Vec<Span>| {
            if whole {
                // Without a common root.
                spans.truncate(1);
            }
            let end = spans.iter().map(|span| span.end).max().unwrap_or(1);
            of(sites.clone(), vec![lane("main", spans)], end)
        });
        let result = diff(&traces[0], &traces[1], &DiffOptions::default()).unwrap();
        let sum: f64 = result.nodes.iter().map(|node| node.contribution_ns).sum();
        let scale = result.baseline.mean_ns.max(result.candidate.mean_ns).max(1.0);
        prop_assert!((sum - result.change_ns).abs() < 1e-9 * scale, "{} {}", sum, result.change_ns);
        for node in &result.nodes {
            if let Some(ratio) = node.ratio {
                prop_assert!(ratio.low <= ratio.ratio && ratio.ratio <= ratio.high && (0.0..=1.0).contains(&ratio.p));
            }
        }
    }

    #[test]
    fn findings_of_any_profile_have_savings_between_none_and_all(trace in common::any_trace()) {
        for finding in findings(&trace, Some(all_threads(Limits { bandwidths: vec![(1, 1.0)], flops_per_s: Some(1.0) }))) {
            prop_assert!(finding.saving_upper_bound.is_none_or(|share| (0.0..=1.0).contains(&share)), "{:?}", finding);
            prop_assert!(!finding.to_string().is_empty());
        }
    }
}
