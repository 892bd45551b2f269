//! How two profiles were recorded: a difference of modes, of measures or of what they kept is no difference of the
//! programs.

use ellwand_profile::{Detail, Trace};
use ellwand_stats::Difference;

use super::{DiffOptions, UNKNOWN};
use crate::gaps::Gaps;

/// What determines the cost of a span.
#[derive(Debug, PartialEq, Eq)]
struct Recorded {
    mode: &'static str,
    measures: String,
}

impl Recorded {
    /// Read from the spans, so it is known for files of every version.
    fn of(trace: &Trace) -> Self {
        let aggregated = trace.spans() == 0 && trace.lanes.iter().any(|lane| lane.held() > lane.overflowed());
        let mode = match (trace.is_of_ring(), aggregated) {
            (true, _) => "ring",
            (_, true) => "aggregate",
            _ => "full",
        };
        let details = || {
            let sums = trace.lanes.iter().flat_map(|lane| &lane.totals).map(|total| &total.sums);
            trace.lanes.iter().flat_map(|lane| &lane.details).chain(sums)
        };
        let has = |measured: fn(&Detail) -> bool| details().any(measured);
        let measures = [
            ("CPU time", has(|detail| detail.cpu_ns.is_some())),
            ("allocations", has(|detail| detail.memory.is_some())),
            ("resident memory", has(|detail| detail.rss_bytes.is_some())),
        ];
        let measures = measures.into_iter().filter_map(|(name, has)| has.then_some(name));
        let measures = measures.collect::<Vec<_>>().join(", ");
        Self { mode, measures: if measures.is_empty() { "elapsed time only".to_string() } else { measures } }
    }
}

/// The calls of the root, aggregated ones included.
#[derive(Default)]
struct Calls {
    count: f64,
    aggregated: u64,
    total_ns: f64,
    /// The profiler's part of `total_ns`.
    own_ns: Option<f64>,
}

impl Calls {
    fn of(trace: &Trace, root: &str) -> Self {
        let mut calls = Self { own_ns: Some(0.0), ..Self::default() };
        for row in trace.summary_by_site().rows.iter().filter(|row| row.name() == root) {
            calls.count += row.count as f64;
            calls.aggregated += row.aggregated;
            calls.total_ns += row.total_ns;
            calls.own_ns = calls.own_ns.zip(row.overhead_ns).map(|(sum, ns)| sum + ns);
        }
        calls
    }

    fn mean_ns(&self) -> f64 {
        self.total_ns / self.count
    }

    fn without_own_ns(&self) -> Option<f64> {
        Some((self.total_ns - self.own_ns?) / self.count)
    }
}

/// True if a ratio of means would get this verdict if it were exact.
fn agrees(verdict: Difference, ratio: f64, options: &DiffOptions) -> bool {
    let most = 1.0 + options.rope;
    match verdict {
        Difference::Slower => ratio > most,
        Difference::Faster => ratio < 1.0 / most,
        Difference::Same => (1.0 / most..=most).contains(&ratio),
        Difference::Undecided { .. } => true,
    }
}

/// Checks the verdict on the root with what the two profiles know besides the repetitions that they kept one by one;
/// undecided if that contradicts it. Adds what to know about the comparison to `notes`.
pub(super) fn checked(
    verdict: Difference,
    [baseline, candidate]: [&Trace; 2],
    root: Option<&str>,
    options: &DiffOptions,
    notes: &mut Vec<String>,
) -> Difference {
    let (a, b) = (Recorded::of(baseline), Recorded::of(candidate));
    if a.mode != b.mode {
        notes.push(format!(
            "the baseline was recorded in {} mode, the candidate in {} mode: a span costs a different time in each",
            a.mode, b.mode
        ));
    }
    if a.measures != b.measures {
        notes.push(format!(
            "spans of the baseline measure {}, those of the candidate {}: the times include what measuring costs",
            a.measures, b.measures
        ));
    }
    let Some(root) = root else { return verdict };
    let [all_a, all_b] = [baseline, candidate].map(|trace| Calls::of(trace, root));
    let word = verdict.word();
    if all_a.aggregated > 0 || all_b.aggregated > 0 {
        let ratio = all_b.mean_ns() / all_a.mean_ns();
        if !agrees(verdict, ratio, options) {
            notes.push(format!(
                "no verdict: the repetitions kept one by one suggest {word}, but the mean of all calls changed by {ratio:.3}x"
            ));
            return UNKNOWN;
        }
    }
    if a == b || matches!(verdict, Difference::Undecided { .. }) {
        return verdict;
    }
    match all_a.without_own_ns().zip(all_b.without_own_ns()) {
        Some((a, b)) if a > 0.0 && agrees(verdict, b / a, options) => verdict,
        Some((a, b)) if a > 0.0 && b > 0.0 => {
            let ratio = b / a;
            notes.push(format!(
                "no verdict: the times suggest {word}, but without the profiler's own cost the mean changed by {ratio:.3}x"
            ));
            UNKNOWN
        }
        _ => {
            notes.push(format!(
                "no verdict: the times suggest {word}, but the profiler's own cost, which differs, is unknown"
            ));
            UNKNOWN
        }
    }
}

/// Limitations of one side: how little of its time the root covers, and what its profile lacks.
pub(super) fn limitations(trace: &Trace, side: &str, root: Option<(&str, f64)>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((root, ns)) = root.filter(|(_, ns)| ns / trace.wall_ns() < 0.5) {
        let root = ellwand_profile::table::shortened(root, 200);
        notes.push(format!("{root} covers {:.1} % of the elapsed time of the {side}", ns / trace.wall_ns() * 100.0));
    }
    let gaps = Gaps::of(trace);
    if root.is_some() && gaps.aggregated > 0 {
        notes.push(format!(
            "{side}: the ratio and its interval are of the repetitions until the memory for spans was full; later ones are only in \
             the totals (record with more memory, or in aggregate mode)"
        ));
    }
    notes.extend(gaps.sentences().into_iter().map(|gap| format!("{side}: {gap}")));
    notes
}
