//! Diagnosis: what limits an implementation and what to try next. Every finding gives the numbers that triggered it.
//!
//! To add a rule, write a function from the report to findings and add a row to [`RULES`].

use ellwand_core::Implementation;

use crate::model::{Report, Section};

mod bound;
mod ceiling;
mod finding;
mod group;
mod limit;
mod memory;
mod merge;
mod overhead;
mod peers;
mod quality;

pub(crate) use finding::evidence;
pub use finding::{Class, Confidence, DiagnosisRule, Evidence, Finding};
use group::each;
pub(crate) use group::{Group, groups};
pub(crate) use limit::{ABOVE, CLOSE, FEWEST, typical_faults};
pub use limit::{Diagnosis, Lever, Limit, Part, Saving, place};

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
    merge::merge_similar(findings)
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
