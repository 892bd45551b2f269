//! A trace as a table: where the time went, by path of nested spans or by operation.

use crate::bottleneck::{Operation, in_order};
use crate::counters::Counters;
use crate::detail::MemoryUse;
use crate::gather::Gathered;
use crate::inner::{Inner, outermost};
use crate::kind::Kind;
use crate::order::{Indices, falling, sort_by_number};
use crate::outer::Outer;
use crate::owned::ROOM_NAME;
use crate::trace::{NONE, Trace, TraceLane};

/// Totals over a trace. `{}` prints the first rows as a table, `{:#}` all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Elapsed time of the session in nanoseconds; shares refer to it.
    pub wall_ns: f64,
    /// CPU time of all spans that recorded it, in nanoseconds, without counting nested spans twice; `None` if no span did.
    pub cpu_ns: Option<f64>,
    /// The number of spans kept of each thread, if earlier ones may be missing: [`Trace::last_spans`].
    pub last_spans: Option<u64>,
    /// Spans that no row counts, because there was no room for them or their threads were ending.
    pub lost: u64,
    /// Spans that lost declared work or measurements.
    pub lost_details: u64,
    /// Outermost spans that sampling skipped, with everything inside.
    pub sampled_out: u64,
    /// By path: each row after its parent, siblings by descending total time. By site: by descending self time.
    pub rows: Vec<Row>,
}

/// Statistics of the spans of one path or site.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Names from the outermost span to this one; only the name in a summary by site.
    pub path: Vec<String>,
    /// What the spans spend their time on.
    pub kind: Kind,
    /// Source file of the call site.
    pub file: String,
    /// Line of the call site, starting at 1.
    pub line: u32,
    /// Threads that recorded such spans.
    pub lanes: usize,
    /// Spans that ended.
    pub count: u64,
    /// The aggregated ones of `count`; if there are any, percentiles are estimates within a factor of 1.5.
    pub aggregated: u64,
    /// Spans that did not end; the times below exclude them.
    pub open: u64,
    /// Nanoseconds inside. If spans of a site are nested in spans of the same site, a summary by site counts only the
    /// outer ones.
    pub total_ns: f64,
    /// Nanoseconds inside but not in a nested span of the same thread.
    pub self_ns: f64,
    /// Shortest span, in nanoseconds.
    pub min_ns: f64,
    /// Mean of the spans, in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation of the spans, in nanoseconds (divisor n - 1); 0 for a single span.
    pub std_ns: f64,
    /// Median span, in nanoseconds.
    pub median_ns: f64,
    /// 90th percentile in nanoseconds, as `p99_ns`.
    pub p90_ns: f64,
    /// 99th percentile in nanoseconds: the shortest duration that 99 % of the spans do not exceed.
    pub p99_ns: f64,
    /// Longest span, in nanoseconds.
    pub max_ns: f64,
    /// CPU time of the spans that recorded it, in nanoseconds; counts like `total_ns`.
    pub cpu_ns: Option<f64>,
    /// Elapsed minus CPU time of those spans: the thread waited or was preempted.
    pub waiting_ns: Option<f64>,
    /// Allocations of the spans that recorded them; the peak is the largest of a single span.
    pub memory: Option<MemoryUse>,
    /// The ones of `count` that recorded no allocations although others did, such as spans of threads beyond 511 at a
    /// time, which share their counters ([`alloc`](crate::alloc)).
    pub without_memory: u64,
    /// Nanoseconds of kernels that the spans started or are.
    pub device_ns: f64,
    /// Nanoseconds of copies to, from and within devices that the spans started or are.
    pub transfer_ns: f64,
    /// Estimate of the profiler's part of `total_ns`; `None` if the cost of a span is unknown.
    pub overhead_ns: Option<f64>,
    /// Estimate of the profiler's part of `self_ns`.
    pub self_overhead_ns: Option<f64>,
    /// Sum of the declared counters.
    pub counters: Counters,
    /// True if details were lost: `counters` may lack the work of some spans, so rates are unknown.
    pub lacks_work: bool,
}

impl Row {
    /// The last name of the path.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    pub(crate) fn operation(&self) -> Operation<'_> {
        (self.name(), &self.file, self.line)
    }

    /// Number of enclosing spans.
    pub fn depth(&self) -> usize {
        self.path.len().saturating_sub(1)
    }

    /// Total time divided by the elapsed time of the session; above 1 if threads ran at the same time.
    pub fn share(&self, summary: &Summary) -> f64 {
        if summary.wall_ns > 0.0 { self.total_ns / summary.wall_ns } else { f64::NAN }
    }

    /// CPU time divided by that of all spans.
    pub fn cpu_share(&self, summary: &Summary) -> Option<f64> {
        Some(self.cpu_ns? / summary.cpu_ns.filter(|all| *all > 0.0)?)
    }

    /// `total_ns` without the profiler's own cost.
    pub fn corrected_total_ns(&self) -> Option<f64> {
        Some((self.total_ns - self.overhead_ns?).max(0.0))
    }

    /// `self_ns` without the profiler's own cost.
    pub fn corrected_self_ns(&self) -> Option<f64> {
        Some((self.self_ns - self.self_overhead_ns?).max(0.0))
    }

    /// Declared bytes per second of total time, in GB/s; `None` if none were declared.
    pub fn gb_per_s(&self) -> Option<f64> {
        self.rate(self.counters.bytes as f64)
    }

    /// Declared floating-point operations per second of total time, in GFLOP/s; `None` if none were declared.
    pub fn gflop_per_s(&self) -> Option<f64> {
        self.rate(self.counters.flops)
    }

    /// Declared items per second of total time; `None` if none were declared.
    pub fn items_per_s(&self) -> Option<f64> {
        self.rate(self.counters.items as f64).map(|rate| rate * 1e9)
    }

    /// Work per second of total time; `None` without work, or if part of it is unknown.
    fn rate(&self, work: f64) -> Option<f64> {
        (work > 0.0 && self.total_ns > 0.0 && !self.lacks_work).then(|| work / self.total_ns)
    }
}

impl Trace {
    /// Totals by path: spans of one site under the same outer spans, over all threads. A span put
    /// [`under`](crate::Guard::under) a span of another thread is listed below that span. Two sites with the same name
    /// and outer spans remain two rows. Paths end at 128 names, where deeper spans are listed. The recorder's own
    /// spans, which make room for spans, have no row; the [breakdown](Trace::breakdown) includes their time.
    pub fn summary(&self) -> Summary {
        let select = |lane: usize, index: usize| {
            let site = self.lanes.get(lane).and_then(|lane| lane.spans.get(index)).map_or(0, |span| span.site);
            (!self.is_own(site)).then_some((0, false))
        };
        let mut rows = Vec::new();
        self.tree(0, &select).into_iter().for_each(|(row, ..)| rows.push(row));
        self.summary_of(rows)
    }

    fn summary_of(&self, rows: Vec<Row>) -> Summary {
        let overflowed = self.lanes.iter().fold(0_u64, |sum, lane| sum.saturating_add(lane.overflowed()));
        Summary {
            wall_ns: self.wall_ns(),
            cpu_ns: self.cpu_ns(),
            last_spans: self.last_spans(),
            lost: self.dropped().saturating_sub(overflowed),
            lost_details: self.dropped_details(),
            sampled_out: self.sampled_out,
            rows,
        }
    }

    /// True if this is the site of the recorder's own spans, which make room for spans.
    pub fn is_own(&self, site: u32) -> bool {
        self.site_of(site).is_some_and(|site| site.kind == Kind::Instrumentation && site.name == ROOM_NAME)
    }

    /// Totals by call site, at any depth; without the profiler's own spans.
    pub fn summary_by_site(&self) -> Summary {
        let outer = Outer::of(self);
        // By number; all unknown numbers share one place after the last.
        let count = self.sites.len() + 2;
        let mut sites: Vec<Option<Gathered>> = Vec::with_capacity(count);
        (0..count).for_each(|_| sites.push(None));
        let place = |site: u32| (site as usize).min(count - 1);
        for (number, (lane, inner)) in self.lanes.iter().zip(Inner::of(self, &outer)).enumerate() {
            for (index, span) in lane.spans.iter().enumerate() {
                let gathered = &mut sites[place(span.site)];
                gathered.get_or_insert_default().add(self, &inner, (number, index), inner.outermost[index]);
            }
            let nodes = Nodes::of(self, lane);
            let places: Vec<(u32, u32)> = lane.totals.iter().map(|total| (total.parent, total.site)).collect();
            for (index, outer) in outermost(&places).into_iter().enumerate() {
                let gathered = sites[place(lane.totals[index].site)].get_or_insert_default();
                gathered.add_total(self, (number, index), &nodes, outer);
            }
        }
        let mut rows = Vec::new();
        for ((name, ..), site) in in_order(&mut (0..count).map(|site| self.operation(site))) {
            if let Some(gathered) = sites[site].take().filter(|_| !self.is_own(site as u32)) {
                rows.push(gathered.row(self, vec![name.to_string()]));
            }
        }
        sort_by_number(&mut rows, |row| falling(row.self_ns));
        self.summary_of(rows)
    }

    /// CPU time of the outermost spans that recorded it.
    fn cpu_ns(&self) -> Option<f64> {
        let mut sum: Option<f64> = None;
        for lane in &self.lanes {
            let mut counted: Vec<bool> = Vec::with_capacity(lane.spans.len());
            for span in &lane.spans {
                let around = counted.get(span.parent as usize).copied().unwrap_or(false);
                let cpu = lane.detail_of(span).and_then(|detail| detail.cpu_ns).filter(|_| !span.is_open());
                if let Some(cpu) = cpu.filter(|_| !around) {
                    sum = Some(sum.unwrap_or(0.0) + within(cpu, self.duration_ns(span)));
                }
                counted.push(around || cpu.is_some());
            }
            // A node without calls belongs to a kept span, whose CPU time includes that of the aggregated spans inside.
            let mut kept = Indices::default();
            for (span, _) in lane.spans.iter().zip(&counted).filter(|(_, counted)| **counted) {
                kept.insert((span.site, 0), 0);
            }
            let mut counted: Vec<bool> = Vec::with_capacity(lane.totals.len());
            for total in &lane.totals {
                let around = counted.get(total.parent as usize).copied().unwrap_or(false);
                if let Some(cpu) = total.sums.cpu_ns.filter(|_| !around) {
                    sum = Some(sum.unwrap_or(0.0) + within(cpu, total.total_ns));
                }
                let is_kept = total.count == 0 && kept.contains_key(&(total.site, 0));
                counted.push(around || total.sums.cpu_ns.is_some() || is_kept);
            }
        }
        sum
    }
}

/// CPU time of spans that take `ns`. The recorded one includes the reading of the CPU clock, which their time does not.
pub(crate) fn within(cpu_ns: u64, ns: f64) -> f64 {
    (cpu_ns as f64).min(ns)
}

/// Facts about the aggregated nodes of a lane, by index.
pub(crate) struct Nodes {
    /// Nanoseconds that direct children cost outside their own times, and that descendants at any depth cost; NaN if
    /// unknown.
    pub(crate) children_ns: Vec<f64>,
    pub(crate) nested_ns: Vec<f64>,
    /// True if a span of this path, kept or aggregated, had not ended.
    pub(crate) open: Vec<bool>,
}

impl Nodes {
    pub(crate) fn of(trace: &Trace, lane: &TraceLane) -> Self {
        let count = lane.totals.len();
        let mut nodes = Self { children_ns: vec![0.0; count], nested_ns: vec![0.0; count], open: vec![false; count] };
        let mut places = Indices::default();
        for (index, total) in lane.totals.iter().enumerate().rev() {
            places.insert((total.parent, total.site), index as u32);
            nodes.open[index] = total.open > 0;
            let parent = total.parent as usize;
            if parent < index {
                let (cost, spans) = (trace.span_cost(total.site), total.count as f64);
                nodes.children_ns[parent] += spans * cost.outside_ns();
                nodes.nested_ns[parent] += spans * cost.span_ns + nodes.nested_ns[index];
            }
        }
        if count > 0 {
            // All spans on the path of an open span are open.
            let mut node_of: Vec<Option<u32>> = vec![None; lane.spans.len()];
            for (index, span) in lane.spans.iter().enumerate().filter(|(_, span)| span.is_open()) {
                let around = node_of.get(span.parent as usize).copied().flatten();
                let around = around.or((span.parent == NONE).then_some(NONE));
                if let Some(node) = around.and_then(|around| places.get(&(around, span.site))) {
                    node_of[index] = Some(*node);
                    nodes.open[*node as usize] = true;
                }
            }
        }
        nodes
    }
}
