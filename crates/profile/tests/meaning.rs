//! What a trace means: the breakdown adds up, tables line up, the file holds every number.

mod common;

use common::{cost, lane, span};
use ellwand_profile::{
    Breakdown, By, Calibration, ClockKind, Counters, Detail, Kind, LaneKind, MemoryUse, NONE, Part, SiteInfo, Span,
    Total, Trace, TraceLane, Track, Value,
};
use proptest::prelude::*;

fn site(name: &str, kind: Kind) -> SiteInfo {
    SiteInfo { name: name.into(), kind, file: "src/step.rs".into(), line: 7 }
}

fn stream(name: &str, spans: Vec<Span>) -> TraceLane {
    TraceLane { kind: LaneKind::Stream { device: "cuda:0".into() }, ..lane(name, spans) }
}

/// A step on the host that launches a copy and a kernel, waits for them, and allocates; ticks of half a nanosecond.
fn step() -> Trace {
    let linked = |corr: u32, span: Span| Span { corr, ..span };
    let host = vec![
        Span { ext: 1, ..span(1, NONE, 1100, 2900) },
        linked(5, span(2, 0, 1200, 1300)),
        linked(6, span(2, 0, 1300, 1500)),
        span(5, 0, 1500, 2500),
        span(6, 0, 2600, 2700),
    ];
    let device = vec![linked(5, span(3, NONE, 1400, 1600)), linked(6, span(4, NONE, 1700, 2300))];
    let mut main = lane("main", host);
    let memory = MemoryUse { allocations: 3, allocated_bytes: 4096, freed_bytes: 96, peak_bytes: 4000 };
    main.details = vec![Detail {
        counters: Counters { bytes: 1800, items: 9, flops: 0.0 },
        cpu_ns: Some(400),
        memory: Some(memory),
        rss_bytes: Some(1 << 20),
        args: vec![("shape".into(), Value::Text("3x3 <\"".into())), ("warm".into(), Value::Bool(true))],
        cause: 0,
    }];
    Trace {
        name: "server".into(),
        environment: vec![("cores".into(), Value::Int(2)), ("load".into(), Value::Float(0.5))],
        started_unix_ns: 1_795_238_760_000_000_000,
        start: 1000,
        end: 3000,
        clock: Calibration { kind: ClockKind::Tsc, ns_per_tick: 0.5, relative_error: 1e-6 },
        sites: vec![
            site("step", Kind::Cpu),
            site("launch", Kind::Launch),
            site("copy in", Kind::HostToDevice),
            site("gemm", Kind::Kernel),
            site("synchronize", Kind::Sync),
            site("grow", Kind::Allocation),
        ],
        lanes: vec![main, stream("stream 7", device)],
        tracks: vec![Track {
            name: "heap".into(),
            unit: "B".into(),
            points: vec![(1000, 0.0), (2600, 4096.0), (2900, 64.0)],
        }],
        ..Trace::in_nanoseconds()
    }
}

/// The same work, recorded without its times.
fn aggregated() -> Trace {
    let total = |parent, site, count, total_ns, self_ns, histogram| Total {
        parent,
        site,
        count,
        total_ns,
        self_ns,
        min_ns: 10.0,
        max_ns: 90.0,
        square_ns2: 5e5,
        histogram,
        ..Total::default()
    };
    let totals =
        vec![total(NONE, 1, 10, 400.0, 300.0, vec![(5, 10)]), total(0, 5, 20, 100.0, 100.0, vec![(2, 19), (6, 1)])];
    let main = TraceLane { totals, ..lane("main", vec![span(1, NONE, 1100, 1300)]) };
    Trace { lanes: vec![main], cost: cost(2.0, 1.0), ..step() }
}

fn parts(breakdown: &Breakdown) -> Vec<(Part, u64)> {
    Part::ALL.into_iter().map(|part| (part, breakdown.ticks(part))).filter(|(_, ticks)| *ticks > 0).collect()
}

#[test]
fn every_moment_goes_to_what_the_host_does_or_else_the_device() {
    let mut trace = step();
    trace.lanes[0].details[0].cpu_ns = None;
    let breakdown = trace.breakdown();
    assert_eq!(
        parts(&breakdown),
        [
            (Part::Unmeasured, 400),
            (Part::Device, 600),
            (Part::Transfer, 100),
            (Part::Wait, 300),
            (Part::Launch, 300),
            (Part::Allocation, 100),
            (Part::Unexplained, 200),
        ]
    );
    assert_eq!((breakdown.wall_ticks(), breakdown.wall_ns()), (2000, 1000.0));
}

#[test]
fn a_span_with_cpu_time_waits_for_the_rest() {
    // 1800 ticks are 900 ns; launches, allocation and the wait take 700 ns of them. Of 400 ns of CPU time, all are the
    // step's own, which has 200 ns: it computes all of the time. With 100 ns of CPU time it computes half of the time.
    let mut trace = step();
    let all = trace.breakdown();
    trace.lanes[0].details[0].cpu_ns = Some(0);
    let none = trace.breakdown();
    assert_eq!((all.ticks(Part::Cpu), all.ticks(Part::Wait)), (400, 300));
    assert_eq!((none.ticks(Part::Cpu), none.ticks(Part::Wait)), (0, 700));
    assert_eq!(none.wall_ticks(), 2000);
}

#[test]
fn the_cpu_time_of_threads_in_turns_is_a_lower_bound() {
    let mut main = lane("main", vec![Span { ext: 1, ..span(1, NONE, 0, 200) }]);
    main.details = vec![Detail { cpu_ns: Some(100), ..Detail::default() }];
    let lanes = vec![main.clone(), main];
    let mut trace = Trace { end: 200, sites: vec![site("work", Kind::Cpu)], lanes, ..Trace::in_nanoseconds() };
    assert_eq!(parts(&trace.breakdown()), [(Part::Cpu, 100), (Part::Wait, 100)]);
    let mut json = Vec::new();
    trace.write_json(&mut json).unwrap();
    assert!(String::from_utf8(json).unwrap().contains(r#""cpu_is_least":true"#));
    let table = trace.breakdown().to_string();
    assert!(table.contains("computes, at least ") && table.contains("idle, at most "), "{table}");
    trace.lanes.pop();
    assert!(!trace.breakdown().cpu_is_least, "of one thread it is exact");
}

#[test]
fn without_cpu_time_a_span_is_no_computing() {
    let sites = vec![site("sleep", Kind::Cpu), site("read", Kind::Wait), site("measured", Kind::Cpu)];
    let mut main = lane("main", vec![span(1, NONE, 0, 400), span(2, 0, 100, 200), span(3, NONE, 500, 700)]);
    main.spans.push(span(1, 2, 550, 600));
    main.details = vec![Detail { cpu_ns: Some(100), ..Detail::default() }];
    main.spans[2].ext = 1;
    let trace = Trace { end: 700, sites, lanes: vec![main], ..Trace::in_nanoseconds() };
    // The share is known for a span inside one with CPU time.
    assert_eq!(
        parts(&trace.breakdown()),
        [(Part::Cpu, 100), (Part::Unmeasured, 300), (Part::Wait, 200), (Part::Unexplained, 100)]
    );
    let mut json = Vec::new();
    trace.write_json(&mut json).unwrap();
    assert!(String::from_utf8(json).unwrap().contains(r#"{"part":"not-measured","ns":300"#));
}

#[test]
fn aggregated_spans_fill_unexplained_time_and_their_cost_is_instrumentation() {
    let breakdown = aggregated().breakdown();
    // Kept: 200 ticks of `step`. Aggregated: 600 ticks of `step` and 200 of `synchronize`. 31 spans of 4 ticks; of the 11
    // outermost ones, 2 ticks are in no span.
    assert_eq!(
        parts(&breakdown),
        [(Part::Unmeasured, 698), (Part::Wait, 200), (Part::Instrumentation, 124), (Part::Unexplained, 978)]
    );
    let summary = aggregated().summary();
    let text = summary.to_string();
    assert!(text.contains("~48.0 ns") && !text.contains("~11 ") && !text.contains("~500"), "{text}");
    let step = &summary.rows[0];
    assert_eq!((step.count, step.aggregated, step.total_ns, step.self_ns), (11, 10, 500.0, 400.0));
    assert_eq!((step.min_ns, step.median_ns, step.max_ns), (10.0, 48.0, 100.0));
    // 11 spans measure 1 ns of their own cost each; 20 children cost 1 ns more in the self time and 2 ns in the total.
    assert_eq!((step.overhead_ns, step.self_overhead_ns), (Some(51.0), Some(31.0)));
    assert_eq!((step.corrected_total_ns(), step.corrected_self_ns()), (Some(449.0), Some(369.0)));
    // A cost with an unknown part is unknown, and not the whole time.
    let mut unknown = aggregated();
    unknown.cost = cost(2.0, f64::NAN);
    let row = &unknown.summary().rows[0];
    assert_eq!((row.overhead_ns, row.corrected_total_ns(), row.corrected_self_ns()), (None, None, None));
    let wait = &summary.rows[1];
    assert_eq!(
        (wait.path.join("/").as_str(), wait.count, wait.p90_ns, wait.p99_ns),
        ("step/synchronize", 20, 10.0, 90.0)
    );
    let by: Vec<(By, String)> = aggregated().bottlenecks(1).into_iter().map(|one| (one.by, one.operation)).collect();
    assert_eq!(by, By::ALL.map(|by| (by, "step".to_string())));
}

#[test]
fn aggregated_spans_with_cpu_time_wait_for_the_rest() {
    let mut trace = Trace { cost: None, ..aggregated() };
    trace.lanes[0].totals[0].sums.cpu_ns = Some(75);
    // `step` computes for 75 of its 300 ns; `synchronize` waits for 100 ns. The 200 ticks that were kept have no CPU time.
    assert_eq!(
        parts(&trace.breakdown()),
        [(Part::Cpu, 150), (Part::Unmeasured, 200), (Part::Wait, 650), (Part::Unexplained, 1000)]
    );
}

#[test]
fn operations_of_the_same_name_elsewhere_stay_separate() {
    let encode = |file: &str| SiteInfo { file: file.into(), ..site("encode", Kind::Cpu) };
    let spans = vec![span(1, NONE, 1000, 2800), span(2, 0, 1200, 2800)];
    let trace =
        Trace { sites: vec![encode("src/a.rs"), encode("src/b.rs")], lanes: vec![lane("main", spans)], ..step() };
    let total: Vec<_> = trace.bottlenecks(9).into_iter().filter(|one| one.by == By::Total).collect();
    let places: Vec<_> = total.iter().map(|one| (one.place.as_deref(), one.share)).collect();
    assert_eq!(places, [(Some("src/a.rs:7"), 0.9), (Some("src/b.rs:7"), 0.8)]);
    assert!(total[1].to_string().starts_with("encode (b.rs:7)  "), "{}", total[1]);
    let table = trace.summary_by_site().to_string();
    assert!(table.contains("encode (a.rs:7)") && table.contains("encode (b.rs:7)"), "{table}");
}

#[test]
fn device_time_belongs_to_the_calls_that_started_it() {
    let by_site = step().summary_by_site();
    let of = |name: &str| by_site.rows.iter().find(|row| row.name() == name).unwrap();
    assert_eq!((of("step").device_ns, of("step").transfer_ns), (300.0, 100.0));
    assert_eq!((of("launch").device_ns, of("launch").transfer_ns), (300.0, 100.0));
    assert_eq!((of("gemm").device_ns, of("copy in").transfer_ns), (300.0, 100.0));
    assert_eq!((of("synchronize").device_ns, of("step").waiting_ns), (0.0, Some(500.0)));
    assert_eq!((by_site.cpu_ns, of("step").cpu_share(&by_site)), (Some(400.0), Some(1.0)));
    assert_eq!((of("launch").std_ns, of("launch").mean_ns), (1250_f64.sqrt(), 75.0));
    let paths: Vec<String> = step().summary().rows.iter().map(|row| row.path.join("/")).collect();
    assert!(paths.contains(&"step/launch/gemm".to_string()), "{paths:?}");
}

#[test]
fn exposed_time_is_what_the_elapsed_time_was_spent_on() {
    let exposed: Vec<(String, f64)> = step()
        .bottlenecks(9)
        .into_iter()
        .filter(|one| one.by == By::Exposed)
        .map(|one| (one.operation, one.ns))
        .collect();
    let of = |name: &str| exposed.iter().find(|one| one.0 == name).map_or(0.0, |one| one.1);
    assert_eq!(
        ["gemm", "step", "launch", "synchronize", "copy in", "grow"].map(of),
        [300.0, 200.0, 150.0, 150.0, 50.0, 50.0]
    );
}

#[test]
fn exposed_time_of_a_kept_span_moves_to_the_aggregated_spans_inside() {
    // Kept: a copy of 100 ns, of which aggregated spans take 40 ns; 30 ns are copies and 10 ns computing.
    let total =
        |parent, site, count, total_ns, self_ns| Total { parent, site, count, total_ns, self_ns, ..Total::default() };
    let totals = vec![total(NONE, 1, 0, 0.0, -40.0), total(0, 2, 3, 30.0, 30.0), total(0, 3, 1, 10.0, 10.0)];
    let main = TraceLane { totals, ..lane("main", vec![span(1, NONE, 100, 200)]) };
    let sites = vec![site("all", Kind::HostToDevice), site("part", Kind::HostToDevice), site("pack", Kind::Cpu)];
    let trace = Trace { end: 1000, sites, lanes: vec![main], ..Trace::in_nanoseconds() };
    let exposed = |trace: &Trace| {
        let of = trace.bottlenecks(9).into_iter().filter(|one| one.by == By::Exposed);
        of.map(|one| (one.operation, one.ns)).collect::<Vec<_>>()
    };
    let named = |all: [(&str, f64); 3]| all.map(|(name, ns)| (name.to_string(), ns));
    assert_eq!(exposed(&trace), named([("all", 60.0), ("part", 30.0), ("pack", 10.0)]));
    assert_eq!(
        parts(&trace.breakdown()),
        [(Part::Unmeasured, 10), (Part::Transfer, 90), (Part::Unexplained, 900)],
        "exposed times add up to the parts"
    );
    // All aggregated spans are copies, so the part stays as it is.
    let mut copies = trace;
    copies.sites[2].kind = Kind::HostToDevice;
    assert_eq!(exposed(&copies), named([("all", 60.0), ("part", 30.0), ("pack", 10.0)]));
    // No time of the kept span is exposed, because its thread computes on another lane, so nothing can move.
    copies.lanes.push(lane("other", vec![span(3, NONE, 100, 200)]));
    copies.sites[2].kind = Kind::Cpu;
    copies.lanes[0].totals.pop();
    copies.lanes[0].totals[0].self_ns = -30.0;
    assert_eq!(exposed(&copies), [("pack".to_string(), 100.0)]);
}

#[test]
fn declared_work_has_rates() {
    let mut trace = step();
    assert!(!trace.summary().to_string().contains("FLOP"));
    trace.lanes[0].details[0].counters.flops = 4500.0;
    let summary = trace.summary();
    assert_eq!((summary.rows[0].gb_per_s(), summary.rows[0].gflop_per_s()), (Some(2.0), Some(5.0)));
    assert_eq!(summary.rows[1].gflop_per_s(), None);
    let table = summary.to_string();
    let line = |start: &str| table.split("\n\n").nth(1).unwrap().lines().find(|line| line.starts_with(start)).unwrap();
    assert!(line("operation").contains("  GB/s  GFLOP/s"), "{table}");
    assert!(line("step").contains("  2.00     5.00"), "{table}");
    let mut json = Vec::new();
    trace.write_json(&mut json).unwrap();
    assert!(String::from_utf8(json).unwrap().contains("\"gb_per_s\":2.0,\"gflop_per_s\":5.0"));
}

#[test]
fn tables_line_up() {
    let mut trace = step();
    trace.sites[3].name = "a very long name \u{202e}of a \u{1b}[31mkernel that goes on and on and on".into();
    trace.lanes[0].spans.push(span(6, NONE, 2950, 0));
    let trace = Trace { cost: cost(20.0, 10.0), ..trace };
    insta::assert_snapshot!(format!("{}\n\n{}\n\n{}", trace.summary(), trace.summary_by_site(), trace.breakdown()));
    assert_eq!(Trace::in_nanoseconds().summary().to_string(), "no spans in 0 ns");
    assert_eq!(Trace::in_nanoseconds().breakdown().to_string().lines().count(), 2);
    let bottlenecks: Vec<String> = step().bottlenecks(2).iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(bottlenecks.join("\n"));
}

#[test]
fn a_summary_of_many_operations_is_cut_unless_all_are_requested() {
    let sites = (0..100).map(|index| site(&format!("operation {index}"), Kind::Cpu)).collect();
    let spans = (0..100).map(|index| span(index + 1, NONE, 1000 + u64::from(index), 1001 + u64::from(index))).collect();
    let trace = Trace { sites, lanes: vec![lane("main", spans)], ..step() };
    let (short, long) = (trace.summary().to_string(), format!("{:#}", trace.summary()));
    assert_eq!((short.lines().count(), long.lines().count()), (43, 102));
    assert!(short.contains("… and 60 more"), "{short}");
}

#[test]
fn tables_fit_the_terminal_and_name_what_they_hide() {
    let mut trace = step();
    trace.sites[0].name = "the start of a name that has an end".into();
    // The command line wraps the note.
    let table =
        |text: &str| text.lines().filter(|line| !line.starts_with("hidden")).map(|line| line.chars().count()).max();
    let widest = |text: &str| table(text).unwrap();
    let all = |width: usize| {
        let bottlenecks: String = trace.bottlenecks(3).iter().map(|one| format!("\n{one:width$}")).collect();
        let summary = trace.summary_by_site();
        format!("{summary:width$}\n{summary:#width$}\n{:width$}{bottlenecks}", trace.breakdown())
    };
    assert!(widest(&all(0)) > 100, "{}", all(0));
    assert_eq!((all(500), all(0).contains("hidden")), (all(0), false));
    for width in [100, 80, 60, 48] {
        let text = all(width);
        assert!(widest(&text) <= width, "{width}: {text}");
        assert!(text.contains("the start of"), "{text}");
        assert!(text.contains("hidden at this width: std") && text.contains("self"), "{text}");
    }
    let narrow = format!("{:40}", trace.summary_by_site());
    assert!(narrow.lines().any(|line| line.starts_with("the sta") && line.contains("…")), "{narrow}");
}

#[test]
fn names_that_are_blank_are_named() {
    let mut trace = step();
    trace.sites[0].name = " ".into();
    let (table, bottleneck) = (trace.summary_by_site().to_string(), trace.bottlenecks(1)[0].to_string());
    assert!(table.lines().any(|line| line.starts_with("(no name)")), "{table}");
    assert!(bottleneck.starts_with("(no name)"), "{bottleneck}");
}

#[test]
fn the_file_holds_every_number() {
    let mut out = Vec::new();
    let mut trace = step();
    trace.lanes[0].spans.push(span(6, NONE, 2950, 0));
    trace.lanes[0].totals = aggregated().lanes[0].totals.clone();
    trace.lanes[0].dropped = 3;
    Trace { cost: cost(2.0, 1.0), lost: 1, sampled_out: 4, ..trace }.write_json(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn activities_are_lanes_of_the_file() {
    let one = |name: &str, lane: &str, start_ns, corr, call| ellwand_profile::Activity {
        name: name.into(),
        lane: lane.into(),
        start_ns,
        ns: 250,
        corr,
        call,
        detail: String::new(),
    };
    let activities = vec![
        one("cuLaunchKernel", "driver", 300, 77, true),
        one("softmax", "stream 13", 350, 77, false),
        one("copy host to device", "stream 13", -50, 0, false),
    ];
    let (mut trace, mut out) = (Trace { lanes: Vec::new(), ..step() }, Vec::new());
    trace.add_activities(activities);
    trace.write_json(&mut out).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(value["lanes"][0], serde_json::json!({"name": "stream 13", "kind": "stream", "device": "device"}));
    assert_eq!(value["entries"]["start_ns"], serde_json::json!([-50, 350, 300]));
    assert_eq!(value["entries"]["link"], serde_json::json!([0, 77, 77]));
    // Without operations that have no spans.
    assert_eq!(value["operations"].as_array().unwrap().len(), 3);
    assert_eq!(value["operations"][0]["kind"], "host-to-device");
    assert_eq!(value["operations"][2], serde_json::json!({"name": "softmax", "kind": "kernel", "file": "", "line": 0}));
}

#[test]
fn deep_recursion_keeps_its_totals() {
    let depth: u32 = 100_000;
    let spans =
        (0..depth).map(|at| span(1, at.wrapping_sub(1), 1000 + u64::from(at), 300_000 - u64::from(at))).collect();
    let trace = Trace { end: 300_000, lanes: vec![lane("main", spans)], ..step() };
    let summary = trace.summary();
    assert_eq!(summary.rows.iter().map(|row| row.count).sum::<u64>(), u64::from(depth));
    assert_eq!(summary.rows.iter().map(|row| row.path.len()).max(), Some(128));
    assert!(summary.rows.iter().all(|row| row.total_ns >= row.self_ns), "also of the row that has all deeper calls");
    assert_eq!(trace.summary_by_site().rows[0].total_ns, 149_500.0);
    assert_eq!(trace.breakdown().ticks(Part::Unmeasured), 299_000);
    assert_eq!(summary.to_string().lines().count(), 43);
}

/// Traces that a recorder could not make: times in any order, any parents, sites and links.
fn any_trace() -> impl Strategy<Value = Trace> {
    let times = (0_u64..60, 0_u64..70);
    let one = (0_u32..9, 0_u32..7, times, 0_u32..4, 0_u32..3);
    let spans = proptest::collection::vec(one, 0..24);
    let total = (0_u32..4, 0_u32..9, 0_u64..5, 0.0_f64..40.0);
    let lanes = proptest::collection::vec((any::<bool>(), spans, proptest::collection::vec(total, 0..4)), 0..4);
    (lanes, proptest::option::of(0.0_f64..9.0), 0_u64..80, any::<bool>()).prop_map(|(lanes, on, end, sorted)| {
        let sites = Kind::ALL.into_iter().take(8).map(|kind| site(kind.word(), kind)).collect();
        let lanes = lanes.into_iter().map(|(device, spans, totals)| {
            let mut spans: Vec<Span> = spans
                .into_iter()
                .enumerate()
                .map(|(index, (site, parent, (start, end), corr, ext))| Span {
                    start,
                    end,
                    site,
                    parent: if (parent as usize) < index { parent } else { NONE },
                    corr,
                    ext,
                })
                .collect();
            if sorted {
                spans.iter_mut().for_each(|span| span.parent = NONE);
                spans.sort_by_key(|span| span.start);
            }
            let totals = totals
                .into_iter()
                .map(|(parent, site, count, ns)| Total {
                    parent: if parent == 3 { NONE } else { parent },
                    site,
                    count,
                    total_ns: ns,
                    self_ns: ns / 2.0,
                    ..Total::default()
                })
                .collect();
            let details = vec![Detail { cpu_ns: Some(7), ..Detail::default() }, Detail::default()];
            let kind = if device { LaneKind::Stream { device: "x".into() } } else { LaneKind::Thread };
            TraceLane { kind, spans, totals, details, ..TraceLane::default() }
        });
        let cost = on.and_then(|on| cost(on, on / 2.0));
        Trace { start: 10, end, sites, lanes: lanes.collect(), cost, ..step() }
    })
}

proptest! {
    #[test]
    fn parts_add_up_to_the_elapsed_time_for_any_trace(trace in any_trace()) {
        let breakdown = trace.breakdown();
        prop_assert_eq!(breakdown.wall_ticks(), trace.end.saturating_sub(trace.start));
        prop_assert_eq!(Part::ALL.iter().map(|part| breakdown.ticks(*part)).sum::<u64>(), breakdown.wall_ticks());
        let ended: usize = trace.lanes.iter().flat_map(|lane| &lane.spans).filter(|span| !span.is_open()).count();
        let aggregated: u64 = trace.lanes.iter().flat_map(|lane| &lane.totals).map(|total| total.count).sum();
        for summary in [trace.summary(), trace.summary_by_site()] {
            prop_assert_eq!(summary.rows.iter().map(|row| row.count).sum::<u64>(), ended as u64 + aggregated);
            prop_assert!(!summary.to_string().is_empty());
        }
        let mut out = Vec::new();
        trace.write_json(&mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let parts = json["breakdown"]["parts"].as_array().unwrap();
        let picoseconds = |value: &serde_json::Value| (value.as_f64().unwrap() * 1e3).round() as u64;
        let sum: u64 = parts.iter().map(|part| picoseconds(&part["ns"])).sum();
        prop_assert_eq!(sum, picoseconds(&json["breakdown"]["wall_ns"]));
    }

    #[test]
    fn self_times_of_a_thread_add_up_to_its_outermost_spans(steps in proptest::collection::vec((0_u32..3, 1_u64..9), 0..80)) {
        // As guards record: every span is inside its parent.
        let (mut spans, mut open, mut now) = (Vec::new(), Vec::new(), 1000);
        for (what, ticks) in steps {
            now += ticks;
            match what {
                0 => if let Some(index) = open.pop() { let span: &mut Span = &mut spans[index]; span.end = now },
                site => {
                    let parent = open.last().map_or(NONE, |index| *index as u32);
                    open.push(spans.len());
                    spans.push(span(site, parent, now, 0));
                }
            }
        }
        open.into_iter().for_each(|index| spans[index].end = now + 1);
        let roots: u64 = spans.iter().filter(|span| span.parent == NONE).map(Span::ticks).sum();
        let trace = Trace { end: now + 2, lanes: vec![lane("main", spans)], ..step() };
        for summary in [trace.summary(), trace.summary_by_site()] {
            let own: f64 = summary.rows.iter().map(|row| row.self_ns).sum();
            prop_assert!((own - trace.clock.ns(roots)).abs() < 1e-6);
        }
        prop_assert_eq!(trace.breakdown().ticks(Part::Unmeasured) + trace.breakdown().ticks(Part::Launch), roots);
    }
}
