//! When the sampling of a cell ends.

use ellwand_core::record::{Sample, Settings};
use ellwand_core::stats::{median, median_interval};

/// Factor on the budget, or on the expected cost of the slots if that is larger, beyond which sampling ends: on a busy
/// machine the scheduler can delay a team of threads without limit.
const OVERTIME: u64 = 20;

/// True if the samples of all implementations of a cell took far longer than expected. Each item holds the samples of
/// one implementation and the expected cost of a slot; each of `blocks` processes takes its share of the samples.
pub(crate) fn overtime<'a>(all: impl Iterator<Item = (&'a [Sample], u64)>, settings: &Settings, blocks: u32) -> bool {
    let blocks = blocks.max(1);
    let (mut spent_ns, mut expected_ns) = (0_u64, 0_u64);
    for (samples, cost_ns) in all {
        if samples.len() < settings.samples_min.div_ceil(blocks) as usize {
            return false;
        }
        // Ignore the longest slot: if the clock is set, one slot can seem arbitrarily long.
        let longest_ns = samples.iter().map(|sample| sample.wall_ns).max().unwrap_or(0);
        let all_ns = samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.wall_ns));
        spent_ns = spent_ns.saturating_add(all_ns.saturating_sub(longest_ns));
        let known_ns = cost_ns.saturating_mul(samples.len() as u64);
        expected_ns = expected_ns.saturating_add(known_ns.max(settings.case_budget_ns / u64::from(blocks)));
    }
    spent_ns > OVERTIME.saturating_mul(expected_ns)
}

/// Half width of the median's interval, relative to the median, that counts as precise.
const PRECISION: f64 = 0.001;
/// Minimum number of rounds before precision may end a cell: earlier, it could be a lucky quiet period.
const PRECISION_ROUNDS: u32 = 50;

/// True if the `planned` rounds, which fill the time of a cell, are done, or if every median is precise. `seconds` holds the
/// times of an iteration by implementation.
pub(crate) fn is_done(rounds: u32, planned: u32, seconds: &[Vec<f64>]) -> bool {
    let is_precise = |seconds: &Vec<f64>| match (median_interval(seconds, 0.95), median(seconds)) {
        (Some((low, high)), Some(median)) => high - low <= 2.0 * PRECISION * median,
        _ => false,
    };
    rounds >= planned || rounds >= PRECISION_ROUNDS && seconds.iter().all(is_precise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(rounds: u32, seconds: &[Vec<f64>]) -> bool {
        is_done(rounds, 200, seconds)
    }

    #[test]
    fn each_rule_ends_a_cell_for_its_reason() {
        let noisy: Vec<f64> = (0..60).map(|i| 1.0 + f64::from(i % 7)).collect();
        let steady = vec![1.0; 60];
        assert!(!done(60, std::slice::from_ref(&noisy)));
        assert!(done(200, std::slice::from_ref(&noisy)), "its time is filled");
        assert!(done(60, std::slice::from_ref(&steady)), "it is precise");
        assert!(!done(49, std::slice::from_ref(&steady)), "a lucky calm");
        assert!(!done(60, &[steady, noisy]), "one implementation is not yet known");
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
