//! A sweep over many operations finds the same thing again and again: then it is said once, with how often.

use super::Finding;

/// From so many findings on, those of one rule that say the same become one.
const SEVERAL: usize = 3;

/// Makes one finding of those that differ only in where they hold; they come strongest first, and the first speaks for all.
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
