//! The verdict of a comparison, from block values only: slower, faster, same, or undecided with a forecast.
//!
//! "Slower" and "faster" require two tests that fail for different reasons: Student's interval, which assumes
//! independent blocks, lies entirely outside the region of practical equivalence, *and* the evidence of the signs,
//! which assumes nothing about the noise, has reached 2 / alpha (half of alpha for each direction). The second alone
//! bounds the false positives of a comparison by alpha. "Same" uses the interval. With enough blocks for Huber's
//! estimate, the plain mean must also lie within the region for "same", and on the same side of 1 for a difference: the
//! robust centre alone would not show that a few processes are far slower.

use crate::blocks::{MeanInterval, Weighted};
use crate::centre::{Centre, within};
use crate::error::StatsError;
use crate::evidence::{Evidence, Stakes, shift, weighted_evidence};
use crate::forecast::blocks_needed;
use crate::spending::{Curve, LOOKS, Spending};

/// The decision rule of a comparison, fixed before its first block.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionRule {
    rope: f64,
    spending: Spending,
    stakes: Stakes,
    centre: Centre,
}

impl DecisionRule {
    /// A rule that treats ratios within `1 / (1 + rope) ..= 1 + rope` as equal, gives a wrong verdict with probability
    /// at most `alpha`, and decides after `looks` blocks.
    ///
    /// # Errors
    /// A rope that is negative or not finite; see [`Spending::new`] for the other arguments.
    pub fn new(rope: f64, alpha: f64, looks: &[usize]) -> Result<Self, StatsError> {
        shift(rope)?;
        Ok(Self { rope, spending: Spending::new(looks, alpha)?, stakes: Stakes::Thirds, centre: Centre::Robust })
    }

    /// This rule with the spending function, the stakes and the centre of records that do not name them.
    #[must_use]
    pub fn of_old_records(self) -> Self {
        Self { spending: self.spending.with_curve(Curve::Pocock), stakes: Stakes::Fixed, centre: Centre::Mean, ..self }
    }

    /// This rule with another division of the capital.
    #[must_use]
    pub fn with_stakes(self, stakes: Stakes) -> Self {
        Self { stakes, ..self }
    }

    /// This rule with levels of the looks by another curve.
    #[must_use]
    pub fn with_curve(self, curve: Curve) -> Self {
        Self { spending: self.spending.with_curve(curve), ..self }
    }

    /// This rule with another centre of block values.
    #[must_use]
    pub fn with_centre(self, centre: Centre) -> Self {
        Self { centre, ..self }
    }

    /// This rule with other looks.
    ///
    /// # Errors
    /// As [`Spending::new`].
    pub fn with_looks(self, looks: &[usize]) -> Result<Self, StatsError> {
        Ok(Self { spending: Spending::new(looks, self.spending.alpha())?, ..self })
    }

    /// The centre of blocks with these precisions, up to a common factor, for a forecast.
    pub fn centre_of(&self, blocks: &[f64], weights: &[f64]) -> f64 {
        self.centre.of(blocks, weights, self.rope.ln_1p())
    }

    /// How the capital is divided among the stakes.
    pub fn stakes(&self) -> Stakes {
        self.stakes
    }

    /// The region of practical equivalence, as a share (0.01 for 1 %).
    pub fn rope(&self) -> f64 {
        self.rope
    }

    /// The looks and the error probability of each.
    pub fn spending(&self) -> &Spending {
        &self.spending
    }

    /// The evidence that "slower" or "faster" requires: 2 / alpha.
    pub fn evidence_needed(&self) -> f64 {
        2.0 / self.spending.alpha()
    }
}

impl Default for DecisionRule {
    /// 1 % of practical equivalence, 1 % error probability, the default looks.
    fn default() -> Self {
        Self::new(0.01, 0.01, &LOOKS).expect("the default looks are a valid plan")
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Time of the candidate divided by that of the baseline: the exponential of the centre of the block values. Above 1
    /// is slower.
    pub ratio: f64,
    /// Lower end of the interval of the ratio. The intervals of all looks hold together with probability 1 - alpha.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// What the blocks show.
    pub difference: Difference,
}

impl Change {
    /// Widens the interval for a clock whose step is the share `grain` of the measured times; the step is the same in
    /// every block. Uniform errors of up to a step and the scatter of blocks add as squares of their widths (JCGM
    /// 100:2008, F.2.2.1 and
    /// 5.1). A verdict that does not hold in the wider interval becomes undecided, without a forecast: more blocks
    /// cannot help.
    #[must_use]
    pub fn known_to(self, grain: f64, rule: &DecisionRule) -> Self {
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

/// The verdict on a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The candidate is faster by more than the region of practical equivalence.
    Faster,
    /// The candidate is slower by more than the region of practical equivalence.
    Slower,
    /// The difference lies inside the region of practical equivalence.
    Same,
    /// Neither a difference nor equality is shown yet.
    Undecided {
        /// Forecast of the further blocks needed, if later blocks are like those so far; `None` if out of reach. A
        /// forecast beyond the last look needs a new comparison planned with that many blocks in total, since the alpha
        /// of this plan is spent.
        blocks_needed: Option<usize>,
    },
}

impl Difference {
    /// The verdict in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Undecided { .. } => "undecided",
        }
    }
}

/// Decides a comparison from its block values (natural logarithms of candidate over baseline, in the order measured) at
/// one of the rule's looks. Stop at the first verdict or continue to the next look; the error rate holds either way.
///
/// # Errors
/// A number of blocks that is not a planned look, a value that is not finite.
pub fn decide(blocks: &[f64], rule: &DecisionRule) -> Result<Change, StatsError> {
    let blocks: Vec<Weighted> = blocks.iter().copied().map(Weighted::plain).collect();
    change(&blocks, rule, rule.spending.at(blocks.len())?)
}

/// As [`decide`], for blocks of unequal precision, at a planned look or where the comparison ended for a reason other
/// than its values.
///
/// # Errors
/// Fewer than two blocks; a value that is not finite; a weight that is not positive, a bet that is negative.
pub fn decide_weighted(blocks: &[Weighted], rule: &DecisionRule) -> Result<Change, StatsError> {
    for (what, zero, factor) in
        [("weight", false, (|block| block.weight) as fn(&Weighted) -> f64), ("bet", true, |block| block.bet)]
    {
        let fits = |factor: f64| factor.is_finite() && (factor > 0.0 || zero && factor == 0.0);
        if let Some(index) = blocks.iter().position(|block| !fits(factor(block))) {
            let expected = if zero { "a finite factor of at least 0" } else { "a positive, finite weight" };
            return Err(StatsError::Value { what, index, value: factor(&blocks[index]), expected });
        }
    }
    let weights: Vec<f64> = blocks.iter().map(|block| block.weight).collect();
    change(blocks, rule, rule.spending.of(&weights))
}

fn change(blocks: &[Weighted], rule: &DecisionRule, miss: f64) -> Result<Change, StatsError> {
    let shift = shift(rule.rope)?;
    let (values, weights): (Vec<f64>, Vec<f64>) = blocks.iter().map(|block| (block.value, block.weight)).unzip();
    let mut interval = rule.centre.interval(&values, &weights, miss)?;
    let plain = rule.centre.plain(&values, &weights, miss)?;
    // If only the mean contradicts "same", report the interval of the mean.
    let centred = interval.low() >= -shift && interval.high() <= shift;
    if let Some(plain) = plain.filter(|plain| centred && !within(plain, blocks.len(), shift)) {
        interval = plain;
    }
    let evidence = weighted_evidence(blocks, rule.rope, rule.stakes)?;
    let side = plain.map_or(interval.mean, |plain| plain.mean);
    let difference = difference(blocks, rule, &interval, side, &evidence)?;
    Ok(Change { ratio: interval.mean.exp(), low: interval.low().exp(), high: interval.high().exp(), difference })
}

fn difference(
    blocks: &[Weighted],
    rule: &DecisionRule,
    interval: &MeanInterval,
    side: f64,
    evidence: &Evidence,
) -> Result<Difference, StatsError> {
    let shift = shift(rule.rope)?;
    let needed = rule.evidence_needed();
    Ok(if interval.low() > shift && side > 0.0 && evidence.slower.peak >= needed {
        Difference::Slower
    } else if interval.high() < -shift && side < 0.0 && evidence.faster.peak >= needed {
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
    use crate::evidence::evidence;
    use proptest::prelude::*;

    const STEADY: [f64; 9] = [0.031, 0.028, 0.030, 0.033, 0.027, 0.030, 0.029, 0.032, 0.030];

    #[test]
    fn a_clear_change_is_called_with_its_ratio() {
        let rule = DecisionRule::default();
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
    fn the_interval_alone_does_not_decide() {
        // Six blocks: the interval is outside the region, but six signs reach at most 64 of the 200 needed.
        let rule = DecisionRule::default();
        let early = decide(&STEADY[..6], &rule).unwrap();
        assert!(early.low > 1.01);
        assert_eq!(early.difference, Difference::Undecided { blocks_needed: Some(3) });
    }

    #[test]
    fn the_signs_alone_do_not_decide() {
        // Nine slower blocks of very different size: enough evidence, but a wide interval.
        let rule = DecisionRule::new(0.0, 0.01, &[9]).unwrap();
        let blocks = [0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.9];
        assert!(evidence(&blocks, 0.0).unwrap().slower.peak >= rule.evidence_needed());
        assert!(matches!(decide(&blocks, &rule).unwrap().difference, Difference::Undecided { .. }));
    }

    #[test]
    fn heavy_blocks_decide_what_light_ones_scatter() {
        let rule = DecisionRule::default().with_centre(Centre::Mean);
        let noisy = [0.15, -0.12, 0.18, 0.10, 0.09, 0.13];
        let blocks = [&noisy[..], &STEADY[..], &STEADY[..]].concat();
        let weights = |heavy: f64| [&[1.0; 6][..], &[heavy; 18][..]].concat();
        let decided = |values: &[f64], weights: &[f64]| {
            let block =
                |(value, weight): (&f64, &f64)| Weighted { weight: *weight, bet: *weight, ..Weighted::plain(*value) };
            decide_weighted(&values.iter().zip(weights).map(block).collect::<Vec<Weighted>>(), &rule)
        };
        let even = decided(&blocks, &weights(1.0)).unwrap();
        assert!(matches!(even.difference, Difference::Undecided { .. }), "{even:?}");
        let plain = decide(&blocks, &rule).unwrap();
        assert!((even.low / plain.low - 1.0).abs() < 1e-12 && even.difference == plain.difference);
        let weighted = decided(&blocks, &weights(30.0)).unwrap();
        assert_eq!(weighted.difference, Difference::Slower, "{weighted:?}");
        assert!((weighted.ratio - 0.03_f64.exp()).abs() < 0.001);
        let mirrored = decided(&blocks.iter().map(|d| -d).collect::<Vec<f64>>(), &weights(300.0)).unwrap();
        assert_eq!(mirrored.difference, Difference::Faster, "and their scale does not matter");
        assert_eq!(decided(&[0.0; 6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap().high, 1.0);
        let mut broken = weights(2.0);
        broken[4] = 0.0;
        assert!(matches!(decided(&blocks, &broken), Err(StatsError::Value { index: 4, .. })));
    }

    #[test]
    fn blocks_that_agree_to_the_last_bit_are_the_same() {
        let change = decide(&[0.0; 6], &DecisionRule::default()).unwrap();
        assert_eq!((change.ratio, change.low, change.high), (1.0, 1.0, 1.0));
        assert_eq!(change.difference, Difference::Same);
    }

    #[test]
    fn a_coarse_clock_widens_the_interval_and_may_undo_the_verdict() {
        let rule = DecisionRule::default();
        let slower = decide(&STEADY, &rule).unwrap();
        assert_eq!(slower.known_to(0.0, &rule), slower);
        assert_eq!(slower.known_to(f64::NAN, &rule), slower);
        let fine = slower.known_to(0.001, &rule);
        assert_eq!((fine.difference, fine.ratio), (Difference::Slower, slower.ratio));
        let widths = |change: &Change| [(change.ratio / change.low).ln(), (change.high / change.ratio).ln()];
        for (wide, narrow) in widths(&fine).into_iter().zip(widths(&slower)) {
            assert!((wide * wide - narrow * narrow - 0.001_f64.ln_1p().powi(2)).abs() < 1e-12);
        }
        assert_eq!(slower.known_to(0.03, &rule).difference, Difference::Undecided { blocks_needed: None });
        let faster = decide(&STEADY.map(|d| -d), &rule).unwrap();
        assert_eq!(faster.known_to(0.001, &rule).difference, Difference::Faster);
        assert_eq!(faster.known_to(0.03, &rule).difference, Difference::Undecided { blocks_needed: None });
        let same = decide(&[0.0; 6], &rule).unwrap();
        let known = same.known_to(0.009, &rule);
        assert!(known.difference == Difference::Same && (known.high - 1.009).abs() < 1e-12);
        assert_eq!(same.known_to(0.011, &rule).difference, Difference::Undecided { blocks_needed: None });
    }

    #[test]
    fn a_few_blocks_far_off_neither_hide_a_difference_nor_pass_for_the_same() {
        let rule = DecisionRule::new(0.01, 0.01, &[40]).unwrap();
        // Of 40 blocks two are far off, to either side or to one.
        let noisy = |theta: f64, far: [f64; 2]| -> Vec<f64> {
            let noise = |i: usize| 0.002 * ((i * 7 % 11) as f64 - 5.0) / 3.0;
            (0..40).map(|i| theta + if i % 20 == 7 { far[i / 20] } else { noise(i) }).collect()
        };
        let (even, odd) = ([0.2, -0.2], [0.4, 0.3]);
        let decided = |blocks: &[f64], centre: Centre| decide(blocks, &rule.clone().with_centre(centre)).unwrap();
        let found = decided(&noisy(0.022, even), Centre::Robust);
        assert_eq!(found.difference, Difference::Slower, "{found:?}");
        assert!((found.ratio - 0.022_f64.exp()).abs() < 0.002, "{found:?}");
        let hidden = decided(&noisy(0.022, even), Centre::Mean);
        assert!(matches!(hidden.difference, Difference::Undecided { .. }), "{hidden:?}");
        assert_eq!(decided(&noisy(0.0, even), Centre::Robust).difference, Difference::Same);
        let on_one_side = decided(&noisy(0.0, odd), Centre::Robust);
        assert!(matches!(on_one_side.difference, Difference::Undecided { .. }), "{on_one_side:?}");
        assert_eq!(on_one_side.high, decided(&noisy(0.0, odd), Centre::Mean).high, "the interval is that of the mean");
        // Most processes are 2 % faster, but the mean is slower.
        let faster: Vec<f64> =
            (0..40).map(|i| if i % 8 == 3 { 0.25 } else { -0.02 - 1e-4 * f64::from(i % 5) }).collect();
        assert!(matches!(decided(&faster, Centre::Robust).difference, Difference::Undecided { .. }));
    }

    #[test]
    fn invalid_input_is_an_error() {
        let rule = DecisionRule::default();
        assert!(matches!(decide(&STEADY[..7], &rule), Err(StatsError::Unplanned { blocks: 7, .. })));
        assert!(matches!(decide(&[], &rule), Err(StatsError::Unplanned { blocks: 0, .. })));
        let mut broken = STEADY;
        broken[3] = f64::NAN;
        assert!(matches!(decide(&broken, &rule), Err(StatsError::Value { index: 3, .. })));
        assert!(matches!(DecisionRule::new(-0.01, 0.01, &LOOKS), Err(StatsError::Setting { name: "rope", .. })));
        assert!(matches!(DecisionRule::new(0.01, 0.0, &LOOKS), Err(StatsError::Setting { name: "alpha", .. })));
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
            let rule = DecisionRule::default();
            let blocks: Vec<f64> = noise.iter().map(|e| centre + e).collect();
            let swapped: Vec<f64> = blocks.iter().map(|d| -d).collect();
            let (one, other) = (decide(&blocks, &rule).unwrap(), decide(&swapped, &rule).unwrap());
            prop_assert_eq!(mirror(one.difference), other.difference);
            prop_assert!((one.ratio * other.ratio - 1.0).abs() < 1e-12);
            prop_assert!((one.low * other.high - 1.0).abs() < 1e-12 && (one.high * other.low - 1.0).abs() < 1e-12);
        }

        #[test]
        fn a_slower_candidate_is_never_called_faster(blocks in proptest::collection::vec(-0.04_f64..0.04, 12), by in 0.0_f64..0.1) {
            // Shifting all blocks up scales ratio and interval by that factor and can only move the verdict towards
            // "slower".
            let rule = DecisionRule::default();
            let moved: Vec<f64> = blocks.iter().map(|d| d + by).collect();
            let (before, after) = (decide(&blocks, &rule).unwrap(), decide(&moved, &rule).unwrap());
            prop_assert!((after.ratio / before.ratio / by.exp() - 1.0).abs() < 1e-12);
            prop_assert!((after.low / before.low / by.exp() - 1.0).abs() < 1e-9);
            prop_assert!(before.difference == Difference::Faster || after.difference != Difference::Faster);
        }

        #[test]
        fn the_verdict_agrees_with_its_interval(centre in -0.04_f64..0.04, noise in proptest::collection::vec(-0.02_f64..0.02, 16)) {
            let blocks: Vec<f64> = noise.iter().map(|e| centre + e).collect();
            let change = decide(&blocks, &DecisionRule::default()).unwrap();
            match change.difference {
                Difference::Slower => prop_assert!(change.low > 1.01),
                Difference::Faster => prop_assert!(change.high < 1.0 / 1.01),
                Difference::Same => prop_assert!(change.low >= 1.0 / 1.01 - 1e-12 && change.high <= 1.01 + 1e-12),
                Difference::Undecided { blocks_needed } => prop_assert!(blocks_needed.is_none_or(|n| n > 0)),
            }
        }
    }
}
