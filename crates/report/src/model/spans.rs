//! Components of implementations: what their spans say, in runs apart from every headline timing.

use ellwand_core::record::{CaseRecord, Param, Record, SpanNode, Spans};
use ellwand_core::stats::median;
use serde::Serialize;

use super::{Status, axes};

/// The components inside one implementation at one case.
#[derive(Debug, Clone, Serialize)]
pub struct SpanTable {
    /// Index of the run.
    pub run: usize,
    /// Workload.
    pub workload: String,
    /// Identity of the case.
    pub case: String,
    /// The parameters that vary among the tables of the workload, in words; empty when none does.
    pub place: String,
    /// The parameters that are the same in all tables of the workload, in words.
    pub fixed: String,
    /// Axis values in declaration order.
    #[serde(serialize_with = "super::params_as_map")]
    pub params: Vec<Param>,
    /// The implementation.
    pub implementation: String,
    /// The device.
    pub device: String,
    /// What really ran.
    pub what_ran: String,
    /// What became of it.
    pub status: Status,
    /// Iterations recorded.
    pub iterations: usize,
    /// Mean wall time of an iteration with spans on, in seconds: what shares refer to. Not a benchmark.
    pub iteration_s: Option<f64>,
    /// Median of the same.
    pub iteration_median_s: Option<f64>,
    /// The components, each below what it lies in.
    pub rows: Vec<SpanRow>,
    /// Mean time of an iteration that lies in no span of the calling thread, in seconds.
    pub outside_s: Option<f64>,
    /// Its share of the iteration.
    pub outside_share: Option<f64>,
    /// Spans an iteration.
    pub spans_per_iteration: Option<f64>,
    /// Cost of a span while spans are on, in seconds.
    pub span_cost_s: Option<f64>,
    /// Cost of a span while they are off, in seconds.
    pub span_off_cost_s: Option<f64>,
    /// Cost of the spans of the calling thread over the wall time: what recording added, at most.
    pub overhead_share: Option<f64>,
    /// Spans that are missing because there was no room.
    pub dropped: u64,
    /// Spans that had not ended.
    pub open: u64,
    /// File beside the record that holds every span.
    pub trace: Option<String>,
    /// What the reader must know about this table.
    pub notes: Vec<String>,
}

/// One component.
#[derive(Debug, Clone, Serialize)]
pub struct SpanRow {
    /// Names from the outermost span to this one.
    pub path: Vec<String>,
    /// Place in the source.
    pub at: String,
    /// Whether it lies on the calling thread, inside the wall time of the iteration; else it ran beside it.
    pub calling: bool,
    /// Threads that ran it.
    pub threads: u32,
    /// Calls an iteration.
    pub calls: f64,
    /// Mean time in it an iteration, over all threads that ran it, in seconds.
    pub time_s: f64,
    /// Median over iterations of the same.
    pub time_median_s: Option<f64>,
    /// Its time over the wall time of the iteration; more than 1 where several threads ran it at once.
    pub share: Option<f64>,
    /// Mean time in it and in no component inside it, in seconds.
    pub self_s: f64,
    /// That time over the wall time of the iteration.
    pub self_share: Option<f64>,
    /// Shortest call, in seconds.
    pub call_min_s: Option<f64>,
    /// Median call, in seconds.
    pub call_median_s: Option<f64>,
    /// What 99 % of the calls do not exceed, in seconds.
    pub call_p99_s: Option<f64>,
    /// Longest call, in seconds.
    pub call_max_s: Option<f64>,
    /// Declared bytes over its time, in bytes a second; none where none were declared.
    pub bandwidth: Option<f64>,
    /// Declared operations over its time, in operations a second.
    pub flop_rate: Option<f64>,
    /// Declared things processed over its time, in things a second.
    pub item_rate: Option<f64>,
}

impl SpanTable {
    /// The name of a component, with its place in the source (`norm (decoder.rs:42)`) where several share it.
    pub fn name_of(&self, row: &SpanRow) -> String {
        let several =
            self.rows.iter().filter(|other| other.path == row.path && other.calling == row.calling).count() > 1;
        let file = row.at.rsplit(['/', '\\']).next().unwrap_or("");
        if several && !file.is_empty() { format!("{} ({file})", row.name()) } else { row.name().to_string() }
    }
}

impl SpanRow {
    /// Its own name.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }
}

/// Advice where an implementation has no span at all.
pub(crate) const NO_SPANS: &str = "it has no spans inside: put `let _span = ellwand_profile::span!(\"name\");` (in a program of one's own `ellwand::profile::span!`) at the start of each part that is to be told apart";

/// The tables of all records.
pub(super) fn tables(records: &[Record]) -> Vec<SpanTable> {
    let all =
        || records.iter().enumerate().flat_map(|(run, record)| record.spans.iter().map(move |spans| (run, spans)));
    all()
        .map(|(run, spans)| {
            let same = |other: &&Spans| other.case.workload == spans.case.workload;
            let cases: Vec<&CaseRecord> = all().map(|(_, other)| other).filter(same).map(|other| &other.case).collect();
            table(run, spans, &cases)
        })
        .collect()
}

fn table(run: usize, spans: &Spans, cases: &[&CaseRecord]) -> SpanTable {
    let completed = axes::completed(cases.iter().copied());
    let (swept, fixed) = axes::split(&completed);
    let own = completed.iter().find(|case| case.id == spans.case.id).unwrap_or(&spans.case);
    let value = |name: &str| own.params.iter().find(|param| param.axis == name);
    let place: Vec<String> = swept
        .iter()
        .filter_map(|axis| value(&axis.name).map(|param| format!("{} {}", axis.name, axes::text(&param.value))))
        .collect();
    let fixed: Vec<String> = fixed.iter().map(|axis| format!("{} {}", axis.name, axis.values.join(","))).collect();
    let iterations = spans.iteration_ns.len();
    let mean = |total_ns: f64| (iterations > 0).then(|| total_ns * 1e-9 / iterations as f64);
    let wall_ns = spans.wall_ns();
    let share = |ns: f64| (wall_ns > 0.0).then_some(ns / wall_ns);
    let own: u64 = spans.nodes.iter().filter(|node| node.calling).map(|node| node.calls).sum();
    let recorded = !spans.nodes.is_empty();
    let mut table = SpanTable {
        run,
        workload: spans.case.workload.clone(),
        case: spans.case.id.clone(),
        place: place.join(", "),
        fixed: fixed.join(" · "),
        params: spans.case.params.clone(),
        implementation: crate::units::clean(&spans.implementation),
        device: crate::units::clean(&spans.device),
        what_ran: crate::units::clean(&spans.what_ran),
        status: (&spans.outcome).into(),
        iterations,
        iteration_s: mean(wall_ns),
        iteration_median_s: median(&spans.iteration_ns).map(|ns| ns * 1e-9),
        rows: spans.nodes.iter().map(|node| row(node, iterations, wall_ns)).collect(),
        outside_s: recorded.then(|| mean(spans.outside_ns())).flatten(),
        outside_share: recorded.then(|| share(spans.outside_ns())).flatten(),
        spans_per_iteration: (iterations > 0).then(|| spans.spans as f64 / iterations as f64),
        span_cost_s: spans.cost.map(|cost| cost.on_ns * 1e-9),
        span_off_cost_s: spans.cost.map(|cost| cost.off_ns * 1e-9),
        overhead_share: spans.cost.and_then(|cost| share(own as f64 * cost.on_ns)),
        dropped: spans.dropped,
        open: spans.open,
        trace: spans.trace.clone(),
        notes: Vec::new(),
    };
    table.notes = notes(spans, &table);
    table
}

fn row(node: &SpanNode, iterations: usize, wall_ns: f64) -> SpanRow {
    let per_iteration = |sum: f64| if iterations > 0 { sum / iterations as f64 } else { 0.0 };
    let (total, own): (f64, f64) = (node.total_ns.iter().sum(), node.self_ns.iter().sum());
    let share = |ns: f64| (wall_ns > 0.0).then_some(ns / wall_ns);
    let rate = |amount: f64| (amount > 0.0 && total > 0.0).then(|| amount / (total * 1e-9));
    let seconds = |ns: Option<f64>| ns.map(|ns| ns * 1e-9);
    SpanRow {
        path: node.path.iter().map(|name| crate::units::clean(name)).collect(),
        at: crate::units::clean(&format!("{}:{}", node.file, node.line)),
        calling: node.calling,
        threads: node.lanes,
        calls: per_iteration(node.calls as f64),
        time_s: per_iteration(total) * 1e-9,
        time_median_s: median(&node.total_ns).map(|ns| ns * 1e-9),
        share: share(total),
        self_s: per_iteration(own) * 1e-9,
        self_share: share(own),
        call_min_s: seconds(node.call_min_ns),
        call_median_s: seconds(node.call_median_ns),
        call_p99_s: seconds(node.call_p99_ns),
        call_max_s: seconds(node.call_max_ns),
        bandwidth: rate(node.bytes as f64),
        flop_rate: rate(node.flops),
        item_rate: rate(node.items as f64),
    }
}

/// Calls this many times as long as what an empty span reads are hardly falsified by it.
const CLEARLY_LONGER: f64 = 10.0;
/// Share of the wall time that recording may take before it is told.
const NOTABLE: f64 = 0.01;

fn notes(spans: &Spans, table: &SpanTable) -> Vec<String> {
    let mut notes: Vec<String> = spans.warnings.iter().map(|warning| crate::units::clean(warning)).collect();
    if spans.dropped > 0 {
        notes.push(format!(
            "spans that found no room and are missing: {}. Times and calls are too low; choose a smaller case",
            spans.dropped
        ));
    }
    if spans.open > 0 {
        notes.push(format!("spans that had not ended when recording did, and are in no time: {}", spans.open));
    }
    if spans.outcome.is_measured() && spans.nodes.is_empty() {
        notes.push(NO_SPANS.to_string());
    }
    let short: Vec<&str> = match spans.cost {
        Some(cost) => {
            let is_short = |row: &&SpanRow| row.call_median_s.is_some_and(|s| s * 1e9 < CLEARLY_LONGER * cost.empty_ns);
            table.rows.iter().filter(is_short).map(SpanRow::name).collect()
        }
        None => Vec::new(),
    };
    if let (false, Some(cost)) = (short.is_empty(), spans.cost) {
        let empty = crate::units::human(cost.empty_ns * 1e-9, "s");
        notes.push(format!(
            "calls so short that the span itself is a tenth or more of what they read (an empty one reads {empty}): {}",
            short.join(", ")
        ));
    }
    if let Some(share) = table.overhead_share.filter(|share| *share > NOTABLE) {
        let share = crate::units::human(share, "1");
        notes.push(format!("recording took about {share} of these times; mark larger parts to disturb less"));
    }
    notes
}
