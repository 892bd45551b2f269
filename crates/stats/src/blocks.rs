//! Block values and their interval. A block is one fresh pair of processes; its value is the median over its rounds of
//! ln(candidate / baseline). Rounds of a block share one page placement and are not independent (Kalibera and Jones
//! 2013), so each block gives one number and the blocks are the replicates.

use crate::describe::median;
use crate::error::{StatsError, check_finite, check_inside};
use crate::special::student_t_upper_quantile;

/// The value of one block: the median over rounds of ln(candidate / baseline). Positive if the candidate is slower.
///
/// `baseline[i]` and `candidate[i]` are the times of round `i`, in the same unit. The function is odd: swapping the
/// sides negates the value exactly, as the sign-flip test requires.
///
/// # Errors
/// Slices of different lengths, no rounds, a time that is not positive and finite.
pub fn block_value(baseline: &[f64], candidate: &[f64]) -> Result<f64, StatsError> {
    median(&log_ratios(baseline, candidate)?).ok_or(StatsError::TooFew { what: "rounds", got: 0, needed: 1 })
}

/// ln(candidate / baseline) of every round.
pub(super) fn log_ratios(baseline: &[f64], candidate: &[f64]) -> Result<Vec<f64>, StatsError> {
    if baseline.len() != candidate.len() {
        return Err(StatsError::Unpaired { baseline: baseline.len(), candidate: candidate.len() });
    }
    for (what, times) in [("baseline time", baseline), ("candidate time", candidate)] {
        if let Some(index) = times.iter().position(|time| !(time.is_finite() && *time > 0.0)) {
            let expected = "a positive, finite time";
            return Err(StatsError::Value { what, index, value: times[index], expected });
        }
    }
    // The difference of logarithms is exactly odd and cannot overflow; the logarithm of the quotient can.
    Ok(baseline.iter().zip(candidate).map(|(b, c)| c.ln() - b.ln()).collect())
}

/// A block of a comparison whose blocks differ in precision, such as blocks with different numbers of rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighted {
    /// Logarithm of candidate over baseline; the mean over both copies of the baseline if there are `copies`.
    pub value: f64,
    /// What the second copy of the baseline shows.
    pub copies: Option<Copies>,
    /// Weight in the interval, up to a common factor.
    pub weight: f64,
    /// Factor on the bet. It may depend only on earlier blocks and on properties that do not change if the arms swap
    /// names (such as the scatter of their rounds or the total time of the block).
    pub bet: f64,
}

impl Weighted {
    /// A block of weight 1 with one baseline.
    pub fn plain(value: f64) -> Self {
        Self { value, copies: None, weight: 1.0, bet: 1.0 }
    }
}

/// Two copies of the baseline in one block, as log ratios. Each is odd: swapping the arms negates it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Copies {
    /// Candidate over the second copy.
    pub second: f64,
    /// Second copy over the first.
    pub apart: f64,
}

/// The centre of block values with its interval, in the unit of the values (natural logarithms of ratios).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanInterval {
    /// Mean of the block values, or Huber's estimate if the centre is robust and it was chosen.
    pub mean: f64,
    /// Standard deviation of a block value (divisor n - 1), as the standard error of the mean implies it.
    pub sd: f64,
    /// Half the width of the interval: it runs from `mean - half` to `mean + half`.
    pub half: f64,
}

impl MeanInterval {
    /// Lower end of the interval.
    pub fn low(&self) -> f64 {
        self.mean - self.half
    }

    /// Upper end of the interval.
    pub fn high(&self) -> f64 {
        self.mean + self.half
    }
}

/// Student's interval for the mean of block values at `confidence`.
///
/// Assumes independent blocks with a nearly normal mean. Few blocks with heavy tails make it too wide, not too narrow.
/// Blocks that agree to the last bit give an interval of width 0: the clock did not resolve their spread. Rounds of a
/// single block say nothing about the spread between blocks, so two blocks are needed.
///
/// # Errors
/// Fewer than two blocks, a value that is not finite, a confidence not strictly between 0 and 1.
pub fn mean_interval(blocks: &[f64], confidence: f64) -> Result<MeanInterval, StatsError> {
    check_inside("confidence", confidence, 0.0, 1.0, "a probability strictly between 0 and 1")?;
    mean_interval_missing(blocks, 1.0 - confidence)
}

/// As [`mean_interval`], from the probability `miss` of missing the mean, since 1 - 0.0005 loses digits.
pub(super) fn mean_interval_missing(blocks: &[f64], miss: f64) -> Result<MeanInterval, StatsError> {
    if blocks.len() < 2 {
        return Err(StatsError::TooFew { what: "blocks", got: blocks.len(), needed: 2 });
    }
    check_finite("block", blocks)?;
    let (mean, sd) = mean_and_sd(blocks);
    let n = blocks.len() as f64;
    let half = student_t_upper_quantile(0.5 * miss, n - 1.0)? * sd / n.sqrt();
    Ok(MeanInterval { mean, sd, half })
}

/// As [`mean_interval_missing`], with weighted blocks: the scatter is computed as if the weights were the precisions of
/// the blocks, and Student's distribution uses the effective sample size (Kish 1965). Equal weights give the unweighted
/// interval.
pub(super) fn weighted_interval_missing(
    blocks: &[f64],
    weights: &[f64],
    miss: f64,
) -> Result<MeanInterval, StatsError> {
    if blocks.len() < 2 {
        return Err(StatsError::TooFew { what: "blocks", got: blocks.len(), needed: 2 });
    }
    check_finite("block", blocks)?;
    let (origin, all) = (blocks[0], weights.iter().sum::<f64>());
    let shares: Vec<f64> = weights.iter().map(|weight| weight / all).collect();
    let offset: f64 = shares.iter().zip(blocks).map(|(share, value)| share * (value - origin)).sum();
    let count = 1.0 / shares.iter().map(|share| share * share).sum::<f64>();
    let squares: f64 =
        shares.iter().zip(blocks).map(|(share, value)| (share * (value - origin - offset)).powi(2)).sum();
    let standard_error = (squares * count / (count - 1.0)).sqrt();
    let half = student_t_upper_quantile(0.5 * miss, count - 1.0)? * standard_error;
    Ok(MeanInterval { mean: origin + offset, sd: standard_error * (blocks.len() as f64).sqrt(), half })
}

/// In two passes around the first value, so blocks that all agree have a spread of exactly zero.
fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let origin = values[0];
    let offset = values.iter().map(|value| value - origin).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - origin - offset).powi(2)).sum();
    (origin + offset, (squares / (n - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_block_is_the_median_of_its_log_ratios() {
        let value = block_value(&[1.0, 2.0, 4.0], &[1.02, 2.0, 40.0]).unwrap();
        assert!((value - 1.02_f64.ln()).abs() < 1e-15, "{value}");
    }

    #[test]
    fn the_interval_of_a_textbook_sample() {
        // Student's (1908) sleep data, differences: mean 1.58, sd 1.230, 95 % interval 0.700 .. 2.460.
        let sleep = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let interval = mean_interval(&sleep, 0.95).unwrap();
        assert!((interval.mean - 1.58).abs() < 1e-12);
        assert!((interval.sd - 1.229_995).abs() < 1e-6);
        assert!(
            (interval.low() - 0.700_114).abs() < 1e-5 && (interval.high() - 2.459_886).abs() < 1e-5,
            "{interval:?}"
        );
    }

    #[test]
    fn invalid_blocks_are_errors() {
        assert_eq!(mean_interval(&[0.1], 0.99).unwrap_err(), StatsError::TooFew { what: "blocks", got: 1, needed: 2 });
        assert!(matches!(mean_interval(&[0.1, f64::NAN], 0.99), Err(StatsError::Value { index: 1, .. })));
        assert!(matches!(mean_interval(&[0.1, 0.2], 1.0), Err(StatsError::Setting { name: "confidence", .. })));
        assert_eq!(block_value(&[1.0], &[]).unwrap_err(), StatsError::Unpaired { baseline: 1, candidate: 0 });
        assert!(matches!(block_value(&[], &[]), Err(StatsError::TooFew { what: "rounds", .. })));
        for time in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = block_value(&[1.0, 1.0], &[1.0, time]).unwrap_err();
            assert!(matches!(error, StatsError::Value { what: "candidate time", index: 1, .. }), "{error}");
        }
    }

    #[test]
    fn blocks_that_agree_have_no_spread() {
        let interval = mean_interval(&[0.1; 6], 0.99).unwrap();
        assert_eq!((interval.mean, interval.half), (0.1, 0.0));
    }

    proptest! {
        #[test]
        fn swapping_the_sides_changes_the_sign_exactly(pairs in proptest::collection::vec((1e-9_f64..1e3, 1e-9_f64..1e3), 1..20)) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            prop_assert_eq!(block_value(&a, &b).unwrap(), -block_value(&b, &a).unwrap());
        }

        #[test]
        fn the_unit_of_time_does_not_matter(pairs in proptest::collection::vec((1e-3_f64..1e3, 1e-3_f64..1e3), 1..20), unit in 1e-6_f64..1e6) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let scale = |times: &[f64]| times.iter().map(|time| time * unit).collect::<Vec<_>>();
            let difference = block_value(&scale(&a), &scale(&b)).unwrap() - block_value(&a, &b).unwrap();
            prop_assert!(difference.abs() < 1e-12);
        }

        #[test]
        fn the_interval_shifts_scales_and_forgets_the_order(
            mut blocks in proptest::collection::vec(-0.1_f64..0.1, 2..32),
            shift in -1.0_f64..1.0,
            scale in 0.1_f64..10.0,
        ) {
            let before = mean_interval(&blocks, 0.99).unwrap();
            let moved: Vec<f64> = blocks.iter().map(|d| shift + scale * d).collect();
            let after = mean_interval(&moved, 0.99).unwrap();
            prop_assert!((after.mean - shift - scale * before.mean).abs() < 1e-12);
            prop_assert!((after.half - scale * before.half).abs() < 1e-9 * (1.0 + after.half));
            blocks.reverse();
            let reversed = mean_interval(&blocks, 0.99).unwrap();
            prop_assert!((reversed.mean - before.mean).abs() < 1e-14 && (reversed.half - before.half).abs() < 1e-12 + 1e-12 * before.half);
        }
    }
}
