//! Stop rules for sampling a cell. Each is a row of [`STOPS`]; the first that fires ends the cell.

use ellwand_core::record::{Sample, Settings};
use ellwand_core::stats::{median, median_interval};

/// The progress of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Rounds in which every live arm was sampled.
    pub rounds: u32,
    /// Rounds that fill the time budget of the case.
    pub planned: u32,
    /// Times of an iteration in seconds, by implementation.
    pub seconds: &'a [Vec<f64>],
    /// True if sampling took many times the budget and the minimum number of samples exists.
    pub overtime: bool,
}

/// Factor on the budget, or on the expected cost of the slots if that is larger, beyond which sampling ends.
const OVERTIME: u64 = 20;

/// True if the samples of all implementations of a cell took far longer than expected. Each item holds the samples of
/// one implementation and the expected cost of its slots; each of `blocks` processes takes its share of them.
pub(crate) fn overtime<'a>(all: impl Iterator<Item = (&'a [Sample], u64)>, settings: &Settings, blocks: u32) -> bool {
    let blocks = blocks.max(1);
    let (mut spent_ns, mut expected_ns) = (0_u64, 0_u64);
    for (samples, cost_ns) in all {
        if samples.len() < settings.samples_min.div_ceil(blocks) as usize {
            return false;
        }
        // Without the longest: if the clock is set, one slot can seem arbitrarily long.
        let longest_ns = samples.iter().map(|sample| sample.wall_ns).max().unwrap_or(0);
        let all_ns = samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.wall_ns));
        spent_ns = spent_ns.saturating_add(all_ns.saturating_sub(longest_ns));
        let known_ns = cost_ns.saturating_mul(samples.len() as u64);
        expected_ns = expected_ns.saturating_add(known_ns.max(settings.case_budget_ns / u64::from(blocks)));
    }
    spent_ns > OVERTIME.saturating_mul(expected_ns)
}

/// A row of [`STOPS`].
pub struct StopRule {
    /// Name of the rule.
    pub name: &'static str,
    /// What the rule does.
    pub about: &'static str,
    /// True if the cell is finished.
    pub fires: fn(&Progress) -> bool,
}

/// Half width of the median's interval, relative to the median, that counts as precise.
pub const PRECISION: f64 = 0.001;
/// Fewest rounds before precision may end a cell: earlier, it could be a lucky quiet period.
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
