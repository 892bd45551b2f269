//! What an undecided comparison would still take, if the blocks to come are like those so far.

use crate::blocks::MeanInterval;
use crate::error::StatsError;
use crate::evidence::{Wager, shift};
use crate::special::student_t_upper_tail;
use crate::verdict::Rule;

/// Forecasts that lead beyond this many blocks in all are no plan: such a difference is left alone.
pub const FORECAST_LIMIT: usize = 1024;

/// The blocks still to be measured until a verdict is to be expected: up to one of the looks left, or past the last look
/// as many as a new plan would have to hold. `None` beyond [`FORECAST_LIMIT`] in all, or when the mean sits on the edge of
/// the region of equivalence, where no number of blocks decides.
pub(super) fn blocks_needed(blocks: &[f64], rule: &Rule, interval: &MeanInterval) -> Result<Option<usize>, StatsError> {
    let shift = shift(rule.rope())?;
    let beyond = interval.mean.abs() - shift;
    // How narrow the interval must become, on either side of the edge.
    let margin = beyond.abs();
    let mut wager = Wager::new();
    for block in blocks {
        wager.bet(block * interval.mean.signum() - shift);
    }
    let outlook = wager.outlook();
    let ln_needed = rule.evidence_needed().ln();
    // "The same" needs the interval only.
    let enough_evidence =
        |n: usize| beyond <= 0.0 || wager.ln_peak.max(outlook.ln_capital(n - blocks.len())) >= ln_needed;

    // Half the width is below the margin if and only if t at margin / standard error has the smaller tail: one evaluation
    // where the width itself would take an inversion.
    let narrow = |n: usize, miss: f64| {
        student_t_upper_tail(margin * (n as f64).sqrt() / interval.sd, n as f64 - 1.0) < 0.5 * miss
    };

    let plan = rule.spending();
    for look in plan.looks().iter().copied().filter(|n| *n > blocks.len()) {
        if narrow(look, plan.at(look)?) && enough_evidence(look) {
            return Ok(Some(look - blocks.len()));
        }
    }
    let last = plan.looks().last().copied().unwrap_or(blocks.len());
    // A longer plan's last look spends about what this one's does. The width falls with n, and the outlook, convex in n and
    // not yet sufficient, passes what is needed at most once: bisect.
    let miss = plan.at(last)?;
    let decided = |n: usize| narrow(n, miss) && enough_evidence(n);
    let (mut low, mut high) = (last, FORECAST_LIMIT);
    if high <= low || !decided(high) {
        return Ok(None);
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if decided(middle) { high = middle } else { low = middle }
    }
    Ok(Some(high - blocks.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Difference, decide};

    fn needed(blocks: &[f64], rule: &Rule) -> Option<usize> {
        match decide(blocks, rule).unwrap().difference {
            Difference::Undecided { blocks_needed } => blocks_needed,
            other => panic!("decided: {other:?}"),
        }
    }

    /// Blocks with the given mean and scatter, alternating, so that what comes is like what was.
    fn alternating(mean: f64, scatter: f64, blocks: usize) -> Vec<f64> {
        (0..blocks).map(|i| if i % 2 == 0 { mean + scatter } else { mean - scatter }).collect()
    }

    #[test]
    fn unanimous_blocks_wait_for_the_evidence_only() {
        let rule = Rule::default();
        assert_eq!(needed(&alternating(0.10, 0.002, 6), &rule), Some(2));
        assert_eq!(needed(&alternating(-0.10, 0.002, 6), &rule), Some(2));
        assert_eq!(decide(&alternating(0.10, 0.002, 8), &rule).unwrap().difference, Difference::Slower);
    }

    #[test]
    fn what_is_forecast_comes_true_when_the_rest_is_like_the_start() {
        let rule = Rule::default();
        for (mean, scatter) in [(0.0, 0.008), (0.004, 0.006), (0.02, 0.008), (0.016, 0.004), (-0.018, 0.006)] {
            let forecast = 6 + needed(&alternating(mean, scatter, 6), &rule).unwrap();
            for look in rule.spending().looks().iter().copied().filter(|n| *n > 6) {
                let decided = !matches!(
                    decide(&alternating(mean, scatter, look), &rule).unwrap().difference,
                    Difference::Undecided { .. }
                );
                assert_eq!(decided, look >= forecast, "{mean} {scatter}: forecast {forecast}, look {look}");
            }
        }
    }

    #[test]
    fn past_the_last_look_it_names_the_size_of_a_new_plan() {
        let rule = Rule::default();
        let more = needed(&alternating(0.003, 0.02, 32), &rule).unwrap();
        let larger = Rule::new(0.01, 0.01, &[6, 8, 12, 16, 24, 32, 48, 64, 96, 128]).unwrap();
        let total = (32 + more).next_power_of_two();
        assert!((33..=128).contains(&total), "{total}");
        assert_eq!(decide(&alternating(0.003, 0.02, total), &larger).unwrap().difference, Difference::Same);
    }

    #[test]
    fn what_no_number_of_blocks_decides_has_no_forecast() {
        let rule = Rule::default();
        // On the edge of the region, and scatter far too large for it.
        assert_eq!(needed(&alternating(0.01_f64.ln_1p(), 0.004, 8), &rule), None);
        assert_eq!(needed(&alternating(0.0, 0.5, 8), &rule), None);
        // Two blocks of three lose: the interval would narrow, the evidence never grows.
        let blocks = [0.2, 0.001, 0.001, 0.2, 0.001, 0.001];
        assert_eq!(needed(&blocks, &rule), None);
    }
}
