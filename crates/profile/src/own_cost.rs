//! Measures the cost of a span on this machine.

use std::hint::black_box;
use std::sync::Arc;
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
/// Spans per batch when the caller asks for the cost.
const SPANS: usize = 1024;
/// Spans per batch when a program waits for its trace: about 3 microseconds, on a clock with steps of 10 ns.
pub(crate) const FEW_SPANS: usize = 128;

/// Full mode with room for the spans of a measurement.
const fn full(spans: usize) -> Mode {
    Mode::Full { bytes: 64 * (3 * BATCHES * spans) as u64 }
}

/// Measures the cost once per process, including the cost of spans with these measures. Not under an interpreter, which
/// would take minutes.
pub(crate) fn measure_once(measures: &[Measures]) {
    if !cfg!(miri) {
        once(&KNOWN, || of_batches(FEW_SPANS));
        for measures in measures.iter().copied().filter(|measures| !measures.is_none()) {
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
    let in_mode = |mode: Mode, batches: Batches| {
        let (ns, recording) = recorded(Options::new(mode), spans, batches);
        recording.into_iter().for_each(|recording| recording.discard());
        (ns - per_call(spans, &mut repeated(|| black_box(())))).max(0.0)
    };
    let plain = &mut repeated(|| drop(black_box(span!("cost"))));
    let (on_ns, empty_ns) = of_span(spans, "cost", plain);
    let aggregate_ns = in_mode(Mode::Aggregate, plain);
    let ring_ns = in_mode(Mode::Ring { spans: spans as u32 }, plain);
    let counted = &mut repeated(|| drop(black_box(span!("cost, counted", bytes = black_box(64_u64)))));
    let argued = &mut repeated(|| drop(black_box(span!("cost, argument", n = black_box(64_u64)))));
    let scoped = &mut repeated(|| scope("cost, scope", || black_box(())));
    // The same code with a gate that is never open, unknown to the compiler: other profilers may be recording.
    static GATE: AtomicU32 = AtomicU32::new(0);
    static SITE: Site = Site::new("cost, off", file!(), line!());
    let gate = black_box(&GATE);
    // Many calls, because they take less than a step of the clock together.
    let off = per_call(SPANS, &mut repeated(|| drop(Guard::enter_through(&SITE, gate))))
        - per_call(SPANS, &mut repeated(|| black_box(())));
    Cost {
        clock: clock::choose(),
        off_ns: off.max(0.0),
        on_ns,
        counted_ns: in_mode(full(spans), counted),
        argued_ns: in_mode(full(spans), argued),
        scope_ns: in_mode(full(spans), scoped),
        empty_ns,
        aggregate_ns,
        ring_ns,
    }
}

/// Runs batches of the given number of calls and returns the nanoseconds of each batch.
pub(crate) type Batches<'a> = &'a mut dyn FnMut(usize) -> [u64; BATCHES];

/// The only part of a measurement that is compiled for each body. It has both loops, because the compiler inlines a
/// span of this crate where it runs often.
pub(crate) fn repeated(mut body: impl FnMut()) -> impl FnMut(usize) -> [u64; BATCHES] {
    move |calls| {
        let mut batches = [0; BATCHES];
        for ns in &mut batches {
            let start = Instant::now();
            (0..calls).for_each(|_| body());
            *ns = start.elapsed().as_nanos() as u64;
        }
        batches
    }
}

/// As [`of_span`], with fewer spans, since each takes microseconds.
fn of_span_measuring(measures: Measures) -> (f64, f64) {
    let options = Options { measures, ..Options::new(full(SPANS)) };
    const NAME: &str = "cost, measuring";
    let (on, recording) = recorded(options, SPANS / 32, &mut repeated(|| drop(black_box(span!(NAME)))));
    (on, measured(recording, NAME))
}

/// Nanoseconds per call of a body that records a span of this name in full mode, minus those of the loop; and the
/// nanoseconds that the span measures. A batch has `spans` calls.
pub(crate) fn of_span(spans: usize, name: &str, batches: Batches) -> (f64, f64) {
    let (on, recording) = recorded(Options::new(full(spans)), spans, batches);
    ((on - per_call(spans, &mut repeated(|| black_box(())))).max(0.0), measured(recording, name))
}

/// Nanoseconds per call while this thread records, and the recording.
fn recorded(options: Options, calls: usize, batches: Batches) -> (f64, Option<Arc<Recording>>) {
    let Some(recording) = Recording::start(options, false) else { return (f64::NAN, None) };
    let entered = crate::local::enter(Some(&recording));
    // The ITT collector must not see these spans, and its time must not count in their cost.
    #[cfg(feature = "itt")]
    let _quiet = crate::itt::Quiet::begin();
    let ns = per_call(calls, batches);
    if entered {
        crate::local::leave(recording.epoch);
    }
    (ns, Some(recording))
}

/// Median nanoseconds that spans of this name measured.
fn measured(recording: Option<Arc<Recording>>, name: &str) -> f64 {
    let trace = recording.map_or_else(Trace::in_nanoseconds, |recording| recording.finish());
    let mut ticks = Vec::new();
    for lane in &trace.lanes {
        lane.spans.iter().filter(|span| trace.name(span) == name).for_each(|span| ticks.push(span.ticks()));
    }
    median(&mut ticks).map_or(f64::NAN, |ticks| trace.clock.ns(ticks))
}

/// Median nanoseconds per call over batches of `calls`.
fn per_call(calls: usize, batches: Batches) -> f64 {
    median(&mut batches(calls)).map_or(f64::NAN, |ns| ns as f64 / calls as f64)
}

fn median(values: &mut [u64]) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
