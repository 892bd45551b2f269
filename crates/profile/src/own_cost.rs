//! Measures the cost of a span on this machine.

use std::hint::black_box;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use crate::clock::calibration;
use crate::cost::{Cost, KNOWN, MEASURE_TRACED, MEASURING};
use crate::fork::once;
use crate::guard::{Guard, scope};
use crate::options::{Measures, Mode, Options};
use crate::recording::Recording;
use crate::site::Site;
use crate::span;
use crate::trace::Trace;

const BATCHES: usize = 31;
const SPANS: usize = 1024;
const FULL: Mode = Mode::Full { bytes: 64 * (3 * BATCHES * SPANS) as u64 };

/// Measures the cost once in this process, also that of spans which measure this; an interpreter would take minutes.
pub(crate) fn measure_once(measures: Measures) {
    if !cfg!(miri) {
        once(&KNOWN, cost);
        if let Some(measuring) = MEASURING.get(measures.index()).filter(|_| !measures.is_none()) {
            once(measuring, || of_span_measuring(measures));
        }
        if let Some(measure) = MEASURE_TRACED.get() {
            measure();
        }
    }
}

/// Measures the cost of spans in about 15 ms, on this thread and in a separate recording.
pub fn cost() -> Cost {
    let (on_ns, empty_ns) = of_span("cost", || drop(black_box(span!("cost"))));
    let (counted, _) = in_mode(FULL, || drop(black_box(span!("cost, counted", bytes = black_box(64_u64)))));
    let (scoped, _) = in_mode(FULL, || scope("cost, scope", || black_box(())));
    let (aggregate, _) = in_mode(Mode::Aggregate, || drop(black_box(span!("cost"))));
    let (ring, _) = in_mode(Mode::Ring { spans: SPANS as u32 }, || drop(black_box(span!("cost"))));
    // The same code with a gate that is never open, which the compiler must not know: other profilers may be recording.
    static GATE: AtomicU32 = AtomicU32::new(0);
    static SITE: Site = Site::new("cost, off", file!(), line!());
    let gate = black_box(&GATE);
    let off = per_iteration(|| drop(Guard::enter_through(&SITE, gate)));
    Cost {
        clock: calibration().kind,
        off_ns: less(off),
        on_ns,
        counted_ns: less(counted),
        scope_ns: less(scoped),
        empty_ns,
        aggregate_ns: less(aggregate),
        ring_ns: less(ring),
    }
}

/// As [`of_span`], of fewer spans: each takes microseconds.
fn of_span_measuring(measures: Measures) -> (f64, f64) {
    let options = Options { measures, ..Options::new(FULL) };
    let (on, trace) = recorded(options, SPANS / 32, || drop(black_box(span!("cost, measuring"))));
    let spans = trace.lanes.iter().flat_map(|lane| &lane.spans);
    (on, median(spans.map(|span| trace.duration_ns(span))))
}

/// Nanoseconds per call of `body` in full mode, which records a span of this name, and those that the span measures.
pub(crate) fn of_span(name: &str, body: impl FnMut()) -> (f64, f64) {
    let (on, trace) = in_mode(FULL, body);
    let spans = trace.lanes.iter().flat_map(|lane| &lane.spans).filter(|span| trace.name(span) == name);
    (less(on), median(spans.map(|span| trace.duration_ns(span))))
}

/// Nanoseconds per call without those of the loop.
fn less(ns: f64) -> f64 {
    (ns - per_iteration(|| black_box(()))).max(0.0)
}

/// Nanoseconds per call of `body` while this thread records in `mode`, and the trace.
fn in_mode(mode: Mode, body: impl FnMut()) -> (f64, Trace) {
    recorded(Options::new(mode), SPANS, body)
}

fn recorded(options: Options, calls: usize, body: impl FnMut()) -> (f64, Trace) {
    let Some(recording) = Recording::start(options, false) else {
        return (f64::NAN, Trace::in_nanoseconds());
    };
    let entered = crate::local::enter(Some(&recording));
    let ns = per_call(calls, body);
    if entered {
        crate::local::leave(recording.epoch);
    }
    (ns, recording.finish())
}

fn per_iteration(body: impl FnMut()) -> f64 {
    per_call(SPANS, body)
}

/// Median nanoseconds per call over batches of `calls`.
fn per_call(calls: usize, mut body: impl FnMut()) -> f64 {
    median((0..BATCHES).map(|_| {
        let start = Instant::now();
        (0..calls).for_each(|_| body());
        start.elapsed().as_nanos() as f64 / calls as f64
    }))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
