//! Alpha spending (Lan and DeMets 1983): several looks at a comparison without more false positives.
//!
//! The numbers of blocks after which a comparison may stop are fixed in advance. The looks at up to n of N blocks spend
//! a share f(n) / f(N) of alpha, with f(n) = n / (n + 24). It spends early, because early verdicts are worth most, and
//! keeps half for the looks beyond 24 blocks, which processes that differ by several per cent need. The interval at look
//! k may miss with probability a_k = alpha (f(n_k) - f(n_(k-1))) / f(N). By Bonferroni's inequality all intervals of a
//! comparison hold together with probability at least 1 - alpha, under any dependence between looks. Exact
//! group-sequential bounds would be slightly narrower but assume joint normality.

use crate::error::{StatsError, check_inside};

/// The default looks, in blocks.
pub const LOOKS: [usize; 20] = [6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512];

/// Blocks after which half of the alpha of an endless comparison is spent.
const HALF: f64 = 24.0;

/// Largest number of blocks of a plan.
const MOST_BLOCKS: usize = 4096;

/// The planned looks of a comparison, and the error probability that each may spend.
#[derive(Debug, Clone, PartialEq)]
pub struct Spending {
    looks: Vec<usize>,
    alpha: f64,
    curve: Curve,
}

/// How fast alpha is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Curve {
    /// n / (n + 24).
    Hyperbolic,
    /// ln(1 + (e - 1) n / N), the Pocock-like function of Lan and DeMets, designed for up to 32 blocks.
    Pocock,
}

impl Spending {
    /// Looks after `looks` blocks (ascending, from 2); all their intervals hold together with probability `1 - alpha`.
    /// A single look spends all of alpha.
    ///
    /// # Errors
    /// No look, counts that do not ascend from 2 to at most 4096, alpha not strictly between 0 and 0.5.
    pub fn new(looks: &[usize], alpha: f64) -> Result<Self, StatsError> {
        check_inside("alpha", alpha, 0.0, 0.5, "a probability strictly between 0 and 0.5")?;
        let ascending = looks.windows(2).all(|pair| pair[0] < pair[1]);
        let in_range = looks.first().is_some_and(|n| *n >= 2) && looks.last().is_some_and(|n| *n <= MOST_BLOCKS);
        if !ascending || !in_range {
            return Err(StatsError::Looks { looks: looks.to_vec(), limit: MOST_BLOCKS });
        }
        Ok(Self { looks: looks.to_vec(), alpha, curve: Curve::Hyperbolic })
    }

    /// The same looks, with the spending function of records that name none.
    #[must_use]
    pub fn of_old_records(self) -> Self {
        Self { curve: Curve::Pocock, ..self }
    }

    /// The planned numbers of blocks.
    pub fn looks(&self) -> &[usize] {
        &self.looks
    }

    /// The largest probability that any interval of the comparison misses.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The error probability of the look at exactly `blocks` blocks.
    ///
    /// # Errors
    /// If no look is planned there.
    pub fn at(&self, blocks: usize) -> Result<f64, StatsError> {
        if !self.looks.contains(&blocks) {
            return Err(StatsError::Unplanned { blocks, looks: self.looks.clone() });
        }
        Ok(self.cut(blocks))
    }

    /// The error probability of a look at `blocks` blocks: a planned one, or the last look of a comparison that ended
    /// between two looks for a reason other than its values.
    pub fn cut(&self, blocks: usize) -> f64 {
        let before = self.looks.iter().copied().rfind(|n| *n < blocks);
        self.spent(blocks) - before.map_or(0.0, |before| self.spent(before))
    }

    /// The alpha spent up to and including the look at `blocks`.
    fn spent(&self, blocks: usize) -> f64 {
        let (n, last) = (blocks as f64, self.looks[self.looks.len() - 1] as f64);
        match self.curve {
            Curve::Hyperbolic => self.alpha * n / (n + HALF) * (last + HALF) / last,
            Curve::Pocock => self.alpha * ((std::f64::consts::E - 1.0) * n / last).ln_1p(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_usual_looks_spend_what_the_formula_says() {
        let plan = Spending::new(&LOOKS, 0.01).unwrap();
        // n / (n + 24) over 512 / 536, and its increments.
        let expected = [0.209_375, 0.052_344, 0.046_186, 0.041_054, 0.069_792, 0.057_102];
        for (n, share) in LOOKS.into_iter().zip(expected) {
            assert!((plan.at(n).unwrap() / 0.01 - share).abs() < 2e-6, "{n}: {}", plan.at(n).unwrap());
        }
        // Between two looks: what has been spent since the last one.
        assert!((plan.cut(7) / 0.01 - (7.0 / 31.0 - 0.2) * 536.0 / 512.0).abs() < 1e-9);
        assert_eq!(Spending::new(&[7], 0.01).unwrap().at(7).unwrap(), 0.01);
    }

    #[test]
    fn no_look_is_unplanned() {
        let plan = Spending::new(&LOOKS, 0.01).unwrap();
        assert!(matches!(plan.at(11), Err(StatsError::Unplanned { blocks: 11, .. })));
    }

    #[test]
    fn invalid_plans_are_errors() {
        for looks in [&[][..], &[1, 4], &[6, 6], &[8, 6], &[6, 5000]] {
            assert!(matches!(Spending::new(looks, 0.01), Err(StatsError::Looks { .. })), "{looks:?}");
        }
        for alpha in [0.0, 0.5, -1.0, f64::NAN] {
            assert!(matches!(Spending::new(&LOOKS, alpha), Err(StatsError::Setting { name: "alpha", .. })), "{alpha}");
        }
    }

    proptest! {
        #[test]
        fn exactly_alpha_is_spent(looks in proptest::collection::btree_set(2_usize..200, 1..12), alpha in 1e-4_f64..0.4) {
            let looks: Vec<usize> = looks.into_iter().collect();
            let plan = Spending::new(&looks, alpha).unwrap();
            let steps: Vec<f64> = looks.iter().map(|n| plan.at(*n).unwrap()).collect();
            prop_assert!(steps.iter().all(|step| *step > 0.0));
            prop_assert!((steps.iter().sum::<f64>() / alpha - 1.0).abs() < 1e-12);
        }
    }
}
