//! Merges repeated findings: in a sweep over many operations, the same finding is listed once, with the number of
//! rows.

use std::collections::BTreeMap;

use super::Finding;

/// Merges findings that differ only in their place and their numbers. Input is sorted by importance, so the first of each
/// group represents it.
pub(super) fn merge_similar(mut findings: Vec<Finding>) -> Vec<Finding> {
    let rule = |finding: &Finding| (finding.run, finding.rule.clone());
    let mut eligible: BTreeMap<_, BTreeMap<_, usize>> = BTreeMap::new();
    for finding in &findings {
        let group = (finding.workload.clone(), finding.implementation.clone());
        eligible.entry(rule(finding)).or_default().insert(group, finding.cases.1);
    }
    findings.retain(|finding| finding.cases.0 > 0);
    let same = |a: &Finding, b: &Finding| {
        let of = |finding: &Finding| (finding.run, finding.rule.clone(), finding.class);
        of(a) == of(b) && statement(&a.title) == statement(&b.title) && a.next_experiment == b.next_experiment
    };
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        match merged.iter_mut().find(|first| same(first, &finding)) {
            Some(first) => {
                first.cases = (first.cases.0 + finding.cases.0, eligible[&rule(first)].values().sum());
                let rows = if finding.cases.0 > 1 { format!(" ({} rows)", finding.cases.0) } else { String::new() };
                first.alike.push(finding.subject() + &rows);
            }
            None => merged.push(finding),
        }
    }
    merged
}

/// A title without its numbers: "at 43 % of the bandwidth" and "at 47 % of the bandwidth" are the same statement.
fn statement(title: &str) -> String {
    title.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect()
}
