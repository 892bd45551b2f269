//! e-BH (Wang and Ramdas 2022, JRSS B 84): which rows of a sweep may be reported as different.
//!
//! Sort the e-values of K rows and report the k largest, where k is the largest count whose smallest e-value is at
//! least K / (alpha k). The expected share of false reports is then at most alpha under *any dependence* between the
//! rows: a falsely reported row has e >= K / (alpha k), so its contribution 1/k to the share is at most alpha e / K,
//! whose mean over the true nulls is at most alpha. Rows that share a machine, a load phase or a baseline need no
//! further correction.

use crate::error::{StatsError, check_inside};

/// For each e-value in `evidence` (at least 0, may be infinite): whether that row may be reported at false discovery
/// rate `alpha`. For verdicts pass [`super::Evidence::either`] of each row; the direction is that of the larger
/// capital.
///
/// # Errors
/// An e-value that is negative or NaN, alpha not strictly between 0 and 1.
pub fn called(evidence: &[f64], alpha: f64) -> Result<Vec<bool>, StatsError> {
    check_inside("alpha", alpha, 0.0, 1.0, "a probability strictly between 0 and 1")?;
    if let Some(index) = evidence.iter().position(|e| e.is_nan() || *e < 0.0) {
        let expected = "an e-value, at least 0";
        return Err(StatsError::Value { what: "evidence", index, value: evidence[index], expected });
    }
    let mut descending = evidence.to_vec();
    descending.sort_by(|a, b| b.total_cmp(a));
    let needed = |k: usize| evidence.len() as f64 / (alpha * k as f64);
    let calls = (1..=evidence.len()).rev().find(|k| descending[k - 1] >= needed(*k));
    Ok(evidence.iter().map(|e| calls.is_some_and(|k| *e >= needed(k))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reports_the_rows_of_the_definition() {
        // K = 5, alpha = 0.1: thresholds 50, 25, 16.67, 12.5, 10.
        assert_eq!(called(&[24.0, 60.0, 0.5, 26.0, 10.0], 0.1).unwrap(), [true, true, false, true, false]);
        // No value passes alone, but five together do.
        assert_eq!(called(&[10.0; 5], 0.1).unwrap(), [true; 5]);
        assert_eq!(called(&[49.0, 1.0, 1.0, 1.0, 1.0], 0.1).unwrap(), [false; 5]);
        assert_eq!(called(&[f64::INFINITY, 0.0], 0.01).unwrap(), [true, false]);
        assert!(called(&[], 0.01).unwrap().is_empty());
    }

    #[test]
    fn invalid_e_values_are_errors() {
        assert!(matches!(called(&[1.0, -0.1], 0.1), Err(StatsError::Value { index: 1, .. })));
        assert!(matches!(called(&[f64::NAN], 0.1), Err(StatsError::Value { index: 0, .. })));
        assert!(matches!(called(&[1.0], 0.0), Err(StatsError::Setting { name: "alpha", .. })));
    }

    proptest! {
        #[test]
        fn more_evidence_never_takes_a_call_away(mut rows in proptest::collection::vec(0.0_f64..500.0, 1..30), at in 0_usize..30, factor in 1.0_f64..50.0) {
            let before = called(&rows, 0.05).unwrap();
            let at = at % rows.len();
            rows[at] *= factor;
            let after = called(&rows, 0.05).unwrap();
            prop_assert!(before.iter().zip(&after).all(|(b, a)| a >= b));
        }

        #[test]
        fn the_order_of_the_rows_does_not_matter(rows in proptest::collection::vec(0.0_f64..500.0, 1..30)) {
            let mut forth = called(&rows, 0.05).unwrap();
            forth.reverse();
            let reversed: Vec<f64> = rows.iter().rev().copied().collect();
            prop_assert_eq!(called(&reversed, 0.05).unwrap(), forth);
        }

        /// The bound of the proof for each draw: alpha times the mean e-value of the nulls is at least the false share.
        #[test]
        fn the_false_share_is_bounded_draw_by_draw(rows in proptest::collection::vec((0.0_f64..2000.0, any::<bool>()), 1..30)) {
            let values: Vec<f64> = rows.iter().map(|row| row.0).collect();
            let calls = called(&values, 0.05).unwrap();
            let total = calls.iter().filter(|call| **call).count().max(1) as f64;
            let wrong = rows.iter().zip(&calls).filter(|(row, call)| row.1 && **call).count() as f64;
            let bound = 0.05 / rows.len() as f64 * rows.iter().filter(|row| row.1).map(|row| row.0).sum::<f64>();
            prop_assert!(wrong / total <= bound + 1e-12);
        }
    }
}
