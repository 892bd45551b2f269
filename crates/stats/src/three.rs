//! Bets on the place of the candidate among three arms: itself and two copies of the baseline.
//!
//! **The wager.** D(a, b) is the value of a block for the arms a and b (log ratio of a over b, odd). After dividing the
//! candidate's times by exp(delta), the standing of an arm is
//!
//! ```text
//! y(a) = (D(a, b) + D(a, c)) / 2        b, c: the other two arms; the three standings sum to 0
//! ```
//!
//! and the capital is multiplied by
//!
//! ```text
//! 3 exp(g y(candidate) / m) / sum over the arms a of exp(g y(a) / m)
//! ```
//!
//! with m = the median size of earlier blocks. The size of a block is sqrt(2/3 sum y(a)^2): |y| of the candidate if the
//! copies agree. The first block has no scale: its bet is on the rank of the candidate alone, as if the copies agreed.
//!
//! **Why the capital cannot grow by chance.** Coins draw the order in which the three processes start, and that of the
//! three slots of every round. If the candidate is the baseline times a constant factor exp(delta), the division makes the
//! three arms exchangeable: given all earlier blocks and the three sets of times without their names, each of the six
//! assignments of names is equally likely, for any noise.
//!
//! 1. *At the edge*, theta = delta. An assignment of names permutes the standings, so the candidate has each of the three
//!    with probability 1/3. The mean of the factor is 3 (1/3) sum exp(g y / m) / sum exp(g y / m) = 1. The same holds for
//!    the first block. Whatever else sets the bet (earlier blocks, the scatter of the rounds over all pairs of arms) does
//!    not change under an assignment of names.
//! 2. *Inside*, theta < delta: the candidate's times are smaller by a constant factor. This lowers y(candidate) and raises
//!    the other two; m does not contain this block. The factor falls, so its mean is at most 1.
//! 3. Ville's inequality as in `evidence.rs`.
//!
//! A factor reaches 3 instead of 2, because a candidate that equals the baseline is the slowest of three by chance in one
//! block of three: six unanimous blocks show what takes nine bets on a sign. For blocks that scatter, the value of a block
//! has three quarters of the variance, and so the capital grows a third faster.

use crate::blocks::Copies;
use crate::describe::median;
use crate::evidence::{COUNT, Each, NORMAL};

/// Number of arms; the candidate is the first.
pub(super) const ARMS: usize = 3;

/// The stakes g. In units of the size of a block, a difference of r standard deviations beyond the edge is won fastest by
/// a stake of about 1.2 r.
pub(super) const STAKES: Each = [0.2, 0.45, 0.9, 1.6, 3.3];
/// Their shares. The largest stake reaches 250 alone in six unanimous blocks.
pub(super) const SHARES: Each = [0.12, 0.16, 0.16, 0.16, 0.4];

/// The standings of candidate, first copy and second copy for a bet on slower (`sign` 1) or faster (-1) by more than
/// `shift`.
pub(super) fn standings(value: f64, copies: Copies, sign: f64, shift: f64) -> [f64; ARMS] {
    let second = sign * copies.second - shift;
    let first = sign * (2.0 * value - copies.second) - shift;
    let apart = sign * copies.apart;
    [0.5 * (first + second), 0.5 * (-first - apart), 0.5 * (apart - second)]
}

/// The size of a block, whatever the names of its arms.
pub(super) fn size(standings: &[f64; ARMS]) -> f64 {
    (2.0 / 3.0 * standings.iter().map(|standing| standing * standing).sum::<f64>()).sqrt()
}

/// The standings of a block by rank alone, as if the two arms below the slowest agreed.
pub(super) fn ranked([candidate, first, second]: &[f64; ARMS]) -> [f64; ARMS] {
    if candidate > first && candidate > second { [1.0, -0.5, -0.5] } else { [-0.5, 1.0, -0.5] }
}

/// Logarithm of the factor on the capital, from standings times stake over scale.
pub(super) fn ln_factor([candidate, first, second]: [f64; ARMS]) -> f64 {
    let top = candidate.max(first).max(second);
    let all: f64 = [candidate, first, second].iter().map(|standing| (standing - top).exp()).sum();
    3.0_f64.ln() + candidate - top - all.ln()
}

/// The expected gain of each stake per block, for normal blocks whose mean is `relative` standard deviations beyond the
/// edge of the region.
pub(super) fn expected_rates(relative: f64) -> Each {
    // In units of the deviation of the candidate's standing, the two copies differ by sqrt(4/3); three likely distances.
    let apart = [0.26, 0.77, 1.53].map(|distance| distance * (4.0_f64 / 3.0).sqrt());
    let blocks: Vec<[f64; ARMS]> = NORMAL
        .iter()
        .flat_map(|z| apart.map(|apart| (relative + z, 0.75 * apart)))
        .map(|(standing, off)| [standing, off - 0.5 * standing, -off - 0.5 * standing])
        .collect();
    let scale = median(&blocks.iter().map(size).collect::<Vec<f64>>()).unwrap_or(1.0);
    let mut rates = [0.0; COUNT];
    for (rate, stake) in rates.iter_mut().zip(STAKES) {
        let gains = blocks.iter().map(|standings| ln_factor(standings.map(|standing| stake * standing / scale)));
        *rate = gains.sum::<f64>() / blocks.len() as f64;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Weighted;
    use crate::evidence::{Stakes, weighted_evidence};
    use proptest::prelude::*;

    /// A block whose arms took these times, as logarithms: candidate, first copy, second copy.
    fn block([candidate, first, second]: [f64; ARMS], bet: f64) -> Weighted {
        let (value, second, apart) = (candidate - 0.5 * (first + second), candidate - second, second - first);
        Weighted { copies: Some(Copies { second, apart }), bet, ..Weighted::plain(value) }
    }

    fn capital(blocks: &[Weighted], rope: f64) -> f64 {
        weighted_evidence(blocks, rope, Stakes::Thirds).unwrap().slower.now
    }

    #[test]
    fn standings_are_those_of_the_definition() {
        let Weighted { value, copies, .. } = block([3.0, 1.0, -2.5], 1.0);
        let found = standings(value, copies.unwrap(), 1.0, 0.5);
        let expected = [2.5 - (1.0 - 2.5) / 2.0, 1.0 - 0.0, -2.5 - (2.5 + 1.0) / 2.0];
        assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{found:?}");
        assert!((size(&[0.7, -0.35, -0.35]) - 0.7).abs() < 1e-12, "copies that agree");
    }

    #[test]
    fn six_unanimous_blocks_show_a_difference_and_five_do_not() {
        let reached = |n: usize, [low, high]: [f64; 2]| {
            let blocks: Vec<Weighted> =
                (0..n).map(|i| block([if i % 2 == 0 { low } else { high }, 0.0, 0.0005], 1.0)).collect();
            weighted_evidence(&blocks, 0.01, Stakes::Thirds).unwrap().slower.peak >= 200.0
        };
        assert!(reached(6, [0.03, 0.031]) && !reached(5, [0.03, 0.031]));
        assert!(!reached(64, [0.005, 0.006]), "inside the region");
    }

    #[test]
    fn the_expected_gain_is_that_of_normal_blocks() {
        let mut stream = crate::simulation::Stream(7);
        for relative in [0.3, 1.0, 3.0] {
            let blocks: Vec<[f64; ARMS]> = (0..40_000)
                .map(|_| {
                    // A standing has the variance of 1.5 arms.
                    let [a, b, c] = [0; ARMS].map(|_| stream.normal() / 1.5_f64.sqrt());
                    let Weighted { value, copies, .. } = block([relative + a, b, c], 1.0);
                    standings(value, copies.unwrap(), 1.0, 0.0)
                })
                .collect();
            let scale = median(&blocks.iter().map(size).collect::<Vec<f64>>()).unwrap();
            let gain = |stake: f64| {
                let gains = blocks.iter().map(|standings| ln_factor(standings.map(|at| stake * at / scale)));
                gains.sum::<f64>() / blocks.len() as f64
            };
            // What the best stake gains decides when the capital suffices.
            let [found, expected] =
                [STAKES.map(gain), expected_rates(relative)].map(|of| of.into_iter().fold(0.0, f64::max));
            assert!((found / expected - 1.0).abs() < 0.12, "{relative}: {found} {expected}");
        }
    }

    #[test]
    fn ties_and_absurd_blocks_are_no_evidence() {
        assert_eq!(capital(&[block([0.0; ARMS], 1.0); 9], 0.0), 1.0);
        assert_eq!(capital(&[block([0.1, 0.0, 0.0], 0.0); 9], 0.0), 1.0, "nothing was bet");
        assert!(capital(&[block([0.0, 1e300, -1e300], 1.0), block([1e-300, 0.0, 0.0], 1.0)], 0.0).is_finite());
    }

    /// All assignments of names to the arms of `blocks`.
    fn assignments(blocks: &[[f64; ARMS]]) -> Vec<Vec<[f64; ARMS]>> {
        const NAMES: [[usize; ARMS]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let mut all = vec![Vec::new()];
        for block in blocks {
            all = all
                .iter()
                .flat_map(|before| NAMES.map(|names| [&before[..], &[names.map(|arm| block[arm])]].concat()))
                .collect();
        }
        all
    }

    proptest! {
        // Each case enumerates all assignments of names, so few cases suffice.
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Steps 1 and 3 of the proof, exactly: the mean capital is 1, or less with ties, and its peak is rarely large.
        #[test]
        fn chance_wins_nothing(
            blocks in proptest::collection::vec(proptest::array::uniform3(prop_oneof![-0.05_f64..0.05, -1e-7_f64..10.0]), 1..5),
            bets in proptest::array::uniform5(prop_oneof![Just(0.0), 0.1_f64..1.0]),
        ) {
            let all = assignments(&blocks);
            let evidence: Vec<_> = all
                .iter()
                .map(|blocks| {
                    let blocks: Vec<Weighted> = blocks.iter().zip(bets).map(|(arms, bet)| block(*arms, bet)).collect();
                    weighted_evidence(&blocks, 0.0, Stakes::Thirds).unwrap()
                })
                .collect();
            for capitals in [evidence.iter().map(|e| e.slower).collect::<Vec<_>>(), evidence.iter().map(|e| e.faster).collect()] {
                let mean = capitals.iter().map(|capital| capital.now).sum::<f64>() / all.len() as f64;
                prop_assert!((mean - 1.0).abs() < 1e-9, "{}", mean);
                for alpha in [0.4, 0.1, 0.02] {
                    let peaks = capitals.iter().filter(|capital| capital.peak >= 1.0 / alpha).count();
                    prop_assert!(peaks as f64 <= alpha * all.len() as f64);
                }
            }
        }
    }

    proptest! {
        /// Step 2 of the proof: a slower candidate in the last block never lowers the capital.
        #[test]
        fn the_last_bet_never_falls(
            blocks in proptest::collection::vec(proptest::array::uniform3(-0.05_f64..0.05), 1..8),
            by in 0.0_f64..0.2,
        ) {
            let mut slower = blocks.clone();
            slower.last_mut().unwrap()[0] += by;
            let of = |blocks: &[[f64; ARMS]]| {
                capital(&blocks.iter().map(|arms| block(*arms, 1.0)).collect::<Vec<_>>(), 0.0)
            };
            prop_assert!(of(&slower) >= of(&blocks) * (1.0 - 1e-9));
        }

        /// The copies have no order, and faster is slower with the signs changed.
        #[test]
        fn copies_may_swap_and_directions_mirror(
            blocks in proptest::collection::vec(proptest::array::uniform3(-0.05_f64..0.05), 1..12),
            rope in 0.0_f64..0.03,
        ) {
            let of = |change: fn(&[f64; ARMS]) -> [f64; ARMS]| {
                let blocks: Vec<Weighted> = blocks.iter().map(|arms| block(change(arms), 1.0)).collect();
                weighted_evidence(&blocks, rope, Stakes::Thirds).unwrap()
            };
            let (plain, swapped, mirrored) = (of(|arms| *arms), of(|[a, b, c]| [*a, *c, *b]), of(|arms| arms.map(|x| -x)));
            let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
            prop_assert!(near(plain.slower.now, swapped.slower.now) && near(plain.faster.peak, swapped.faster.peak));
            prop_assert!(near(plain.slower.now, mirrored.faster.now) && near(plain.faster.now, mirrored.slower.now));
        }
    }
}
