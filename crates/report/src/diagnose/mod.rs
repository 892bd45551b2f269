//! Diagnosis: what limits an implementation and what to try next. Every finding gives the numbers that triggered it.
//!
//! To add a rule, write a function from the report to findings and add a row to [`RULES`].

use ellwand_core::Implementation;
use serde::Serialize;

use crate::model::{ONLY, Report, Row, Section};
use crate::units::human;

mod bound;
mod ceiling;
mod limit;
mod memory;
mod merge;
mod overhead;
mod peers;
mod quality;

pub(crate) use limit::{ABOVE, CLOSE, FEWEST, typical_faults};
pub use limit::{Diagnosis, Lever, Limit, Part, Saving, place};

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

/// All rules. To add one, add a row.
pub const RULES: &[DiagnosisRule] = &[
    DiagnosisRule {
        id: "above-ceiling",
        about: "faster than the measured peaks allow (share of the ceiling above 105 %, between two cache levels of the ceiling of the faster one): the ceiling or the count of work is wrong",
        apply: ceiling::above,
    },
    DiagnosisRule {
        id: "below-resolution",
        about: "an iteration is too short to measure",
        apply: quality::below_resolution,
    },
    DiagnosisRule {
        id: "contended",
        about: "elapsed time is at least 1.2 times the CPU time; threads had less than 80 % of their processors while other programs switched them out; where the CPU time is unknown, every second sample lost the processor",
        apply: quality::contended,
    },
    DiagnosisRule {
        id: "uneven",
        about: "CPU time over whole slots is at least 1.1 times the time, which is that of the fastest parts",
        apply: quality::uneven,
    },
    DiagnosisRule {
        id: "weak-baseline",
        about: "speed-ups refer, because the user asked for it, to an implementation that is at least twice as slow as the next one",
        apply: peers::weak_baseline,
    },
    DiagnosisRule {
        id: "page-faults",
        about: "page faults continue in the steady state (at least 0.5 per iteration, and 1 % of the time if the cost of a fault is known)",
        apply: quality::page_faults,
    },
    DiagnosisRule {
        id: "outliers",
        about: "few items make up most of a mean, by the thresholds of their workload",
        apply: quality::outliers,
    },
    DiagnosisRule {
        id: "overhead-bound",
        about: "the smallest case costs at least 3 times as much per item as the largest",
        apply: overhead::small_cases,
    },
    DiagnosisRule {
        id: "first-run",
        about: "the first run costs at least 10 times the steady state and at least 100 µs",
        apply: overhead::first_run,
    },
    DiagnosisRule {
        id: "host-bound",
        about: "the host takes at least as long to launch the work as the device to run it",
        apply: overhead::launching,
    },
    DiagnosisRule {
        id: "threads-do-not-pay",
        about: "an implementation that ran on several threads is at least 5 % slower than the same way of computing on one thread at the same case",
        apply: peers::threads_do_not_pay,
    },
    DiagnosisRule {
        id: "threads-idle",
        about: "at its largest case an implementation with several threads keeps less than 60 % of the processors busy",
        apply: peers::threads_idle,
    },
    DiagnosisRule {
        id: "working-memory",
        about: "it keeps at least as many bytes of intermediate results as it must read and write; another implementation of the case, at least 5 % faster, keeps at most a tenth of them; and writing and reading them once explains at least 40 % of the difference",
        apply: memory::intermediate,
    },
    DiagnosisRule {
        id: "far-from-ceiling",
        about: "below 30 % of the measured peaks at the largest case, and no limit explains the time",
        apply: ceiling::far,
    },
    DiagnosisRule {
        id: "bound-by",
        about: "the limit that takes most of the time: a measured cost of at least 40 % (traffic or operations where operations are required: 60 %, or 40 % if the rest is smaller; calls and launches: at most 5 empty ones; waking threads: at most 7 times its cost; latency, where each load needs the one before: 0.4 to 1.7 loads in flight), or instructions, if at least 60 % is left",
        apply: bound::bound_by,
    },
];

/// The findings of all rules: faults first, then by possible saving.
pub(crate) fn findings(report: &Report) -> Vec<Finding> {
    let strongest_first = |rule: &DiagnosisRule| {
        let mut found = (rule.apply)(report, rule);
        found.sort_by(|a, b| b.strength.total_cmp(&a.strength));
        found
    };
    let mut findings: Vec<Finding> = RULES.iter().flat_map(strongest_first).collect();
    findings.retain(|finding| !tunes_the_judge(report, finding));
    findings.sort_by(|a, b| {
        let saving = |finding: &Finding| finding.saving_upper_bound.unwrap_or(0.0);
        a.class.cmp(&b.class).then(saving(b).total_cmp(&saving(a)))
    });
    merge::alike(findings)
}

/// True for advice on the reference next to other implementations: it must be obviously correct, not fast. Faults and
/// cautions stay, because it may be the baseline.
fn tunes_the_judge(report: &Report, finding: &Finding) -> bool {
    let company = |section: &Section| section.workload == finding.workload && section.implementations.len() > 1;
    matches!(finding.class, Class::Advice | Class::Insight)
        && finding.implementation.as_deref() == Some(Implementation::REFERENCE)
        && report.workloads.iter().any(company)
}

/// The findings to show on a terminal: the first of each rule before a second of any.
pub(crate) fn select(findings: &[Finding], at_most: usize) -> Vec<&Finding> {
    let mut chosen: Vec<&Finding> = Vec::new();
    let mut rest: Vec<&Finding> = Vec::new();
    for finding in findings {
        let seen = chosen.iter().any(|known| known.rule == finding.rule);
        if seen { rest.push(finding) } else { chosen.push(finding) }
    }
    chosen.extend(rest);
    chosen.truncate(at_most);
    chosen
}

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
fn each<'a>(report: &'a Report, one: impl Fn(Group<'a>) -> Option<Finding>) -> Vec<Finding> {
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
    pub(crate) fn silent(&self, rule: &DiagnosisRule, class: Class, eligible: usize) -> Option<Finding> {
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

pub(crate) fn evidence(name: impl Into<String>, value: f64, unit: &str) -> Evidence {
    Evidence { name: name.into(), value, unit: unit.to_string() }
}
