//! The table of comparisons for terminal and Markdown. Parameters shared by all cases are listed once below it.

use crate::grid::{Column, over};
use crate::model::{Beside, ComparisonInfo, Report};
use crate::units::{UNAVAILABLE, human, share, significant};

/// The columns; empty if the records have no comparison.
pub(super) fn columns(report: &Report) -> Vec<Column> {
    let rows = &report.comparisons;
    if rows.is_empty() {
        return Vec::new();
    }
    let column = over(rows);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".into());
    let shared = shared(rows);
    let mut columns = Column::runs(report.runs.len() > 1, 1, rows.iter().map(|row| row.run));
    columns.extend([
        column("case", false, 0, &|row| Parts::of(&row.case).without(&shared)),
        column("baseline", false, 3, &|row| row.baseline.clone()),
        column("candidate", false, 2, &|row| row.candidate.clone()),
        column("verdict", false, 0, &|row| row.verdict.clone()),
        column("candidate over baseline", true, 0, &|row| or_none(row.ratio.map(ratio))),
        column("interval", true, 1, &|row| {
            or_none(row.low.zip(row.high).map(|(low, high)| format!("{}–{}", digits(low), digits(high))))
        }),
        column("same within", true, 6, &|row| share(row.rope)),
        column("blocks", true, 4, &|row| row.blocks.to_string()),
        column("baseline time", true, 5, &|row| time(row, 0)),
        column("candidate time", true, 5, &|row| time(row, 1)),
        column("judged by", false, 7, &|row| row.judged_by.clone()),
    ]);
    if rows.iter().any(|row| row.beside.is_some()) {
        // Follows the verdict, which names no statistic.
        let at = columns.iter().position(|column| column.head == "verdict").map_or(0, |at| at + 1);
        columns.insert(at, column("beside", false, 0, &|row| row.beside.map_or_else(String::new, side)));
    }
    if rows.iter().any(|row| row.note.is_some()) {
        columns.push(column("note", false, 2, &|row| row.note.clone().unwrap_or_default()));
    }
    columns
}

/// Explains the column `beside`.
const BESIDE: &str = "; slower-beside: the judged time is not shown to be slower, but the median, 90th percentile (p90) or mean of all slots \
     is, by the ratio in the next column";

/// The legend: shared parameters, confidence, and how times are computed.
pub(super) fn legend(report: &Report) -> String {
    let confidence = report.comparisons.iter().map(|row| row.confidence).fold(f64::INFINITY, f64::min);
    let shared = shared(&report.comparisons);
    let shared = if shared.is_empty() { String::new() } else { format!("all cases: {}; ", shared.join(", ")) };
    let beside = report.comparisons.iter().any(|row| row.beside.is_some());
    let beside = if beside { BESIDE } else { "" };
    format!(
        "{shared}{} intervals over blocks of fresh processes; a ratio above 1 means slower; times are medians of the judged time{beside}",
        share(confidence)
    )
}

/// The parts of a case id: `workload/a=1,b=2 implementation`.
struct Parts<'a> {
    workload: &'a str,
    params: Vec<&'a str>,
    rest: &'a str,
}

impl<'a> Parts<'a> {
    fn of(case: &'a str) -> Self {
        let (id, rest) = case.split_once(' ').unwrap_or((case, ""));
        let (workload, params) = id.split_once('/').unwrap_or((id, ""));
        Self { workload, params: params.split(',').filter(|param| !param.is_empty()).collect(), rest }
    }

    fn without(&self, shared: &[&str]) -> String {
        let own: Vec<&str> = self.params.iter().copied().filter(|param| !shared.contains(param)).collect();
        let id =
            if own.is_empty() { self.workload.to_string() } else { format!("{}/{}", self.workload, own.join(",")) };
        if self.rest.is_empty() { id } else { format!("{id} {}", self.rest) }
    }
}

/// Parameters that all cases share.
fn shared(rows: &[ComparisonInfo]) -> Vec<&str> {
    let mut cases = rows.iter().map(|row| Parts::of(&row.case).params);
    let Some(first) = cases.next() else { return Vec::new() };
    cases.fold(first, |shared, case| shared.into_iter().filter(|param| case.contains(param)).collect())
}

/// The statistic in which the candidate is slower, with ratio and interval.
fn side(beside: Beside) -> String {
    format!("{} {} ({}–{})", beside.statistic, ratio(beside.ratio), digits(beside.low), digits(beside.high))
}

fn time(row: &ComparisonInfo, side: usize) -> String {
    row.time_s[side].map_or_else(|| if row.blocks == 0 { "–" } else { UNAVAILABLE }.into(), |s| human(s, "s"))
}

fn ratio(ratio: f64) -> String {
    format!("{}x", digits(ratio))
}

/// Formats a ratio with enough digits for differences below a per cent.
fn digits(ratio: f64) -> String {
    significant(ratio, 4)
}
