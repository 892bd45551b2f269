//! What a trace reports about costs, and about spans that are only partly known.

mod common;

use common::{cost, lane, span};
use ellwand_profile::{
    Counters, Detail, Kind, MemoryUse, Mode, NONE, Options, Part, Profiler, SiteInfo, Span, SpanCost, Total, Trace,
    TraceLane,
};

fn site(name: &str, kind: Kind) -> SiteInfo {
    SiteInfo { name: name.into(), kind, ..SiteInfo::default() }
}

#[test]
fn the_cost_of_inner_calls_counts_once_in_the_total_of_a_recursive_function() {
    // f calls f calls f: 3 empty spans, of which the outer ones measure the inner ones whole.
    let spans = vec![span(1, NONE, 0, 100), span(1, 0, 20, 80), span(1, 1, 40, 60)];
    let trace = Trace {
        end: 100,
        sites: vec![site("f", Kind::Cpu)],
        lanes: vec![lane("main", spans)],
        cost: cost(20.0, 8.0),
        ..Trace::in_nanoseconds()
    };
    let row = &trace.summary_by_site().rows[0];
    assert_eq!((row.total_ns, row.overhead_ns, row.self_overhead_ns), (100.0, Some(48.0), Some(48.0)));
}

#[test]
fn each_operation_has_its_own_cost() {
    let spans = vec![span(1, NONE, 0, 100), span(2, 0, 20, 80)];
    let trace = Trace {
        end: 100,
        sites: vec![site("loop", Kind::Cpu), site("measured", Kind::Cpu)],
        lanes: vec![lane("main", spans)],
        cost: cost(20.0, 8.0),
        span_costs: vec![SpanCost { span_ns: 10.0, empty_ns: 5.0 }, SpanCost { span_ns: 30.0, empty_ns: 11.0 }],
        ..Trace::in_nanoseconds()
    };
    let rows = trace.summary_by_site().rows;
    let known =
        |name: &str| rows.iter().find(|row| row.name() == name).map(|row| (row.overhead_ns, row.self_overhead_ns));
    assert_eq!(known("loop"), Some((Some(35.0), Some(24.0))));
    assert_eq!(known("measured"), Some((Some(11.0), Some(11.0))));
    assert_eq!(trace.breakdown().ns(Part::Instrumentation), 40.0);
}

#[test]
fn the_cost_of_a_span_comes_from_the_time_that_contains_it() {
    // `work` computes for 300 ns. Then come ten empty spans, of which each costs 2 ns inside and 18 ns outside.
    let empty = |parent| (0..10).map(move |at| span(2, parent, 310 + 20 * at, 312 + 20 * at));
    let of = |around: Vec<Span>, parent, other: Vec<TraceLane>| {
        let first = Span { ext: 1, ..span(1, NONE, 0, 300) };
        let spans = std::iter::once(first).chain(around).chain(empty(parent)).collect();
        let cpu = Detail { cpu_ns: Some(300), ..Detail::default() };
        let main = TraceLane { details: vec![cpu.clone(), cpu], ..lane("main", spans) };
        let trace = Trace {
            end: 600,
            sites: vec![site("work", Kind::Cpu), site("empty", Kind::Cpu), site("join", Kind::Wait)],
            lanes: std::iter::once(main).chain(other).collect(),
            span_costs: vec![
                SpanCost { span_ns: 0.0, empty_ns: 0.0 },
                SpanCost { span_ns: 20.0, empty_ns: 2.0 },
                SpanCost { span_ns: 0.0, empty_ns: 0.0 },
            ],
            ..Trace::in_nanoseconds()
        };
        let breakdown = trace.breakdown();
        assert_eq!(Part::ALL.map(|part| breakdown.ticks(part)).iter().sum::<u64>(), 600);
        let parts = [Part::Cpu, Part::Unmeasured, Part::Wait, Part::Instrumentation, Part::Unexplained];
        parts.map(|part| breakdown.ticks(part))
    };
    assert_eq!(of(vec![], NONE, vec![]), [280, 20, 0, 200, 100], "outermost spans, without CPU time");
    let around = vec![Span { ext: 2, ..span(1, NONE, 300, 600) }];
    assert_eq!(of(around, 1, vec![]), [400, 0, 0, 200, 0], "inside a span that computes");
    // The other thread shares the moments in which both are in a span.
    let waiting = lane("other", vec![span(3, NONE, 300, 600)]);
    assert_eq!(of(vec![], NONE, vec![waiting]), [290, 20, 190, 100, 0], "while another thread waits");
}

#[test]
fn aggregated_spans_inside_an_open_span_take_no_time_from_others() {
    // `server` ended twice and is open; what the third one called was aggregated, and below an open `request`, too.
    let spans = vec![span(1, NONE, 0, 10), span(1, NONE, 20, 30), span(1, NONE, 40, 0)];
    let total = |parent, site, count, open, total_ns, self_ns| Total {
        parent,
        site,
        count,
        open,
        total_ns,
        self_ns,
        ..Total::default()
    };
    let totals =
        vec![total(NONE, 1, 0, 0, 0.0, -500.0), total(0, 2, 5, 1, 500.0, -100.0), total(1, 3, 9, 0, 600.0, 600.0)];
    let trace = Trace {
        end: 1000,
        sites: vec![site("server", Kind::Cpu), site("request", Kind::Cpu), site("step", Kind::Cpu)],
        lanes: vec![TraceLane { totals, dropped: 14, ..lane("main", spans) }],
        ..Trace::in_nanoseconds()
    };
    for rows in [trace.summary_by_site().rows, trace.summary().rows] {
        let self_ns = |name: &str| rows.iter().find(|row| row.name() == name).map(|row| row.self_ns);
        assert_eq!(["server", "request", "step"].map(self_ns), [Some(20.0), Some(0.0), Some(600.0)]);
    }
}

#[test]
fn aggregated_spans_inside_a_measured_one_count_in_no_more_cpu_time() {
    let with_cpu = |cpu_ns| Detail { cpu_ns: Some(cpu_ns), ..Detail::default() };
    let total = |parent, site, count, cpu: Option<u64>| Total {
        parent,
        site,
        count,
        total_ns: 80.0,
        sums: cpu.map_or_else(Detail::default, with_cpu),
        ..Total::default()
    };
    // `run` ended or is open; `step` was aggregated inside it, and `part` inside `step`.
    for (end, ext, all) in [(100, 1, 90.0), (0, 0, 60.0)] {
        let spans = vec![Span { ext, ..span(1, NONE, 0, end) }];
        let totals = vec![total(NONE, 1, 0, None), total(0, 2, 4, Some(60)), total(1, 3, 8, Some(50))];
        let trace = Trace {
            end: 100,
            sites: vec![site("run", Kind::Cpu), site("step", Kind::Cpu), site("part", Kind::Cpu)],
            lanes: vec![TraceLane { totals, details: vec![with_cpu(90)], ..lane("main", spans) }],
            ..Trace::in_nanoseconds()
        };
        let summary = trace.summary_by_site();
        assert_eq!(summary.cpu_ns, Some(all));
        assert!(summary.rows.iter().all(|row| row.cpu_share(&summary).is_none_or(|share| share <= 1.0)));
    }
}

#[test]
fn rates_are_unknown_if_calls_lost_their_work_and_tables_say_what_is_missing() {
    let counters = Counters { bytes: 100, items: 10, flops: 1.0 };
    let details = vec![Detail { counters, ..Detail::default() }];
    let spans = vec![Span { ext: 1, ..span(1, NONE, 0, 10) }, span(1, NONE, 20, 30), span(2, NONE, 40, 50)];
    let known = Trace {
        end: 100,
        sites: vec![site("copy", Kind::Cpu), site("other", Kind::Cpu)],
        lanes: vec![TraceLane { details, ..lane("main", spans) }],
        ..Trace::in_nanoseconds()
    };
    let rates = |trace: &Trace| {
        let rows = trace.summary_by_site().rows;
        let row = rows.iter().find(|row| row.name() == "copy").unwrap().clone();
        [row.gb_per_s(), row.gflop_per_s(), row.items_per_s()]
    };
    assert_eq!(rates(&known), [Some(5.0), Some(0.05), Some(5e8)]);
    assert!(known.summary().to_string().ends_with("elapsed 100 ns"), "{}", known.summary());
    let mut lossy = Trace { sampled_out: 5, lost: 1, ..known };
    lossy.lanes[0].dropped_details = 1;
    lossy.lanes[0].dropped = 2;
    assert_eq!(rates(&lossy), [None; 3]);
    let table = lossy.summary().to_string();
    let missing = "; 3 spans lost; 1 span without details; 5 spans (outermost) skipped by sampling";
    assert!(table.ends_with(missing), "{table}");
}

/// As for threads that share their counters.
#[test]
fn tables_say_how_many_spans_lack_allocations() {
    let memory = MemoryUse { allocations: 1, allocated_bytes: 8, freed_bytes: 0, peak_bytes: 8 };
    let details = vec![Detail { memory: Some(memory), ..Detail::default() }];
    let main = TraceLane { details, ..lane("main", vec![Span { ext: 1, ..span(1, NONE, 0, 10) }]) };
    let other = lane("other", vec![span(1, NONE, 0, 10), span(1, NONE, 20, 0), span(2, NONE, 40, 50)]);
    let sites = vec![site("copy", Kind::Cpu), site("not asked for", Kind::Cpu)];
    let mut trace = Trace { end: 100, sites, lanes: vec![main, other], ..Trace::in_nanoseconds() };
    for table in [trace.summary().to_string(), trace.summary_by_site().to_string()] {
        assert!(table.ends_with("elapsed 100 ns; 1 span without allocations"), "{table}");
    }
    let mut json = Vec::new();
    trace.write_json(&mut json).unwrap();
    assert!(String::from_utf8(json).unwrap().contains(r#""without_memory":1"#));
    trace.lanes.pop();
    assert!(trace.summary().to_string().ends_with("elapsed 100 ns"));
}

#[test]
fn long_names_are_whole_without_a_terminal_and_lack_their_middle_in_one() {
    let name = format!("{}::first::<{}>", "at::native::vectorized_elementwise_kernel", "x".repeat(40));
    let trace = Trace {
        end: 100,
        sites: vec![site(&name, Kind::Cpu)],
        lanes: vec![lane("main", vec![span(1, NONE, 0, 50)])],
        ..Trace::in_nanoseconds()
    };
    assert!(trace.summary_by_site().to_string().contains(&name));
    let narrow = format!("{:100}", trace.summary_by_site());
    assert!(!narrow.contains(&name) && narrow.contains("at::nativ") && narrow.contains("xx>"), "{narrow}");
}

/// More calls were lost than the tree holds.
#[test]
fn calls_beyond_the_tree_are_lost_and_no_others() {
    let profiler = Profiler::new(Options::new(Mode::Aggregate));
    let depth = 10_000;
    let mut guards: Vec<_> = (0..depth).map(|_| profiler.profile("deep")).collect();
    while guards.pop().is_some() {}
    let trace = profiler.finish();
    let calls: u64 = trace.lanes[0].totals.iter().map(|total| total.count).sum();
    assert!(calls < trace.dropped(), "{calls}");
    assert_eq!((calls + trace.summary().lost, trace.lanes[0].overflowed()), (depth, 0));
}

/// Ten steps of 100 ns for each of which the CPU clock counts 60 ns more: the thread never waits.
#[test]
fn reading_the_cpu_clock_is_no_waiting_of_the_enclosing_span() {
    let mut main = lane("main", vec![Span { ext: 1, ..span(1, NONE, 0, 2000) }]);
    main.spans.extend((0..10).map(|at| Span { ext: 2, ..span(2, 0, 200 * at, 200 * at + 100) }));
    main.details = [2060, 160].map(|ns| Detail { cpu_ns: Some(ns), ..Detail::default() }).to_vec();
    let sites = vec![site("run", Kind::Cpu), site("step", Kind::Cpu)];
    let trace = Trace { end: 2000, sites, lanes: vec![main], ..Trace::in_nanoseconds() };
    assert_eq!(trace.breakdown().ticks(Part::Cpu), 2000);
    let summary = trace.summary();
    assert_eq!(summary.cpu_ns, Some(2000.0));
    assert!(summary.rows.iter().all(|row| row.cpu_ns == Some(row.total_ns)), "{summary}");
}
