//! Alpha spending (Lan and DeMets 1983): several looks at a comparison without more false positives.
//!
//! The numbers of blocks after which a comparison may stop are fixed in advance. The looks at up to n of N blocks spend
//! a share f(n) / f(N) of alpha, with f(n) = n / (n + 24). It spends early, because early verdicts are worth most, and
//! keeps half for the looks beyond 24 blocks, which processes that differ by several per cent need. Look k may be the
//! first whose interval misses with probability alpha (f(n_k) - f(n_(k-1))) / f(N), so all intervals of a comparison hold
//! together with probability 1 - alpha. Successive looks share blocks, and an interval that would miss is likely to have
//! missed before. So the level of a look is higher than its share: it is the level of a normal mean with these weights
//! (`boundary.rs`), as is usual for the t-tests of clinical trials (Jennison and Turnbull 2000, 3.8). Student's
//! statistics at successive looks have less in common than normal means: with 1 % to spend, 1.08 % of simulated
//! comparisons of normal blocks had an interval that missed. So 0.92 alpha is spent.

use serde::{Deserialize, Serialize};

use crate::boundary;
use crate::error::{StatsError, check_inside};

/// The default looks, in blocks.
///
/// Six unanimous blocks suffice for a difference over two copies of the baseline, nine by signs over one
/// ([`Stakes`](crate::Stakes)).
pub const LOOKS: [usize; 19] = [6, 9, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512];

/// Blocks after which half of the alpha of an endless comparison is spent.
const HALF: f64 = 24.0;

/// Share of alpha that the joint levels spend, which Student's statistics make whole.
const STUDENT: f64 = 0.92;

/// Largest number of blocks of a plan.
const MAX_BLOCKS: usize = 4096;

/// The planned looks of a comparison, and the error probability that each may spend.
#[derive(Debug, Clone, PartialEq)]
pub struct Spending {
    looks: Vec<usize>,
    alpha: f64,
    curve: Curve,
    /// Levels of the looks for blocks of equal weight.
    levels: Vec<f64>,
}

/// How the looks of a comparison share the probability of a wrong verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Curve {
    /// ln(1 + (e - 1) n / N), the Pocock-like function of Lan and DeMets, designed for up to 32 blocks; the level of a look
    /// is its share (Bonferroni). The function of records that name none.
    #[default]
    Pocock,
    /// n / (n + 24); the level of a look is its share.
    Hyperbolic,
    /// n / (n + 24); levels by the joint distribution of all looks.
    Joint,
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
        let in_range = looks.first().is_some_and(|n| *n >= 2) && looks.last().is_some_and(|n| *n <= MAX_BLOCKS);
        if !ascending || !in_range {
            return Err(StatsError::Looks { looks: looks.to_vec(), limit: MAX_BLOCKS });
        }
        Ok(Self { looks: looks.to_vec(), alpha, curve: Curve::Joint, levels: Vec::new() }.with_curve(Curve::Joint))
    }

    /// The same looks with another curve, as older records have it.
    #[must_use]
    pub fn with_curve(self, curve: Curve) -> Self {
        let plan = Self { curve, ..self };
        let information: Vec<f64> = plan.looks.iter().map(|look| *look as f64).collect();
        Self { levels: plan.joint(&plan.looks, &information), ..plan }
    }

    /// The planned numbers of blocks.
    pub fn looks(&self) -> &[usize] {
        &self.looks
    }

    /// How the looks share alpha.
    pub fn curve(&self) -> Curve {
        self.curve
    }

    /// The largest probability that any interval of the comparison misses.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The error probability of the interval at exactly `blocks` blocks of equal weight.
    ///
    /// # Errors
    /// If no look is planned there.
    pub fn at(&self, blocks: usize) -> Result<f64, StatsError> {
        let look = self.looks.iter().position(|look| *look == blocks);
        look.map(|look| self.levels[look]).ok_or_else(|| StatsError::Unplanned { blocks, looks: self.looks.clone() })
    }

    /// The error probability of the interval of blocks with these weights: at a planned look, or at the last look of a
    /// comparison that ended between two looks for a reason other than its values.
    pub fn of(&self, weights: &[f64]) -> f64 {
        // The joint levels take long to compute.
        if let (true, Ok(level)) = (weights.windows(2).all(|pair| pair[0] == pair[1]), self.at(weights.len())) {
            return level;
        }
        let looks: Vec<usize> =
            self.looks.iter().copied().filter(|look| *look < weights.len()).chain([weights.len()]).collect();
        let information: Vec<f64> = looks.iter().map(|look| weights[..*look].iter().sum()).collect();
        self.joint(&looks, &information).last().copied().unwrap_or(0.0)
    }

    /// The error probabilities of the intervals at these looks, with the sums of weights that they have.
    fn joint(&self, looks: &[usize], information: &[f64]) -> Vec<f64> {
        let spent = looks.iter().map(|look| self.spent(*look));
        let shares: Vec<f64> =
            spent.scan(0.0, |before, spent| Some(spent - std::mem::replace(before, spent))).collect();
        match self.curve {
            Curve::Joint => boundary::levels(information, &shares),
            Curve::Hyperbolic | Curve::Pocock => shares,
        }
    }

    /// The alpha spent up to and including the look at `blocks`.
    fn spent(&self, blocks: usize) -> f64 {
        let (n, last) = (blocks as f64, self.looks[self.looks.len() - 1] as f64);
        match self.curve {
            Curve::Joint => STUDENT * self.alpha * n / (n + HALF) * (last + HALF) / last,
            Curve::Hyperbolic => self.alpha * n / (n + HALF) * (last + HALF) / last,
            Curve::Pocock => self.alpha * ((std::f64::consts::E - 1.0) * n / last).ln_1p(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::mean_interval_missing;
    use crate::simulation::Stream;
    use proptest::prelude::*;

    #[test]
    fn shares_are_what_the_formula_says() {
        let plan = Spending::new(&LOOKS, 0.01).unwrap().with_curve(Curve::Hyperbolic);
        // n / (n + 24) over 512 / 536, and its increments.
        let expected = [0.209_375, 0.076_136, 0.063_447, 0.069_792, 0.057_102, 0.047_585];
        for (n, share) in LOOKS.into_iter().zip(expected) {
            assert!((plan.at(n).unwrap() / 0.01 - share).abs() < 2e-6, "{n}: {}", plan.at(n).unwrap());
        }
        // Between two looks: what has been spent since the last one.
        assert!((plan.of(&[1.0; 7]) / 0.01 - (7.0 / 31.0 - 0.2) * 536.0 / 512.0).abs() < 1e-9);
        let single = Spending::new(&[7], 0.01).unwrap();
        assert_eq!(single.at(7).unwrap(), 0.01 * STUDENT);
        assert_eq!(single.with_curve(Curve::Pocock).at(7).unwrap(), 0.01);
    }

    #[test]
    fn joint_levels_are_those_of_the_weights() {
        let plan = Spending::new(&LOOKS, 0.01).unwrap();
        for look in LOOKS {
            assert!((plan.of(&vec![3.0; look]) / plan.at(look).unwrap() - 1.0).abs() < 1e-9, "{look}");
        }
        // After six blocks that say nothing, the next look is a new one, and gets its share only.
        let weights = [[1e-6; 6].as_slice(), &[1.0; 3]].concat();
        let share = STUDENT * plan.clone().with_curve(Curve::Hyperbolic).at(9).unwrap();
        assert!((plan.of(&weights) / share - 1.0).abs() < 0.01);
        assert!(plan.at(9).unwrap() > 1.4 * share);
    }

    /// All intervals of a comparison hold together, and hardly more often than promised.
    #[test]
    fn student_intervals_at_these_levels_miss_as_often_as_promised() {
        let plan = Spending::new(&LOOKS[..12], 0.1).unwrap();
        let mut random = Stream(3);
        let trials = 4000;
        let misses = (0..trials).filter(|_| {
            let blocks: Vec<f64> = (0..LOOKS[11]).map(|_| random.normal()).collect();
            LOOKS[..12].iter().any(|look| {
                let interval = mean_interval_missing(&blocks[..*look], plan.at(*look).unwrap()).unwrap();
                interval.low() > 0.0 || interval.high() < 0.0
            })
        });
        let rate = misses.count() as f64 / f64::from(trials);
        assert!((0.08..0.11).contains(&rate), "{rate}");
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
            let plan = Spending::new(&looks, alpha).unwrap().with_curve(Curve::Hyperbolic);
            let steps: Vec<f64> = looks.iter().map(|n| plan.at(*n).unwrap()).collect();
            prop_assert!(steps.iter().all(|step| *step > 0.0));
            prop_assert!((steps.iter().sum::<f64>() / alpha - 1.0).abs() < 1e-12);
        }
    }
}
