//! Descriptions of one set of values: quantiles, the interval of a median, a summary, entropy, the geometric mean.

/// The `p`-quantile (0 ..= 1) by linear interpolation between order statistics (Hyndman and Fan 1996, type 7).
/// `None` for an empty slice. NaN sorts last.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    let sorted = sorted(values);
    quantile_sorted(&sorted, p)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn quantile_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = p.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    let share = at - below as f64;
    // Interpolation could round equal neighbours to a different value.
    Some(if sorted[below] == sorted[above] {
        sorted[below]
    } else {
        sorted[below] * (1.0 - share) + sorted[above] * share
    })
}

/// The median; `None` for an empty slice.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Distribution-free interval of the median: the order statistics that enclose the median with probability at least
/// `confidence` if the values are independent draws of one distribution (the sign-test interval; Conover, Practical
/// Nonparametric Statistics, 3.2). `None` if there are too few values for that confidence.
///
/// The times of one process are not independent draws from the times of all processes: within a process this interval
/// describes repeatability, not the uncertainty of a comparison.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    // Largest k with 2 P(Binomial(n, 1/2) <= k - 1) <= 1 - confidence: the interval is [x_(k), x_(n+1-k)].
    let budget = (1.0 - confidence) / 2.0;
    let mut log_term = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    let mut k = 0;
    for i in 0..n {
        tail += log_term.exp();
        if tail > budget {
            break;
        }
        k = i + 1;
        log_term += ((n - i) as f64).ln() - ((i + 1) as f64).ln();
    }
    if k == 0 {
        return None;
    }
    let sorted = sorted(values);
    Some((sorted[k - 1], sorted[n - k]))
}

/// Order statistics of a set of values, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub count: usize,
    /// Smallest of the values.
    pub min: f64,
    /// 10th percentile, interpolated.
    pub p10: f64,
    /// Median of the values.
    pub median: f64,
    /// 90th percentile, interpolated.
    pub p90: f64,
    /// Largest of the values.
    pub max: f64,
    /// Interval of the median ([`median_interval`] at 95 %); `None` with fewer than 6 values.
    pub interval: Option<(f64, f64)>,
}

/// Describes `values`; `None` for an empty slice.
pub fn summary(values: &[f64]) -> Option<Summary> {
    let sorted = sorted(values);
    Some(Summary {
        count: sorted.len(),
        min: *sorted.first()?,
        p10: quantile_sorted(&sorted, 0.1)?,
        median: quantile_sorted(&sorted, 0.5)?,
        p90: quantile_sorted(&sorted, 0.9)?,
        max: *sorted.last()?,
        interval: median_interval(&sorted, 0.95),
    })
}

/// The geometric mean of ratios; `None` if empty or if a value is not positive.
pub fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    if ratios.is_empty() || ratios.iter().any(|ratio| ratio.is_nan() || *ratio <= 0.0) {
        return None;
    }
    Some((ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_known_values() {
        let values = [3.0, 1.0, 2.0, 4.0];
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(median(&values), Some(2.5));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn interval_indices_agree_with_the_binomial_table() {
        // n = 10: P(X <= 1) = 11/1024 = 0.0107 <= 0.025 < P(X <= 2) = 0.0547, so k = 2 (Conover, table A3).
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(median_interval(&values, 0.95), Some((2.0, 9.0)));
        // n = 5: even the whole range covers only 1 - 2/32 = 93.75 %.
        assert_eq!(median_interval(&values[..5], 0.95), None);
        assert_eq!(median_interval(&values[..6], 0.95), Some((1.0, 6.0)));
    }

    #[test]
    fn interval_covers_the_median_as_often_as_promised() {
        // A skewed distribution with median ln 2, from a fixed linear congruential stream.
        let mut state = 12345_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            -uniform.ln()
        };
        let trials = 4000;
        let covered = (0..trials)
            .filter(|_| {
                let values: Vec<f64> = (0..25).map(|_| draw()).collect();
                let (low, high) = median_interval(&values, 0.95).unwrap();
                (low..=high).contains(&std::f64::consts::LN_2)
            })
            .count();
        // Exact coverage for n = 25 is 95.67 %; four standard errors are 1.3 %.
        let share = covered as f64 / f64::from(trials);
        assert!((0.943..0.970).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn summary_ignores_the_order_and_scales(mut values in proptest::collection::vec(1e-3_f64..1e6, 1..60), scale in 0.5_f64..4.0) {
            let before = summary(&values).unwrap();
            values.reverse();
            prop_assert_eq!(before, summary(&values).unwrap());
            let scaled: Vec<f64> = values.iter().map(|v| v * scale).collect();
            let after = summary(&scaled).unwrap();
            prop_assert!((after.median - before.median * scale).abs() <= 1e-9 * after.median);
            prop_assert!(before.min <= before.p10 && before.p10 <= before.median && before.median <= before.p90 && before.p90 <= before.max);
            if let Some((low, high)) = before.interval {
                prop_assert!(low <= before.median && before.median <= high);
            }
        }

        #[test]
        fn quantiles_shift(values in proptest::collection::vec(-1e3_f64..1e3, 1..40), shift in -1e3_f64..1e3, p in 0.0_f64..=1.0) {
            let moved: Vec<f64> = values.iter().map(|v| v + shift).collect();
            let difference = quantile(&moved, p).unwrap() - quantile(&values, p).unwrap() - shift;
            prop_assert!(difference.abs() < 1e-9);
        }
    }
}
