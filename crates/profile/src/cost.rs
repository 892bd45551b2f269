//! Measures the cost of a span on this machine.

use std::fmt;
use std::hint::black_box;
use std::time::Instant;

use crate::clock::{ClockKind, calibration};
use crate::session::{Session, SessionError};
use crate::{scope, span};

/// Cost of spans under the machine's present load: medians over batches, minus the cost of an empty loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Clock that spans read.
    pub clock: ClockKind,
    /// Nanoseconds per span while no session runs.
    pub off_ns: f64,
    /// Nanoseconds per span while a session runs.
    pub on_ns: f64,
    /// Nanoseconds per span with counters while a session runs.
    pub counted_ns: f64,
    /// Nanoseconds per [`scope()`] while a session runs.
    pub scope_ns: f64,
    /// Nanoseconds that an empty span measures: the part of its own cost that a span includes.
    pub empty_ns: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "span, no session {:10.2} ns", self.off_ns)?;
        writeln!(f, "span             {:10.2} ns", self.on_ns)?;
        writeln!(f, "span, counters   {:10.2} ns", self.counted_ns)?;
        writeln!(f, "scope            {:10.2} ns", self.scope_ns)?;
        write!(f, "an empty span measures {:7.2} ns (clock: {})", self.empty_ns, self.clock.word())
    }
}

const BATCHES: usize = 31;
const SPANS: usize = 2048;

/// Measures the cost of spans in about 10 ms. It runs a separate session, which also records spans of other threads:
/// call it before those start.
///
/// # Errors
/// If a session is running.
pub fn cost() -> Result<Cost, SessionError> {
    // Start the session first, so a running one is detected before anything is measured. Ending it switches spans off.
    let session = Session::with_capacity((3 * 2 * BATCHES * SPANS) as u64)?;
    let on = per_iteration(|| drop(black_box(span!("cost"))));
    let counted = per_iteration(|| drop(black_box(span!("cost, counted", bytes = black_box(64_u64)))));
    let scoped = per_iteration(|| scope("cost, scope", || black_box(())));
    let trace = session.finish();
    let loop_ns = per_iteration(|| black_box(()));
    let off = per_iteration(|| drop(black_box(span!("cost, off"))));
    let empty = trace.summary().rows.into_iter().find(|row| row.path == ["cost"]).map_or(f64::NAN, |row| row.median_ns);
    let less = |ns: f64| (ns - loop_ns).max(0.0);
    Ok(Cost {
        clock: calibration().kind,
        off_ns: less(off),
        on_ns: less(on),
        counted_ns: less(counted),
        scope_ns: less(scoped),
        empty_ns: empty,
    })
}

/// Median nanoseconds per call over batches.
fn per_iteration(mut body: impl FnMut()) -> f64 {
    let mut batches: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..SPANS).for_each(|_| body());
            start.elapsed().as_nanos() as f64 / SPANS as f64
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    batches[BATCHES / 2]
}
