//! Exact bounds of a proportion from a count (Clopper and Pearson 1934): the bound of a certificate after `k` false
//! positives in `n` decisions. They hold for every true proportion and every `n`.

use crate::error::{StatsError, check_inside};
use crate::special::incomplete_beta_inverse;

fn check(count: u64, trials: u64, confidence: f64) -> Result<(), StatsError> {
    check_inside("confidence", confidence, 0.0, 1.0, "a probability strictly between 0 and 1")?;
    if trials == 0 {
        return Err(StatsError::TooFew { what: "trials", got: 0, needed: 1 });
    }
    if count > trials {
        return Err(StatsError::Setting {
            name: "count",
            value: count as f64,
            expected: "at most the number of trials",
        });
    }
    Ok(())
}

/// The share for which `count` or fewer of `trials` have probability `tail`.
fn upper(count: u64, trials: u64, tail: f64) -> f64 {
    if count == trials {
        1.0
    } else if count == 0 {
        // 1 - tail^(1/n), without cancellation.
        -(tail.ln() / trials as f64).exp_m1()
    } else {
        incomplete_beta_inverse(1.0 - tail, count as f64 + 1.0, (trials - count) as f64)
    }
}

/// The exact two-sided interval of a proportion; each end misses with probability at most (1 - confidence) / 2.
///
/// # Errors
/// No trials, more successes than trials, a confidence not strictly between 0 and 1.
pub fn proportion_interval(count: u64, trials: u64, confidence: f64) -> Result<(f64, f64), StatsError> {
    check(count, trials, confidence)?;
    let tail = 0.5 * (1.0 - confidence);
    // The lower end for k of n is one minus the upper end for n - k of n.
    Ok((1.0 - upper(trials - count, trials, tail), upper(count, trials, tail)))
}

/// The exact one-sided upper bound of a proportion: 0 of 400 at 95 % gives 0.746 %.
///
/// # Errors
/// As for [`proportion_interval`].
pub fn proportion_upper_bound(count: u64, trials: u64, confidence: f64) -> Result<f64, StatsError> {
    check(count, trials, confidence)?;
    Ok(upper(count, trials, 1.0 - confidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::binomial_upper_tail;
    use proptest::prelude::*;

    #[test]
    fn agrees_with_published_tables() {
        // 95 % limits for n = 10 and n = 20 (Documenta Geigy, Scientific Tables, 7th ed., exact limits of a percentage),
        // and the exact limits for 81 of 263 and 15 of 148 (Newcombe 1998, Statistics in Medicine 17, table I).
        for (count, trials, low, high) in [
            (0, 10, 0.0, 0.3085),
            (1, 10, 0.0025, 0.4450),
            (2, 10, 0.0252, 0.5561),
            (5, 10, 0.1871, 0.8129),
            (10, 10, 0.6915, 1.0),
            (1, 20, 0.0013, 0.2487),
            (10, 20, 0.2720, 0.7280),
            (81, 263, 0.2527, 0.3676),
            (15, 148, 0.0578, 0.1617),
        ] {
            let got = proportion_interval(count, trials, 0.95).unwrap();
            assert!((got.0 - low).abs() <= 5.1e-5 && (got.1 - high).abs() <= 5.1e-5, "{count} of {trials}: {got:?}");
        }
    }

    #[test]
    fn no_alarm_in_four_hundred_bounds_the_rate_at_three_quarters_of_a_percent() {
        assert!((proportion_upper_bound(0, 400, 0.95).unwrap() - 0.007_461_4).abs() < 1e-6);
        assert!((proportion_upper_bound(0, 300, 0.95).unwrap() - 0.009_936).abs() < 1e-6);
        // A one-sided bound is the end of a two-sided interval that misses twice as often.
        assert!((proportion_interval(160, 160, 0.9).unwrap().0 - 0.981_45).abs() < 1e-5);
    }

    #[test]
    fn invalid_counts_are_errors() {
        assert_eq!(
            proportion_interval(0, 0, 0.95).unwrap_err(),
            StatsError::TooFew { what: "trials", got: 0, needed: 1 }
        );
        assert!(proportion_upper_bound(5, 4, 0.95).is_err());
        assert!(proportion_interval(1, 4, 1.0).is_err());
    }

    #[test]
    fn covers_every_proportion() {
        // Exact coverage: the sum of the binomial over the counts whose interval contains the true share.
        for trials in [5_u64, 23] {
            let intervals: Vec<_> = (0..=trials).map(|k| proportion_interval(k, trials, 0.95).unwrap()).collect();
            for step in 1..60 {
                let share = f64::from(step) / 60.0;
                let covered: f64 = (0..=trials)
                    .filter(|k| (intervals[*k as usize].0..=intervals[*k as usize].1).contains(&share))
                    .map(|k| binomial_upper_tail(k, trials, share) - binomial_upper_tail(k + 1, trials, share))
                    .sum();
                assert!(covered >= 0.95, "{trials} at {share}: {covered}");
            }
        }
    }

    proptest! {
        #[test]
        fn bounds_are_where_the_binomial_says(trials in 1_u64..2000, part in 0.0_f64..=1.0, confidence in 0.5_f64..0.999) {
            let count = (part * trials as f64) as u64;
            let tail = 1.0 - confidence;
            let high = proportion_upper_bound(count, trials, confidence).unwrap();
            if count < trials {
                prop_assert!((1.0 - binomial_upper_tail(count + 1, trials, high) - tail).abs() < 1e-8);
            }
            let low = 1.0 - proportion_upper_bound(trials - count, trials, confidence).unwrap();
            if count > 0 {
                prop_assert!((binomial_upper_tail(count, trials, low) - tail).abs() < 1e-8);
            }
            prop_assert!(low <= count as f64 / trials as f64 && count as f64 / trials as f64 <= high);
        }
    }
}
