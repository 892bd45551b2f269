//! The cost of a span on this machine.

use std::fmt;
use std::sync::OnceLock;

use crate::clock::ClockKind;
use crate::kind::LaneKind;
use crate::options::Measures;
use crate::trace::TraceLane;

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

/// The cost of spans that come through `tracing`.
#[derive(Debug)]
pub(crate) struct Traced {
    /// Nanoseconds per span.
    pub(crate) on_ns: f64,
    /// Nanoseconds that an empty span measures.
    pub(crate) empty_ns: f64,
    /// Numbers of the sites of such spans.
    pub(crate) sites: fn() -> Vec<u32>,
}

/// What was measured of them in this process.
pub(crate) static TRACED: OnceLock<Traced> = OnceLock::new();
/// Measures them; there is one once a program has a layer of `tracing`.
pub(crate) static MEASURE_TRACED: OnceLock<fn()> = OnceLock::new();

/// Nanoseconds per span, and those that an empty span measures, by what every span measures besides its times.
pub(crate) static MEASURING: [OnceLock<(f64, f64)>; 8] = [const { OnceLock::new() }; 8];

/// The cost of spans on these lanes which measure this, if it was measured in this process.
pub(crate) fn of(measures: Measures, lanes: &[TraceLane]) -> Option<Cost> {
    let cost = KNOWN.get().copied()?;
    let measuring = MEASURING.get(measures.index()).and_then(OnceLock::get);
    let cost = measuring.map_or(cost, |&(on_ns, empty_ns)| Cost { on_ns, empty_ns, ..cost });
    Some(mean(cost, lanes))
}

/// The mean cost of the spans on these lanes: some came through `tracing`, others did not.
fn mean(cost: Cost, lanes: &[TraceLane]) -> Cost {
    let Some(Traced { on_ns, empty_ns, sites }) = TRACED.get() else { return cost };
    let mut traced = sites();
    traced.sort_unstable();
    let (mut all, mut through) = (0_u64, 0_u64);
    let mut add = |site: u32, count: u64| {
        all = all.saturating_add(count);
        if traced.binary_search(&site).is_ok() {
            through = through.saturating_add(count);
        }
    };
    for lane in lanes.iter().filter(|lane| lane.kind == LaneKind::Thread) {
        lane.spans.iter().for_each(|span| add(span.site, 1));
        lane.totals.iter().for_each(|total| add(total.site, total.count));
    }
    let share = through as f64 / all.max(1) as f64;
    let between = |own: f64, traced: f64| own + (traced - own) * share;
    Cost { on_ns: between(cost.on_ns, *on_ns), empty_ns: between(cost.empty_ns, *empty_ns), ..cost }
}
