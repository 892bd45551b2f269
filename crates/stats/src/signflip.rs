//! The exact sign-flip test over block values (Fisher 1935, section 21; Pitman 1937).
//!
//! The order inside a round and the side that is spawned first are decided by a fair coin. If the two sides are
//! identical, the other outcome of the coin gives the same times under swapped names, so the block value changes only
//! its sign: given the magnitudes, all 2^B sign patterns are equally likely, for any noise. The share of the patterns
//! that are at least as extreme as the observed one is then an exact error rate. It holds for one look at a fixed
//! number of blocks; the e-process ([`evidence`](fn@super::evidence)) holds at any number.

use crate::error::{StatsError, check_finite};
use crate::evidence::shift;

/// Largest number of blocks; each half then has 2^18 subset sums.
pub const MOST_FLIPPED: usize = 36;

/// Share of all sign patterns that support a direction at least as strongly as the observed pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignFlip {
    /// For "the candidate is slower by more than the region of practical equivalence".
    pub slower: f64,
    /// For "the candidate is faster by more than the region of practical equivalence".
    pub faster: f64,
}

/// Counts exactly the sign patterns of `blocks` (log ratios) after shifting them by the region of practical equivalence
/// `rope` (0.01 for 1 %), for up to [`MOST_FLIPPED`] blocks.
///
/// The smallest possible share of B blocks is 2^-B. Ties count against the direction; sums that agree to rounding are
/// ties.
///
/// # Errors
/// No blocks, too many blocks, a value that is not finite, a rope that is negative or not finite.
pub fn sign_flip(blocks: &[f64], rope: f64) -> Result<SignFlip, StatsError> {
    let shift = shift(rope)?;
    check_finite("block", blocks)?;
    if blocks.is_empty() {
        return Err(StatsError::TooFew { what: "blocks", got: 0, needed: 1 });
    }
    if blocks.len() > MOST_FLIPPED {
        return Err(StatsError::TooMany { what: "blocks", got: blocks.len(), limit: MOST_FLIPPED });
    }
    let slower: Vec<f64> = blocks.iter().map(|d| d - shift).collect();
    let faster: Vec<f64> = blocks.iter().map(|d| -d - shift).collect();
    Ok(SignFlip { slower: share(&slower), faster: share(&faster) })
}

/// The share of sign patterns whose sum is at least the observed sum.
///
/// Flipping the subset S gives such a sum exactly if the values in S add up to at most 0, so those subsets are counted.
/// In this form a larger value can only lower the share: a difference inside the region gives fewer false positives
/// than one at its edge.
fn share(values: &[f64]) -> f64 {
    let (left, right) = values.split_at(values.len() / 2);
    let (left, right) = (subset_sums(left), subset_sums(right));
    let tie = 1e-12 * values.iter().map(|value| value.abs()).sum::<f64>();
    // Two sorted lists of half sums (Horowitz and Sahni 1974): as the left sum grows, fewer right sums are allowed.
    let mut allowed = right.len();
    let mut count = 0_u64;
    for sum in &left {
        while allowed > 0 && sum + right[allowed - 1] > tie {
            allowed -= 1;
        }
        count += allowed as u64;
    }
    count as f64 / (values.len() as f64).exp2()
}

/// The sums of all subsets in ascending order.
fn subset_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for value in values {
        let with: Vec<f64> = sums.iter().map(|sum| sum + value).collect();
        sums.extend(with);
    }
    sums.sort_by(f64::total_cmp);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, by enumerating every pattern.
    fn by_enumeration(values: &[f64]) -> f64 {
        let observed: f64 = values.iter().sum();
        let tie = 1e-12 * values.iter().map(|value| value.abs()).sum::<f64>();
        let patterns = 1_u32 << values.len();
        let as_large = (0..patterns)
            .filter(|pattern| {
                let sum: f64 =
                    values.iter().enumerate().map(|(i, v)| if pattern >> i & 1 == 1 { -v } else { *v }).sum();
                sum >= observed - tie
            })
            .count();
        as_large as f64 / f64::from(patterns)
    }

    #[test]
    fn unanimous_blocks_reach_the_smallest_share() {
        for blocks in [1, 8, 12, 36] {
            let found = sign_flip(&vec![0.02; blocks], 0.01).unwrap();
            assert_eq!(found.slower, 0.5_f64.powi(blocks as i32));
            assert_eq!(found.faster, 1.0);
        }
    }

    #[test]
    fn fishers_maize() {
        // Darwin's maize (Fisher 1935, section 21), crossed minus self-fertilised in eighths of an inch: 863 of the 32 768
        // patterns have a total of 314 or more (Fisher: 835 with more than 314, 28 with just that).
        let eighths = [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];
        assert_eq!(sign_flip(&eighths, 0.0).unwrap().slower, 863.0 / 32_768.0);
    }

    #[test]
    fn invalid_blocks_are_errors() {
        assert!(matches!(sign_flip(&[], 0.0), Err(StatsError::TooFew { .. })));
        assert!(matches!(sign_flip(&[0.1; 37], 0.0), Err(StatsError::TooMany { limit: 36, .. })));
        assert!(matches!(sign_flip(&[0.1, f64::NAN], 0.0), Err(StatsError::Value { index: 1, .. })));
        assert!(matches!(sign_flip(&[0.1], -0.5), Err(StatsError::Setting { name: "rope", .. })));
    }

    proptest! {
        #[test]
        fn equals_the_definition(blocks in proptest::collection::vec(-0.05_f64..0.05, 1..11), rope in 0.0_f64..0.03) {
            let moved: Vec<f64> = blocks.iter().map(|d| d - rope.ln_1p()).collect();
            prop_assert_eq!(sign_flip(&blocks, rope).unwrap().slower, by_enumeration(&moved));
        }

        #[test]
        fn mirrors_scales_and_forgets_the_order(mut blocks in proptest::collection::vec(-0.05_f64..0.05, 1..13), rope in 0.0_f64..0.03, scale in 0.1_f64..10.0) {
            let found = sign_flip(&blocks, rope).unwrap();
            let scaled: Vec<f64> = blocks.iter().map(|d| d * scale).collect();
            prop_assert_eq!(sign_flip(&blocks, 0.0).unwrap(), sign_flip(&scaled, 0.0).unwrap());
            blocks.reverse();
            prop_assert_eq!(sign_flip(&blocks, rope).unwrap(), found);
            let mirrored: Vec<f64> = blocks.iter().map(|d| -d).collect();
            prop_assert_eq!(sign_flip(&mirrored, rope).unwrap(), SignFlip { slower: found.faster, faster: found.slower });
        }

        #[test]
        fn a_slower_block_never_raises_the_share(mut blocks in proptest::collection::vec(-0.05_f64..0.05, 1..11), by in 0.0_f64..0.1) {
            let before = sign_flip(&blocks, 0.0).unwrap().slower;
            blocks[0] += by;
            prop_assert!(sign_flip(&blocks, 0.0).unwrap().slower <= before);
        }

        #[test]
        fn its_error_rate_is_exact(magnitudes in proptest::collection::vec(0.001_f64..0.05, 6)) {
            // Over all sign patterns of any magnitudes, a share of at most the level occurs with at most that
            // frequency.
            let shares: Vec<f64> = (0..64_u32)
                .map(|pattern| {
                    let flip = |(i, m): (usize, &f64)| if pattern >> i & 1 == 1 { -m } else { *m };
                    sign_flip(&magnitudes.iter().enumerate().map(flip).collect::<Vec<_>>(), 0.0).unwrap().slower
                })
                .collect();
            for level in [0.02, 0.05, 0.3] {
                prop_assert!(shares.iter().filter(|share| **share <= level).count() as f64 / 64.0 <= level);
            }
        }
    }
}
