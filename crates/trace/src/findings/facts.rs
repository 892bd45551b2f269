//! The facts that rules use: a trace and what is computed from it once.

use std::collections::BTreeMap;

use ellwand_profile::{Breakdown, Kind, Part, Row, SiteInfo, Span, Summary, Trace};

use super::ProfileFinding;

/// Maximum number of ranges per finding given as evidence.
const MAX_RANGES: usize = 16;

/// The measured limits of the machine's processors. Work of devices has other limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ceilings {
    /// What one thread reaches.
    pub one_thread: Limits,
    /// What all threads together reach.
    pub all_threads: Limits,
}

/// The limits of one number of threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Bytes moved per second, by the bytes that the measurement touched: caches are faster than main memory.
    pub bandwidths: Vec<(u64, f64)>,
    /// Floating-point operations per second.
    pub flops_per_s: Option<f64>,
}

impl Limits {
    /// The bandwidth for calls that move this many bytes: that of the smallest footprint that is not smaller, or of the
    /// largest. Data that fit into a cache may come from there.
    pub(super) fn bandwidth(&self, bytes: f64) -> Option<f64> {
        let holding = self.bandwidths.iter().filter(|(footprint, _)| *footprint as f64 >= bytes);
        let largest = || self.bandwidths.iter().max_by_key(|(footprint, _)| *footprint);
        holding.min_by_key(|(footprint, _)| *footprint).or_else(largest).map(|(_, rate)| *rate)
    }
}

/// A trace with its summary and breakdown.
pub struct Facts<'a> {
    /// The trace that rules read.
    pub trace: &'a Trace,
    /// Totals by operation.
    pub operations: Summary,
    /// Parts of the elapsed time.
    pub breakdown: Breakdown,
    /// Limits of the machine, if they were measured.
    pub ceilings: Option<Ceilings>,
    /// Ended spans by site, as (lane, index), in order of their lanes and starts. For a recursive function, only the
    /// outermost calls, whose times include those of the inner ones.
    by_site: BTreeMap<u32, Vec<(usize, usize)>>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(trace: &'a Trace, ceilings: Option<Ceilings>) -> Self {
        let mut by_site: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
        for (lane, at) in trace.lanes.iter().enumerate() {
            for (index, (span, outermost)) in at.spans.iter().zip(at.outermost()).enumerate() {
                if outermost && !span.is_open() && !trace.is_own(span.site) {
                    by_site.entry(span.site).or_default().push((lane, index));
                }
            }
        }
        Self { trace, operations: trace.summary_by_site(), breakdown: trace.breakdown(), ceilings, by_site }
    }

    pub(super) fn share(&self, part: Part) -> f64 {
        self.breakdown.share(part)
    }

    pub(super) fn wall_ns(&self) -> f64 {
        self.operations.wall_ns.max(f64::MIN_POSITIVE)
    }

    /// Nanoseconds during which at least one of these spans runs.
    pub(super) fn busy_ns<'b>(&self, spans: impl IntoIterator<Item = &'b Span>) -> f64 {
        let mut spans: Vec<&Span> = spans.into_iter().collect();
        spans.sort_unstable_by_key(|span| span.start);
        let (mut ticks, mut until) = (0_u64, 0);
        for span in spans {
            ticks = ticks.saturating_add(span.end.saturating_sub(span.start.max(until)));
            until = until.max(span.end);
        }
        self.trace.clock.ns(ticks)
    }

    /// The share of the elapsed time that could be saved if these spans took `ns` less: at most the time during which
    /// one of them runs.
    pub(super) fn saving<'b>(&self, ns: f64, spans: impl IntoIterator<Item = &'b Span>) -> f64 {
        (ns.min(self.busy_ns(spans)) / self.wall_ns()).min(1.0)
    }

    /// Sites with their outermost spans, each with its lane number and its index there, in order of the sites.
    pub(super) fn sites(&self) -> impl Iterator<Item = (&'a SiteInfo, Vec<(usize, usize, &'a Span)>)> {
        let span = |(lane, index): &(usize, usize)| (*lane, *index, &self.trace.lanes[*lane].spans[*index]);
        self.by_site.iter().filter_map(move |(site, spans)| {
            let info = self.trace.sites.get((*site as usize).checked_sub(1)?)?;
            Some((info, spans.iter().map(span).collect()))
        })
    }

    /// The outermost spans of all sites that `is` accepts.
    pub(super) fn spans_of(&self, is: impl Fn(&SiteInfo) -> bool) -> Vec<&'a Span> {
        self.sites().filter(|(site, _)| is(site)).flat_map(|(_, spans)| spans).map(|(.., span)| span).collect()
    }

    /// Rows of operations of these kinds, by descending self time.
    pub(super) fn of_kind<'b>(&'b self, kinds: &'b [Kind]) -> impl Iterator<Item = &'b Row> {
        self.operations.rows.iter().filter(|row| kinds.contains(&row.kind))
    }

    /// Adds the operations of these kinds and their longest spans as places.
    pub(super) fn located(&self, mut finding: ProfileFinding, kinds: &[Kind]) -> ProfileFinding {
        finding.operations = self.of_kind(kinds).take(5).map(|row| row.name().to_string()).collect();
        finding.ranges = self.ranges(self.spans_of(|site| kinds.contains(&site.kind)));
        finding
    }

    /// The longest of these spans, in order of time.
    pub(super) fn ranges(&self, mut spans: Vec<&Span>) -> Vec<(f64, f64)> {
        spans.sort_by_key(|span| std::cmp::Reverse(span.ticks()));
        spans.truncate(MAX_RANGES);
        spans.sort_by_key(|span| span.start);
        let range = |span: &Span| (self.trace.since_start_ns(span.start), self.trace.since_start_ns(span.end));
        spans.into_iter().map(range).collect()
    }
}
