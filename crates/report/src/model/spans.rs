//! Components of implementations: the times of their spans, from runs separate from all headline timings.

use std::cmp::Ordering;

use ellwand_core::record::{CaseRecord, Param, Record, SpanNode, Spans};
use ellwand_core::stats::median;
use serde::Serialize;

use super::{Status, axes};

/// The components inside one implementation at one case.
#[derive(Debug, Clone, Serialize)]
pub struct SpanTable {
    /// Index into [`super::Report::runs`].
    pub run: usize,
    /// Name of the workload.
    pub workload: String,
    /// Id of the case.
    pub case: String,
    /// Parameters that vary among the tables of the workload, as text; empty if none vary.
    pub place: String,
    /// Parameters that are the same in all tables of the workload, as text.
    pub fixed: String,
    /// Axis values in the order declared.
    #[serde(serialize_with = "super::params_as_map")]
    pub params: Vec<Param>,
    /// Name of the implementation.
    pub implementation: String,
    /// Id of the device.
    pub device: String,
    /// What ran: instruction set, number of threads.
    pub what_ran: String,
    /// Whether spans were recorded, and why if not.
    pub status: Status,
    /// Number of recorded iterations.
    pub iterations: usize,
    /// Numbers (from 1) of the iterations excluded as outliers. Means, shares and times of calls exclude them; medians of
    /// iterations and counts of calls include them.
    pub left_out: Vec<usize>,
    /// Mean elapsed seconds of an iteration with spans on, without outliers; shares refer to it. Not a benchmark.
    pub iteration_s: Option<f64>,
    /// Mean over all recorded iterations, in seconds.
    pub iteration_all_s: Option<f64>,
    /// Median over all recorded iterations, in seconds.
    pub iteration_median_s: Option<f64>,
    /// The components, each after its parent.
    pub rows: Vec<SpanRow>,
    /// Mean seconds of an iteration outside all spans of the calling thread.
    pub outside_s: Option<f64>,
    /// That time as a share of the iteration.
    pub outside_share: Option<f64>,
    /// Spans per iteration.
    pub spans_per_iteration: Option<f64>,
    /// Seconds per span while spans are on.
    pub span_cost_s: Option<f64>,
    /// Seconds per span while spans are off.
    pub span_off_cost_s: Option<f64>,
    /// Cost of the calling thread's spans as a share of the iteration: an upper bound of what recording added.
    pub overhead_share: Option<f64>,
    /// Spans lost because the buffer was full.
    pub dropped: u64,
    /// Spans that were still open when recording stopped.
    pub open: u64,
    /// File next to the record that holds every span.
    pub trace: Option<String>,
    /// Remarks on this table.
    pub notes: Vec<String>,
}

/// One component: the spans of one call site under the same outer spans.
#[derive(Debug, Clone, Serialize)]
pub struct SpanRow {
    /// Names from the outermost span to this one.
    pub path: Vec<String>,
    /// Source location (`file:line`).
    pub at: String,
    /// True if it is on the calling thread, inside the time of the iteration; otherwise it ran at the same time on
    /// others or on a device.
    pub calling: bool,
    /// Number of threads that ran it; 0 for a device.
    pub threads: u32,
    /// Calls per iteration.
    pub calls: f64,
    /// Mean seconds inside per iteration, summed over threads and without outliers.
    pub time_s: f64,
    /// Median seconds inside over all iterations.
    pub time_median_s: Option<f64>,
    /// Time as a share of the iteration; above 1 if several threads ran it at the same time.
    pub share: Option<f64>,
    /// Mean seconds inside but not in a nested component.
    pub self_s: f64,
    /// Self time as a share of the iteration.
    pub self_share: Option<f64>,
    /// Shortest call, in seconds.
    pub call_min_s: Option<f64>,
    /// Median call, in seconds.
    pub call_median_s: Option<f64>,
    /// 99th percentile of the calls, in seconds; empty below 100 calls, which are too few for it.
    pub call_p99_s: Option<f64>,
    /// Longest call, in seconds.
    pub call_max_s: Option<f64>,
    /// Declared bytes per second; empty if none were declared.
    pub bandwidth: Option<f64>,
    /// Declared floating-point operations per second; empty if none were declared.
    pub flop_rate: Option<f64>,
    /// Declared items per second; empty if none were declared.
    pub item_rate: Option<f64>,
}

impl SpanTable {
    /// The name of a component, with its source location (`norm (decoder.rs:42)`) if several share the name.
    pub fn name_of(&self, row: &SpanRow) -> String {
        let several =
            self.rows.iter().filter(|other| other.path == row.path && other.calling == row.calling).count() > 1;
        let file = row.at.rsplit(['/', '\\']).next().unwrap_or("");
        if several && !file.is_empty() { format!("{} ({file})", row.name()) } else { row.name().to_string() }
    }
}

impl SpanRow {
    /// The last name of the path.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }
}

/// Advice for an implementation without spans.
pub(crate) const NO_SPANS: &str = "it has no spans inside: put `let _span = ellwand_profile::span!(\"name\");` (`ellwand::profile::span!` in your own program) at the start of each part to time separately";

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
    let fixed: Vec<String> = fixed.iter().map(axes::AxisInfo::text).collect();
    let iterations = spans.iteration_ns.len();
    let kept = Kept::of(spans);
    let wall_ns = kept.mean(&spans.iteration_ns);
    let inside: f64 = spans.nodes.iter().filter(|node| node.calling).map(|node| kept.mean(&node.self_ns)).sum();
    let outside_ns = (wall_ns - inside).max(0.0);
    let seconds = |ns: f64| (iterations > 0).then_some(ns * 1e-9);
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
        left_out: kept.left_out.iter().map(|index| index + 1).collect(),
        iteration_s: seconds(wall_ns),
        iteration_all_s: seconds(Kept::all(iterations).mean(&spans.iteration_ns)),
        iteration_median_s: median(&spans.iteration_ns).map(|ns| ns * 1e-9),
        rows: by_time(spans.nodes.iter().map(|node| row(node, &kept, wall_ns)).collect()),
        outside_s: recorded.then(|| seconds(outside_ns)).flatten(),
        outside_share: recorded.then(|| share(outside_ns)).flatten(),
        spans_per_iteration: (iterations > 0).then(|| spans.spans as f64 / iterations as f64),
        span_cost_s: spans.cost.map(|cost| cost.on_ns * 1e-9),
        span_off_cost_s: spans.cost.map(|cost| cost.off_ns * 1e-9),
        overhead_share: spans.cost.and_then(|cost| share(own as f64 / iterations as f64 * cost.on_ns)),
        dropped: spans.dropped,
        open: spans.open,
        trace: spans.trace.clone(),
        notes: Vec::new(),
    };
    table.notes = notes(spans, &table);
    table
}

/// Minimum number of calls for which the 99th percentile differs from the longest call.
const TAIL: u64 = 100;

/// The iterations that count in times and shares. Whole iterations are excluded, so components still add up to their
/// iterations.
struct Kept {
    iterations: usize,
    left_out: Vec<usize>,
}

impl Kept {
    fn all(iterations: usize) -> Self {
        Self { iterations, left_out: Vec::new() }
    }

    fn of(spans: &Spans) -> Self {
        Self { iterations: spans.iteration_ns.len(), left_out: spans.outliers() }
    }

    /// Mean of one value per iteration, without outliers.
    fn mean(&self, values: &[f64]) -> f64 {
        let of = values.iter().enumerate().filter(|(index, _)| self.left_out.binary_search(index).is_err());
        let sum: f64 = of.map(|(_, value)| value).sum();
        let count = self.iterations - self.left_out.len();
        if count > 0 { sum / count as f64 } else { 0.0 }
    }
}

fn row(node: &SpanNode, kept: &Kept, wall_ns: f64) -> SpanRow {
    // Values known only as a sum over all iterations are divided evenly.
    let per_iteration = |sum: f64| if kept.iterations > 0 { sum / kept.iterations as f64 } else { 0.0 };
    let (total, own) = (kept.mean(&node.total_ns), kept.mean(&node.self_ns));
    let share = |ns: f64| (wall_ns > 0.0).then_some(ns / wall_ns);
    let rate = |amount: f64| (amount > 0.0 && total > 0.0).then(|| per_iteration(amount) / (total * 1e-9));
    let seconds = |ns: Option<f64>| ns.map(|ns| ns * 1e-9);
    SpanRow {
        path: node.path.iter().map(|name| crate::units::clean(name)).collect(),
        at: if node.file.is_empty() {
            String::new()
        } else {
            crate::units::clean(&format!("{}:{}", node.file, node.line))
        },
        calling: node.calling,
        threads: node.lanes,
        calls: per_iteration(node.calls as f64),
        time_s: total * 1e-9,
        time_median_s: median(&node.total_ns).map(|ns| ns * 1e-9),
        share: share(total),
        self_s: own * 1e-9,
        self_share: share(own),
        call_min_s: seconds(node.call_min_ns),
        call_median_s: seconds(node.call_median_ns),
        call_p99_s: seconds(node.call_p99_ns.filter(|_| node.calls >= TAIL)),
        call_max_s: seconds(node.call_max_ns),
        bandwidth: rate(node.bytes as f64),
        flop_rate: rate(node.flops),
        item_rate: rate(node.items as f64),
    }
}

/// Sorts siblings by time, each followed by its children; the record sorts them by their time in all iterations.
fn by_time(rows: Vec<SpanRow>) -> Vec<SpanRow> {
    // Sort key of a row: time and original index of each ancestor and of the row itself.
    let mut key: Vec<(f64, usize)> = Vec::new();
    let mut placed: Vec<(Vec<(f64, usize)>, SpanRow)> = Vec::with_capacity(rows.len());
    for (index, row) in rows.into_iter().enumerate() {
        key.truncate(row.path.len().saturating_sub(1));
        key.push((row.time_s, index));
        placed.push((key.clone(), row));
    }
    placed.sort_by(|(a, _), (b, _)| {
        let steps = a.iter().zip(b).map(|(a, b)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        steps.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
    });
    placed.into_iter().map(|(_, row)| row).collect()
}

/// Calls at least this many times as long as an empty span are hardly distorted by it.
const CLEARLY_LONGER: f64 = 10.0;
/// Share of the elapsed time that recording may take without a note.
const NOTABLE: f64 = 0.01;

/// Maximum number of outliers listed by number; above that only their count is printed.
const NAMED: usize = 6;

/// Note on excluded outliers, or on a mean far above the median.
fn outliers(spans: &Spans, table: &SpanTable) -> Option<String> {
    let seconds = |s: f64| crate::units::human(s, "s");
    let (mean, all, middle) = (table.iteration_s?, table.iteration_all_s?, table.iteration_median_s?);
    let took = table.left_out.iter().filter_map(|number| spans.iteration_ns.get(number - 1));
    if let Some(shortest) = took.copied().min_by(f64::total_cmp) {
        let count = table.left_out.len();
        let which = if count <= NAMED {
            let numbers: Vec<String> = table.left_out.iter().map(ToString::to_string).collect();
            format!(" ({} {})", if count == 1 { "number" } else { "numbers" }, numbers.join(", "))
        } else {
            String::new()
        };
        let shortest = seconds(shortest * 1e-9);
        let took = if count == 1 { format!("it took {shortest}") } else { format!("they took {shortest} or more") };
        return Some(format!(
            "excluded from times and shares as outliers: {count} of {} iterations{which}; {took}, the median is {}. Including {} the mean is {}",
            table.iterations,
            seconds(middle),
            if count == 1 { "it" } else { "them" },
            seconds(all)
        ));
    }
    (mean > (1.0 + Spans::FAR) * middle).then(|| {
        format!(
            "iteration times vary widely: their mean, {}, is {:.1} times their median; shares include all iterations and are dominated by the slow ones",
            seconds(mean),
            mean / middle
        )
    })
}

fn notes(spans: &Spans, table: &SpanTable) -> Vec<String> {
    let mut notes: Vec<String> = spans.warnings.iter().map(|warning| crate::units::clean(warning)).collect();
    notes.extend(outliers(spans, table));
    if spans.dropped > 0 {
        notes.push(format!(
            "spans lost because the buffer was full: {}. Times and calls are too low; choose a smaller case",
            spans.dropped
        ));
    }
    if spans.open > 0 {
        notes.push(format!("spans still open when recording stopped, not included in times: {}", spans.open));
    }
    if spans.outcome.is_measured() && spans.nodes.is_empty() {
        notes.push(NO_SPANS.to_string());
    }
    let short: Vec<&str> = match spans.cost {
        Some(cost) => {
            let is_short = |row: &&SpanRow| row.call_median_s.is_some_and(|s| s * 1e9 < CLEARLY_LONGER * cost.empty_ns);
            // Kernels and copies are timed by the device, not by spans.
            table.rows.iter().filter(|row| row.threads > 0).filter(is_short).map(SpanRow::name).collect()
        }
        None => Vec::new(),
    };
    if let (false, Some(cost)) = (short.is_empty(), spans.cost) {
        let empty = crate::units::human(cost.empty_ns * 1e-9, "s");
        notes.push(format!(
            "short calls, in which the span itself takes a tenth or more (an empty span measures {empty}): {}",
            short.join(", ")
        ));
    }
    if let Some(share) = table.overhead_share.filter(|share| *share > NOTABLE) {
        let share = crate::units::human(share, "1");
        notes.push(format!("recording took about {share} of these times; use fewer, larger spans"));
    }
    notes
}
