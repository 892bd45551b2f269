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

/// How a span is kept, as far as its cost depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Slot,
    Node,
    Ring,
}

impl Kept {
    const COUNT: usize = 3;

    /// How spans are kept in a mode, until a budget is used up.
    pub(crate) fn of(mode: Mode) -> Self {
        match mode {
            Mode::Off | Mode::Full { .. } => Self::Slot,
            Mode::Aggregate => Self::Node,
            Mode::Ring { .. } => Self::Ring,
        }
    }

    /// Nanoseconds of a bare span.
    fn bare_ns(self, prices: &Cost) -> f64 {
        match self {
            Self::Slot => prices.on_ns,
            Self::Node => prices.aggregate_ns,
            Self::Ring => prices.ring_ns,
        }
    }
}

/// By [`Kept`] and set of [`Measures`]: nanoseconds per span, and nanoseconds that an empty span measures.
pub(crate) static MEASURING: [[OnceLock<(f64, f64)>; 8]; Kept::COUNT] =
    [const { [const { OnceLock::new() }; 8] }; Kept::COUNT];

/// By [`Kept`]: nanoseconds that counters add to a span, and those that an argument adds.
pub(crate) static ADDING: [OnceLock<(f64, f64)>; Kept::COUNT] = [const { OnceLock::new() }; Kept::COUNT];

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
    spans: u64,
    counted: u64,
    arguments: u64,
}

impl Load {
    /// Sum of the costs of these spans. A bare one costs `bare`; `counters` and `argument` are what these add, all of it
    /// while the span runs.
    fn cost(&self, bare: SpanCost, (counters, argument): (f64, f64)) -> SpanCost {
        let inside = self.counted as f64 * counters + self.arguments as f64 * argument;
        let empty_ns = self.spans as f64 * bare.empty_ns + inside;
        SpanCost { span_ns: (self.spans as f64 * bare.span_ns + inside).max(empty_ns), empty_ns }
    }
}

/// The cost of a bare span of each site, and what counters and an argument add.
struct Prices {
    bare: Vec<SpanCost>,
    adding: (f64, f64),
}

impl Prices {
    /// The prices of spans `kept` in one way; of those measured in this process.
    fn of(kept: Kept, known: &Cost, options: &Options, sites: &[&Site]) -> Self {
        let traced = TRACED.get().map(|traced| (traced, (traced.sites)()));
        let bare = (kept.bare_ns(known), known.empty_ns);
        let of_site = |(measures, id): (&Measures, u32)| {
            let through = traced.as_ref().filter(|(_, sites)| sites.contains(&id));
            // Measured in full mode.
            let through = through.map(|(traced, _)| (traced.on_ns + bare.0 - known.on_ns, traced.empty_ns));
            let measuring = || MEASURING[kept as usize].get(measures.index()).and_then(OnceLock::get).copied();
            let (span_ns, empty_ns) = through.or_else(measuring).unwrap_or(bare);
            SpanCost { span_ns, empty_ns }
        };
        let mut prices = Self { bare: Vec::with_capacity(sites.len() + 1), adding: (0.0, 0.0) };
        measures_of(options.measures, sites).iter().zip(1..).for_each(|one| prices.bare.push(of_site(one)));
        // The last one is of no site.
        prices.bare.push(of_site((&options.measures, 0)));
        prices.adding = ADDING[kept as usize].get().copied().unwrap_or((0.0, 0.0));
        prices
    }
}

/// The measures of the spans of each site.
pub(crate) fn measures_of(options: Measures, sites: &[&Site]) -> Vec<Measures> {
    sites.iter().map(|site| options.and(site.measures)).collect()
}

/// The ways in which the spans of these lanes are kept.
pub(crate) fn kept_on(lanes: &[TraceLane], mode: Mode) -> impl Iterator<Item = Kept> {
    let aggregated = lanes.iter().any(|lane| !lane.totals.is_empty()).then_some(Kept::Node);
    std::iter::once(Kept::of(mode)).chain(aggregated)
}

/// The mean cost of the spans on these lanes, and the cost by site, if these were measured in this process.
pub(crate) fn of(options: &Options, sites: &[&Site], lanes: &[TraceLane]) -> Option<(Cost, Vec<SpanCost>)> {
    let known = KNOWN.get().copied()?;
    let prices = [Kept::of(options.mode), Kept::Node].map(|kept| Prices::of(kept, &known, options, sites));
    let (mean, costs) = priced(&prices, lanes);
    Some((Cost { on_ns: mean.span_ns, empty_ns: mean.empty_ns, ..known }, costs))
}

/// The mean cost of all spans with what they carry, or that of a bare one without spans; and the mean by site. The
/// prices are those of spans that are kept and of aggregated ones.
fn priced([kept, aggregated]: &[Prices; 2], lanes: &[TraceLane]) -> (SpanCost, Vec<SpanCost>) {
    let count = kept.bare.len().saturating_sub(1);
    let mut loads = vec![[Load::default(); 2]; count];
    let at = |site: u32| (site as usize).wrapping_sub(1);
    for lane in lanes.iter().filter(|lane| lane.kind == LaneKind::Thread) {
        for span in &lane.spans {
            let Some([load, _]) = loads.get_mut(at(span.site)) else { continue };
            load.spans += 1;
            if let Some(detail) = lane.detail_of(span) {
                load.counted += u64::from(detail.counters != Counters::default());
                load.arguments += detail.args.len() as u64;
            }
        }
        for total in &lane.totals {
            let Some([_, load]) = loads.get_mut(at(total.site)) else { continue };
            load.spans += total.count;
            load.counted += if total.sums.counters == Counters::default() { 0 } else { total.count };
        }
    }
    let mean = |sum: SpanCost, spans: u64| SpanCost {
        span_ns: sum.span_ns / spans as f64,
        empty_ns: sum.empty_ns / spans as f64,
    };
    let (mut all, mut spans) = (SpanCost { span_ns: 0.0, empty_ns: 0.0 }, 0);
    let mut costs = Vec::with_capacity(count);
    for (site, loads) in loads.iter().enumerate() {
        let bare = kept.bare[site];
        let [a, b] = [loads[0].cost(bare, kept.adding), loads[1].cost(aggregated.bare[site], aggregated.adding)];
        let sum = SpanCost { span_ns: a.span_ns + b.span_ns, empty_ns: a.empty_ns + b.empty_ns };
        let here = loads[0].spans + loads[1].spans;
        costs.push(if here == 0 { bare } else { mean(sum, here) });
        (all.span_ns, all.empty_ns, spans) = (all.span_ns + sum.span_ns, all.empty_ns + sum.empty_ns, spans + here);
    }
    (if spans == 0 { kept.bare[count] } else { mean(all, spans) }, costs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::{Detail, Total};
    use crate::trace::{NONE, Span};

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
        let none = cost(0.0, 0.0);
        let prices = |by_mode: f64, adding| Prices {
            bare: plain.map(|one| cost(one.span_ns + by_mode, one.empty_ns)).into_iter().chain([none]).collect(),
            adding,
        };
        let (full, aggregate) = (prices(0.0, (10.0, 60.0)), prices(-5.0, (10.0, 0.0)));
        let both = [full, aggregate];
        let (mean, costs) = priced(&both, std::slice::from_ref(&lane));
        assert_eq!(costs, [cost(20.0, 10.0), cost(85.0, 75.0), cost(1020.0, 12.0)]);
        assert_eq!(mean, cost(246.0, 36.4));
        let ring = [prices(80.0, (20.0, 100.0)), prices(-5.0, (10.0, 0.0))];
        let ring = priced(&ring, std::slice::from_ref(&lane)).1;
        assert_eq!(ring, [cost(100.0, 10.0), cost(210.0, 120.0), cost(1100.0, 12.0)]);
        let sums = Detail { counters, ..Detail::default() };
        lane.totals = vec![Total { site: 1, parent: NONE, count: 2, sums, ..Total::default() }];
        let overflowed = priced(&both, std::slice::from_ref(&lane)).1;
        assert_eq!(overflowed[0], cost(22.5, 15.0));
        assert_eq!(priced(&both, &[]).0, none);
    }

    #[test]
    fn measuring_and_arguments_have_the_price_of_the_mode() {
        let known = Cost { aggregate_ns: 15.0, ring_ns: 100.0, ..Cost::of_span(ClockKind::Tsc, 20.0, 1.0, 10.0) };
        let of = |kept, measures| {
            let prices = Prices::of(kept, &known, &Options { measures, ..Options::default() }, &[]);
            (prices.bare[0].span_ns, prices.adding)
        };
        for (kept, at) in [(Kept::Slot, 1.0), (Kept::Node, 2.0), (Kept::Ring, 3.0)] {
            // No other test of this program measures or adds.
            MEASURING[kept as usize][Measures::ALL.index()].set((1000.0 * at, 10.0)).unwrap();
            ADDING[kept as usize].set((at, 10.0 * at)).unwrap();
        }
        let all = [Kept::Slot, Kept::Node, Kept::Ring].map(|kept| of(kept, Measures::ALL));
        assert_eq!(all, [(1000.0, (1.0, 10.0)), (2000.0, (2.0, 20.0)), (3000.0, (3.0, 30.0))]);
        let bare = [Kept::Slot, Kept::Node, Kept::Ring].map(|kept| of(kept, Measures::NONE).0);
        assert_eq!(bare, [20.0, 15.0, 100.0]);
    }
}
