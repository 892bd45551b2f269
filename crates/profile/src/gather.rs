//! The statistics of a row, collected span by span.

use crate::counters::Counters;
use crate::detail::{Detail, MemoryUse};
use crate::inner::Inner;
use crate::kind::{Kind, LaneKind};
use crate::order::{rising, sort_by_number};
use crate::summary::{Nodes, Row, within};
use crate::trace::Trace;

#[derive(Default)]
pub(crate) struct Gathered {
    site: u32,
    /// Durations in ticks of the kept spans that ended.
    durations: Vec<u64>,
    pub(crate) total_ns: f64,
    self_ns: f64,
    open: u64,
    lanes: Vec<usize>,
    counters: Counters,
    /// Kept spans that ended and declared work.
    declared: usize,
    cpu_ns: Option<f64>,
    waiting_ns: f64,
    memory: Option<MemoryUse>,
    /// Spans without allocations.
    without_memory: u64,
    device: u64,
    transfer: u64,
    count: u64,
    /// Estimate of the profiler's share of total and self time; NaN if the cost of a span is unknown.
    overhead_ns: f64,
    self_overhead_ns: f64,
    aggregated: Aggregated,
    /// Total and self time per frame, if the trace is divided into frames.
    pub(crate) frames: Vec<[f64; 2]>,
}

/// Sums over aggregated spans.
#[derive(Default)]
struct Aggregated {
    count: u64,
    total_ns: f64,
    square_ns2: f64,
    min_ns: Option<f64>,
    max_ns: Option<f64>,
    /// Number of spans by the power of two of their nanoseconds.
    bins: Vec<u64>,
}

impl Gathered {
    /// An empty row, with room for the times of `frames` frames.
    pub(crate) fn new(site: u32, frames: usize) -> Self {
        Self { site, frames: vec![[0.0; 2]; frames], ..Self::default() }
    }

    /// Adds a kept span; `outermost` is false inside another span of the same row.
    pub(crate) fn add(&mut self, trace: &Trace, inner: &Inner, (lane, index): (usize, usize), outermost: bool) {
        let Some(span) = trace.lanes.get(lane).and_then(|lane| lane.spans.get(index)) else { return };
        self.site = span.site;
        self.seen_on(lane);
        let duration = trace.duration_ns(span);
        if let Some(detail) = trace.lanes[lane].detail_of(span) {
            self.resources(detail, duration, outermost, !span.is_open());
            self.declared += usize::from(!span.is_open() && detail.counters != Counters::default());
        }
        if span.is_open() {
            self.open += 1;
            return;
        }
        self.durations.push(span.ticks());
        let has_memory = trace.lanes[lane].detail_of(span).is_some_and(|detail| detail.memory.is_some());
        self.without_memory += u64::from(!has_memory);
        self.self_ns += trace.clock.ns(span.ticks().saturating_sub(inner.covered[index]));
        self.count = self.count.saturating_add(1);
        if trace.lanes[lane].kind == LaneKind::Thread {
            self.cost(trace, 1, inner.children_ns[index], outermost.then_some(inner.nested_ns[index]));
        }
        if outermost {
            self.total_ns += duration;
            self.device = self.device.saturating_add(inner.device.get(index).copied().unwrap_or(0));
            self.transfer = self.transfer.saturating_add(inner.transfer.get(index).copied().unwrap_or(0));
        }
    }

    /// Adds the aggregated spans of a node of a lane.
    pub(crate) fn add_total(&mut self, trace: &Trace, (lane, index): (usize, usize), nodes: &Nodes, outermost: bool) {
        let total = &trace.lanes[lane].totals[index];
        self.site = total.site;
        self.seen_on(lane);
        self.open = self.open.saturating_add(total.open);
        // Spans that did not end have no time, so the aggregated spans inside them subtract nothing.
        self.self_ns += if nodes.open[index] { total.self_ns.max(0.0) } else { total.self_ns };
        self.count = self.count.saturating_add(total.count);
        if total.sums.memory.is_none() {
            self.without_memory = self.without_memory.saturating_add(total.count);
        }
        self.cost(trace, total.count, nodes.children_ns[index], outermost.then_some(nodes.nested_ns[index]));
        if outermost {
            self.total_ns += total.total_ns;
        }
        self.resources(&total.sums, total.total_ns, outermost, true);
        let sum = &mut self.aggregated;
        sum.count = sum.count.saturating_add(total.count);
        sum.total_ns += total.total_ns;
        sum.square_ns2 += total.square_ns2;
        if total.count > 0 {
            sum.min_ns = Some(sum.min_ns.map_or(total.min_ns, |min| min.min(total.min_ns)));
            sum.max_ns = Some(sum.max_ns.map_or(total.max_ns, |max| max.max(total.max_ns)));
        }
        for (power, count) in &total.histogram {
            let bin = usize::from(*power);
            if sum.bins.len() <= bin {
                sum.bins.resize(bin + 1, 0);
            }
            sum.bins[bin] = sum.bins[bin].saturating_add(*count);
        }
    }

    /// Adds the resources that spans of `ns` nanoseconds used; values that include nested spans count only for
    /// outermost spans.
    fn resources(&mut self, detail: &Detail, ns: f64, outermost: bool, ended: bool) {
        self.counters = self.counters.plus(detail.counters);
        if let Some(memory) = detail.memory.filter(|_| outermost) {
            self.memory = Some(add_memory(self.memory.unwrap_or_default(), memory));
        }
        if let Some(cpu) = detail.cpu_ns.filter(|_| outermost && ended) {
            self.cpu_ns = Some(self.cpu_ns.unwrap_or(0.0) + within(cpu, ns));
            self.waiting_ns += (ns - cpu as f64).max(0.0);
        }
    }

    /// Adds the cost of `spans` spans, given the cost of those inside. A span measures `empty_ns` of its own cost; the
    /// rest falls into the enclosing span. `nested_ns` is `None` inside another span of the same row, whose total
    /// already includes it.
    fn cost(&mut self, trace: &Trace, spans: u64, children_ns: f64, nested_ns: Option<f64>) {
        let own = spans as f64 * trace.span_cost(self.site).empty_ns;
        self.self_overhead_ns += own + children_ns;
        self.overhead_ns += nested_ns.map_or(0.0, |nested| own + nested);
    }

    fn seen_on(&mut self, lane: usize) {
        if self.lanes.last() != Some(&lane)
            && let Err(at) = self.lanes.binary_search(&lane)
        {
            self.lanes.insert(at, lane);
        }
    }

    pub(crate) fn row(mut self, trace: &Trace, path: Vec<String>) -> Row {
        self.durations.sort_unstable();
        let site = trace.site_of(self.site);
        let (mean_ns, std_ns) = self.moments(trace);
        let kept = (self.durations.first(), self.durations.last());
        let extreme = |kept: Option<&u64>, other: Option<f64>, pick: fn(f64, f64) -> f64| match (kept, other) {
            (Some(ticks), Some(ns)) => pick(trace.clock.ns(*ticks), ns),
            (Some(ticks), None) => trace.clock.ns(*ticks),
            (None, other) => other.unwrap_or(f64::NAN),
        };
        let [median_ns, p90_ns, p99_ns] = self.percentiles(trace);
        Row {
            path,
            kind: site.map_or(Kind::Cpu, |site| site.kind),
            file: site.map_or_else(String::new, |site| site.file.clone()),
            line: site.map_or(0, |site| site.line),
            lanes: self.lanes.len(),
            count: self.count,
            aggregated: self.aggregated.count,
            open: self.open,
            total_ns: self.total_ns,
            self_ns: self.self_ns.max(0.0),
            min_ns: extreme(kept.0, self.aggregated.min_ns, f64::min),
            mean_ns,
            std_ns,
            median_ns,
            p90_ns,
            p99_ns,
            max_ns: extreme(kept.1, self.aggregated.max_ns, f64::max),
            cpu_ns: self.cpu_ns,
            waiting_ns: self.cpu_ns.map(|_| self.waiting_ns),
            memory: self.memory,
            without_memory: if self.memory.is_some() { self.without_memory } else { 0 },
            device_ns: trace.clock.ns(self.device),
            transfer_ns: trace.clock.ns(self.transfer),
            overhead_ns: finite(trace.cost.map(|_| self.overhead_ns)),
            self_overhead_ns: finite(trace.cost.map(|_| self.self_overhead_ns)),
            counters: self.counters,
            // Aggregated spans lose no work: their sums include it.
            lacks_work: trace.dropped_details() > 0 && self.declared < self.durations.len(),
        }
    }

    /// Mean and standard deviation over kept and aggregated spans (Chan et al. 1979); NaN without spans.
    fn moments(&self, trace: &Trace) -> (f64, f64) {
        let kept = self.durations.len() as f64;
        let kept_mean = self.durations.iter().map(|ticks| *ticks as f64).sum::<f64>() / kept.max(1.0);
        let kept_squares: f64 = self.durations.iter().map(|ticks| (*ticks as f64 - kept_mean).powi(2)).sum();
        let (kept_mean, kept_squares) =
            (kept_mean * trace.clock.ns_per_tick, kept_squares * trace.clock.ns_per_tick.powi(2));
        let sums = &self.aggregated;
        let more = sums.count as f64;
        let more_mean = sums.total_ns / more.max(1.0);
        let more_squares = (sums.square_ns2 - more * more_mean * more_mean).max(0.0);
        let count = kept + more;
        if count == 0.0 {
            return (f64::NAN, f64::NAN);
        }
        let mean = (kept * kept_mean + more * more_mean) / count;
        let squares = kept_squares + more_squares + (kept_mean - more_mean).powi(2) * kept * more / count;
        (mean, if count < 2.0 { 0.0 } else { (squares / (count - 1.0)).sqrt() })
    }

    /// Median, 90th and 99th percentile. Aggregated spans count with the middle of their power of two.
    fn percentiles(&self, trace: &Trace) -> [f64; 3] {
        if self.aggregated.count == 0 {
            return percentiles_of(&self.durations).map(|ticks| ticks * trace.clock.ns_per_tick);
        }
        let within = |ns: f64| {
            let (min, max) = (self.aggregated.min_ns.unwrap_or(0.0), self.aggregated.max_ns.unwrap_or(f64::MAX));
            if min <= max { ns.clamp(min, max) } else { ns }
        };
        let mut values = Vec::new();
        self.durations.iter().for_each(|ticks| values.push((trace.clock.ns(*ticks), 1)));
        for (count, power) in self.aggregated.bins.iter().zip(0..) {
            values.push((within(1.5 * 2_f64.powi(power)), *count));
        }
        sort_by_number(&mut values, |value| rising(value.0));
        let count: u64 = values.iter().fold(0, |sum, value| sum.saturating_add(value.1));
        let rank = |part: f64| {
            let mut left = (part * count as f64).ceil().max(1.0);
            let at = values.iter().find(|value| {
                left -= value.1 as f64;
                left <= 0.0
            });
            at.map_or(f64::NAN, |value| value.0)
        };
        [rank(0.5), rank(0.9), rank(0.99)]
    }
}

/// For sorted ticks. Nearest rank: the smallest value that at least this share does not exceed; the median averages the
/// middle two.
fn percentiles_of(sorted: &[u64]) -> [f64; 3] {
    let rank = |part: f64| {
        let rank = ((part * sorted.len() as f64).ceil() as usize).saturating_sub(1);
        sorted.get(rank).map_or(f64::NAN, |ticks| *ticks as f64)
    };
    let median = match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2] as f64,
        n => (sorted[n / 2 - 1] as f64 + sorted[n / 2] as f64) / 2.0,
    };
    [median, rank(0.9), rank(0.99)]
}

/// Sums of two parts, and the larger peak.
fn add_memory(a: MemoryUse, b: MemoryUse) -> MemoryUse {
    MemoryUse {
        allocations: a.allocations.saturating_add(b.allocations),
        allocated_bytes: a.allocated_bytes.saturating_add(b.allocated_bytes),
        freed_bytes: a.freed_bytes.saturating_add(b.freed_bytes),
        peak_bytes: a.peak_bytes.max(b.peak_bytes),
    }
}

/// A cost with an unknown part is unknown.
fn finite(ns: Option<f64>) -> Option<f64> {
    ns.filter(|ns| ns.is_finite())
}
