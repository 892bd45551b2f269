//! The cost of a span on this machine.

use std::fmt;
use std::sync::OnceLock;

use crate::clock::ClockKind;

/// Cost of spans under the machine's present load: medians over batches, minus the cost of an empty loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Clock that spans read.
    pub clock: ClockKind,
    /// Nanoseconds per span while nothing is recorded.
    pub off_ns: f64,
    /// Nanoseconds per span in full mode.
    pub on_ns: f64,
    /// Nanoseconds per span with counters in full mode.
    pub counted_ns: f64,
    /// Nanoseconds per [`scope()`](crate::scope()) in full mode.
    pub scope_ns: f64,
    /// Nanoseconds that an empty span measures: the part of its own cost that a span includes.
    pub empty_ns: f64,
    /// Nanoseconds per span in aggregate mode.
    pub aggregate_ns: f64,
    /// Nanoseconds per span in ring mode.
    pub ring_ns: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "span, off        {:10.2} ns", self.off_ns)?;
        writeln!(f, "span             {:10.2} ns", self.on_ns)?;
        writeln!(f, "span, counters   {:10.2} ns", self.counted_ns)?;
        writeln!(f, "span, aggregate  {:10.2} ns", self.aggregate_ns)?;
        writeln!(f, "span, ring       {:10.2} ns", self.ring_ns)?;
        writeln!(f, "scope            {:10.2} ns", self.scope_ns)?;
        write!(f, "an empty span measures {:7.2} ns (clock: {})", self.empty_ns, self.clock.word())
    }
}

/// What was measured in this process.
pub(crate) static KNOWN: OnceLock<Cost> = OnceLock::new();

/// The cost if it was measured in this process.
pub(crate) fn known() -> Option<Cost> {
    KNOWN.get().copied()
}
