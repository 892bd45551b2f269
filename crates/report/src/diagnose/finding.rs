//! What a rule finds: a statement, its evidence, and how certain it is.

use serde::Serialize;

use crate::model::{ONLY, Report};
use crate::units::human;

ellwand_core::words! {
    /// The kind of statement a finding makes, in reading order.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Class {
        /// Something is wrong; do not use the numbers concerned.
        Fault = "fault",
        /// The numbers are right but can mislead.
        Caution = "caution",
        /// A possible gain.
        Advice = "advice",
        /// What limits an implementation, with little to gain.
        Insight = "insight",
    }
    /// The name of the class in messages.
    fn word;
}

ellwand_core::words! {
    /// How certain a rule is of its interpretation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Confidence {
        /// Follows from the numbers.
        High = "high",
        /// The usual explanation of such numbers.
        Medium = "medium",
        /// One of several explanations.
        Low = "low",
    }
    /// The name of the level in messages.
    fn word;
}

/// A number that supports a finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// Name of the number.
    pub name: String,
    /// Value in `unit`.
    pub value: f64,
    /// Unit, as in [`crate::units::human`].
    pub unit: String,
}

impl Evidence {
    /// Formats it as `name value unit`.
    pub fn text(&self) -> String {
        format!("{} {}", self.name, human(self.value, &self.unit))
    }
}

/// A statement with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Key of the rule.
    pub rule: String,
    /// The kind of statement.
    pub class: Class,
    /// The statement in one line.
    pub title: String,
    /// The workload concerned.
    pub workload: String,
    /// The implementation concerned; empty if there are several.
    pub implementation: Option<String>,
    /// Index into [`Report::runs`].
    pub run: usize,
    /// Case of the evidence (`batch 10000`).
    pub place: String,
    /// Number of rows that triggered it, and number of rows of its implementation and workload that were eligible.
    pub cases: (usize, usize),
    /// Places of merged findings with the same statement; `cases` then counts rows of all implementations and workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<String>,
    /// The numbers that triggered it.
    pub evidence: Vec<Evidence>,
    /// The rule's threshold in words.
    pub threshold: String,
    /// How certain the rule is.
    pub confidence: Confidence,
    /// Upper bound on the share of the time that could be saved, if known.
    pub saving_upper_bound: Option<f64>,
    /// What to try next, and what to look at.
    pub next_experiment: String,
    /// Its strength compared with other findings of the same rule; the strongest represents them.
    #[serde(skip)]
    pub(crate) strength: f64,
}

impl Finding {
    /// Where it applies: `sum simd, batch 100`, or `in 12 rows, most in sum simd, batch 100`.
    pub fn subject(&self) -> String {
        if self.alike.is_empty() {
            self.strongest()
        } else {
            format!("in {} rows, most in {}", self.cases.0, self.strongest())
        }
    }

    /// The subject with the number of the run, if the report has several.
    pub fn subject_in(&self, report: &Report) -> String {
        let run = if report.runs.len() > 1 { format!(" (run {})", self.run + 1) } else { String::new() };
        format!("{}{run}", self.subject())
    }

    fn strongest(&self) -> String {
        // If no axis varies, there is no place to print.
        let place = if self.place == ONLY { String::new() } else { format!(", {}", self.place) };
        match &self.implementation {
            Some(implementation) => format!("{} {implementation}{place}", self.workload),
            None => format!("{}{place}", self.workload),
        }
    }

    /// The evidence in one line.
    pub fn evidence_line(&self) -> String {
        self.evidence.iter().map(Evidence::text).collect::<Vec<_>>().join(", ")
    }
}

/// A rule: a function from the report to findings.
pub struct DiagnosisRule {
    /// Stable key of the rule.
    pub id: &'static str,
    /// What it looks for, and its threshold.
    pub about: &'static str,
    /// Returns all matching cases. A finding that no row triggered only counts eligible rows and is never shown.
    pub apply: fn(&Report, &DiagnosisRule) -> Vec<Finding>,
}

pub(crate) fn evidence(name: impl Into<String>, value: f64, unit: &str) -> Evidence {
    Evidence { name: name.into(), value, unit: unit.to_string() }
}
