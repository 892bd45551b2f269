//! The rule that says what bounds each implementation, and what would change most.

use super::{Class, Confidence, Finding, Group, Limit, Rule, evidence, groups};
use crate::model::{Report, Row};

/// One finding for each implementation and limit, at the case with the most items that meets it.
pub(super) fn bound_by(report: &Report, rule: &Rule) -> Vec<Finding> {
    let mut findings = Vec::new();
    for group in groups(report) {
        let mut labels: Vec<String> = Vec::new();
        for label in group.rows.iter().filter_map(|row| Some(row.diagnosis.as_ref()?.label())) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        let placed = group.rows.iter().filter(|row| row.diagnosis.is_some()).count();
        for label in labels {
            let same = |row: &&&Row| row.diagnosis.as_ref().is_some_and(|d| d.label() == label);
            let rows: Vec<&Row> = group.rows.iter().filter(same).copied().collect();
            findings.extend(finding(&group, rule, &rows, placed));
        }
    }
    findings
}

fn finding(group: &Group<'_>, rule: &Rule, rows: &[&Row], placed: usize) -> Option<Finding> {
    let row = rows.iter().max_by_key(|row| row.work.items)?;
    let d = row.diagnosis.as_ref()?;
    // Faults have a rule of their own, and what explains nothing says nothing.
    if matches!(d.limit, Limit::AboveCeiling | Limit::Unexplained) {
        return None;
    }
    let mut numbers =
        vec![evidence("share of the time that it explains", d.share, "1"), evidence("time", d.time_s, "s")];
    numbers.extend(
        d.parts.iter().filter(|part| part.limit == d.limit).map(|part| evidence("this limit alone", part.seconds, "s")),
    );
    let best = d.changes.first();
    Some(Finding {
        title: match d.limit {
            Limit::Memory => format!("{}: it moves the required bytes at close to the measured bandwidth", d.label()),
            Limit::Compute => "compute-bound: it does the required operations at close to the measured peak".into(),
            Limit::Latency => format!("{}: each load waits for the one before", d.label()),
            Limit::Overhead => "overhead-bound: the call costs more than the work".into(),
            Limit::PageFaults => "page-fault-bound: it spends its time on memory fresh from the system".into(),
            Limit::ThreadWake => "thread-wake-bound: waking the threads costs more than the work".into(),
            Limit::Contended => "contended: its threads wait for each other".into(),
            Limit::AboveCeiling | Limit::Unexplained => return None,
        },
        evidence: numbers,
        saving_upper_bound: best.map(|change| change.saving_upper_bound),
        next_experiment: match best {
            Some(change) => format!("{}: {}", change.lever.word(), change.experiment),
            None => "none: it stands at the ceiling".into(),
        },
        confidence: if d.share >= 0.6 { Confidence::High } else { Confidence::Medium },
        ..group.finding(rule, Class::Insight, row, (rows.len(), placed))
    })
}
