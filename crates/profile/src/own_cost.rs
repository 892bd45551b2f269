//! Measures the cost of a span on this machine.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use crate::clock;
use crate::cost::{ADDING, Cost, KNOWN, Kept, MEASURE_TRACED, MEASURING};
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

/// Measures the cost once per process, including the cost of spans that are `kept` in these ways, with these measures.
/// Not under an interpreter, which would take minutes.
pub(crate) fn measure_once(kept: impl Iterator<Item = Kept>, measures: &[Measures]) {
    if cfg!(miri) {
        return;
    }
    let known = once(&KNOWN, || of_batches(FEW_SPANS));
    for kept in kept {
        once(&ADDING[kept as usize], || adding(kept, known));
        for measures in measures.iter().copied().filter(|measures| !measures.is_none()) {
            of_measuring(kept, measures);
        }
    }
    if let Some(measure) = MEASURE_TRACED.get() {
        measure();
    }
}

/// Measures the cost of spans in about 10 ms, on this thread and in a separate recording.
pub fn cost() -> Cost {
    of_batches(SPANS)
}

/// Nanoseconds per span in a mode.
fn in_mode(mode: Mode, spans: usize, batches: Batches) -> f64 {
    let (ns, recording) = recorded(Options::new(mode), spans, batches);
    recording.into_iter().for_each(|recording| recording.discard());
    (ns - per_call(spans, &mut repeated(|| black_box(())))).max(0.0)
}

fn with_counter(calls: usize) -> [u64; BATCHES] {
    repeated(|| drop(black_box(span!("cost, counted", bytes = black_box(64_u64)))))(calls)
}

fn with_argument(calls: usize) -> [u64; BATCHES] {
    repeated(|| drop(black_box(span!("cost, argument", n = black_box(64_u64)))))(calls)
}

/// What counters and an argument add to a span.
fn adding(kept: Kept, known: &Cost) -> (f64, f64) {
    let mode = mode_of(kept, FEW_SPANS);
    let more = |batches: Batches, bare_ns: f64| (in_mode(mode, FEW_SPANS, batches) - bare_ns).max(0.0);
    match kept {
        Kept::Slot => ((known.counted_ns - known.on_ns).max(0.0), (known.argued_ns - known.on_ns).max(0.0)),
        // Aggregated spans keep no arguments.
        Kept::Node => (more(&mut with_counter, known.aggregate_ns), 0.0),
        Kept::Ring => (more(&mut with_counter, known.ring_ns), more(&mut with_argument, known.ring_ns)),
    }
}

/// A mode that keeps the spans of a measurement in this way.
fn mode_of(kept: Kept, spans: usize) -> Mode {
    match kept {
        Kept::Slot => full(spans),
        Kept::Node => Mode::Aggregate,
        Kept::Ring => Mode::Ring { spans: spans as u32 },
    }
}

fn of_batches(spans: usize) -> Cost {
    let in_mode = |mode: Mode, batches: Batches| in_mode(mode, spans, batches);
    let plain = &mut repeated(|| drop(black_box(span!("cost"))));
    let (on_ns, empty_ns) = of_span(spans, "cost", plain);
    let aggregate_ns = in_mode(Mode::Aggregate, plain);
    let ring_ns = in_mode(mode_of(Kept::Ring, spans), plain);
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
        counted_ns: in_mode(full(spans), &mut with_counter),
        argued_ns: in_mode(full(spans), &mut with_argument),
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

/// As [`of_span`], with fewer spans, since each takes microseconds. Measures once per process.
fn of_measuring(kept: Kept, measures: Measures) -> (f64, f64) {
    let Some(known) = MEASURING[kept as usize].get(measures.index()) else { return (f64::NAN, f64::NAN) };
    // An aggregate does not keep its median, and takes its two times at the same places as the others.
    let empty_ns = (kept == Kept::Node).then(|| of_measuring(Kept::Slot, measures).1);
    *once(known, || {
        let options = Options { measures, ..Options::new(mode_of(kept, SPANS)) };
        const NAME: &str = "cost, measuring";
        let (on, recording) = recorded(options, SPANS / 32, &mut repeated(|| drop(black_box(span!(NAME)))));
        let measured = measured(recording, NAME);
        (on, empty_ns.unwrap_or(measured))
    })
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
