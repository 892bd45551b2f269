//! The verdict of a comparison, over block values only: slower, faster, the same, or undecided and what it would take.
//!
//! A red (or green) verdict takes two witnesses that fail for different reasons: Student's interval, whose width is honest
//! where blocks are independent, lies wholly beyond the region of practical equivalence; *and* the evidence of the signs,
//! which assumes nothing, has reached 2 / alpha (half of alpha for each direction). Whatever the noise is, the second alone
//! bounds the false alarms of a comparison by alpha. "The same" rests on the interval.

use crate::blocks::{MeanInterval, mean_interval_missing, weighted_interval_missing};
use crate::error::StatsError;
use crate::evidence::{Evidence, evidence, fewest_blocks, shift, weighted_evidence};
use crate::forecast::blocks_needed;
use crate::spending::{LOOKS, Spending};

/// How a comparison is decided; fixed before its first block.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    rope: f64,
    spending: Spending,
}

impl Rule {
    /// Ratios within `1 / (1 + rope) ..= 1 + rope` are practically the same; a wrong verdict may come with probability
    /// `alpha`; decisions after `looks` blocks.
    ///
    /// # Errors
    /// A rope that is negative or not finite; see [`Spending::new`] for the others.
    pub fn new(rope: f64, alpha: f64, looks: &[usize]) -> Result<Self, StatsError> {
        shift(rope)?;
        Ok(Self { rope, spending: Spending::new(looks, alpha)? })
    }

    /// The region of practical equivalence, as a share (0.01 for 1 %).
    pub fn rope(&self) -> f64 {
        self.rope
    }

    /// The looks and what they spend.
    pub fn spending(&self) -> &Spending {
        &self.spending
    }

    /// The evidence that a red verdict takes in its direction.
    pub fn evidence_needed(&self) -> f64 {
        2.0 / self.spending.alpha()
    }

    /// The fewest blocks after which "slower" or "faster" is possible at all: 8 at an alpha of 1 %. A plan that ends earlier
    /// can only say "the same" or "undecided".
    pub fn fewest_blocks(&self) -> usize {
        fewest_blocks(0.5 * self.spending.alpha())
    }
}

impl Default for Rule {
    /// 1 % of equivalence, 1 % of error, the usual looks.
    fn default() -> Self {
        Self::new(0.01, 0.01, &LOOKS).expect("the usual looks make a plan")
    }
}

/// What a comparison came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Time of the candidate over that of the baseline: the exponential of the mean block value. Above 1 is slower.
    pub ratio: f64,
    /// Lower end of the interval of the ratio. The intervals of all looks hold together with probability 1 - alpha.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// The verdict.
    pub difference: Difference,
}

impl Change {
    /// The same where neither of the two times is known better than to a share `grain` of itself, however many blocks there are:
    /// the step of a clock is the same in all of them. Errors of up to a step, each as likely as any other, and the
    /// scatter of blocks add up as the squares of their widths do (JCGM 100:2008, F.2.2.1 and 5.1); without scatter the
    /// interval is the whole step. A verdict that does not hold in the wider interval is taken back; no forecast then, since
    /// blocks cannot help.
    #[must_use]
    pub fn known_to(self, grain: f64, rule: &Rule) -> Self {
        let grain = if grain.is_finite() { grain.max(0.0).ln_1p() } else { 0.0 };
        if grain == 0.0 {
            return self;
        }
        let low = self.ratio * (-(self.ratio / self.low).ln().hypot(grain)).exp();
        let high = self.ratio * (self.high / self.ratio).ln().hypot(grain).exp();
        let (least, most) = (1.0 / (1.0 + rule.rope), 1.0 + rule.rope);
        let stands = match self.difference {
            Difference::Slower => low > most,
            Difference::Faster => high < least,
            Difference::Same => low >= least && high <= most,
            Difference::Undecided { .. } => true,
        };
        let difference = if stands { self.difference } else { Difference::Undecided { blocks_needed: None } };
        Self { low, high, difference, ..self }
    }
}

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The candidate is faster by more than the region of practical equivalence.
    Faster,
    /// The candidate is slower by more than that.
    Slower,
    /// The difference lies inside the region of practical equivalence.
    Same,
    /// Neither is shown yet.
    Undecided {
        /// Forecast of the blocks still to be measured, if the rest is like those so far. `None` when that is out of reach.
        /// When it leads past the plan's last look, this comparison stays undecided and a new one, planned with as many
        /// blocks in all, is needed: the plan's alpha is spent.
        blocks_needed: Option<usize>,
    },
}

/// Decides a comparison from its block values (natural logarithms of candidate over baseline, in the order measured), at
/// one of the rule's looks. Stop at the first verdict, or go on to the next look: the error rate holds for both.
///
/// # Errors
/// A number of blocks at which the plan does not look (see [`Spending::reached`]); a value that is not finite.
pub fn decide(blocks: &[f64], rule: &Rule) -> Result<Change, StatsError> {
    let interval = mean_interval_missing(blocks, rule.spending.at(blocks.len())?)?;
    change(blocks, rule, &interval, &evidence(blocks, rule.rope)?)
}

/// The same for blocks of which some tell more than others, such as blocks of more rounds. A weight may depend on what came
/// before its block and on what does not change when the sides swap names (how long the block took in all), on nothing else.
/// The scale of the weights does not matter.
///
/// # Errors
/// As [`decide`]; as many weights as blocks are needed, positive and finite.
pub fn decide_weighted(blocks: &[f64], weights: &[f64], rule: &Rule) -> Result<Change, StatsError> {
    if weights.len() != blocks.len() {
        return Err(StatsError::TooFew { what: "weights", got: weights.len(), needed: blocks.len() });
    }
    if let Some(index) = weights.iter().position(|weight| !(weight.is_finite() && *weight > 0.0)) {
        let expected = "a positive, finite weight";
        return Err(StatsError::Value { what: "weight", index, value: weights[index], expected });
    }
    let interval = weighted_interval_missing(blocks, weights, rule.spending.at(blocks.len())?)?;
    change(blocks, rule, &interval, &weighted_evidence(blocks, weights, rule.rope)?)
}

fn change(blocks: &[f64], rule: &Rule, interval: &MeanInterval, evidence: &Evidence) -> Result<Change, StatsError> {
    let difference = difference(blocks, rule, interval, evidence)?;
    Ok(Change { ratio: interval.mean.exp(), low: interval.low().exp(), high: interval.high().exp(), difference })
}

fn difference(
    blocks: &[f64],
    rule: &Rule,
    interval: &MeanInterval,
    evidence: &Evidence,
) -> Result<Difference, StatsError> {
    let shift = shift(rule.rope)?;
    let needed = rule.evidence_needed();
    Ok(if interval.low() > shift && evidence.slower.peak >= needed {
        Difference::Slower
    } else if interval.high() < -shift && evidence.faster.peak >= needed {
        Difference::Faster
    } else if interval.low() >= -shift && interval.high() <= shift {
        Difference::Same
    } else {
        Difference::Undecided { blocks_needed: blocks_needed(blocks, rule, interval)? }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STEADY: [f64; 8] = [0.031, 0.028, 0.030, 0.033, 0.027, 0.030, 0.029, 0.032];

    #[test]
    fn a_clear_change_is_called_with_its_ratio() {
        let rule = Rule::default();
        let slower = decide(&STEADY, &rule).unwrap();
        assert_eq!(slower.difference, Difference::Slower);
        assert!((slower.ratio - 0.03_f64.exp()).abs() < 1e-12);
        assert!(1.01 < slower.low && slower.low < slower.ratio && slower.ratio < slower.high);
        let faster = decide(&STEADY.map(|d| -d), &rule).unwrap();
        assert_eq!(faster.difference, Difference::Faster);
        let same = decide(&STEADY.map(|d| d - 0.03), &rule).unwrap();
        assert_eq!(same.difference, Difference::Same);
    }

    #[test]
    fn the_interval_alone_does_not_call() {
        // Six blocks: the interval lies beyond the region, the signs can have reached 64 of the 200 needed.
        let rule = Rule::default();
        let early = decide(&STEADY[..6], &rule).unwrap();
        assert!(early.low > 1.01);
        assert_eq!(early.difference, Difference::Undecided { blocks_needed: Some(2) });
        assert_eq!(rule.fewest_blocks(), 8);
    }

    #[test]
    fn the_signs_alone_do_not_call() {
        // Nine blocks slower, by very different amounts: the evidence suffices, the interval is wide.
        let rule = Rule::new(0.0, 0.01, &[9]).unwrap();
        let blocks = [0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.9];
        assert!(evidence(&blocks, 0.0).unwrap().slower.peak >= rule.evidence_needed());
        assert!(matches!(decide(&blocks, &rule).unwrap().difference, Difference::Undecided { .. }));
    }

    #[test]
    fn heavy_blocks_decide_what_light_ones_scatter() {
        let rule = Rule::default();
        let noisy = [0.15, -0.12, 0.18, 0.10, 0.09, 0.13];
        let blocks = [&noisy[..], &STEADY[..], &STEADY[..], &STEADY[..2]].concat();
        let weights = |heavy: f64| [&[1.0; 6][..], &[heavy; 18][..]].concat();
        let even = decide_weighted(&blocks, &weights(1.0), &rule).unwrap();
        assert!(matches!(even.difference, Difference::Undecided { .. }), "{even:?}");
        let plain = decide(&blocks, &rule).unwrap();
        assert!((even.low / plain.low - 1.0).abs() < 1e-12 && even.difference == plain.difference);
        let weighted = decide_weighted(&blocks, &weights(30.0), &rule).unwrap();
        assert_eq!(weighted.difference, Difference::Slower, "{weighted:?}");
        assert!((weighted.ratio - 0.03_f64.exp()).abs() < 0.001);
        let mirrored =
            decide_weighted(&blocks.iter().map(|d| -d).collect::<Vec<f64>>(), &weights(300.0), &rule).unwrap();
        assert_eq!(mirrored.difference, Difference::Faster, "and their scale does not matter");
        assert_eq!(decide_weighted(&[0.0; 6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &rule).unwrap().high, 1.0);
        assert!(decide_weighted(&blocks, &[1.0; 3], &rule).is_err());
        let mut broken = weights(2.0);
        broken[4] = 0.0;
        assert!(matches!(decide_weighted(&blocks, &broken, &rule), Err(StatsError::Value { index: 4, .. })));
    }

    #[test]
    fn blocks_that_agree_to_the_last_bit_are_the_same() {
        let change = decide(&[0.0; 6], &Rule::default()).unwrap();
        assert_eq!((change.ratio, change.low, change.high), (1.0, 1.0, 1.0));
        assert_eq!(change.difference, Difference::Same);
    }

    #[test]
    fn a_coarse_clock_widens_what_is_said_and_takes_back_what_it_cannot_know() {
        let rule = Rule::default();
        let slower = decide(&STEADY, &rule).unwrap();
        assert_eq!(slower.known_to(0.0, &rule), slower);
        assert_eq!(slower.known_to(f64::NAN, &rule), slower);
        let fine = slower.known_to(0.001, &rule);
        assert_eq!((fine.difference, fine.ratio), (Difference::Slower, slower.ratio));
        let widths = |change: &Change| [(change.ratio / change.low).ln(), (change.high / change.ratio).ln()];
        for (wide, narrow) in widths(&fine).into_iter().zip(widths(&slower)) {
            assert!((wide * wide - narrow * narrow - 0.001_f64.ln_1p().powi(2)).abs() < 1e-12);
        }
        assert_eq!(slower.known_to(0.02, &rule).difference, Difference::Undecided { blocks_needed: None });
        let faster = decide(&STEADY.map(|d| -d), &rule).unwrap();
        assert_eq!(faster.known_to(0.001, &rule).difference, Difference::Faster);
        assert_eq!(faster.known_to(0.02, &rule).difference, Difference::Undecided { blocks_needed: None });
        let same = decide(&[0.0; 6], &rule).unwrap();
        let known = same.known_to(0.009, &rule);
        assert!(known.difference == Difference::Same && (known.high - 1.009).abs() < 1e-12);
        assert_eq!(same.known_to(0.011, &rule).difference, Difference::Undecided { blocks_needed: None });
    }

    #[test]
    fn what_cannot_be_decided_is_refused() {
        let rule = Rule::default();
        assert!(matches!(decide(&STEADY[..7], &rule), Err(StatsError::Unplanned { blocks: 7, .. })));
        assert!(matches!(decide(&[], &rule), Err(StatsError::Unplanned { blocks: 0, .. })));
        let mut broken = STEADY;
        broken[3] = f64::NAN;
        assert!(matches!(decide(&broken, &rule), Err(StatsError::Value { index: 3, .. })));
        assert!(matches!(Rule::new(-0.01, 0.01, &LOOKS), Err(StatsError::Setting { name: "rope", .. })));
        assert!(matches!(Rule::new(0.01, 0.0, &LOOKS), Err(StatsError::Setting { name: "alpha", .. })));
    }

    fn mirror(difference: Difference) -> Difference {
        match difference {
            Difference::Faster => Difference::Slower,
            Difference::Slower => Difference::Faster,
            other => other,
        }
    }

    proptest! {
        #[test]
        fn swapping_baseline_and_candidate_mirrors_the_verdict(centre in -0.04_f64..0.04, noise in proptest::collection::vec(-0.01_f64..0.01, 12)) {
            let rule = Rule::default();
            let blocks: Vec<f64> = noise.iter().map(|e| centre + e).collect();
            let swapped: Vec<f64> = blocks.iter().map(|d| -d).collect();
            let (one, other) = (decide(&blocks, &rule).unwrap(), decide(&swapped, &rule).unwrap());
            prop_assert_eq!(mirror(one.difference), other.difference);
            prop_assert!((one.ratio * other.ratio - 1.0).abs() < 1e-12);
            prop_assert!((one.low * other.high - 1.0).abs() < 1e-12 && (one.high * other.low - 1.0).abs() < 1e-12);
        }

        #[test]
        fn a_slower_candidate_is_never_called_faster(blocks in proptest::collection::vec(-0.04_f64..0.04, 12), by in 0.0_f64..0.1) {
            // Moving all blocks up moves ratio and interval up by that factor and can only turn the verdict upwards.
            let rule = Rule::default();
            let moved: Vec<f64> = blocks.iter().map(|d| d + by).collect();
            let (before, after) = (decide(&blocks, &rule).unwrap(), decide(&moved, &rule).unwrap());
            prop_assert!((after.ratio / before.ratio / by.exp() - 1.0).abs() < 1e-12);
            prop_assert!((after.low / before.low / by.exp() - 1.0).abs() < 1e-9);
            prop_assert!(before.difference == Difference::Faster || after.difference != Difference::Faster);
        }

        #[test]
        fn the_verdict_says_what_its_interval_says(centre in -0.04_f64..0.04, noise in proptest::collection::vec(-0.02_f64..0.02, 16)) {
            let blocks: Vec<f64> = noise.iter().map(|e| centre + e).collect();
            let change = decide(&blocks, &Rule::default()).unwrap();
            match change.difference {
                Difference::Slower => prop_assert!(change.low > 1.01),
                Difference::Faster => prop_assert!(change.high < 1.0 / 1.01),
                Difference::Same => prop_assert!(change.low >= 1.0 / 1.01 - 1e-12 && change.high <= 1.01 + 1e-12),
                Difference::Undecided { blocks_needed } => prop_assert!(blocks_needed.is_none_or(|n| n > 0)),
            }
        }
    }
}
