//! The value of a block from its rounds, and how much of its scatter comes from the rounds.
//!
//! Two statistics of the log ratios of the rounds, both odd (swapping the sides negates the value exactly) and both
//! robust to outliers: the median, and Huber's estimate of location (Huber 1964). Recorded rounds differ in shape. Most
//! have a sharp peak and heavy tails, and their median scatters least, by factors of two to ten. For rounds that look
//! normal, a median wastes a third of the time. [`choose`] takes the better one from the scatter that the first blocks
//! show, which is the same after the sides are swapped.

use crate::blocks::{Copies, log_ratios};
use crate::centre::Huber;
use crate::describe::median;
use crate::error::StatsError;

/// Distance beyond which Huber's estimate limits the pull of a round, in robust standard deviations: 95 % efficient for
/// normal rounds.
const PULL: f64 = 1.345;
/// Minimum number of rounds from whose ranks the scatter of their median is estimated.
pub(super) const RANKED: usize = 6;
/// The median must beat Huber's estimate by this factor on the variance: the error of a median, from the distance of two
/// ranks, is a noisy estimate, and the median of normal rounds wastes a third of their time.
const BETTER: f64 = 0.8;

/// How the rounds of a block become one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Statistic {
    /// The median of the samples.
    #[default]
    Median,
    /// Huber's estimate of location.
    Huber,
}

/// The value of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Logarithm of the candidate's time over the baseline's.
    pub value: f64,
    /// Standard error of the value within this block, from the scatter of its rounds; `None` with a single round.
    pub error: Option<f64>,
    /// Number of rounds.
    pub rounds: usize,
}

impl Statistic {
    /// The value of one block. `baseline[i]` and `candidate[i]` are the times of round `i`, in the same unit.
    ///
    /// # Errors
    /// Slices of different lengths, no rounds, a time that is not positive and finite.
    pub fn of_block(self, baseline: &[f64], candidate: &[f64]) -> Result<Estimate, StatsError> {
        let ratios = log_ratios(baseline, candidate)?;
        let rounds = ratios.len();
        let middle = median(&ratios).ok_or(StatsError::TooFew { what: "rounds", got: 0, needed: 1 })?;
        let (value, error) = match self {
            _ if rounds < RANKED => (middle, plain_error(&ratios, middle)),
            Statistic::Median => (middle, Some(rank_error(&ratios))),
            Statistic::Huber => {
                let huber = Huber::of(&ratios, &vec![1.0; rounds], PULL);
                (huber.value, Some(huber.error))
            }
        };
        Ok(Estimate { value, error, rounds })
    }
}

impl Statistic {
    /// The value of one block with two copies of the baseline: the mean over both copies of the candidate's value. Arms are
    /// in the order baseline, candidate, second copy. If all arms scatter alike, a value over one copy has the variance of
    /// two arms, and their mean that of one and a half. The error comes from all three pairs, so it does not change if the
    /// arms swap names.
    ///
    /// # Errors
    /// As [`Statistic::of_block`].
    pub fn of_copies(self, [baseline, candidate, copy]: [&[f64]; 3]) -> Result<(Estimate, Copies), StatsError> {
        let pairs = [(baseline, candidate), (copy, candidate), (baseline, copy)];
        let [first, second, apart] = pairs.map(|(below, above)| self.of_block(below, above));
        let (first, second, apart) = (first?, second?, apart?);
        let squares: Option<f64> = [first, second, apart].iter().map(|pair| Some(pair.error?.powi(2))).sum();
        let value = Estimate {
            value: 0.5 * (first.value + second.value),
            error: squares.map(|squares| (0.25 * squares).sqrt()),
            rounds: first.rounds,
        };
        Ok((value, Copies { second: second.value, apart: apart.value }))
    }
}

/// The statistic with the smaller variance of a round over these blocks, given as pairs (median, Huber) of the same
/// blocks. Blocks with more rounds have more weight. The choice depends on the errors alone, never on the values.
pub fn choose(blocks: &[[Estimate; 2]]) -> Statistic {
    let of_round = |block: &Estimate| Some(block.error?.powi(2) * block.rounds as f64);
    let weighted = |block: &Estimate| Some(of_round(block)? * block.rounds as f64);
    let variance = |of: usize| -> Option<f64> { blocks.iter().map(|pair| weighted(&pair[of])).sum() };
    match (variance(0), variance(1)) {
        (Some(median), Some(huber)) if median >= BETTER * huber && huber > 0.0 => Statistic::Huber,
        _ => Statistic::Median,
    }
}

/// Standard error of the mean of a few rounds.
fn plain_error(ratios: &[f64], middle: f64) -> Option<f64> {
    let n = ratios.len() as f64;
    (n > 1.0).then(|| (ratios.iter().map(|x| (x - middle).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt())
}

/// Standard error of a median: half the distance between the two rounds whose ranks are half the square root of their
/// number from the middle (Conover, *Practical Nonparametric Statistics*, 3.2).
fn rank_error(ratios: &[f64]) -> f64 {
    let mut rounds = ratios.to_vec();
    rounds.sort_by(f64::total_cmp);
    let (middle, off) = ((rounds.len() - 1) as f64 / 2.0, (rounds.len() as f64).sqrt() / 2.0);
    // The same ranks from either end, so swapping the sides changes nothing.
    let high = ((middle + off).round() as usize).min(rounds.len() - 1);
    0.5 * (rounds[high] - rounds[rounds.len() - 1 - high])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH: [Statistic; 2] = [Statistic::Median, Statistic::Huber];

    fn of(statistic: Statistic, ratios: &[f64]) -> Estimate {
        let candidate: Vec<f64> = ratios.iter().map(|x| x.exp()).collect();
        statistic.of_block(&vec![1.0; ratios.len()], &candidate).unwrap()
    }

    /// Quantiles of a normal distribution with deviation 1 %, in a mixed order.
    fn normal(n: usize) -> Vec<f64> {
        let quantile =
            |i: usize| crate::special::student_t_upper_quantile(1.0 - (i as f64 + 0.5) / n as f64, 1e6).unwrap();
        (0..n).map(|i| 0.01 * quantile((7 * i) % n)).collect()
    }

    #[test]
    fn normal_rounds_are_averaged_and_peaked_ones_are_not() {
        let errors = |ratios: &[f64]| BOTH.map(|statistic| of(statistic, ratios));
        let [median, huber] = errors(&normal(100));
        // 1 % / sqrt(100), and sqrt(pi / 2) and sqrt(1 / 0.95) of it.
        assert!((median.error.unwrap() / 0.001_253 - 1.0).abs() < 0.15, "{median:?}");
        assert!((huber.error.unwrap() / 0.001_026 - 1.0).abs() < 0.05, "{huber:?}");
        assert_eq!(choose(&[[median, huber]; 3]), Statistic::Huber);
        // Half of the rounds agree within a hundredth of the rest.
        let peaked: Vec<f64> =
            normal(100).iter().enumerate().map(|(i, x)| if i % 2 == 0 { x / 100.0 } else { *x }).collect();
        assert_eq!(choose(&[errors(&peaked)]), Statistic::Median);
    }

    #[test]
    fn ten_fold_outliers_hardly_move_either() {
        let mut ratios = normal(100);
        let clean = BOTH.map(|statistic| of(statistic, &ratios).value);
        ratios[3] = 10.0_f64.ln();
        for (statistic, clean) in BOTH.into_iter().zip(clean) {
            assert!((of(statistic, &ratios).value - clean).abs() < 0.000_5, "{statistic:?}");
        }
    }

    #[test]
    fn few_and_equal_rounds_have_a_value() {
        assert_eq!(of(Statistic::Huber, &[0.5]).error, None);
        assert!(of(Statistic::Median, &[0.0, 0.01, 0.02]).error.unwrap() > 0.005);
        for statistic in BOTH {
            let equal = statistic.of_block(&[2.0; 9], &[2.0; 9]).unwrap();
            assert_eq!((equal.value, equal.error, equal.rounds), (0.0, Some(0.0), 9), "{statistic:?}");
            assert!(statistic.of_block(&[], &[]).is_err());
            assert!(statistic.of_block(&[1.0], &[0.0]).is_err());
        }
    }

    proptest! {
        /// The proof needs it exactly, not up to rounding.
        #[test]
        fn swapping_the_sides_negates_the_value_and_keeps_the_error(
            times in proptest::collection::vec((0.1_f64..10.0, 0.1_f64..10.0), 1..40)
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
            for statistic in BOTH {
                let (there, back) = (statistic.of_block(&a, &b).unwrap(), statistic.of_block(&b, &a).unwrap());
                prop_assert_eq!(there.value, -back.value);
                prop_assert_eq!(there.error, back.error);
            }
        }

        /// The error of a block is the same for every assignment of names to its arms, and their values sum to 0.
        #[test]
        fn names_do_not_change_the_error_of_three_arms(
            times in proptest::collection::vec(proptest::array::uniform3(0.1_f64..10.0), 1..40)
        ) {
            let arm = |which: usize| times.iter().map(|round| round[which]).collect::<Vec<f64>>();
            let arms = [0, 1, 2].map(arm);
            for statistic in BOTH {
                let of = |names: [usize; 3]| statistic.of_copies(names.map(|name| &arms[name][..])).unwrap();
                let all = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1], [0, 2, 1], [1, 2, 0]].map(|names| of(names).0);
                for one in &all[1..] {
                    prop_assert!((one.error.unwrap_or(0.0) - all[0].error.unwrap_or(0.0)).abs() < 1e-12);
                }
                prop_assert!((all[0].value + all[2].value + all[4].value).abs() < 1e-12);
                prop_assert!((all[0].value - all[1].value).abs() < 1e-12, "the copies have no order");
            }
        }
    }
}
