//! The self-check measures how often this instrument, on this machine, calls equal code different, and how often it
//! detects a planted difference. The counts are stored in a certificate.

mod kernels;
mod series;

pub use kernels::{BRANCHES, CHAIN, DRAM, L2, L3, MODES, PLAIN, SLOWED, TAIL, TWIN};
pub use series::{DecisionEvent, End, series};

use std::collections::BTreeMap;

use ellwand_core::case::{Case, Value};
use ellwand_core::implementation::Parallelism;
use ellwand_core::registry::Registry;
use ellwand_core::stats::{Difference, median, proportion_interval, proportion_upper_bound, quantile};
use serde::{Deserialize, Serialize};

use crate::arms::{LONG_RUN_NS, Sides, WARM_UP_NS};
use crate::block::Spec;
use crate::compare::{Call, Decision};
use crate::settings::SLOT_NS;
use crate::worker::{Asked, Launch, Open};

/// A planted difference and the number of decisions on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Name of the kernel.
    pub workload: &'static str,
    /// Implementation used as the candidate.
    pub candidate: &'static str,
    /// Extra work of the candidate, in per cent.
    pub percent: i64,
    /// How many times a run repeats the work.
    pub passes: i64,
    /// Number of decisions to take.
    pub decisions: u32,
}

/// True if the candidate does the same work as the baseline. Older self-checks compared the baseline with itself.
pub fn is_equal(candidate: &str) -> bool {
    [PLAIN, TWIN].contains(&candidate)
}

/// The trials of a self-check over all kernels. The full one takes some minutes, the quick one a minute or two. `long`
/// tries runs of about 20 ms instead of 50 us.
pub fn trials(quick: bool, long: bool) -> Vec<Trial> {
    if long {
        let decisions = if quick { 4 } else { 20 };
        let passes = |workload| if workload == L2 { 1600 } else { 400 };
        let trial =
            |workload, candidate, percent| Trial { workload, candidate, percent, passes: passes(workload), decisions };
        let both = [L2, CHAIN].map(|workload| [trial(workload, TWIN, 0), trial(workload, SLOWED, 3)]);
        return both.into_iter().flatten().collect();
    }
    let (equal, planted, modes) = if quick { (12, 4, 4) } else { (140, 20, 14) };
    let mut trials = Vec::new();
    // Decisions on data that exceeds a core's caches take many times as long.
    let (equal_far, planted_far) = if quick { (4, 2) } else { (30, 6) };
    for workload in [L3, DRAM] {
        let trial = |candidate, percent, decisions| Trial { workload, candidate, percent, passes: 1, decisions };
        trials.push(trial(TWIN, 0, equal_far));
        trials.extend([2, 3, 5].map(|percent| trial(SLOWED, percent, planted_far)));
    }
    for workload in [BRANCHES, L2, CHAIN] {
        let trial = |candidate, percent, decisions| Trial { workload, candidate, percent, passes: 1, decisions };
        trials.push(trial(TWIN, 0, equal));
        trials.extend([2, 3, 5].map(|percent| trial(SLOWED, percent, planted)));
        // Second modes are easy to detect, so a few decisions suffice; tails are more likely to be missed.
        let slow = [(TAIL, planted), (MODES, modes)];
        trials.extend(slow.map(|(candidate, decisions)| trial(candidate, 0, decisions)));
        // Five passes fill a slot: one slot in twenty takes twice as long, or every second one takes 10 % longer.
        trials.extend(slow.map(|(candidate, decisions)| Trial { passes: 5, ..trial(candidate, 0, decisions) }));
    }
    trials
}

/// Name of the main question in [`Row::found_by`].
pub const MAIN: &str = "time";

/// The results of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the kernel.
    pub workload: String,
    /// Implementation used as the candidate.
    pub candidate: String,
    /// Extra work of the candidate, in per cent.
    pub percent: i64,
    /// How many times a run repeats the work.
    pub passes: i64,
    /// Number of decisions taken.
    pub decisions: u64,
    /// Verdicts that called the candidate slower.
    pub slower: u64,
    /// Number of decisions "slower" by question: [`MAIN`], `median`, `p90`, `mean`.
    pub found_by: BTreeMap<String, u64>,
    /// Verdicts that called the candidate faster.
    pub faster: u64,
    /// Decisions "the same".
    pub same: u64,
    /// Undecided at the last look, or the same with an unsettled side question.
    pub undecided: u64,
    /// Withheld because the two copies of the baseline differed.
    pub withheld: u64,
    /// Comparisons that ended without a decision: an arm failed, or the time ran out before the fewest blocks.
    pub failed: u64,
    /// Decisions whose 99 % interval contains the planted ratio; `None` if no single ratio was planted (tails and
    /// modes).
    pub covered: Option<u64>,
    /// Median ratio found over the ratio planted, minus one; `None` if no single ratio was planted.
    pub bias: Option<f64>,
    /// Median and 90th percentile of the duration of a decision, in seconds; NaN without a decision.
    #[serde(deserialize_with = "absent_as_nan")]
    pub seconds: [f64; 2],
    /// Median and 90th percentile of the number of blocks in a decision; NaN without a decision.
    #[serde(deserialize_with = "absent_as_nan")]
    pub blocks: [f64; 2],
    /// Mean CPU seconds per decision over all processes; `None` if the system does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
}

/// JSON has no NaN: serde_json writes it as `null`.
fn absent_as_nan<'de, D: serde::Deserializer<'de>>(from: D) -> Result<[f64; 2], D::Error> {
    Ok(<[Option<f64>; 2]>::deserialize(from)?.map(|value| value.unwrap_or(f64::NAN)))
}

/// How well a self-check detected the planted differences of one kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Seen {
    /// The smallest planted difference that at least 95 % of the comparisons detected.
    From {
        /// Its extra work, in per cent.
        percent: i64,
        /// Median seconds of a decision.
        seconds: f64,
        /// Comparisons that detected it, and comparisons begun.
        found: [u64; 2],
    },
    /// It detected less than that of every planted difference.
    NotReliably,
    /// No comparison with a planted difference came to a decision.
    NotJudged,
}

/// The result of a self-check, as stored on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// Version of the Ellwand program that wrote it.
    pub ellwand: String,
    /// Last commit when that program was built, if it was built in a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Start time in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Load averages before and after the self-check.
    pub load: [Option<f64>; 2],
    /// Overhead of taking a slot, in nanoseconds.
    pub slot_cost_ns: Option<f64>,
    /// Region of practical equivalence.
    pub rope: f64,
    /// Requested probability of a wrong verdict.
    pub alpha: f64,
    /// Results of all trials.
    pub rows: Vec<Row>,
    /// Planned number of decisions, if fewer were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
}

impl SelfCheck {
    /// False alarms, decisions on equal code, and the exact one-sided 95 % upper bound on the false-alarm rate (Clopper
    /// and Pearson 1934). The bound is `None` without a decision.
    pub fn false_alarms(&self) -> (u64, u64, Option<f64>) {
        let equal = self.rows.iter().filter(|row| is_equal(&row.candidate));
        let (alarms, trials) =
            equal.fold((0, 0), |(alarms, trials), row| (alarms + row.slower + row.faster, trials + row.decisions));
        (alarms, trials, proportion_upper_bound(alarms, trials, 0.95).ok())
    }

    /// Decisions whose interval contains the planted ratio, all such decisions, and the 95 % interval of the coverage.
    pub fn coverage(&self) -> (u64, u64, Option<(f64, f64)>) {
        let known = self.rows.iter().filter_map(|row| Some((row.covered?, row.decisions)));
        let (covered, trials) = known.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
        (covered, trials, proportion_interval(covered, trials, 0.95).ok())
    }

    /// The largest median bias of all trials, with its sign; `None` without a decision.
    pub fn worst_bias(&self) -> Option<f64> {
        let found = self.rows.iter().filter_map(|row| row.bias).filter(|bias| bias.is_finite());
        found.max_by(|a, b| a.abs().total_cmp(&b.abs()))
    }

    /// How well this machine detects the planted differences of each kernel, by name of the kernel.
    pub fn detection(&self) -> Vec<(String, Seen)> {
        let mut detection: BTreeMap<String, Seen> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.candidate == SLOWED) {
            let best = detection.entry(row.workload.clone()).or_insert(Seen::NotJudged);
            if row.decisions == 0 {
                continue;
            }
            // A comparison that ended without a decision detected nothing.
            let seen = row.slower as f64 >= 0.95 * row.comparisons_begun() as f64;
            let finer = !matches!(best, Seen::From { percent, .. } if *percent <= row.percent);
            if seen && finer {
                let found = [row.slower, row.comparisons_begun()];
                *best = Seen::From { percent: row.percent, seconds: row.seconds[0], found };
            } else if *best == Seen::NotJudged {
                *best = Seen::NotReliably;
            }
        }
        detection.into_iter().collect()
    }

    /// Total number of decisions taken.
    pub fn decisions(&self) -> u64 {
        self.rows.iter().map(Row::comparisons_begun).sum()
    }

    /// Detected slow modes (tails and second modes) and planted ones.
    pub fn slow_modes(&self) -> (u64, u64) {
        let planted = self.rows.iter().filter(|row| [TAIL, MODES].contains(&row.candidate.as_str()));
        planted.fold((0, 0), |sum, row| (sum.0 + row.slower, sum.1 + row.comparisons_begun()))
    }

    /// Comparisons that ended without a decision.
    pub fn failed(&self) -> u64 {
        self.rows.iter().map(|row| row.failed).sum()
    }
}

impl Row {
    /// Comparisons begun, with or without a decision.
    fn comparisons_begun(&self) -> u64 {
        self.decisions + self.failed
    }

    /// Share of comparisons that said "slower", with its 95 % interval; `None` without comparisons.
    pub fn power(&self) -> Option<(f64, f64, f64)> {
        let (low, high) = proportion_interval(self.slower, self.comparisons_begun(), 0.95).ok()?;
        Some((self.slower as f64 / self.comparisons_begun() as f64, low, high))
    }
}

/// The two sides that a trial compares.
pub fn sides(trial: &Trial, launch: &Launch, seed: u64) -> Sides {
    let case = Case::new(
        trial.workload,
        vec![("percent".into(), Value::Int(trial.percent)), ("passes".into(), Value::Int(trial.passes))],
    );
    let spec = |implementation: &str| Spec { together: true, ..spec(&case, implementation, launch, seed) };
    Sides {
        baseline: spec(PLAIN),
        candidate: spec(trial.candidate),
        parallelism: [Parallelism::Single; 2],
        exact: false,
    }
}

/// Adds the kernels to a registry. Only workers need them: `list` and `run` do not show them.
pub fn register(registry: &mut Registry) {
    kernels::register(registry);
}

fn spec(case: &Case, implementation: &str, launch: &Launch, seed: u64) -> Spec {
    let open = Open {
        asked: Asked::new(case, implementation),
        seed,
        slot_min_ns: SLOT_NS,
        warm_up_ns: WARM_UP_NS,
        long_run_ns: LONG_RUN_NS,
        pin: true,
        ..Open::default()
    };
    Spec { launch: launch.clone(), open, together: false }
}

fn row(trial: &Trial, decisions: &[Decision], failed: u64, cpu_s: &[f64]) -> Row {
    let count = |is: &dyn Fn(&Call) -> bool| decisions.iter().filter(|decision| is(&decision.call)).count() as u64;
    let planted = 1.0 + trial.percent as f64 / 100.0;
    let uniform = is_equal(trial.candidate) || trial.candidate == SLOWED;
    let column = |of: &dyn Fn(&Decision) -> f64| decisions.iter().map(of).collect::<Vec<f64>>();
    let middle_and_tail = |values: &[f64]| [0.5, 0.9].map(|p| quantile(values, p).unwrap_or(f64::NAN));
    let holds = |decision: &&Decision| (decision.change.low..=decision.change.high).contains(&planted);
    let mut found_by = BTreeMap::new();
    for decision in decisions {
        let question = match decision.call {
            Call::As(Difference::Slower) => MAIN,
            Call::SlowerBeside(name) => name,
            _ => continue,
        };
        *found_by.entry(question.to_string()).or_insert(0) += 1;
    }
    Row {
        workload: trial.workload.to_string(),
        candidate: trial.candidate.to_string(),
        percent: trial.percent,
        passes: trial.passes,
        decisions: decisions.len() as u64,
        slower: found_by.values().sum(),
        found_by,
        faster: count(&|call| matches!(call, Call::As(Difference::Faster))),
        same: count(&|call| matches!(call, Call::As(Difference::Same))),
        undecided: count(&|call| matches!(call, Call::As(Difference::Undecided { .. }) | Call::Unsettled(_))),
        withheld: count(&|call| matches!(call, Call::Withheld)),
        failed,
        covered: uniform.then(|| decisions.iter().filter(holds).count() as u64),
        bias: uniform.then(|| median(&column(&|decision| decision.change.ratio / planted - 1.0))).flatten(),
        seconds: middle_and_tail(&column(&|decision| decision.elapsed_s)),
        blocks: middle_and_tail(&column(&|decision| decision.blocks.len() as f64)),
        cpu_s: (!cpu_s.is_empty()).then(|| cpu_s.iter().sum::<f64>() / cpu_s.len() as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_decisions_can_be_read_back() {
        let trial = trials(true, false)[0];
        let text = serde_json::to_string(&row(&trial, &[], 2, &[])).unwrap();
        assert!(text.contains(r#""seconds":[null,null]"#), "{text}");
        let read: Row = serde_json::from_str(&text).unwrap();
        assert_eq!((read.decisions, read.failed), (0, 2));
        assert!(read.seconds.iter().chain(&read.blocks).all(|value| value.is_nan()));
    }

    #[test]
    fn a_comparison_without_a_decision_is_a_difference_that_was_not_found() {
        let found = Row {
            workload: "selfcheck-chain".into(),
            candidate: SLOWED.into(),
            percent: 5,
            passes: 1,
            decisions: 19,
            slower: 19,
            found_by: BTreeMap::new(),
            faster: 0,
            same: 0,
            undecided: 0,
            withheld: 0,
            failed: 0,
            covered: Some(19),
            bias: Some(0.0),
            seconds: [1.0, 2.0],
            blocks: [10.0, 12.0],
            cpu_s: None,
        };
        let certificate = |failed: u64| SelfCheck {
            ellwand: "0.1.0".into(),
            revision: None,
            machine: "m".into(),
            started_unix_ms: 0,
            load: [None; 2],
            slot_cost_ns: None,
            rope: 0.01,
            alpha: 0.01,
            rows: vec![Row { failed, ..found.clone() }],
            planned: None,
        };
        let detection =
            |certificate: &SelfCheck| certificate.detection().into_iter().map(|(_, seen)| seen).collect::<Vec<_>>();
        assert_eq!(detection(&certificate(0)), [Seen::From { percent: 5, seconds: 1.0, found: [19, 19] }]);
        let late = certificate(5);
        assert_eq!((detection(&late), late.decisions(), late.failed()), (vec![Seen::NotReliably], 24, 5));
        // A kernel whose comparisons all ended without a decision is still listed, and so is one that was never begun.
        for failed in [0, 4] {
            let none = Row { workload: "selfcheck-l3".into(), decisions: 0, slower: 0, failed, ..found.clone() };
            let rows = vec![none.clone(), found.clone(), Row { percent: 2, ..none }];
            let of_two = SelfCheck { rows, ..certificate(0) };
            let chain = Seen::From { percent: 5, seconds: 1.0, found: [19, 19] };
            assert_eq!(
                of_two.detection(),
                [("selfcheck-chain".into(), chain), ("selfcheck-l3".into(), Seen::NotJudged)]
            );
        }
        // The smaller difference counts, in either order.
        let finer = Row { percent: 2, slower: 1, decisions: 1, ..found.clone() };
        for rows in [[finer.clone(), found.clone()], [found.clone(), finer]] {
            let both = SelfCheck { rows: rows.to_vec(), ..certificate(0) };
            assert_eq!(detection(&both), [Seen::From { percent: 2, seconds: 1.0, found: [1, 1] }]);
        }
        assert!(late.rows[0].power().unwrap().0 < 0.8);
        assert_eq!(late.coverage().1, 19, "without an interval none can hold the ratio");
    }
}
