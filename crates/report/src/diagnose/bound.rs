//! The rule that names what limits each implementation and the change that would help most.

use super::limit::{ABOVE, BINDS, CLOSE};
use super::{Class, Confidence, Finding, Group, Limit, Rule, evidence, groups};
use crate::model::{Report, Row};

/// One finding per implementation and limit, at the largest case with that limit.
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
    // Other rules cover faults and times below resolution; an unexplained time gives no finding.
    if row.below_resolution || matches!(d.limit, Limit::AboveCeiling | Limit::Unexplained) {
        return None;
    }
    let explained = match d.limit {
        // Threads wait at the same time, and not every wait costs a full cold wake-up.
        Limit::Contended => "its waits at the cost of a cold wake-up each, of the time",
        _ => "share of the time that it explains",
    };
    // The report prints the median wall time, which is longer on a busy machine.
    let mut numbers = vec![evidence(explained, d.share, "1"), evidence("undisturbed time", d.time_s, "s")];
    numbers.extend(
        d.parts.iter().filter(|part| part.limit == d.limit).map(|part| evidence("this limit alone", part.seconds, "s")),
    );
    let best = d.changes.first().filter(|_| !d.exceeds());
    Some(Finding {
        title: format!("{}: {}", d.label(), d.words()),
        evidence: numbers,
        saving_upper_bound: best.map(|change| change.saving_upper_bound),
        next_experiment: match best {
            Some(change) => format!("{}: {}", change.lever.word(), change.experiment),
            None if d.exceeds() => {
                "measure the ceilings again on a quiet machine (`ellwand machine`), and compare the faults or threads with what ran".into()
            }
            None => "none: it stands at the ceiling".into(),
        },
        confidence: match d.share {
            _ if d.exceeds() => Confidence::Low,
            // A launch inside a graph costs less, by an unknown amount.
            share if d.limit == Limit::Launch && share > ABOVE => Confidence::Medium,
            share if share >= CLOSE => Confidence::High,
            share if share >= BINDS => Confidence::Medium,
            // Chosen by elimination: no measured cost explains that much time.
            _ => Confidence::Low,
        },
        ..group.finding(rule, if d.exceeds() { Class::Fault } else { Class::Insight }, row, (rows.len(), placed))
    })
}
