//! When to stop sampling a cell. Each rule is a row of [`STOPS`]; the first that fires ends the cell.

use ellwand_core::record::{Sample, Settings};
use ellwand_core::stats::{median, median_interval};

/// How far a cell has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Rounds completed.
    pub rounds: u32,
    /// Rounds that fill the time for the case.
    pub planned: u32,
    /// Seconds of an iteration, by implementation.
    pub seconds: &'a [Vec<f64>],
    /// Whether the samples took many times the time for the case, and there are as many as there must be.
    pub overtime: bool,
}

/// How many times the time for the case, or what as many slots were found to cost, its samples may take before they end it.
const OVERTIME: u64 = 20;

/// Whether the samples of all implementations of a cell took far longer than they were expected to. Of each there are the
/// samples and what a slot was found to cost; one process of `blocks` takes its part of them.
pub(crate) fn overtime<'a>(all: impl Iterator<Item = (&'a [Sample], u64)>, settings: &Settings, blocks: u32) -> bool {
    let blocks = blocks.max(1);
    let (mut spent_ns, mut expected_ns) = (0_u64, 0_u64);
    for (samples, cost_ns) in all {
        if samples.len() < settings.samples_min.div_ceil(blocks) as usize {
            return false;
        }
        // The longest left out: where the clock steps, one slot seems to take as long as it likes.
        let longest_ns = samples.iter().map(|sample| sample.wall_ns).max().unwrap_or(0);
        let all_ns = samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.wall_ns));
        spent_ns = spent_ns.saturating_add(all_ns.saturating_sub(longest_ns));
        let known_ns = cost_ns.saturating_mul(samples.len() as u64);
        expected_ns = expected_ns.saturating_add(known_ns.max(settings.case_budget_ns / u64::from(blocks)));
    }
    spent_ns > OVERTIME.saturating_mul(expected_ns)
}

/// A rule: whether the cell has enough.
pub struct StopRule {
    /// Name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Whether it fires.
    pub fires: fn(&Progress) -> bool,
}

/// Half width of the interval of the median, relative to the median, at which an implementation is known well enough.
pub const PRECISION: f64 = 0.001;
/// Rounds before precision may end a cell: fewer would trust a lucky calm.
pub const PRECISION_ROUNDS: u32 = 50;

/// Every rule. To add one, add a row.
pub const STOPS: &[StopRule] = &[
    StopRule {
        name: "budget",
        about: "the rounds that fill the time for the case are done",
        fires: |p| p.rounds >= p.planned,
    },
    StopRule {
        name: "overtime",
        about: "the samples but the longest took 20 times the time for the case, and 20 times what they were found to cost, and the least number of them is there: beside other programs what \
                several threads do together takes as long as the scheduler likes",
        fires: |p| p.overtime,
    },
    StopRule {
        name: "precision",
        about: "50 rounds are done and every median is known to 0.1 %",
        fires: |p| {
            p.rounds >= PRECISION_ROUNDS
                && p.seconds.iter().all(|seconds| match (median_interval(seconds, 0.95), median(seconds)) {
                    (Some((low, high)), Some(median)) => high - low <= 2.0 * PRECISION * median,
                    _ => false,
                })
        },
    },
];

/// The first rule that fires.
pub fn stopped(progress: &Progress) -> Option<&'static StopRule> {
    STOPS.iter().find(|rule| (rule.fires)(progress))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fired(rounds: u32, seconds: &[Vec<f64>]) -> Option<&'static str> {
        stopped(&Progress { rounds, planned: 200, seconds, overtime: false }).map(|rule| rule.name)
    }

    #[test]
    fn each_rule_fires_for_its_reason() {
        let noisy: Vec<f64> = (0..60).map(|i| 1.0 + f64::from(i % 7)).collect();
        let steady = vec![1.0; 60];
        assert_eq!(fired(60, std::slice::from_ref(&noisy)), None);
        assert_eq!(fired(200, std::slice::from_ref(&noisy)), Some("budget"));
        assert_eq!(fired(60, std::slice::from_ref(&steady)), Some("precision"));
        assert_eq!(fired(49, std::slice::from_ref(&steady)), None, "a lucky calm");
        assert_eq!(fired(60, &[steady.clone(), noisy]), None, "one implementation is not yet known");
        let late = Progress { rounds: 5, planned: 200, seconds: &[steady], overtime: true };
        assert_eq!(stopped(&late).map(|rule| rule.name), Some("overtime"));
    }

    #[test]
    fn overtime_is_of_all_implementations_together_and_against_what_was_expected() {
        let settings = Settings { samples_min: 4, case_budget_ns: 1000, ..crate::settings::Effort::Quick.settings() };
        let taken = |wall_ns: &[u64]| -> Vec<Sample> {
            wall_ns.iter().map(|wall_ns| Sample { wall_ns: *wall_ns, ..Sample::default() }).collect()
        };
        let over = |all: &[Vec<Sample>], cost_ns: u64, blocks| {
            overtime(all.iter().map(|samples| (&samples[..], cost_ns)), &settings, blocks)
        };
        assert!(over(&[taken(&[8000; 4])], 10, 1));
        assert!(!over(&[taken(&[6000; 4])], 10, 1), "one of four left out: shorter than is allowed");
        assert!(!over(&[taken(&[90_000, 10, 10, 10])], 10, 1), "a step of the clock");
        assert!(!over(&[taken(&[60_000; 3])], 10, 1), "too few");
        assert!(!over(&[taken(&[60_000; 4])], 60_000, 1), "as long as it was known to be");
        assert!(over(&[taken(&[11_000; 2])], 10, 2), "half of both in each of two processes");
        let beside = |wall_ns: u64| over(&[taken(&[wall_ns; 4]), taken(&[10; 4])], 10, 1);
        assert!(!beside(8000) && beside(14_000), "the time of all together");
    }
}
