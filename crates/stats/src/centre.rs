//! The centre of block values with its interval: their mean, or Huber's estimate if a few blocks make the mean scatter.
//!
//! The noise of processes has heavy tails: on recorded noise (`results/noise`) the variance of the mean of blocks was
//! one to three times that of Huber's estimate (Huber 1964), and a hundred times if one process in sixty took 1.8 times
//! as long. Normally distributed blocks keep the mean, whose interval is exact.

use serde::{Deserialize, Serialize};

use crate::blocks::{MeanInterval, mean_interval_missing, weighted_interval_missing};
use crate::describe::median;
use crate::error::StatsError;
use crate::special::student_t_upper_quantile;

/// Minimum number of blocks, as an effective number; with fewer, the scale of Huber's estimate is too uncertain for
/// Student's quantile.
const FEWEST: f64 = 16.0;
/// Distance beyond which the pull of a block is limited, in robust standard deviations: 98 % efficient for normal
/// blocks.
const PULL: f64 = 2.0;
/// Huber's estimate must beat the mean by this factor on the variance. Taking it wherever it looks better would take it by
/// chance, and its interval would then be too narrow.
const BETTER: f64 = 0.8;
/// Smallest share of the weight with an unlimited pull. If half of the blocks have one placement and half another,
/// chance would make one the centre and the other outliers.
const INSIDE: f64 = 0.7;
/// Values that scatter by less agree within their rounding.
const ROUNDING: f64 = 1e-12;
/// Steps of the iteration; the error shrinks by a factor of five or more a step.
const STEPS: usize = 12;

/// How the block values are combined into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Centre {
    /// Their mean, as in records that name no centre.
    #[default]
    Mean,
    /// Their mean, or Huber's estimate from 16 blocks on if its variance is below 0.8 times that of the mean and 0.7 of the
    /// weight keeps its pull. The choice depends on distances from the centre, which are the same after the sides are swapped.
    Robust,
}

impl Centre {
    fn huber(self, blocks: &[f64], weights: &[f64]) -> Option<Huber> {
        if self == Centre::Robust { better(blocks, weights) } else { None }
    }

    /// The centre of blocks with these precisions, up to a common factor; their plain mean if only the centre, not the
    /// mean, lies within `shift` of 0 and would pass as the same.
    pub(super) fn of(self, blocks: &[f64], weights: &[f64], shift: f64) -> f64 {
        let centre = self.huber(blocks, weights).map_or_else(|| mean(blocks, weights), |huber| huber.value);
        let plain = self.plain(blocks, weights, 0.5).ok().flatten();
        let kept = plain.filter(|plain| centre.abs() <= shift && plain.mean.abs() > shift);
        kept.map_or(centre, |plain| plain.mean)
    }

    /// Student's interval of the unweighted mean, if there are enough blocks for Huber's estimate. It prevents a side
    /// with some far slower processes from being called the same, or faster.
    pub(super) fn plain(self, blocks: &[f64], weights: &[f64], miss: f64) -> Result<Option<MeanInterval>, StatsError> {
        let asked = self == Centre::Robust && effective(weights) >= FEWEST;
        asked.then(|| mean_interval_missing(blocks, miss)).transpose()
    }

    /// The interval of the centre that misses it with probability `miss`. Weights are the precisions of the blocks, up
    /// to a common factor. Around Huber's estimate it is Student's interval with the standard error of Huber (1981,
    /// 6.3) and the degrees of freedom of the blocks whose pull is not limited.
    pub(super) fn interval(self, blocks: &[f64], weights: &[f64], miss: f64) -> Result<MeanInterval, StatsError> {
        let mean = weighted_interval_missing(blocks, weights, miss)?;
        let Some(huber) = self.huber(blocks, weights) else { return Ok(mean) };
        let half = student_t_upper_quantile(0.5 * miss, huber.inside * effective(weights) - 1.0)? * huber.error;
        Ok(MeanInterval { mean: huber.value, sd: huber.error * (blocks.len() as f64).sqrt(), half })
    }
}

/// Whether the mean of n blocks lies within `shift` of 0, with a standard error to spare.
pub(super) fn within(plain: &MeanInterval, blocks: usize, shift: f64) -> bool {
    plain.mean.abs() + plain.sd / (blocks as f64).sqrt() <= shift
}

/// Huber's estimate, if there are enough blocks and its variance is sufficiently below that of their mean.
pub(super) fn better(blocks: &[f64], weights: &[f64]) -> Option<Huber> {
    let count = effective(weights);
    if count < FEWEST {
        return None;
    }
    let (all, mean) = (weights.iter().sum::<f64>(), mean(blocks, weights));
    let squares: f64 = weights.iter().zip(blocks).map(|(weight, block)| (weight * (block - mean)).powi(2)).sum();
    let of_mean = squares / (all * all) * count / (count - 1.0);
    let huber = Huber::of(blocks, weights, PULL);
    // An error of 0 means that more than half of the blocks agree to the last bit: the clock did not resolve them.
    (huber.error > 0.0 && huber.error.powi(2) < BETTER * of_mean && huber.inside > INSIDE).then_some(huber)
}

fn mean(values: &[f64], weights: &[f64]) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| weight * value).sum::<f64>() / weights.iter().sum::<f64>()
}

/// The effective number of values with these weights (Kish 1965).
pub(super) fn effective(weights: &[f64]) -> f64 {
    weights.iter().sum::<f64>().powi(2) / weights.iter().map(|weight| weight * weight).sum::<f64>()
}

/// Huber's estimate of location.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Huber {
    pub(super) value: f64,
    /// Its standard error (Huber 1981, 6.3).
    pub(super) error: f64,
    /// The share of the weight whose pull is not limited.
    pub(super) inside: f64,
}

impl Huber {
    /// Huber's estimate of `values` with the precisions `weights`, up to a common factor; the pull of a value is
    /// limited beyond `pull` robust standard deviations. Odd: values of the other sign give exactly the negative
    /// estimate.
    pub(super) fn of(values: &[f64], weights: &[f64], pull: f64) -> Self {
        let middle = median(values).unwrap_or(f64::NAN);
        let roots: Vec<f64> = weights.iter().map(|weight| weight.sqrt()).collect();
        let off: Vec<f64> = values.iter().zip(&roots).map(|(x, root)| (x - middle).abs() * root).collect();
        let limit = pull * 1.4826 * median(&off).unwrap_or(0.0);
        // More than half of the values agree.
        let largest = roots.iter().copied().fold(0.0, f64::max);
        if limit <= ROUNDING * largest {
            return Self { value: middle, error: 0.0, inside: 1.0 };
        }
        let pulls = |value: f64| {
            values.iter().zip(&roots).map(move |(x, root)| root * ((x - value) * root).clamp(-limit, limit))
        };
        let least = weights.iter().copied().fold(f64::INFINITY, f64::min);
        let inside = |value: f64| {
            let free = values.iter().zip(&roots).filter(|(x, root)| ((*x - value) * **root).abs() <= limit);
            // A step past all values must not end in infinity.
            free.map(|(_, root)| root * root).sum::<f64>().max(least)
        };
        let mut value = middle;
        for _ in 0..STEPS {
            value += pulls(value).sum::<f64>() / inside(value);
        }
        let (count, free) = (effective(weights), inside(value));
        let squares = pulls(value).map(|pull| pull * pull).sum::<f64>() * count / (count - 1.0);
        Self { value, error: squares.sqrt() / free, inside: free / weights.iter().sum::<f64>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Quantiles of a normal distribution with deviation 1, in a mixed order.
    fn normal(n: usize) -> Vec<f64> {
        let quantile = |i: usize| student_t_upper_quantile(1.0 - (i as f64 + 0.5) / n as f64, 1e6).unwrap();
        (0..n).map(|i| quantile((7 * i) % n)).collect()
    }

    fn both(blocks: &[f64]) -> [MeanInterval; 2] {
        [Centre::Mean, Centre::Robust].map(|centre| centre.interval(blocks, &vec![1.0; blocks.len()], 0.01).unwrap())
    }

    #[test]
    fn normal_blocks_keep_their_mean() {
        for n in [16, 32, 100] {
            let [mean, robust] = both(&normal(n));
            assert_eq!(mean, robust, "{n}");
        }
    }

    #[test]
    fn blocks_far_off_lose_their_pull_but_stay_in_the_mean() {
        let mut blocks = normal(40);
        blocks[3] = 60.0;
        let [mean, robust] = both(&blocks);
        assert!(mean.half > 4.0 && robust.half < 0.6, "{mean:?} {robust:?}");
        assert!(robust.mean.abs() < 0.1 && mean.mean > 1.4, "{robust:?}");
        let plain = |blocks: &[f64]| Centre::Robust.plain(blocks, &vec![1.0; blocks.len()], 0.01).unwrap();
        assert!((plain(&blocks).unwrap().half / mean.half - 1.0).abs() < 1e-12 && plain(&blocks[..12]).is_none());
        let forecast = Centre::Robust.of(&blocks, &[1.0; 40], 0.5);
        assert!((forecast - mean.mean).abs() < 1e-12, "the mean keeps it from being the same");
        assert_eq!(Centre::Robust.of(&blocks, &[1.0; 40], 9.0), robust.mean);
        let few = both(&blocks[..12]);
        assert_eq!(few[0], few[1], "too few to know what is far");
    }

    #[test]
    fn the_error_is_that_of_the_textbook() {
        // Huber 1981, 6.3, with equal weights: squares of the limited values over (n - 1) n and the share inside.
        let mut blocks = normal(40);
        blocks[3] = 60.0;
        let huber = Huber::of(&blocks, &[1.0; 40], PULL);
        let scale =
            1.4826 * median(&blocks.iter().map(|x| (x - median(&blocks).unwrap()).abs()).collect::<Vec<_>>()).unwrap();
        let off: Vec<f64> = blocks.iter().map(|x| (x - huber.value) / scale).collect();
        assert!(off.iter().map(|x| x.clamp(-PULL, PULL)).sum::<f64>().abs() < 1e-9);
        let inside = off.iter().filter(|x| x.abs() <= PULL).count() as f64 / 40.0;
        let squares: f64 = off.iter().map(|x| (scale * x.clamp(-PULL, PULL)).powi(2)).sum();
        assert!((huber.error / ((squares / 39.0 / 40.0).sqrt() / inside) - 1.0).abs() < 1e-12);
        assert!((huber.inside - inside).abs() < 1e-12);
    }

    #[test]
    fn blocks_that_mostly_agree_and_two_placements_keep_their_mean() {
        let agree: Vec<f64> = (0..40).map(|i| if i == 5 { 0.2 } else { 0.1 + 1e-17 * f64::from(i) }).collect();
        // Nine of sixteen at one placement.
        let placed: Vec<f64> =
            (0..16).map(|i| if i % 2 == 0 || i == 1 { 0.0 } else { 0.02 } + 1e-5 * f64::from(i % 3)).collect();
        for blocks in [agree, placed] {
            let [mean, robust] = both(&blocks);
            assert_eq!(mean, robust);
        }
    }

    #[test]
    fn a_heavy_group_elsewhere_does_not_throw_the_estimate_off() {
        let (values, weights): (Vec<f64>, Vec<f64>) = (0..60)
            .map(|i| {
                if i % 3 == 0 { (0.05 + 1e-3 * f64::from(i % 7 - 3), 10.0) } else { (0.01 * f64::from(i % 5 - 2), 1.0) }
            })
            .unzip();
        let huber = Huber::of(&values, &weights, PULL);
        assert!(huber.value.is_finite() && huber.error.is_finite(), "{huber:?}");
    }

    proptest! {
        #[test]
        fn the_sign_and_the_unit_of_weights_do_not_matter(
            blocks in proptest::collection::vec((-1.0_f64..1.0, 0.1_f64..1.0), 20..60),
            tail in 2.0_f64..100.0,
            unit in 1e-6_f64..1e6,
        ) {
            let (mut values, weights): (Vec<f64>, Vec<f64>) = blocks.into_iter().unzip();
            values[0] *= tail;
            let interval = |values: &[f64], weights: &[f64]| Centre::Robust.interval(values, weights, 0.01).unwrap();
            let plain = interval(&values, &weights);
            let swapped = interval(&values.iter().map(|x| -x).collect::<Vec<_>>(), &weights);
            prop_assert!((plain.mean + swapped.mean).abs() < 1e-12 && (plain.half - swapped.half).abs() < 1e-12 * plain.half);
            let scaled = interval(&values, &weights.iter().map(|weight| weight * unit).collect::<Vec<_>>());
            prop_assert!((plain.mean - scaled.mean).abs() < 1e-9 && (plain.half - scaled.half).abs() < 1e-9 * plain.half);
        }
    }
}
