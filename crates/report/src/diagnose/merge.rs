//! Merges repeated findings: in a sweep over many operations, the same finding is listed once, with the number of
//! cases.

use super::Finding;

/// Fewest findings of one rule with the same statement that are merged.
const SEVERAL: usize = 2;

/// Merges findings that differ only in their place. Input is sorted by importance, so the first of each group
/// represents it.
pub(super) fn alike(findings: Vec<Finding>) -> Vec<Finding> {
    let same = |a: &Finding, b: &Finding| (a.run, &a.rule, a.class, &a.title) == (b.run, &b.rule, b.class, &b.title);
    let often: Vec<bool> = findings.iter().map(|a| findings.iter().filter(|b| same(a, b)).count() >= SEVERAL).collect();
    let mut merged: Vec<Finding> = Vec::new();
    for (finding, often) in findings.into_iter().zip(often) {
        match merged.iter_mut().find(|first| often && same(first, &finding)) {
            Some(first) => {
                first.cases = (first.cases.0 + finding.cases.0, first.cases.1 + finding.cases.1);
                first.alike.push(finding.subject());
            }
            None => merged.push(finding),
        }
    }
    merged
}
