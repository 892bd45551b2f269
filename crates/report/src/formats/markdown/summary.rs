//! The first lines of a report: the fastest implementations, their speed-ups, and what limits them.

use std::io::{self, Write};

use super::columns::at_most;
use crate::diagnose::ABOVE;
use crate::model::{CaseInfo, Report, Row, Section, bounded, mean};
use crate::units::{self, below_resolution, human};

/// Maximum number of findings listed at the top.
const FINDINGS: usize = 5;

pub(super) fn in_short(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "## In short\n")?;
    for section in &report.workloads {
        writeln!(out, "- **{}**: {}.", section.workload, line(report, section))?;
    }
    for finding in crate::diagnose::select(&report.findings, FINDINGS) {
        writeln!(out, "- {}: {} ({}).", finding.subject_in(report), finding.title, finding.evidence_line())?;
    }
    writeln!(out)
}

/// The largest case, since the best rate of a sweep may occur at a shape that is never used; among cases of the same
/// size, the one with the highest rate. Shows its fastest row, or if none can be named, the one with the shortest time
/// and the reason.
fn line(report: &Report, section: &Section) -> String {
    let rows = section
        .cases
        .iter()
        .filter_map(|case| Some((case, section.fastest(case).or_else(|| shortest(section, case))?)));
    let rate = |row: &Row| row.median("throughput").unwrap_or(0.0);
    let largest = rows.max_by(|(_, a), (_, b)| (a.work.items).cmp(&b.work.items).then(rate(a).total_cmp(&rate(b))));
    let Some((case, row)) = largest else {
        let why = section.cases.iter().find_map(|case| case.best.unavailable.as_deref());
        return format!("the fastest implementation is unknown: {}", why.unwrap_or("nothing was measured"));
    };
    let mut parts = Vec::new();
    if let (Some(rate), Some(item)) = (row.median("throughput"), &section.item) {
        parts.push(format!("{} {item}/s", units::rate(rate)));
    }
    parts.extend(row.median("time").map(|time| format!("{} per call", at_most(row.held_up.is_some(), time))));
    parts.extend(row.median("bandwidth").map(|rate| human(rate, "B/s")));
    // A share above its ceiling is a finding, not an achievement.
    let share = row.median("roofline-fraction").filter(|share| *share <= ABOVE);
    parts.extend(share.map(|share| format!("{} of the ceiling", human(share, "1"))));
    if let (Some(speed), false) = (row.speedup.text(), row.speedup.is_baseline) {
        parts.push(format!("{speed} the speed of {}", row.speedup.baseline));
    }
    if parts.is_empty() {
        return format!("{}: {}", row.implementation, below_resolution(row.resolution_s));
    }
    let tied = case.best.unavailable.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let run = if report.runs.len() > 1 { format!(", run {}", row.run + 1) } else { String::new() };
    let place = section.place(row);
    format!("{} reaches {} at {place}{run}{tied}{}", row.implementation, parts.join(", "), over_all(section, row))
}

/// The row of a case with the shortest time, unless one is below the timer resolution.
fn shortest<'a>(section: &'a Section, case: &CaseInfo) -> Option<&'a Row> {
    let rows: Vec<&Row> = case.rows.iter().filter_map(|index| section.rows.get(*index)).collect();
    let timed = rows.iter().filter_map(|row| Some((*row, row.median("time")?)));
    timed
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|_| rows.iter().all(|row| !row.below_resolution))
        .map(|(row, _)| row)
}

/// How the same implementation performs over the whole sweep.
fn over_all(section: &Section, row: &Row) -> String {
    let cases = section.cases.iter().filter(|case| case.run == row.run).count();
    if cases < 2 {
        return String::new();
    }
    let mine: Vec<&Row> =
        section.rows_of(row.run, &row.implementation).filter(|other| other.device == row.device).collect();
    let fastest = mine.iter().filter(|row| row.best).count();
    let tied = mine.iter().filter(|row| row.tied).count();
    let ratios = mine.iter().filter(|row| row.speedup.ratio.is_some()).count();
    let mean = match mean(mine.iter().map(|row| &row.speedup)) {
        Some((bound, mean)) if !row.speedup.is_baseline && ratios > 1 => {
            format!("in the geometric mean {} the speed of {}", bounded(bound, mean), row.speedup.baseline)
        }
        _ => String::new(),
    };
    let often = match (fastest, tied) {
        (0, 0) => String::new(),
        (0, tied) => format!("it is tied for the fastest in {tied} of {cases} cases"),
        (fastest, 0) => format!("it is the fastest in {fastest} of {cases} cases"),
        (fastest, tied) => format!("it is the fastest in {fastest} of {cases} cases and tied for it in {tied}"),
    };
    let both: Vec<String> = [often, mean].into_iter().filter(|text| !text.is_empty()).collect();
    if both.is_empty() { String::new() } else { format!("; {}", both.join(", ")) }
}
