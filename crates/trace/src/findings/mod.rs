//! Suggestions from a profile. Every finding gives the numbers that triggered it and where they come from.
//!
//! To add a rule, write a function from [`Facts`] to findings and add a row to [`RULES`].

mod calls;
mod device;
mod facts;
mod host;
mod inputs;
mod roofline;
mod size;

use std::fmt;

use ellwand_profile::Trace;
use ellwand_profile::table::{bandwidth, bytes, printable, time};
use serde::Serialize;

pub use facts::{Ceilings, Facts, Limits};
pub use roofline::{Reached, reached_limits};

ellwand_profile::words! {
    /// How sure a rule is that it interprets the numbers correctly. Findings on records have the same levels, but no
    /// crate below both could define them.
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
    /// The level in one word.
    fn word;
}

/// A number that triggered a finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trigger {
    /// What the number is.
    pub name: String,
    /// Its value, in the unit below.
    pub value: f64,
    /// Its unit: `ns`, `B`, `B/s`, `flop/s`, `share` (of 1), `x` (a ratio) or empty for a count.
    pub unit: &'static str,
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, unit } = self;
        let name = printable(name);
        match *unit {
            "ns" => write!(f, "{name} {}", time(*value)),
            "B" => write!(f, "{name} {}", bytes(*value)),
            "B/s" => write!(f, "{name} {}", bandwidth(*value)),
            "flop/s" => write!(f, "{name} {:.3} Gflop/s", value / 1e9),
            "share" => write!(f, "{name} {:.1} %", value * 100.0),
            "x" => write!(f, "{name} {value:.2}x"),
            _ if value.fract() == 0.0 => write!(f, "{name} {value}"),
            _ => write!(f, "{name} {value:.1}"),
        }
    }
}

/// One statement with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfileFinding {
    /// Key of the rule.
    pub rule: &'static str,
    /// The statement, in one sentence.
    pub title: String,
    /// The numbers that support the statement.
    pub evidence: Vec<Trigger>,
    /// The rule's threshold in words.
    pub threshold: &'static str,
    /// Upper bound on the share of the elapsed time that could be saved (Amdahl), if the numbers give one.
    pub saving_upper_bound: Option<f64>,
    /// How sure the rule is.
    pub confidence: Confidence,
    /// The next experiment, and what to look at.
    pub next_experiment: &'static str,
    /// Operations that the evidence comes from.
    pub operations: Vec<String>,
    /// Time ranges of the evidence: start and end in nanoseconds from the start of the recording.
    pub ranges: Vec<(f64, f64)>,
}

impl fmt::Display for ProfileFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.evidence.iter().map(ToString::to_string).collect();
        let saving = self.saving_upper_bound.map(|share| format!("; saves at most {:.1} %", share * 100.0));
        writeln!(f, "{} [{}]", printable(&self.title), self.rule)?;
        writeln!(f, "  {}{}", numbers.join(", "), saving.unwrap_or_default())?;
        writeln!(f, "  reported if {}; confidence: {}", self.threshold, self.confidence.word())?;
        write!(f, "  next: {}", self.next_experiment)
    }
}

/// A rule: looks at the facts and returns findings.
pub struct Rule {
    /// Key in JSON; never changes.
    pub id: &'static str,
    /// The condition for a report.
    pub threshold: &'static str,
    /// The next experiment.
    pub next: &'static str,
    /// Returns the findings of the rule.
    pub apply: fn(&Facts, &Rule) -> Vec<ProfileFinding>,
}

/// Every rule. To add one, add a row.
pub const RULES: &[Rule] = &[
    Rule {
        id: "incomplete",
        threshold: "spans or details were lost, or spans had no room and are only in totals",
        next: "record again with a larger buffer or fewer spans; lost spans are missing in calls and totals, those only in totals have no single durations; impossible times come from a device's clock, which a larger buffer does not fix",
        apply: host::incomplete,
    },
    Rule {
        id: "own-cost",
        threshold: "the profiler takes at least 5 % of the elapsed time",
        next: "remove the shortest spans with the most calls, or record aggregates; use the corrected times",
        apply: host::own_cost,
    },
    Rule {
        id: "launch-bound",
        threshold: "launches take at least 10 % of the elapsed time and the median kernel is shorter than two launches",
        next: "launch less: fuse kernels, batch the work, or replay it as a graph; then compare the elapsed time",
        apply: device::launch_bound,
    },
    Rule {
        id: "transfer-bound",
        threshold: "copies that nothing hides take at least 20 % of the elapsed time",
        next: "keep data on the device, copy from pinned memory, or overlap copies with kernels on a second stream",
        apply: device::transfer_bound,
    },
    Rule {
        id: "sync-bound",
        threshold: "waiting for the device takes at least 20 % of the elapsed time while host and device each work alone for at least 10 %",
        next: "remove synchronizations inside the loop (reading a result waits for it), so that host and device overlap",
        apply: device::sync_bound,
    },
    Rule {
        id: "waiting",
        threshold: "host threads wait and nothing else works for at least 20 % of the elapsed time",
        next: "find out what the longest waits are for: a lock, input or output, another thread, or another program that had the processor (a busy machine looks the same: record again on an idle one); overlap or remove them",
        apply: host::waiting,
    },
    Rule {
        id: "allocation-churn",
        threshold: "allocation takes at least 5 % of the elapsed time, or an operation allocates at least 1000 times and 10 times its peak",
        next: "reuse buffers between calls; count allocations of the operation again",
        apply: host::allocation_churn,
    },
    Rule {
        id: "first-call",
        threshold: "the first of at least 5 calls takes 10 times the median, and at least 1 % of the elapsed time more",
        next: "warm up before measuring (compilation, caches, lazy loading), or keep what the first call makes",
        apply: calls::first_call,
    },
    Rule {
        id: "noisy",
        threshold: "an operation has at least 20 calls with inputs of equal size, its first call excluded, whose 99th percentile is 3 times their median; such calls take at least 5 % of the elapsed time",
        next: "compare slow with fast calls in the timeline: page faults, a preempted thread, a busy lock, or a size that no argument names",
        apply: calls::noisy,
    },
    Rule {
        id: "thread-imbalance",
        threshold: "the busiest thread of an operation works at least 1.2 times as long as the mean, and at least 5 % of the elapsed time longer; lanes of several threads and threads that came and went do not count",
        next: "divide the work into more, smaller parts and hand them out as threads become free",
        apply: calls::thread_imbalance,
    },
    Rule {
        id: "bandwidth-bound",
        threshold: "an operation with at least 5 % of the elapsed time moves at least 60 % of the bytes a second that the machine can, nearer to that limit than to the other",
        next: "move fewer bytes: fuse passes over the data, use a smaller type, keep blocks in the cache",
        apply: roofline::bandwidth_bound,
    },
    Rule {
        id: "compute-bound",
        threshold: "an operation with at least 5 % of the elapsed time computes at least 60 % of the operations a second that the machine can, nearer to that limit than to the other",
        next: "compute less: a better algorithm, a smaller type, or tensor cores; more bandwidth will not help",
        apply: roofline::compute_bound,
    },
    Rule {
        id: "too-small-for-gpu",
        threshold: "calls ran on the GPU at sizes where the CPU was faster, and cost at least 1 % of the elapsed time",
        next: "route by size: run small inputs on the CPU and check the crossover on this machine",
        apply: size::too_small,
    },
];

/// The findings of all rules, the largest possible saving first.
pub fn findings(trace: &Trace, ceilings: Option<Ceilings>) -> Vec<ProfileFinding> {
    let facts = Facts::of(trace, ceilings);
    let mut findings: Vec<ProfileFinding> = RULES.iter().flat_map(|rule| (rule.apply)(&facts, rule)).collect();
    let saving = |finding: &ProfileFinding| finding.saving_upper_bound.unwrap_or(0.0);
    findings.sort_by(|a, b| saving(b).total_cmp(&saving(a)));
    findings
}

fn evidence(name: impl Into<String>, value: f64, unit: &'static str) -> Trigger {
    Trigger { name: name.into(), value, unit }
}

impl Rule {
    /// A finding of this rule without places.
    fn finding(&self, title: impl Into<String>, confidence: Confidence, evidence: Vec<Trigger>) -> ProfileFinding {
        ProfileFinding {
            rule: self.id,
            title: title.into(),
            evidence,
            threshold: self.threshold,
            saving_upper_bound: None,
            confidence,
            next_experiment: self.next,
            operations: Vec::new(),
            ranges: Vec::new(),
        }
    }
}
