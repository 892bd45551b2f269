//! The rule that names what limits each implementation and the change that would help most.

use super::limit::{ABOVE, BINDS, CLOSE};
use super::{Class, Confidence, DiagnosisRule, Finding, Group, Limit, evidence, groups};
use crate::model::{Report, Row, distinct};

/// One finding per implementation and limit, at the largest case with that limit.
pub(super) fn bound_by(report: &Report, rule: &DiagnosisRule) -> Vec<Finding> {
    let mut findings = Vec::new();
    for group in groups(report) {
        let placed = group.rows.iter().filter(|row| row.diagnosis.is_some()).count();
        for label in distinct(group.rows.iter().filter_map(|row| Some(row.diagnosis.as_ref()?.label()))) {
            let same = |row: &&&Row| row.diagnosis.as_ref().is_some_and(|d| d.label() == label);
            let rows: Vec<&Row> = group.rows.iter().filter(same).copied().collect();
            findings.extend(finding(&group, rule, &rows, placed));
        }
        findings.extend(group.not_triggered(rule, Class::Insight, placed));
    }
    findings
}

fn finding(group: &Group<'_>, rule: &DiagnosisRule, rows: &[&Row], placed: usize) -> Option<Finding> {
    let row = rows.iter().max_by_key(|row| row.work.items)?;
    let d = row.diagnosis.as_ref()?;
    // Other rules cover faults, busy machines, times below resolution, and idle threads at the largest case; an
    // unexplained time gives no finding.
    let idle = d.limit == Limit::IdleThreads && group.largest().is_some_and(|largest| std::ptr::eq(largest, *row));
    if idle
        || row.below_resolution
        || matches!(d.limit, Limit::AboveCeiling | Limit::FewSlots | Limit::HeldUp | Limit::Unexplained)
    {
        return None;
    }
    let explained = match d.limit {
        // Threads wait at the same time, and not every wait costs a full cold wake-up.
        Limit::Contended => "share of the time for its waits, at the cost of a cold wake-up each",
        Limit::ThreadWake => "share of the time for waking threads, at the measured cost",
        Limit::Issue | Limit::Dependency | Limit::Instructions => "share of the time in the core",
        Limit::IdleThreads => "share of the processors that is idle",
        _ => "share of the time that it explains",
    };
    // A busy machine lengthens the median, so state the time that the shares refer to.
    let mut numbers = vec![evidence(explained, d.share, "1"), evidence("undisturbed time", d.time_s, "s")];
    numbers.extend(d.per_cycle.filter(|_| in_core(d.limit)).map(|rate| evidence("instructions per cycle", rate, "")));
    let best = d.changes.first();
    Some(Finding {
        title: format!("{}: {}", d.label(), d.description()),
        evidence: numbers,
        saving_upper_bound: best.filter(|_| !d.is_above()).map(|change| change.saving_upper_bound),
        next_experiment: match best {
            _ if d.is_above() => "measure the ceilings again on a quiet machine (`ellwand machine`)".into(),
            Some(change) => format!("{}: {}", change.lever.word(), change.experiment),
            None => "none: it is at the ceiling".into(),
        },
        confidence: match d.share {
            _ if d.is_above() => Confidence::Low,
            // Found by elimination: the data may have come from farther away than their size suggests.
            _ if in_core(d.limit) && d.largest_share() >= 0.2 => Confidence::Low,
            _ if in_core(d.limit) => Confidence::Medium,
            // A launch inside a graph costs less, by an unknown amount.
            share if d.limit == Limit::Launch && share > ABOVE => Confidence::Medium,
            share if share >= CLOSE => Confidence::High,
            share if share >= BINDS => Confidence::Medium,
            // Chosen by elimination: no measured cost explains that much time.
            _ => Confidence::Low,
        },
        strength: d.share,
        ..group.finding(rule, Class::Insight, row, (rows.len(), placed))
    })
}

/// True for limits inside the core, which are found by elimination.
fn in_core(limit: Limit) -> bool {
    matches!(limit, Limit::Issue | Limit::Dependency | Limit::Instructions)
}
