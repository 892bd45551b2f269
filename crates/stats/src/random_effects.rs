//! Blocks of unequal precision: a variance between processes common to all, plus the variance of each block's rounds.

use crate::centre::{better, effective};
use crate::describe::median;
use crate::within::{Estimate, RANKED};

/// Smallest variance of a block: blocks that agree more closely do so within the resolution of the clock.
const LEAST: f64 = 1e-14;

/// Where the scatter of blocks comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variances {
    /// Variance between processes, which no number of rounds reduces.
    pub between: f64,
    /// Variance of a single round; a block of n rounds has an n-th of it.
    pub within: f64,
}

impl Variances {
    /// The variances estimated from these blocks. Between them: their scatter around the weighted mean less the scatter
    /// that their rounds explain (DerSimonian and Laird 1986, Controlled Clinical Trials 7), or zero. `None` below two
    /// blocks with a known error.
    pub fn of(blocks: &[Estimate]) -> Option<Self> {
        let known: Vec<&Estimate> = blocks.iter().filter(|block| block.error.is_some()).collect();
        if known.len() < 2 {
            return None;
        }
        // Too few rounds cannot show their scatter. The median, because a burst of disturbances hits few blocks.
        let ranked = |block: &Estimate| block.rounds >= RANKED || known.iter().all(|other| other.rounds < RANKED);
        let shown = known.iter().filter(|block| ranked(block));
        let of_rounds = |block: &&Estimate| block.error.unwrap_or(0.0).powi(2) * block.rounds as f64;
        let within = median(&shown.map(of_rounds).collect::<Vec<f64>>())?;
        let rounds_only = Self { between: 0.0, within };
        let weights: Vec<f64> = known.iter().map(|block| 1.0 / rounds_only.of_this(block).max(LEAST)).collect();
        let values: Vec<f64> = known.iter().map(|block| block.value).collect();
        let all: f64 = weights.iter().sum();
        let mean = weights.iter().zip(&values).map(|(weight, value)| weight * value).sum::<f64>() / all;
        let beyond: f64 = weights.iter().zip(&values).map(|(weight, value)| weight * (value - mean).powi(2)).sum();
        let scale = all - weights.iter().map(|weight| weight * weight).sum::<f64>() / all;
        let found = Self { between: ((beyond - (known.len() as f64 - 1.0)) / scale).max(0.0), within };
        let precisions: Vec<f64> = known.iter().map(|block| 1.0 / found.of_this(block).max(LEAST)).collect();
        let Some(huber) = better(&values, &precisions) else { return Some(found) };
        // Outlying blocks have a limited pull on the centre, and so on its scatter.
        let shown = huber.error.powi(2) * effective(&precisions) - known.len() as f64 / all;
        Some(Self { between: found.between.min(shown.max(0.0)), within })
    }

    /// The variance of this block: the expected one for its number of rounds, or more if its own rounds scatter more.
    /// Both are the same if the sides swap names.
    pub fn of_this(&self, block: &Estimate) -> f64 {
        let own = block.error.unwrap_or(0.0).powi(2);
        self.between + own.max(self.within / block.rounds.max(1) as f64)
    }

    /// The variance of a block with this number of rounds.
    pub fn of_block(&self, rounds: f64) -> f64 {
        self.between + self.within / rounds.max(1.0)
    }
}

/// The precision of every block relative to the most precise one; all equal if no variance is known.
pub fn weights(blocks: &[Estimate]) -> Vec<f64> {
    let Some(known) = Variances::of(blocks) else { return vec![1.0; blocks.len()] };
    let variances: Vec<f64> = blocks.iter().map(|block| known.of_this(block).max(LEAST)).collect();
    let least = variances.iter().copied().fold(f64::INFINITY, f64::min);
    variances.iter().map(|variance| least / variance).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(value: f64, error: f64, rounds: usize) -> Estimate {
        Estimate { value, error: Some(error), rounds }
    }

    #[test]
    fn what_the_rounds_explain_is_no_variance_between_processes() {
        // Plus and minus one error: less scatter than the rounds explain.
        let explained: Vec<Estimate> = (0..8).map(|i| block(if i % 2 == 0 { 0.01 } else { -0.01 }, 0.01, 20)).collect();
        assert!(Variances::of(&explained).unwrap().between < 2e-5);
        // Blocks at +-3 % whose rounds explain 0.1 %: the variance of the values is 8/7 of 9e-4.
        let differ: Vec<Estimate> = (0..8).map(|i| block(if i % 2 == 0 { 0.03 } else { -0.03 }, 0.001, 20)).collect();
        let found = Variances::of(&differ).unwrap().between;
        assert!((found / (9e-4 * 8.0 / 7.0) - 1.0).abs() < 0.01, "{found}");
        assert_eq!(Variances::of(&differ[..1]), None);
        let equal = Variances::of(&[block(0.0, 0.0, 9), block(0.0, 0.0, 9)]).unwrap();
        assert!(equal.between.abs() < 1e-9 && equal.within == 0.0);
    }

    #[test]
    fn rounds_are_worth_their_weight_only_if_rounds_scatter() {
        let mut noisy: Vec<Estimate> = (0..6).map(|i| block(if i % 2 == 0 { 0.02 } else { -0.02 }, 0.04, 6)).collect();
        noisy.extend([block(0.001, 0.01, 96), block(-0.001, 0.01, 96)]);
        let found = weights(&noisy);
        assert!((found[0] / found[7] - 6.0 / 96.0).abs() < 1e-9, "{found:?}");
        let mut processes: Vec<Estimate> =
            (0..6).map(|i| block(if i % 2 == 0 { 0.02 } else { -0.02 }, 0.0004, 6)).collect();
        processes.extend([block(0.02, 0.0001, 96), block(-0.02, 0.0001, 96)]);
        let found = weights(&processes);
        assert!(found[0] / found[7] > 0.99, "{found:?}");
        assert_eq!(weights(&[Estimate { value: 0.1, error: None, rounds: 1 }; 3]), [1.0; 3]);
    }

    #[test]
    fn a_block_with_a_burst_of_disturbances_weighs_little() {
        let mut blocks: Vec<Estimate> = (0..9).map(|i| block(0.001 * f64::from(i % 3 - 1), 0.001, 10)).collect();
        blocks.push(block(0.08, 0.05, 10));
        let found = Variances::of(&blocks).unwrap();
        assert!((found.within - 1e-5).abs() < 1e-12 && found.between < 1e-5, "{found:?}");
        let weights = weights(&blocks);
        assert!(weights[9] < 0.01 * weights[0], "{weights:?}");
        assert_eq!(super::weights(&[]), [0.0; 0]);
    }
}
