//! Parts of traces made by hand.

use ellwand_profile::{ClockKind, Cost, Span, TraceLane};

pub(crate) fn span(site: u32, parent: u32, start: u64, end: u64) -> Span {
    Span { start, end, site, parent, corr: 0, ext: 0 }
}

pub(crate) fn lane(name: &str, spans: Vec<Span>) -> TraceLane {
    TraceLane { name: name.into(), spans, ..TraceLane::default() }
}

pub(crate) fn cost(on_ns: f64, empty_ns: f64) -> Option<Cost> {
    Some(Cost {
        clock: ClockKind::Tsc,
        off_ns: 0.5,
        on_ns,
        counted_ns: 30.0,
        argued_ns: 30.0,
        scope_ns: 25.0,
        empty_ns,
        aggregate_ns: 3.0,
        ring_ns: 3.0,
    })
}
