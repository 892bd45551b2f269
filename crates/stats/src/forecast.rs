//! Forecast of the blocks that an undecided comparison still needs, if later blocks are like those so far.

use crate::blocks::{MeanInterval, Weighted};
use crate::error::StatsError;
use crate::evidence::{Wager, shift};
use crate::special::student_t_upper_tail;
use crate::verdict::DecisionRule;

/// Largest total number of blocks that is forecast; a comparison that needs more is not worth continuing.
const FORECAST_LIMIT: usize = 1024;

/// The number of further blocks until a verdict is expected: up to one of the remaining looks, or beyond the last look
/// the size of a new plan. `None` above [`FORECAST_LIMIT`] in total, or if the centre is on the edge of the region of
/// equivalence, where no number of blocks decides.
pub(super) fn blocks_needed(
    blocks: &[Weighted],
    rule: &DecisionRule,
    interval: &MeanInterval,
) -> Result<Option<usize>, StatsError> {
    let shift = shift(rule.rope())?;
    let beyond = interval.mean.abs() - shift;
    // Half-width that the interval must reach, inside or outside the region.
    let margin = beyond.abs();
    let wager = Wager::after(rule.stakes(), blocks, interval.mean.signum(), shift);
    let outlook = wager.outlook();
    let ln_needed = rule.evidence_needed().ln();
    // "The same" needs the interval alone.
    let enough_evidence =
        |n: usize| beyond <= 0.0 || wager.ln_peak.max(outlook.ln_capital(n - blocks.len())) >= ln_needed;

    // Comparing tail probabilities takes one evaluation; computing the width would need an inversion.
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
    // The last look of a longer plan spends about as much as the last look of this one. The width falls with n, and the
    // convex outlook crosses the required level at most once, so bisection finds the smallest n.
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

    fn needed(blocks: &[f64], rule: &DecisionRule) -> Option<usize> {
        match decide(blocks, rule).unwrap().difference {
            Difference::Undecided { blocks_needed } => blocks_needed,
            other => panic!("decided: {other:?}"),
        }
    }

    /// Blocks that alternate around `mean` by `scatter`, so that later blocks are like earlier ones.
    fn alternating(mean: f64, scatter: f64, blocks: usize) -> Vec<f64> {
        (0..blocks).map(|i| if i % 2 == 0 { mean + scatter } else { mean - scatter }).collect()
    }

    #[test]
    fn unanimous_blocks_wait_for_the_evidence_only() {
        let rule = DecisionRule::default();
        assert_eq!(needed(&alternating(0.10, 0.002, 6), &rule), Some(3));
        assert_eq!(needed(&alternating(-0.10, 0.002, 6), &rule), Some(3));
        assert_eq!(decide(&alternating(0.10, 0.002, 9), &rule).unwrap().difference, Difference::Slower);
    }

    #[test]
    fn the_forecast_holds_if_later_blocks_are_like_earlier_ones() {
        let rule = DecisionRule::default();
        for (mean, scatter) in [(0.0, 0.008), (0.004, 0.006), (0.02, 0.008), (0.016, 0.004), (-0.018, 0.006)] {
            let forecast = 6 + needed(&alternating(mean, scatter, 6), &rule).unwrap();
            for look in rule.spending().looks().iter().copied().filter(|n| *n > 6) {
                let decided = !matches!(
                    decide(&alternating(mean, scatter, look), &rule).unwrap().difference,
                    Difference::Undecided { .. }
                );
                // The deviation of six blocks is larger than that of many that alternate as they do.
                let next = rule.spending().looks().iter().copied().find(|n| *n > look);
                let expected = look >= forecast || decided && next == Some(forecast);
                assert_eq!(decided, expected, "{mean} {scatter}: forecast {forecast}, look {look}");
            }
        }
    }

    #[test]
    fn beyond_the_last_look_it_gives_the_size_of_a_new_plan() {
        let rule = DecisionRule::default();
        let more = needed(&alternating(0.003, 0.02, 32), &rule).unwrap();
        let larger = DecisionRule::new(0.01, 0.01, &[6, 8, 12, 16, 24, 32, 48, 64, 96, 128]).unwrap();
        let total = (32 + more).next_power_of_two();
        assert!((33..=128).contains(&total), "{total}");
        assert_eq!(decide(&alternating(0.003, 0.02, total), &larger).unwrap().difference, Difference::Same);
    }

    #[test]
    fn undecidable_comparisons_have_no_forecast() {
        let rule = DecisionRule::default();
        // On the edge of the region, or with far too much scatter.
        assert_eq!(needed(&alternating(0.01_f64.ln_1p(), 0.004, 12), &rule), None);
        assert_eq!(needed(&alternating(0.0, 0.5, 12), &rule), None);
    }
}
