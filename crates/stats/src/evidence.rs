//! Evidence for a direction that may be inspected after every block: a test martingale on the signs of block values.
//!
//! **The wager.** The null hypothesis is that the candidate is not slower than the region of practical equivalence
//! allows: theta <= delta with delta = ln(1 + rope). Start with a capital of 1. Before block i bet on the sign of
//! y_i = d_i - delta; the capital is multiplied by
//!
//! ```text
//! 1 + tanh(g y_i / m_i)  =  exp(lambda y_i) / cosh(lambda y_i)     with lambda = g / m_i,
//! m_i = the median of the non-zero values among |y_1|, ..., |y_i|
//! ```
//!
//! The capital is the weighted mean over a few stakes g. Their shares are fixed before the first bet ([`Stakes`]).
//! "Faster" uses -d_i - delta in the same way. With two copies of the baseline, each block bets on the place of the
//! candidate among three arms instead (`three.rs`); the steps below are the same.
//!
//! **Why the capital cannot grow by chance.** Write d_i = theta + e_i. The coin flips of the design make the sign of
//! e_i a fair coin given everything before block i and given |e_i|, for any noise (drift, autocorrelation, heavy tails,
//! neighbours). This is exact if the candidate differs by a constant factor exp(theta), with theta = 0 for identical
//! sides.
//!
//! 1. *At the edge*, theta = delta: y_i = e_i. The factor is 1 + sign(y_i) h(|y_i|), where h depends only on the past and
//!    on |y_i|, since m_i uses magnitudes only. Its mean given the past and |y_i| is (1 + h)/2 + (1 - h)/2 = 1. The scale
//!    may therefore use the present magnitude, but not a sign that is still to be bet on.
//! 2. *Inside*, theta < delta: y_i = e_i - (delta - theta) < e_i. As a function of y_i, with the past fixed, the factor
//!    never decreases: |y| / median(past, |y|) is non-decreasing in |y| (the median grows by no larger a factor than |y|),
//!    and tanh is increasing and odd. So its mean is at most that of the same function at e_i, which is 1 by step 1.
//! 3. Each stake's capital is therefore a non-negative supermartingale that starts at 1, and so is their mean. Ville
//!    (1939): the probability that it *ever* reaches 1/alpha is at most alpha, for any choice of looks and any stopping
//!    rule.
//!
//! No distribution and no bound is assumed. The cost: the factor is below 2 per block, so reaching 1/alpha takes more
//! than log2(1/alpha) blocks. Two builds that differ only in layout do differ; the test reports
//! that as a difference.
//!
//! **Why this scale.** Dividing by the magnitudes seen so far makes the evidence independent of the scale of the noise:
//! blocks that scatter by 0.05 % or by 5 % need no setting. The first block has m_1 = |y_1| and bets on its sign alone.
//! The median is robust: one outlier hardly changes the scale of the others.
//!
//! Sources: Ville 1939; Shafer 2021 (testing by betting); Ramdas, Ruf, Larsson and Koolen 2020 (admissible sequential
//! tests of symmetry: the factor exp(lambda y)/cosh(lambda y) instead of the self-normalised exp(lambda y - lambda^2
//! y^2 / 2) of de la Pena 1999, which it dominates since cosh x <= exp(x^2 / 2)).

use serde::{Deserialize, Serialize};

use crate::blocks::Weighted;
use crate::describe::median;
use crate::error::{StatsError, check_finite};
use crate::three;

/// The stakes g. Large ones win if blocks are unanimous, small ones if the difference is a fraction of the scatter: for
/// normal blocks whose mean is r standard deviations beyond the edge, a stake near r grows fastest.
const STAKES: Each = [0.2, 0.5, 1.0, 2.0, 6.0];
/// The stakes of [`Stakes::Even`].
const EVEN: Each = [0.25, 0.5, 0.9, 2.0, 6.0];

pub(super) const COUNT: usize = 5;
/// A number for each stake.
pub(super) type Each = [f64; COUNT];

/// Shares for records that name none.
const FIXED: Each = [0.0, 0.05, 0.1, 0.1, 0.75];
/// Shares of [`Stakes::ByScatter`] and [`Stakes::ByBlocks`] for blocks that may be unanimous. The largest stake gets
/// most, so that eight such blocks (256 at best) reach the 200 that an alpha of 0.01 needs.
const QUIET: Each = [0.02, 0.03, 0.09, 0.1, 0.76];
/// Their shares for blocks that scatter by more than the region of equivalence: such blocks are not unanimous, and the
/// largest stake loses its capital at the first contrary sign.
const NOISY: Each = [0.2, 0.25, 0.25, 0.2, 0.1];
/// Shares of [`Stakes::Even`] for blocks that may be unanimous: nine of them (512 at best) reach 200. Processes may still
/// differ although the rounds of each agree; then the small stakes win, which have five to
/// eleven times the share of [`QUIET`].
const NINE: Each = [0.22, 0.16, 0.1, 0.12, 0.4];
/// Shares of [`Stakes::Even`] for blocks that scatter: their length is chosen so that a decision takes some 12 to 100
/// blocks, and then a mean of a fifth to a whole standard deviation.
const MANY: Each = [0.3, 0.4, 0.2, 0.07, 0.03];
/// Number of first blocks that show whether the rest may be unanimous.
const SHOWN: usize = 2;
/// A large difference, as a log ratio.
const LARGE: f64 = 0.1;
/// Two large differences agree if the smaller is at least this share of the larger; by noise alone that happens once in
/// 14.
const ALIKE: f64 = 0.8;

/// How the capital is divided among the stakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stakes {
    /// The same for all comparisons, as in records that name no division.
    #[default]
    Fixed,
    /// The noisy shares if neither of the first two blocks was bet on, else the quiet ones. Whether a block is bet on
    /// depends on the scatter of its own rounds, which is the same if the sides swap names, and no capital was at stake
    /// before: the proof holds for either division.
    ByScatter,
    /// As `ByScatter`, but also the quiet shares if the first two blocks, on which nothing was bet, agree on a large
    /// difference.
    ByBlocks,
    /// As `ByBlocks`, with shares for verdicts from nine blocks on.
    Even,
    /// One division for blocks with two copies of the baseline, whose bets are on the place of the candidate among three
    /// arms; for other blocks as `Even`.
    Thirds,
}

impl Stakes {
    /// The stakes and their shares, for bets on these blocks.
    fn division(self, blocks: &[Weighted]) -> [Each; 2] {
        if self == Stakes::Thirds && blocks.iter().all(|block| block.copies.is_some()) {
            return [three::STAKES, three::SHARES];
        }
        let noisy = blocks.len() >= SHOWN && blocks[..SHOWN].iter().all(|block| block.bet == 0.0);
        let noisy = noisy && (self == Stakes::ByScatter || !agree(blocks));
        match (self, noisy) {
            (Stakes::Fixed, _) => [STAKES, FIXED],
            (Stakes::ByScatter | Stakes::ByBlocks, true) => [STAKES, NOISY],
            (Stakes::ByScatter | Stakes::ByBlocks, false) => [STAKES, QUIET],
            (Stakes::Even | Stakes::Thirds, true) => [EVEN, MANY],
            (Stakes::Even | Stakes::Thirds, false) => [EVEN, NINE],
        }
    }
}

/// True if the first blocks show the same large difference, however much their rounds scatter.
fn agree(blocks: &[Weighted]) -> bool {
    let Some([first, second]) = blocks.first_chunk::<SHOWN>().map(|shown| shown.map(|block| block.value)) else {
        return false;
    };
    let (small, large) = (first.abs().min(second.abs()), first.abs().max(second.abs()));
    first * second > 0.0 && small >= LARGE && small >= ALIKE * large
}

/// The capital for one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capital {
    /// Capital after the last block: an e-value (mean at most 1 under the null), which e-BH may average.
    pub now: f64,
    /// Largest capital after any block, to which the bound on false positives applies. Not an e-value.
    pub peak: f64,
}

/// The evidence of block values for each direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// For "slower by more than the region of practical equivalence".
    pub slower: Capital,
    /// For "faster by more than the region of practical equivalence".
    pub faster: Capital,
}

impl Evidence {
    /// The evidence for a difference in either direction: the mean of both, an e-value.
    pub fn either(&self) -> f64 {
        0.5 * (self.slower.now + self.faster.now)
    }
}

/// The evidence of `blocks` (log ratios in the order measured) beyond the region of practical equivalence `rope` (0.01
/// for 1 %, 0 for none). Without blocks the evidence is 1.
///
/// # Errors
/// A value that is not finite, a rope that is negative or not finite.
pub fn evidence(blocks: &[f64], rope: f64) -> Result<Evidence, StatsError> {
    weighted_evidence(&blocks.iter().copied().map(Weighted::plain).collect::<Vec<_>>(), rope, Stakes::Even)
}

/// As [`evidence()`], with the copies of the blocks and with bets scaled by their factors. A factor must not depend on
/// which arm has which name; the place of the candidate given its factor is then still drawn by coins, so the proof holds
/// unchanged.
///
/// # Errors
/// As [`evidence()`].
pub fn weighted_evidence(blocks: &[Weighted], rope: f64, stakes: Stakes) -> Result<Evidence, StatsError> {
    let shift = checked(blocks, rope)?;
    let capital = |sign: f64| {
        let wager = Wager::after(stakes, blocks, sign, shift);
        Capital { now: wager.ln_capital().exp(), peak: wager.ln_peak.exp() }
    };
    Ok(Evidence { slower: capital(1.0), faster: capital(-1.0) })
}

fn checked(blocks: &[Weighted], rope: f64) -> Result<f64, StatsError> {
    check_finite("block", &blocks.iter().map(|block| block.value).collect::<Vec<_>>())?;
    let copies = blocks.iter().filter_map(|block| block.copies).flat_map(|copies| [copies.second, copies.apart]);
    check_finite("copy", &copies.collect::<Vec<_>>())?;
    shift(rope)
}

/// The region of practical equivalence as a log ratio.
pub(super) fn shift(rope: f64) -> Result<f64, StatsError> {
    if rope.is_finite() && rope >= 0.0 {
        Ok(rope.ln_1p())
    } else {
        Err(StatsError::Setting { name: "rope", value: rope, expected: "a share such as 0.01 for 1 %, at least 0" })
    }
}

/// What a bet is on, scaled by the factor of its block.
#[derive(Debug, Clone, Copy)]
enum Toss {
    /// The sign of y_i.
    Sign(f64),
    /// The place of the candidate, the first of three arms.
    Place([f64; three::ARMS]),
}

impl Toss {
    fn of(block: &Weighted, sign: f64, shift: f64) -> Self {
        match block.copies {
            Some(copies) => {
                Toss::Place(three::standings(block.value, copies, sign, shift).map(|standing| block.bet * standing))
            }
            None => Toss::Sign(block.bet * (sign * block.value - shift)),
        }
    }

    fn size(&self) -> f64 {
        match self {
            Toss::Sign(value) => value.abs(),
            Toss::Place(standings) => three::size(standings),
        }
    }

    /// Logarithm of the factor that a stake wins or loses, with values in units of `scale`.
    fn ln_factor(&self, stake: f64, scale: f64) -> f64 {
        match self {
            Toss::Sign(value) => ln_factor(stake * value / scale),
            Toss::Place(standings) => three::ln_factor(standings.map(|standing| stake * standing / scale)),
        }
    }
}

/// The bets on one direction.
#[derive(Debug, Clone)]
pub(super) struct Wager {
    tosses: Vec<Toss>,
    /// Sizes of the tosses so far, without ties.
    sizes: Vec<f64>,
    /// Logarithm of each stake's capital, since products of a thousand factors would over- or underflow.
    ln_stakes: Each,
    stakes: Each,
    shares: Each,
    pub(super) ln_peak: f64,
}

impl Wager {
    /// After the bets on `blocks`: for slower if `sign` is 1, for faster if it is -1.
    pub(super) fn after(stakes: Stakes, blocks: &[Weighted], sign: f64, shift: f64) -> Self {
        let [stakes, shares] = stakes.division(blocks);
        let (tosses, sizes, ln_stakes) = (Vec::new(), Vec::new(), [0.0; COUNT]);
        let mut wager = Self { tosses, sizes, ln_stakes, stakes, shares, ln_peak: 0.0 };
        blocks.iter().for_each(|block| wager.settle(Toss::of(block, sign, shift), block.bet));
        wager
    }

    /// Settles the bet on the next block.
    fn settle(&mut self, toss: Toss, bet: f64) {
        self.tosses.push(toss);
        let size = toss.size();
        // An exact tie settles no bet; as a size of 0 it would make the next bet stake everything.
        if size == 0.0 {
            return;
        }
        let (toss, scale) = match toss {
            Toss::Sign(_) => {
                self.sizes.push(size);
                (toss, self.scale())
            }
            Toss::Place(standings) => {
                let first = Toss::Place(three::ranked(&standings).map(|standing| bet * standing));
                let settled = if self.sizes.is_empty() { (first, 1.0) } else { (toss, self.scale()) };
                self.sizes.push(size);
                settled
            }
        };
        for (ln_capital, stake) in self.ln_stakes.iter_mut().zip(self.stakes) {
            *ln_capital += toss.ln_factor(stake, scale);
        }
        self.ln_peak = self.ln_peak.max(self.ln_capital());
    }

    fn scale(&self) -> f64 {
        median(&self.sizes).unwrap_or(1.0)
    }

    /// Logarithm of the mean capital over all stakes.
    pub(super) fn ln_capital(&self) -> f64 {
        ln_mean_exp(self.ln_stakes, self.shares)
    }

    /// The gain of each stake per block, if later blocks are like those so far.
    pub(super) fn outlook(&self) -> Outlook {
        let (scale, count) = (self.scale(), self.tosses.len().max(1) as f64);
        let rate = |stake| self.tosses.iter().map(|toss| toss.ln_factor(stake, scale)).sum::<f64>() / count;
        let (ln_stakes, stakes, shares) = (self.ln_stakes, self.stakes, self.shares);
        Outlook { ln_stakes, stakes, shares, rates: stakes.map(rate) }
    }
}

/// Extrapolation of the capital of one direction.
#[derive(Debug, Clone, Copy)]
pub struct Outlook {
    ln_stakes: Each,
    stakes: Each,
    shares: Each,
    rates: Each,
}

impl Outlook {
    /// The same capital, if later blocks are normal and their mean is `relative` standard deviations beyond the edge.
    pub(super) fn expecting(self, relative: f64) -> Self {
        let three = self.stakes == three::STAKES;
        let rates = if three { three::expected_rates(relative) } else { expected_rates(relative, self.stakes) };
        Self { rates, ..self }
    }

    /// Logarithm of the capital after `more` blocks.
    pub(super) fn ln_capital(&self, more: usize) -> f64 {
        let mut ahead = self.ln_stakes;
        for (ln_capital, rate) in ahead.iter_mut().zip(self.rates) {
            *ln_capital += more as f64 * rate;
        }
        ln_mean_exp(ahead, self.shares)
    }
}

/// What the bets on `blocks` have won for "slower than the region of practical equivalence `rope`", or for "faster" if
/// `sign` is -1; the start of a forecast.
///
/// # Errors
/// As [`evidence()`].
pub fn outlook(blocks: &[Weighted], sign: f64, rope: f64, stakes: Stakes) -> Result<Outlook, StatsError> {
    let shift = checked(blocks, rope)?;
    Ok(Wager::after(stakes, blocks, sign, shift).outlook())
}

/// The expected gain of each stake per block, for normal blocks whose mean is `relative` standard deviations beyond the
/// edge of the region.
fn expected_rates(relative: f64, stakes: Each) -> Each {
    let values = NORMAL.map(|z| relative + z);
    let scale = median(&values.map(f64::abs)).unwrap_or(1.0);
    stakes.map(|stake| values.iter().map(|value| ln_factor(stake * value / scale)).sum::<f64>() / NORMAL.len() as f64)
}

/// Thirteen equally likely standard normal values.
pub(super) const NORMAL: [f64; 13] =
    [-1.769, -1.198, -0.869, -0.615, -0.396, -0.194, 0.0, 0.194, 0.396, 0.615, 0.869, 1.198, 1.769];

/// ln(1 + tanh x) = ln 2 - ln(1 + exp(-2x)), without overflow.
fn ln_factor(x: f64) -> f64 {
    let ln_1p_exp = if x < 0.0 { -2.0 * x + (2.0 * x).exp().ln_1p() } else { (-2.0 * x).exp().ln_1p() };
    std::f64::consts::LN_2 - ln_1p_exp
}

fn ln_mean_exp(values: Each, shares: Each) -> f64 {
    let largest = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + values.into_iter().zip(shares).map(|(value, share)| share * (value - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_bets(blocks: &[f64], bets: &[f64]) -> Vec<Weighted> {
        blocks.iter().zip(bets).map(|(value, bet)| Weighted { bet: *bet, ..Weighted::plain(*value) }).collect()
    }

    /// All sign patterns of `magnitudes`.
    fn patterns(magnitudes: &[f64]) -> impl Iterator<Item = Vec<f64>> + '_ {
        (0..1_u32 << magnitudes.len()).map(|pattern| {
            magnitudes.iter().enumerate().map(|(i, m)| if pattern >> i & 1 == 1 { -m } else { *m }).collect()
        })
    }

    #[test]
    fn the_factor_is_the_one_of_the_definition() {
        for x in [-700.0_f64, -3.0, -0.1, 0.0, 0.1, 3.0, 700.0] {
            let expected = x - libm::cosh(x).ln();
            assert!((ln_factor(x) - expected).abs() < 1e-12 * (1.0 + expected.abs()), "{x}");
        }
    }

    #[test]
    fn unanimous_blocks_reach_one_percent_at_the_fewest_blocks() {
        let reached = |n: usize| evidence(&vec![0.05; n], 0.0).unwrap().slower.peak >= 200.0;
        assert!(!reached(8) && reached(9));
    }

    #[test]
    fn noisy_blocks_are_shown_sooner_and_old_records_keep_their_evidence() {
        // Half a standard deviation beyond the edge, in a mixed order.
        let blocks: Vec<f64> = (0..80).map(|i| 0.5 + [-1.2, 0.8, 0.0, 1.2, -0.8][i * 7 % 5]).collect();
        let bets: Vec<f64> = (0..80).map(|i| if i < SHOWN { 0.0 } else { 1.0 }).collect();
        let first = |stakes: Stakes| {
            (1..=80).find(|n| {
                weighted_evidence(&with_bets(&blocks[..*n], &bets), 0.0, stakes).unwrap().slower.peak >= 200.0
            })
        };
        assert!(first(Stakes::ByBlocks) < first(Stakes::Fixed), "{:?}", [Stakes::ByBlocks, Stakes::Fixed].map(first));
        assert_eq!(first(Stakes::ByBlocks), first(Stakes::ByScatter));
        assert_eq!([FIXED, QUIET, NOISY].map(|shares| (shares.iter().sum::<f64>() * 1e9).round()), [1e9; 3]);
    }

    #[test]
    fn a_large_difference_is_shown_at_the_fewest_blocks_however_noisy_they_are() {
        let bets: Vec<f64> = (0..20).map(|i| if i < SHOWN { 0.0 } else { 1.0 }).collect();
        let first = |blocks: &[f64]| {
            let at = |n: usize| {
                weighted_evidence(&with_bets(&blocks[..n], &bets), 0.01, Stakes::ByBlocks).unwrap().slower.peak
            };
            (1..=blocks.len()).find(|n| at(*n) >= 200.0)
        };
        let blocks: Vec<f64> = (0..20).map(|i| 0.5 + 0.02 * f64::from(i % 5)).collect();
        assert_eq!(first(&blocks), Some(SHOWN + 8));
        for other in [-0.5, 0.2, 0.0] {
            let blocks = [&[other], &blocks[..]].concat();
            assert!(first(&blocks[..20]) > Some(SHOWN + 8), "{other}");
        }
    }

    #[test]
    fn ties_are_no_evidence_and_bad_values_are_errors() {
        assert_eq!(evidence(&[0.0; 8], 0.0).unwrap().slower, Capital { now: 1.0, peak: 1.0 });
        assert_eq!(evidence(&[], 0.01).unwrap().faster, Capital { now: 1.0, peak: 1.0 });
        assert!(matches!(evidence(&[f64::INFINITY], 0.0), Err(StatsError::Value { index: 0, .. })));
        assert!(matches!(evidence(&[0.1], f64::NAN), Err(StatsError::Setting { name: "rope", .. })));
        // Neither overflow nor NaN after thousands of blocks or at absurd scales.
        assert!(evidence(&[0.5; 4000], 0.0).unwrap().slower.now > 1e300);
        let absurd = evidence(&[1e-300, 1e-300, -1e300, 1.0], 0.0).unwrap();
        assert!(absurd.slower.now == 0.0 && absurd.faster.now > 0.0, "{absurd:?}");
    }

    proptest! {
        // Each case enumerates all sign patterns, so few cases suffice.
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Step 1 of the proof, exactly: over all sign patterns of any magnitudes the mean capital is 1.
        #[test]
        fn the_mean_capital_is_one(magnitudes in proptest::collection::vec(prop_oneof![1e-4_f64..0.05, 1e-9_f64..10.0, Just(0.0)], 1..10)) {
            let count = (magnitudes.len() as f64).exp2();
            let bets = |first: f64| (0..magnitudes.len()).map(|i| if i < SHOWN { first } else { 1.0 }).collect::<Vec<_>>();
            let kinds = [Stakes::Fixed, Stakes::ByScatter, Stakes::ByBlocks].map(|stakes| [(stakes, 1.0), (stakes, 0.0)]);
            for (stakes, first) in kinds.concat() {
                let capital = |blocks: Vec<f64>| weighted_evidence(&with_bets(&blocks, &bets(first)), 0.0, stakes).unwrap().slower.now;
                let mean = patterns(&magnitudes).map(capital).sum::<f64>() / count;
                prop_assert!((mean - 1.0).abs() < 1e-9, "{stakes:?} {first}: {}", mean);
            }
        }

        /// Ville's inequality, exactly: over all sign patterns the peak reaches 1/alpha with frequency at most alpha.
        #[test]
        fn the_peak_is_bounded(magnitudes in proptest::collection::vec(1e-4_f64..0.05, 9)) {
            let peaks: Vec<f64> = patterns(&magnitudes).map(|blocks| evidence(&blocks, 0.0).unwrap().slower.peak).collect();
            for alpha in [0.4, 0.1, 0.02] {
                let alarms = peaks.iter().filter(|peak| **peak >= 1.0 / alpha).count();
                prop_assert!(alarms as f64 <= alpha * peaks.len() as f64);
            }
            prop_assert!(peaks.iter().any(|peak| *peak > 10.0));
        }

    }

    proptest! {
        /// Step 2 of the proof: with the past fixed, a larger last block never lowers the capital.
        #[test]
        fn the_last_bet_never_falls(mut blocks in proptest::collection::vec(-0.05_f64..0.05, 1..12), by in 0.0_f64..0.2) {
            let before = evidence(&blocks, 0.0).unwrap().slower.now;
            *blocks.last_mut().unwrap() += by;
            prop_assert!(evidence(&blocks, 0.0).unwrap().slower.now >= before * (1.0 - 1e-12));
        }

        #[test]
        fn mirrors_and_scales(blocks in proptest::collection::vec(-0.05_f64..0.05, 1..33), rope in 0.0_f64..0.03, scale in 0.01_f64..100.0) {
            let found = evidence(&blocks, rope).unwrap();
            let mirrored: Vec<f64> = blocks.iter().map(|d| -d).collect();
            prop_assert_eq!(evidence(&mirrored, rope).unwrap(), Evidence { slower: found.faster, faster: found.slower });
            prop_assert!(found.slower.now <= found.slower.peak && found.slower.peak >= 1.0);
            let plain = evidence(&blocks, 0.0).unwrap().slower.now;
            let scaled: Vec<f64> = blocks.iter().map(|d| d * scale).collect();
            prop_assert!((evidence(&scaled, 0.0).unwrap().slower.now / plain - 1.0).abs() < 1e-9);
        }
    }
}
