//! Traces that tests share.
#![allow(dead_code)]

use ellwand_profile::{
    Calibration, ClockKind, Cost, Counters, Detail, Kind, LaneKind, MemoryUse, NONE, SiteInfo, Span, Total, Trace,
    TraceLane, Track, Value,
};
use proptest::prelude::*;

pub(crate) fn span(site: u32, parent: u32, start: u64, end: u64) -> Span {
    Span { start, end, site, parent, corr: 0, ext: 0 }
}

pub(crate) fn site(name: &str, kind: Kind) -> SiteInfo {
    SiteInfo { name: name.into(), kind, file: "src/step.rs".into(), line: 7 }
}

pub(crate) fn lane(name: &str, spans: Vec<Span>) -> TraceLane {
    TraceLane { name: name.into(), spans, ..TraceLane::default() }
}

pub(crate) fn stream(name: &str, spans: Vec<Span>) -> TraceLane {
    TraceLane { kind: LaneKind::Stream { device: "cuda:0".into() }, ..lane(name, spans) }
}

/// A step on the host that launches a copy and a kernel and waits for them, twice; a worker; memory; totals.
pub(crate) fn step() -> Trace {
    let linked = |corr: u32, span: Span| Span { corr, ..span };
    let host = vec![
        Span { ext: 1, ..span(1, NONE, 1_100, 2_900) },
        linked(5, span(2, 0, 1_200, 1_300)),
        linked(6, span(2, 0, 1_300, 1_500)),
        span(5, 0, 1_500, 2_500),
        span(1, NONE, 3_100, 4_000),
        linked(7, span(2, 4, 3_200, 3_300)),
        span(6, NONE, 4_200, 0),
    ];
    let device = vec![
        linked(5, span(3, NONE, 1_400, 1_600)),
        linked(6, span(4, NONE, 1_700, 2_300)),
        linked(7, span(4, NONE, 3_300, 3_900)),
    ];
    let memory = MemoryUse { allocations: 3, allocated_bytes: 4096, freed_bytes: 96, peak_bytes: 4000 };
    let mut main = lane("main", host);
    main.details = vec![Detail {
        counters: Counters { bytes: 1800, items: 9, flops: 2.5 },
        cpu_ns: Some(400),
        memory: Some(memory),
        rss_bytes: Some(1 << 20),
        args: vec![("shape".into(), Value::Text("3x3 <\"\n".into())), ("n".into(), Value::Int(-3))],
        cause: 0,
    }];
    main.totals = vec![
        Total {
            parent: NONE,
            site: 6,
            count: 9,
            total_ns: 90.0,
            self_ns: 80.0,
            min_ns: 9.0,
            max_ns: 12.0,
            square_ns2: 905.0,
            histogram: vec![(3, 9)],
            ..Total::default()
        },
        Total {
            parent: 0,
            site: 1,
            count: 1,
            total_ns: 10.0,
            self_ns: 10.0,
            min_ns: 10.0,
            max_ns: 10.0,
            square_ns2: 100.0,
            histogram: vec![(3, 1)],
            open: 1,
            ..Total::default()
        },
    ];
    main.dropped = 2;
    Trace {
        name: "server".into(),
        environment: vec![("cores".into(), Value::Int(2)), ("load".into(), Value::Float(0.5))],
        started_unix_ns: 1_795_238_760_000_000_000,
        start: 1_000,
        end: 5_000,
        clock: Calibration { kind: ClockKind::Tsc, ns_per_tick: 0.5, relative_error: 1e-6 },
        sites: vec![
            site("step", Kind::Cpu),
            site("launch", Kind::Launch),
            site("copy in", Kind::HostToDevice),
            site("gemm", Kind::Kernel),
            site("synchronize", Kind::Sync),
            site("grow", Kind::Allocation),
        ],
        lanes: vec![main, lane("worker", vec![span(1, NONE, 1_150, 1_350)]), stream("stream 7", device)],
        lost: 1,
        sampled_out: 4,
        tracks: vec![Track {
            name: "heap".into(),
            unit: "B".into(),
            points: vec![(1_000, 0.0), (2_600, 4096.0), (2_900, 64.5)],
        }],
        cost: Some(Cost {
            clock: ClockKind::Tsc,
            off_ns: 0.5,
            on_ns: 2.0,
            counted_ns: 3.0,
            argued_ns: 3.0,
            scope_ns: 3.0,
            empty_ns: 1.0,
            aggregate_ns: 3.0,
            ring_ns: 3.0,
        }),
        ..Trace::in_nanoseconds()
    }
}

/// Spans as guards record them: each inside its parent, in order of their start.
pub(crate) fn nested_spans(sites: u32, most: usize) -> impl Strategy<Value = Vec<Span>> {
    proptest::collection::vec((0..=sites, 1_u64..5_000), 0..most).prop_map(|steps| {
        let (mut spans, mut open, mut now) = (Vec::new(), Vec::new(), 1);
        for (what, ticks) in steps {
            now += ticks;
            if what == 0 {
                if let Some(index) = open.pop() {
                    let span: &mut Span = &mut spans[index];
                    span.end = now;
                }
            } else {
                let parent = open.last().map_or(NONE, |index| *index as u32);
                open.push(spans.len());
                spans.push(span(what, parent, now, 0));
            }
        }
        open.into_iter().rev().for_each(|index| {
            now += 1;
            spans[index].end = now;
        });
        spans
    })
}

/// Makes some spans end before they start, as on a clock that was set back.
fn set_back(mut spans: Vec<Span>, back: &[(usize, u64)]) -> Vec<Span> {
    for (at, ticks) in back {
        if let Some(span) = spans.get_mut(*at) {
            span.end = span.start.saturating_sub(*ticks).max(1);
        }
    }
    spans
}

/// Traces as a recorder makes them, with names that are hard to write and a clock that goes back.
pub(crate) fn any_trace() -> impl Strategy<Value = Trace> {
    let name = prop_oneof![Just("plain".to_string()), any::<String>(), Just("a;b\\\"</script>\n\u{1b}".to_string())];
    let sites = proptest::collection::vec((name.clone(), 0..Kind::ALL.len()), 5);
    let back = proptest::collection::vec((0_usize..40, 0_u64..6_000), 0..3);
    let spans = (nested_spans(5, 40), back).prop_map(|(spans, back)| set_back(spans, &back));
    let one = (spans, name, any::<bool>());
    let tick = prop_oneof![Just(1.0), Just(0.5), Just(0.3846)];
    (sites, proptest::collection::vec(one, 0..4), tick, 0_u64..1000).prop_map(|(sites, lanes, ns_per_tick, after)| {
        let sites = sites.into_iter().map(|(name, kind)| site(&name, Kind::ALL[kind])).collect();
        let lanes: Vec<TraceLane> = lanes
            .into_iter()
            .map(|(spans, name, device)| if device { stream(&name, spans) } else { lane(&name, spans) })
            .collect();
        let end = lanes.iter().flat_map(|lane| &lane.spans).map(|span| span.end).max().unwrap_or(1) + after;
        let clock = Calibration { kind: ClockKind::Tsc, ns_per_tick, relative_error: 0.0 };
        Trace { start: 1, end, clock, sites, lanes, ..Trace::in_nanoseconds() }
    })
}
