//! A trace as a table: where the time went, by path of nested spans or by call site.

use std::collections::HashMap;

use crate::counters::Counters;
use crate::trace::{NONE, Span, Trace, TraceLane};

/// Totals over a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Elapsed time of the session in nanoseconds; shares refer to it.
    pub wall_ns: f64,
    /// By path: each row after its parent, siblings by descending total time. By site: by descending self time.
    pub rows: Vec<Row>,
}

/// Statistics of the spans of one path or site.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Names from the outermost span to this one; only the name in a summary by site.
    pub path: Vec<String>,
    /// Source file of the call site.
    pub file: String,
    /// Line of the call site, starting at 1.
    pub line: u32,
    /// Threads that recorded such spans.
    pub lanes: usize,
    /// Spans that ended.
    pub count: u64,
    /// Spans that did not end; the times below exclude them.
    pub open: u64,
    /// Nanoseconds inside. If spans of a site are nested in spans of the same site, a summary by site counts only the
    /// outer ones.
    pub total_ns: f64,
    /// Nanoseconds inside but not in a nested span of the same thread.
    pub self_ns: f64,
    /// Shortest span, in nanoseconds.
    pub min_ns: f64,
    /// Median span, in nanoseconds.
    pub median_ns: f64,
    /// 99th percentile in nanoseconds: the shortest duration that 99 % of the spans do not exceed.
    pub p99_ns: f64,
    /// Longest span, in nanoseconds.
    pub max_ns: f64,
    /// Sum of the declared counters.
    pub counters: Counters,
}

impl Row {
    /// The last name of the path.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// Number of spans around it.
    pub fn depth(&self) -> usize {
        self.path.len().saturating_sub(1)
    }

    /// Total time divided by the elapsed time of the session; above 1 if threads ran at the same time.
    pub fn share(&self, summary: &Summary) -> f64 {
        if summary.wall_ns > 0.0 { self.total_ns / summary.wall_ns } else { f64::NAN }
    }
}

/// Data collected for a row.
#[derive(Default)]
struct Gathered {
    site: u32,
    durations: Vec<f64>,
    total_ns: f64,
    self_ns: f64,
    open: u64,
    lanes: Vec<usize>,
    counters: Counters,
    /// Total and self time per frame, if the trace is divided into frames.
    frames: Vec<[f64; 2]>,
}

impl Gathered {
    fn add(&mut self, trace: &Trace, lane: usize, span: &Span, inside: u64, outermost: bool) {
        self.site = span.site;
        if self.lanes.last() != Some(&lane) {
            self.lanes.push(lane);
        }
        if let Some(counters) = trace.lanes[lane].counters_of(span) {
            self.counters = self.counters.plus(*counters);
        }
        if span.is_open() {
            self.open += 1;
            return;
        }
        let duration = trace.duration_ns(span);
        self.durations.push(duration);
        if outermost {
            self.total_ns += duration;
        }
        self.self_ns += trace.clock.ns(span.ticks().saturating_sub(inside));
    }

    fn row(mut self, trace: &Trace, path: Vec<String>) -> Row {
        self.durations.sort_by(f64::total_cmp);
        let sorted = &self.durations;
        // Nearest rank: the smallest value that at least this part does not exceed; the median averages the middle two.
        let rank = |part: f64| sorted.get(((part * sorted.len() as f64).ceil() as usize).saturating_sub(1)).copied();
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        let site = trace.sites.get((self.site as usize).wrapping_sub(1));
        Row {
            path,
            file: site.map_or_else(String::new, |site| site.file.clone()),
            line: site.map_or(0, |site| site.line),
            lanes: self.lanes.len(),
            count: sorted.len() as u64,
            open: self.open,
            total_ns: self.total_ns,
            self_ns: self.self_ns,
            min_ns: sorted.first().copied().unwrap_or(f64::NAN),
            median_ns: median,
            p99_ns: rank(0.99).unwrap_or(f64::NAN),
            max_ns: sorted.last().copied().unwrap_or(f64::NAN),
            counters: self.counters,
        }
    }
}

/// Ticks of each span that are covered by its children on the same lane.
fn covered(lane: &TraceLane) -> Vec<u64> {
    let mut covered = vec![0_u64; lane.spans.len()];
    for span in &lane.spans {
        if let Some(parent) = covered.get_mut(span.parent as usize) {
            *parent += span.ticks();
        }
    }
    covered
}

/// Selects a span (lane, index): its frame, and whether it is on the frames' thread (kept in separate rows). `None`
/// skips the span; its children move up to its parent.
pub(crate) type Select<'a> = dyn Fn(usize, usize) -> Option<(usize, bool)> + 'a;

/// A row by path, its flag from [`Select`], and its total and self time per frame.
pub(crate) type Leaf = (Row, bool, Vec<[f64; 2]>);

impl Trace {
    /// Totals by path: spans of one site under the same outer spans, over all threads. A span put
    /// [`under`](crate::Guard::under) a span of another thread is listed below that span. Two sites with the same name
    /// and outer spans remain two rows.
    pub fn summary(&self) -> Summary {
        let rows = self.tree(0, &|_, _| Some((0, false))).into_iter().map(|(row, ..)| row).collect();
        Summary { wall_ns: self.wall_ns(), rows }
    }

    /// Rows by path.
    pub(crate) fn tree(&self, frames: usize, select: &Select) -> Vec<Leaf> {
        // A node is a site below a node; children are looked up by (parent, site, flag).
        let mut nodes: Vec<(usize, bool, Gathered)> = Vec::new();
        let mut known: HashMap<(usize, u32, bool), usize> = HashMap::new();
        let outer = Outer::of(self);
        let mut node_of: Vec<Vec<Option<usize>>> = self.lanes.iter().map(|lane| vec![None; lane.spans.len()]).collect();
        for (number, lane) in self.lanes.iter().enumerate() {
            let covered = covered(lane);
            for (index, span) in lane.spans.iter().enumerate() {
                // A parent may be on a later lane.
                for (lane, index) in outer.without_node(&node_of, number, index) {
                    let parent = outer.around(lane, index).and_then(|(lane, index)| node_of[lane][index]);
                    let parent = parent.unwrap_or(NONE as usize);
                    node_of[lane][index] = Some(match select(lane, index) {
                        None => parent,
                        Some((_, separate)) => {
                            let site = self.lanes[lane].spans[index].site;
                            *known.entry((parent, site, separate)).or_insert_with(|| {
                                let gathered = Gathered { frames: vec![[0.0; 2]; frames], ..Gathered::default() };
                                nodes.push((parent, separate, gathered));
                                nodes.len() - 1
                            })
                        }
                    });
                }
                let (Some((frame, _)), Some(node)) = (select(number, index), node_of[number][index]) else { continue };
                let Some((_, _, gathered)) = nodes.get_mut(node) else { continue };
                gathered.add(self, number, span, covered[index], true);
                if let (Some(time), false) = (gathered.frames.get_mut(frame), span.is_open()) {
                    time[0] += self.duration_ns(span);
                    time[1] += self.clock.ns(span.ticks().saturating_sub(covered[index]));
                }
            }
        }
        let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
        for (node, (parent, ..)) in nodes.iter().enumerate() {
            children.entry(*parent).or_default().push(node);
        }
        for siblings in children.values_mut() {
            siblings.sort_by(|a, b| nodes[*b].2.total_ns.total_cmp(&nodes[*a].2.total_ns));
        }
        // Depth first with an explicit stack, so deep nesting in the user's program cannot overflow ours.
        let roots = children.get(&(NONE as usize)).cloned().unwrap_or_default();
        let mut stack: Vec<(usize, Vec<String>)> = roots.into_iter().rev().map(|node| (node, Vec::new())).collect();
        let mut rows = Vec::with_capacity(nodes.len());
        while let Some((node, mut path)) = stack.pop() {
            let mut gathered = std::mem::take(&mut nodes[node].2);
            let name = self.sites.get((gathered.site as usize).wrapping_sub(1)).map_or("?", |site| &site.name);
            path.push(name.to_string());
            stack.extend(children.get(&node).into_iter().flatten().rev().map(|child| (*child, path.clone())));
            let times = std::mem::take(&mut gathered.frames);
            rows.push((gathered.row(self, path), nodes[node].1, times));
        }
        rows
    }

    /// Totals by call site, wherever its spans are nested.
    pub fn summary_by_site(&self) -> Summary {
        let mut sites: HashMap<u32, Gathered> = HashMap::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            let covered = covered(lane);
            for (index, span) in lane.spans.iter().enumerate() {
                let outermost = !around(lane, span).any(|outer| outer.site == span.site);
                sites.entry(span.site).or_default().add(self, number, span, covered[index], outermost);
            }
        }
        let name = |site: u32| self.sites.get((site as usize).wrapping_sub(1)).map_or("?", |site| &site.name);
        let mut rows: Vec<Row> =
            sites.into_iter().map(|(site, gathered)| gathered.row(self, vec![name(site).to_string()])).collect();
        let place = |row: &Row| (row.path.clone(), row.file.clone(), row.line);
        rows.sort_by(|a, b| b.self_ns.total_cmp(&a.self_ns).then_with(|| place(a).cmp(&place(b))));
        Summary { wall_ns: self.wall_ns(), rows }
    }
}

/// The spans around a span, innermost first.
fn around<'a>(lane: &'a TraceLane, span: &Span) -> impl Iterator<Item = &'a Span> {
    std::iter::successors(lane.spans.get(span.parent as usize), |outer| lane.spans.get(outer.parent as usize))
}

/// The parent of each span, across threads.
struct Outer<'a> {
    trace: &'a Trace,
    /// The first span of each correlation number: the parent of the others.
    sources: HashMap<u32, (usize, usize)>,
}

impl<'a> Outer<'a> {
    fn of(trace: &'a Trace) -> Self {
        let mut sources: HashMap<u32, (usize, usize)> = HashMap::new();
        for (number, lane) in trace.lanes.iter().enumerate() {
            for (index, span) in lane.spans.iter().enumerate().filter(|(_, span)| span.corr != 0) {
                let known = sources.entry(span.corr).or_insert((number, index));
                if span.start < trace.lanes[known.0].spans[known.1].start {
                    *known = (number, index);
                }
            }
        }
        Self { trace, sources }
    }

    /// The parent of a span: on its own thread, or else the span of another thread that it was put under.
    fn around(&self, lane: usize, index: usize) -> Option<(usize, usize)> {
        let span = self.trace.lanes[lane].spans.get(index)?;
        if span.parent != NONE {
            return Some((lane, span.parent as usize)).filter(|(_, parent)| *parent < index);
        }
        self.sources.get(&span.corr).copied().filter(|source| *source != (lane, index))
    }

    /// The span and its ancestors that have no node yet, outermost first.
    fn without_node(&self, node_of: &[Vec<Option<usize>>], lane: usize, index: usize) -> Vec<(usize, usize)> {
        let mut chain = Vec::new();
        let mut at = Some((lane, index));
        while let Some((lane, index)) = at.filter(|(lane, index)| node_of[*lane][*index].is_none()) {
            // Circular links are a user error; the span that would close the circle becomes an outermost one.
            if chain.len() > 64 && chain.contains(&(lane, index)) {
                break;
            }
            chain.push((lane, index));
            at = self.around(lane, index);
        }
        chain.reverse();
        chain
    }
}
