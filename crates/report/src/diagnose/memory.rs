//! The rule about avoidable intermediate results in memory.

use ellwand_core::{Reading, Work, ceiling};

use super::limit::BINDS;
use super::{CLOSE, Class, Confidence, DiagnosisRule, Finding, Group, each, evidence};
use crate::model::{Report, Row};

/// Another implementation is named if it holds at most this share.
const FEWER: f64 = 0.1;
/// Another implementation is named if it takes at most this share of the time.
const FASTER: f64 = 0.95;

/// Bytes that an implementation reports holding besides inputs and outputs.
fn held_bytes(row: &Row) -> Option<f64> {
    row.reading(Reading::EXTRA_MEMORY)
}

/// Seconds to write and read the intermediate results once at the measured bandwidth; `None` if none was measured.
fn traffic_s(report: &Report, row: &Row) -> Option<f64> {
    let bytes = held_bytes(row)? as u64;
    let machine = &report.runs.get(row.run)?.environment;
    let traffic = Work::items("bytes", 1).bytes(bytes, bytes).working_set(bytes);
    let ceilings = ceiling::of_device(&machine.ceilings, &row.device);
    let bandwidth = ceiling::bandwidth(machine, &ceilings, &traffic, row.parallelism)?;
    Some(traffic.bytes_total() as f64 / bandwidth.value)
}

/// Share of the difference to a faster implementation that writing and reading the intermediate results once explains.
fn explained(report: &Report, row: &Row, faster: &Row) -> Option<f64> {
    Some(traffic_s(report, row)? / (row.median("time")? - faster.median("time")?))
}

/// Finds cases where intermediate results outweigh inputs and outputs, and a faster implementation that avoids them;
/// reports the largest such case with the time to write and read the intermediate results once.
pub(super) fn intermediate(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    each(report, |group| {
        let mut hits: Vec<(&Row, &Row)> = Vec::new();
        let mut seen = 0;
        for row in &group.rows {
            let Some(bytes) = held_bytes(row).filter(|bytes| *bytes > 0.0) else { continue };
            seen += 1;
            let without = group
                .peers(row)
                .filter(|other| other.device == row.device)
                .filter(|other| other.measured() && other.parallelism == row.parallelism)
                .filter(|other| held_bytes(other).is_some_and(|other| other <= FEWER * bytes))
                .filter(|other| {
                    other.median("time").zip(row.median("time")).is_some_and(|(other, own)| other <= FASTER * own)
                })
                .min_by(|a, b| a.median("time").unwrap_or(f64::NAN).total_cmp(&b.median("time").unwrap_or(f64::NAN)));
            if let Some(other) = without.filter(|other| {
                bytes >= row.work.bytes_total() as f64
                    && explained(report, row, other).is_none_or(|share| share >= BINDS)
            }) {
                hits.push((row, other));
            }
        }
        match hits.iter().copied().max_by_key(|(row, _)| row.work.items) {
            Some((row, other)) => finding(report, &group, rule, row, other, (hits.len(), seen)),
            None => group.not_triggered(rule, Class::Advice, seen),
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
    let (bytes, fewer) = (held_bytes(row)?, held_bytes(other)?);
    let (own, faster) = (row.median("time")?, other.median("time")?);
    let mut numbers = vec![
        evidence("intermediate results", bytes, "B"),
        evidence(format!("{} holds", other.implementation), fewer, "B"),
        evidence("time", own, "s"),
        evidence(format!("{} takes", other.implementation), faster, "s"),
    ];
    let traffic = traffic_s(report, row);
    numbers.extend(traffic.map(|s| evidence("time to write and read them once at the measured bandwidth", s, "s")));
    Some(Finding {
        title: format!(
            "intermediate results are written and read again; {} keeps at most a tenth as many",
            other.implementation
        ),
        evidence: numbers,
        // The advice is to use the other implementation, whose time is known.
        saving_upper_bound: Some(1.0 - faster / own),
        confidence: match explained(report, row, other) {
            Some(share) if share >= CLOSE => Confidence::High,
            Some(_) => Confidence::Medium,
            None => Confidence::Low,
        },
        next_experiment: format!("use the implementation {}", other.implementation),
        ..group.finding(rule, Class::Advice, row, cases)
    })
}
