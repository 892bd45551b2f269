//! The cost of a span on this machine.

use std::fmt;
use std::sync::OnceLock;

use crate::clock::ClockKind;
use crate::counters::Counters;
use crate::kind::LaneKind;
use crate::options::{Measures, Mode, Options};
use crate::site::Site;
use crate::trace::TraceLane;

/// Cost of spans under the machine's current load: medians over batches, minus the cost of an empty loop.
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
    /// Nanoseconds per span with one argument in full mode.
    pub argued_ns: f64,
    /// Nanoseconds per [`scope()`](crate::scope()) in full mode.
    pub scope_ns: f64,
    /// Nanoseconds that an empty span measures: the part of its own cost that a span includes.
    pub empty_ns: f64,
    /// Nanoseconds per span in aggregate mode.
    pub aggregate_ns: f64,
    /// Nanoseconds per span in ring mode.
    pub ring_ns: f64,
}

impl Cost {
    /// A cost known from a file or another measurement: that of a span, and that of an empty one; the rest is NaN.
    pub fn of_span(clock: ClockKind, on_ns: f64, off_ns: f64, empty_ns: f64) -> Self {
        let [counted_ns, argued_ns, scope_ns, aggregate_ns, ring_ns] = [f64::NAN; 5];
        Self { clock, off_ns, on_ns, counted_ns, argued_ns, scope_ns, empty_ns, aggregate_ns, ring_ns }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let costs = [
            ("span, off", self.off_ns),
            ("span", self.on_ns),
            ("span, counters", self.counted_ns),
            ("span, argument", self.argued_ns),
            ("span, aggregate", self.aggregate_ns),
            ("span, ring", self.ring_ns),
            ("scope", self.scope_ns),
        ];
        for (what, ns) in &costs {
            writeln!(f, "{what:<16} {ns:10.2} ns")?;
        }
        write!(f, "an empty span measures {:7.2} ns (clock: {})", self.empty_ns, self.clock.word())
    }
}

/// The costs measured in this process.
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

/// The costs of these spans measured in this process.
pub(crate) static TRACED: OnceLock<Traced> = OnceLock::new();
/// Measures these costs; set once a program has a layer of `tracing`.
pub(crate) static MEASURE_TRACED: OnceLock<fn()> = OnceLock::new();

/// For each set of [`Measures`]: nanoseconds per span, and nanoseconds that an empty span measures.
pub(crate) static MEASURING: [OnceLock<(f64, f64)>; 8] = [const { OnceLock::new() }; 8];

/// What a span costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpanCost {
    /// Nanoseconds that the span takes from its program.
    pub span_ns: f64,
    /// The part of the cost within the span's own time.
    pub empty_ns: f64,
}

impl SpanCost {
    /// The part of the cost within the time of the enclosing span.
    pub fn outside_ns(self) -> f64 {
        (self.span_ns - self.empty_ns).max(0.0)
    }
}

/// What the spans of a site carry that makes them cost more than others.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    kept: u64,
    aggregated: u64,
    counted: u64,
    arguments: u64,
}

impl Load {
    fn spans(&self) -> u64 {
        self.kept.saturating_add(self.aggregated)
    }

    /// Mean cost of a span of the site, given the cost of a bare span in full mode.
    fn cost(&self, plain: SpanCost, prices: &Cost, mode: Mode) -> SpanCost {
        let more = |ns: f64| (ns - prices.on_ns).max(0.0);
        let share = |count: u64| count as f64 / self.spans().max(1) as f64;
        let kept = if matches!(mode, Mode::Ring { .. }) { prices.ring_ns } else { prices.on_ns } - prices.on_ns;
        let aggregated = prices.aggregate_ns - prices.on_ns;
        // Counters and arguments are added while the span runs.
        let inside = share(self.counted) * more(prices.counted_ns) + share(self.arguments) * more(prices.argued_ns);
        let by_mode = share(self.kept) * kept + share(self.aggregated) * aggregated;
        let empty_ns = plain.empty_ns + inside;
        SpanCost { span_ns: (plain.span_ns + by_mode + inside).max(empty_ns), empty_ns }
    }
}

/// The measures of the spans of each site.
pub(crate) fn measures_of(options: Measures, sites: &[&Site]) -> Vec<Measures> {
    sites.iter().map(|site| options.and(site.measures)).collect()
}

/// The mean cost of the spans on these lanes, and the cost by site, if these were measured in this process.
pub(crate) fn of(options: &Options, sites: &[&Site], lanes: &[TraceLane]) -> Option<(Cost, Vec<SpanCost>)> {
    let prices = KNOWN.get().copied()?;
    let traced = TRACED.get().map(|traced| (traced, (traced.sites)()));
    let plain = |measures: Measures, id: u32| {
        let measuring = MEASURING.get(measures.index()).and_then(OnceLock::get).copied();
        let through = traced.as_ref().filter(|(_, sites)| sites.contains(&id));
        let through = through.map(|(traced, _)| (traced.on_ns, traced.empty_ns));
        let (span_ns, empty_ns) = through.or(measuring).unwrap_or((prices.on_ns, prices.empty_ns));
        SpanCost { span_ns, empty_ns }
    };
    let mut by_site = Vec::with_capacity(sites.len());
    for (measures, id) in measures_of(options.measures, sites).iter().zip(1..) {
        by_site.push(plain(*measures, id));
    }
    let (mean, costs) = priced(&prices, options.mode, &by_site, lanes);
    // Without spans, the mean is the cost of a bare span.
    let mean = mean
        .unwrap_or_else(|| Load { kept: 1, ..Load::default() }.cost(plain(options.measures, 0), &prices, options.mode));
    Some((Cost { on_ns: mean.span_ns, empty_ns: mean.empty_ns, ..prices }, costs))
}

/// The cost of spans with what they carry. `plain` is the cost by site of a span without counters and arguments in full
/// mode. Also returns the mean over all spans, if there are any.
fn priced(prices: &Cost, mode: Mode, plain: &[SpanCost], lanes: &[TraceLane]) -> (Option<SpanCost>, Vec<SpanCost>) {
    let mut loads = vec![Load::default(); plain.len()];
    let at = |site: u32| (site as usize).wrapping_sub(1);
    for lane in lanes.iter().filter(|lane| lane.kind == LaneKind::Thread) {
        for span in &lane.spans {
            let Some(load) = loads.get_mut(at(span.site)) else { continue };
            load.kept += 1;
            if let Some(detail) = lane.detail_of(span) {
                load.counted += u64::from(detail.counters != Counters::default());
                load.arguments += detail.args.len() as u64;
            }
        }
        for total in &lane.totals {
            let Some(load) = loads.get_mut(at(total.site)) else { continue };
            load.aggregated += total.count;
            load.counted += if total.sums.counters == Counters::default() { 0 } else { total.count };
        }
    }
    let (mut all, mut sum) = (0.0, SpanCost { span_ns: 0.0, empty_ns: 0.0 });
    let mut costs = Vec::with_capacity(plain.len());
    for (load, plain) in loads.iter().zip(plain) {
        let (spans, cost) = (load.spans() as f64, load.cost(*plain, prices, mode));
        all += spans;
        sum.span_ns += spans * cost.span_ns;
        sum.empty_ns += spans * cost.empty_ns;
        costs.push(cost);
    }
    let mean = SpanCost { span_ns: sum.span_ns / all, empty_ns: sum.empty_ns / all };
    ((all > 0.0).then_some(mean), costs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::{Detail, Total};
    use crate::trace::{NONE, Span};

    const PRICES: Cost = Cost {
        clock: ClockKind::Tsc,
        off_ns: 1.0,
        on_ns: 20.0,
        counted_ns: 30.0,
        argued_ns: 80.0,
        scope_ns: 25.0,
        empty_ns: 10.0,
        aggregate_ns: 15.0,
        ring_ns: 100.0,
    };

    #[test]
    fn a_span_costs_what_its_mode_its_counters_its_arguments_and_its_measurements_cost() {
        let span = |site, ext| Span { start: 1, end: 2, site, parent: NONE, corr: 0, ext };
        let counters = Counters { bytes: 8, ..Counters::default() };
        let argued =
            Detail { counters, args: vec![("n".into(), 1.into()), ("m".into(), 2.into())], ..Detail::default() };
        // Plain spans; half of the second have a counter and two arguments; the third measures.
        let spans = vec![span(1, 0), span(1, 0), span(2, 1), span(2, 0), span(3, 0)];
        let mut lane = TraceLane { spans, details: vec![argued], ..TraceLane::default() };
        let cost = |span_ns, empty_ns| SpanCost { span_ns, empty_ns };
        let plain = [cost(20.0, 10.0), cost(20.0, 10.0), cost(1020.0, 12.0)];
        let (mean, costs) = priced(&PRICES, Mode::Full { bytes: 1 }, &plain, std::slice::from_ref(&lane));
        assert_eq!(costs, [cost(20.0, 10.0), cost(85.0, 75.0), cost(1020.0, 12.0)]);
        assert_eq!(mean, Some(cost(246.0, 36.4)));
        let ring = priced(&PRICES, Mode::Ring { spans: 9 }, &plain, std::slice::from_ref(&lane)).1;
        assert_eq!(ring, [cost(100.0, 10.0), cost(165.0, 75.0), cost(1100.0, 12.0)]);
        let sums = Detail { counters, ..Detail::default() };
        lane.totals = vec![Total { site: 1, parent: NONE, count: 2, sums, ..Total::default() }];
        let overflowed = priced(&PRICES, Mode::Full { bytes: 1 }, &plain, std::slice::from_ref(&lane)).1;
        assert_eq!(overflowed[0], cost(22.5, 15.0));
    }
}
