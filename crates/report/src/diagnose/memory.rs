//! The rule about avoidable intermediate results in memory.

use ellwand_core::{Reading, Work, ceiling};

use super::{Class, DiagnosisRule, Finding, Group, each, evidence};
use crate::model::{Report, Row};

/// Another implementation is named if it holds at most this share.
const FEWER: f64 = 0.1;

/// Bytes that an implementation reports holding besides inputs and outputs.
fn held(row: &Row) -> Option<f64> {
    row.reading(Reading::EXTRA_MEMORY)
}

/// Finds cases where intermediate results outweigh inputs and outputs, and a faster implementation that avoids them;
/// reports the largest such case with the time to write and read the intermediates once.
pub(super) fn intermediate(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        let mut hits: Vec<(&Row, &Row)> = Vec::new();
        let mut seen = 0;
        for row in &group.rows {
            let Some(bytes) = held(row).filter(|bytes| *bytes > 0.0) else { continue };
            seen += 1;
            let without = group
                .section
                .rows
                .iter()
                .filter(|other| other.run == row.run && other.case == row.case && other.device == row.device)
                .filter(|other| other.measured() && other.parallelism == row.parallelism)
                .filter(|other| held(other).is_some_and(|other| other <= FEWER * bytes))
                .filter(|other| other.median("time").zip(row.median("time")).is_some_and(|(other, own)| other <= own))
                .min_by(|a, b| a.median("time").unwrap_or(f64::NAN).total_cmp(&b.median("time").unwrap_or(f64::NAN)));
            if let Some(other) = without.filter(|_| bytes >= row.work.bytes_total() as f64) {
                hits.push((row, other));
            }
        }
        match hits.iter().copied().max_by_key(|(row, _)| row.work.items) {
            Some((row, other)) => finding(report, &group, rule, row, other, (hits.len(), seen)),
            None => group.silent(rule, Class::Advice, seen),
        }
    })
}

fn finding(
    report: &Report,
    group: &Group<'_>,
    rule: &DiagnosisRule,
    row: &Row,
    other: &Row,
    cases: (usize, usize),
) -> Option<Finding> {
    let (bytes, fewer) = (held(row)?, held(other)?);
    let (own, faster) = (row.median("time")?, other.median("time")?);
    let mut numbers = vec![
        evidence("intermediate results", bytes, "B"),
        evidence(format!("{} holds", other.implementation), fewer, "B"),
        evidence("time", own, "s"),
        evidence(format!("{} takes", other.implementation), faster, "s"),
    ];
    let machine = &report.runs.get(group.run)?.environment;
    let traffic = Work::items("bytes", 1).bytes(bytes as u64, bytes as u64).working_set(bytes as u64);
    if let Some(bandwidth) = ceiling::bandwidth(machine, &machine.ceilings, &traffic, row.parallelism) {
        let seconds = traffic.bytes_total() as f64 / bandwidth.value;
        numbers.push(evidence("to write and read them once at the measured bandwidth", seconds, "s"));
    }
    Some(Finding {
        title: format!("intermediate results go through memory; {} does without", other.implementation),
        evidence: numbers,
        // No implementation can beat the limit of the required computation and traffic.
        saving_upper_bound: row.median("roofline-fraction").map(|share| (1.0 - share).clamp(0.0, 1.0)),
        next_experiment: format!("use the implementation {}", other.implementation),
        ..group.finding(rule, Class::Advice, row, cases)
    })
}
