//! Blocks of unequal precision: each scatters by a variance that all processes share, and by that of its own rounds.

use crate::within::{Estimate, RANKED};

/// Where the scatter of blocks comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variances {
    /// Between processes: what no number of rounds removes.
    pub between: f64,
    /// Of a single round: a block of n rounds has an n-th of it.
    pub within: f64,
}

impl Variances {
    /// The variances that these blocks show: between them, what their scatter around the weighted mean exceeds the
    /// scatter that their rounds explain (DerSimonian and Laird 1986, Controlled Clinical Trials 7), or zero. `None`
    /// below two blocks with a known error.
    pub fn of(blocks: &[Estimate]) -> Option<Self> {
        let known: Vec<(f64, f64, f64)> =
            blocks.iter().filter_map(|block| Some((block.value, block.error?.powi(2), block.rounds as f64))).collect();
        if known.len() < 2 {
            return None;
        }
        // A few rounds do not show their own scatter, and one outlier among them would be all of it.
        let ranked = |n: f64| n >= RANKED as f64 || known.iter().all(|(_, _, n)| *n < RANKED as f64);
        let shown = || known.iter().filter(|(_, _, n)| ranked(*n));
        let rounds: f64 = shown().map(|(_, _, rounds)| rounds).sum();
        let within = shown().map(|(_, variance, n)| n * n * variance).sum::<f64>() / rounds;
        // By the number of rounds, not by each block's own error: that of six rounds is hardly known.
        let weights: Vec<f64> = known.iter().map(|(_, _, n)| n / within.max(f64::MIN_POSITIVE.sqrt())).collect();
        let all: f64 = weights.iter().sum();
        let mean = weights.iter().zip(&known).map(|(weight, known)| weight * known.0).sum::<f64>() / all;
        let beyond: f64 = weights.iter().zip(&known).map(|(weight, known)| weight * (known.0 - mean).powi(2)).sum();
        let scale = all - weights.iter().map(|weight| weight * weight).sum::<f64>() / all;
        let between = ((beyond - (known.len() as f64 - 1.0)) / scale).max(0.0);
        Some(Self { between, within })
    }

    /// The variance of a block with this number of rounds.
    pub fn of_block(&self, rounds: f64) -> f64 {
        self.between + self.within / rounds.max(1.0)
    }
}

/// The precision of every block relative to the most precise one; all equal if nothing is known.
pub fn weights(blocks: &[Estimate]) -> Vec<f64> {
    let most = blocks.iter().map(|block| block.rounds).max().unwrap_or(1);
    let known = Variances::of(blocks).filter(|known| known.of_block(most as f64) > 0.0);
    let weight = |block: &Estimate| known.map_or(1.0, |v| v.of_block(most as f64) / v.of_block(block.rounds as f64));
    blocks.iter().map(weight).collect()
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
    fn the_variance_of_a_round_weighs_long_blocks_more() {
        let found = Variances::of(&[block(0.0, 0.1, 4), block(0.0, 0.01, 400)]).unwrap();
        assert!((found.within - (0.16 + 16.0) / 404.0).abs() < 1e-9, "{found:?}");
        assert_eq!(weights(&[]), [0.0; 0]);
    }
}
