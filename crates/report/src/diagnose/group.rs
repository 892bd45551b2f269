//! Rows of one implementation, which most rules look at together.

use super::finding::{Class, Confidence, DiagnosisRule, Finding};
use crate::model::{Report, Row, Section};

/// Rows of one implementation of one workload in one run, the unit of most rules.
pub(crate) struct Group<'a> {
    pub(crate) section: &'a Section,
    pub(crate) implementation: &'a str,
    pub(crate) run: usize,
    pub(crate) rows: Vec<&'a Row>,
}

/// All groups with measured rows, in report order.
pub(crate) fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    for section in &report.workloads {
        for run in 0..report.runs.len() {
            for implementation in &section.implementations {
                let rows: Vec<&Row> = section.rows_of(run, implementation).filter(|row| row.measured()).collect();
                if !rows.is_empty() {
                    groups.push(Group { section, implementation, run, rows });
                }
            }
        }
    }
    groups
}

/// At most one finding for each group.
pub(super) fn each<'a>(report: &'a Report, one: impl Fn(Group<'a>) -> Option<Finding>) -> Vec<Finding> {
    groups(report).into_iter().filter_map(one).collect()
}

impl<'a> Group<'a> {
    /// The row with the largest `value`, with the number of rows with at least `threshold` and of rows that have a value.
    pub(crate) fn worst(&self, threshold: f64, value: impl Fn(&Row) -> Option<f64>) -> Option<Hit<'a>> {
        let value = |row: &'a Row| Some((row, value(row).filter(|value| !value.is_nan())?));
        let known: Vec<(&'a Row, f64)> = self.rows.iter().copied().filter_map(value).collect();
        let hits = known.iter().filter(|(_, value)| *value >= threshold).count();
        let (row, value) = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Hit { row, value: *value, cases: (hits, known.len()) })
    }

    /// All rows of the case of `row` in its run.
    pub(crate) fn peers(&self, row: &'a Row) -> impl Iterator<Item = &'a Row> + use<'a> {
        self.section.rows.iter().filter(move |other| other.run == row.run && other.case == row.case)
    }

    /// The measured row with the most items.
    pub(crate) fn largest(&self) -> Option<&'a Row> {
        self.rows.iter().max_by_key(|row| row.work.items).copied()
    }

    /// A finding that no row triggered, for `eligible` rows.
    pub(crate) fn not_triggered(&self, rule: &DiagnosisRule, class: Class, eligible: usize) -> Option<Finding> {
        Some(self.finding(rule, class, self.rows.first()?, (0, eligible)))
    }

    /// A finding about `row` of this group that follows from the numbers.
    pub(crate) fn finding(&self, rule: &DiagnosisRule, class: Class, row: &Row, cases: (usize, usize)) -> Finding {
        Finding {
            rule: rule.id.to_string(),
            class,
            title: String::new(),
            workload: self.section.workload.clone(),
            implementation: Some(self.implementation.to_string()),
            run: self.run,
            place: self.section.place(row),
            cases,
            alike: Vec::new(),
            evidence: Vec::new(),
            threshold: rule.about.to_string(),
            confidence: Confidence::High,
            saving_upper_bound: None,
            next_experiment: String::new(),
            strength: 0.0,
        }
    }
}

/// The worst row of a group.
pub(crate) struct Hit<'a> {
    pub(crate) row: &'a Row,
    pub(crate) value: f64,
    pub(crate) cases: (usize, usize),
}
