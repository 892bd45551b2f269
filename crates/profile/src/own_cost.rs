//! Measures the cost of a span on this machine.

use std::hint::black_box;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use crate::clock;
use crate::cost::{Cost, KNOWN, MEASURE_TRACED, MEASURING};
use crate::fork::once;
use crate::guard::{Guard, scope};
use crate::options::{Measures, Mode, Options};
use crate::recording::Recording;
use crate::site::Site;
use crate::span;
use crate::trace::Trace;

const BATCHES: usize = 31;
/// Spans of a batch where the caller asks for the cost.
const SPANS: usize = 1024;
/// Spans of a batch where a program waits for its trace: some 3 microseconds, on a clock with steps of 10 ns.
pub(crate) const FEW_SPANS: usize = 128;

/// Full mode with room for the spans of a measurement.
const fn full(spans: usize) -> Mode {
    Mode::Full { bytes: 64 * (3 * BATCHES * spans) as u64 }
}

/// Measures the cost once in this process, also that of spans which measure these; an interpreter would take minutes.
pub(crate) fn measure_once(measures: impl IntoIterator<Item = Measures>) {
    if !cfg!(miri) {
        once(&KNOWN, || of_batches(FEW_SPANS));
        for measures in measures.into_iter().filter(|measures| !measures.is_none()) {
            if let Some(measuring) = MEASURING.get(measures.index()) {
                once(measuring, || of_span_measuring(measures));
            }
        }
        if let Some(measure) = MEASURE_TRACED.get() {
            measure();
        }
    }
}

/// Measures the cost of spans in about 10 ms, on this thread and in a separate recording.
pub fn cost() -> Cost {
    of_batches(SPANS)
}

fn of_batches(spans: usize) -> Cost {
    let less = |ns: f64| (ns - per_call(spans, || black_box(()))).max(0.0);
    let (on_ns, empty_ns) = of_span(spans, "cost", || drop(black_box(span!("cost"))));
    let counted = in_mode(full(spans), spans, || drop(black_box(span!("cost, counted", bytes = black_box(64_u64)))));
    let argued = in_mode(full(spans), spans, || drop(black_box(span!("cost, argument", n = black_box(64_u64)))));
    let scoped = in_mode(full(spans), spans, || scope("cost, scope", || black_box(())));
    let aggregate = in_mode(Mode::Aggregate, spans, || drop(black_box(span!("cost"))));
    let ring = in_mode(Mode::Ring { spans: spans as u32 }, spans, || drop(black_box(span!("cost"))));
    // The same code with a gate that is never open, which the compiler must not know: other profilers may be recording.
    static GATE: AtomicU32 = AtomicU32::new(0);
    static SITE: Site = Site::new("cost, off", file!(), line!());
    let gate = black_box(&GATE);
    // Many, since they take less than a step of the clock together.
    let off = per_call(SPANS, || drop(Guard::enter_through(&SITE, gate))) - per_call(SPANS, || black_box(()));
    Cost {
        clock: clock::choose(),
        off_ns: off.max(0.0),
        on_ns,
        counted_ns: less(counted),
        argued_ns: less(argued),
        scope_ns: less(scoped),
        empty_ns,
        aggregate_ns: less(aggregate),
        ring_ns: less(ring),
    }
}

/// As [`of_span`], of fewer spans: each takes microseconds.
fn of_span_measuring(measures: Measures) -> (f64, f64) {
    let options = Options { measures, ..Options::new(full(SPANS)) };
    const NAME: &str = "cost, measuring";
    let (on, trace) = recorded(options, SPANS / 32, || drop(black_box(span!(NAME))), Recording::finish);
    (on, measured(trace, NAME))
}

/// Nanoseconds per call of `body` in full mode, which records a span of this name, less those of the loop; and those that
/// the span measures. A batch has `spans` calls.
pub(crate) fn of_span(spans: usize, name: &str, body: impl FnMut()) -> (f64, f64) {
    let (on, trace) = recorded(Options::new(full(spans)), spans, body, Recording::finish);
    ((on - per_call(spans, || black_box(()))).max(0.0), measured(trace, name))
}

/// Nanoseconds per call of `body` while this thread records in `mode`.
fn in_mode(mode: Mode, calls: usize, body: impl FnMut()) -> f64 {
    recorded(Options::new(mode), calls, body, Recording::discard).0
}

/// Nanoseconds per call of `body` while this thread records, and what `end` makes of the recording.
fn recorded<T>(
    options: Options,
    calls: usize,
    body: impl FnMut(),
    end: impl FnOnce(&Recording) -> T,
) -> (f64, Option<T>) {
    let Some(recording) = Recording::start(options, false) else { return (f64::NAN, None) };
    let entered = crate::local::enter(Some(&recording));
    // Nobody wants to see these spans, or the time of a collector in the cost of ours.
    #[cfg(feature = "itt")]
    let _quiet = crate::itt::Quiet::begin();
    let ns = per_call(calls, body);
    if entered {
        crate::local::leave(recording.epoch);
    }
    (ns, Some(end(&recording)))
}

/// Median nanoseconds that spans of this name measured.
fn measured(trace: Option<Trace>, name: &str) -> f64 {
    let trace = trace.unwrap_or_else(Trace::in_nanoseconds);
    let named = trace.lanes.iter().flat_map(|lane| &lane.spans).filter(|span| trace.name(span) == name);
    median(named.map(|span| trace.duration_ns(span)))
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
