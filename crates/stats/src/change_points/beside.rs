//! Tests of the values near a change point, and of the last values of a series.

use super::SHORTEST;
use crate::describe::median;

/// Minimum number of values that can be shown to precede a change: its estimated place is often one or two values late.
const CLEAR: usize = 3;
/// How many times as likely these values must be with the old mean as with the new one.
const ODDS: f64 = 1000.0;
/// Minimum number of values from which the scatter is estimated.
const SCATTER: usize = 10;
/// Median steps beyond which a value is far from the others: 9.5 standard deviations of Gaussian noise.
const FAR: f64 = 10.0;

/// Median difference of two values in a row, which neither a step nor an outlier widens. `None` for fewer than two values.
pub fn median_step(values: &[f64]) -> Option<f64> {
    median(&values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect::<Vec<f64>>())
}

/// True if `values` precede a change of the mean from `before` to `after`, although its place is uncertain: there are
/// at least 3, and together they are 1000 times as likely with the old mean, for Gaussian noise of this
/// [`median_step`]. For values after the change that happens at most once in 1000, however many there are (Ville's
/// inequality for likelihood ratios). A value outside the two means counts as the nearer mean, so a single outlier
/// proves nothing.
pub fn precede_change(values: &[f64], [before, after]: [f64; 2], step: f64) -> bool {
    // The median of |x| is 0.6745 standard deviations, and the difference of two values has twice their variance.
    let deviation = step / (0.6745 * std::f64::consts::SQRT_2);
    let gain = |value: &f64| {
        let value = value.clamp(before.min(after), before.max(after));
        (value - after).powi(2) - (value - before).powi(2)
    };
    values.len() >= CLEAR && values.iter().map(gain).sum::<f64>() > 2.0 * deviation.powi(2) * ODDS.ln()
}

/// The number of values at the end, too few for a change point, that all differ from the median of the values before
/// them by more than ten [`median_step`]s and more than `least`, in the same direction. A single outlier looks the
/// same.
pub fn far_at_end(values: &[f64], least: f64) -> Option<usize> {
    (1..SHORTEST).rev().find(|runs| {
        let Some(count) = values.len().checked_sub(*runs).filter(|count| *count >= SCATTER) else { return false };
        let (before, last) = values.split_at(count);
        let (Some(centre), Some(step)) = (median(before), median_step(before)) else { return false };
        let limit = least.max(FAR * step);
        let up = last.iter().all(|value| value - centre > limit);
        up || last.iter().all(|value| centre - value > limit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Stream;

    #[test]
    fn last_runs_far_outside_the_scatter_are_counted() {
        let calm: Vec<f64> = (0..20).map(|n| f64::from(n % 3) * 0.004).collect();
        let with = |last: &[f64]| far_at_end(&[&calm[..], last].concat(), 0.01);
        assert_eq!([&[2.3][..], &[0.5, 0.4], &[-0.5, -0.6, -0.5]].map(with), [Some(1), Some(2), Some(3)]);
        // An outlier before an ordinary run, two on different sides, and a run within reach of the others.
        assert_eq!([&[2.3, 0.0][..], &[0.03]].map(with), [None, None]);
        assert_eq!(with(&[0.5, -0.5]), Some(1));
        assert_eq!(far_at_end(&[0.0, 0.0, 0.0, 0.5], 0.01), None, "too few to know the scatter");
        assert_eq!([far_at_end(&[0.0; 20], 0.01), far_at_end(&[], 0.01)], [None; 2]);
    }

    #[test]
    fn noise_alone_is_rarely_far_from_itself() {
        let mut random = Stream(1);
        let mut count = |noise: &dyn Fn(&mut Stream) -> f64| {
            let alarm = |_: &i32| {
                let values: Vec<f64> = (0..40).map(|_| noise(&mut random)).collect();
                far_at_end(&values, 0.01).is_some()
            };
            (0..2000).filter(alarm).count()
        };
        let gauss = count(&|random| 0.01 * random.normal());
        // Student's t with two degrees of freedom.
        let heavy = count(&|random| {
            0.01 * random.normal() / ((random.normal().powi(2) + random.normal().powi(2)) / 2.0).sqrt()
        });
        // One run in 20 takes 30 % longer: it is reported as often as it comes last.
        let outliers = count(&|random| {
            let value = 0.01 * random.normal();
            if random.normal() > 1.645 { value + 0.3 } else { value }
        });
        assert!(gauss == 0 && heavy < 20, "{gauss} and {heavy} of 2000");
        assert!((60..120).contains(&outliers), "{outliers} of 2000");
    }

    #[test]
    fn only_clearly_old_values_precede_a_change() {
        let old = |ratios: &[f64]| {
            let logs: Vec<f64> = ratios.iter().map(|ratio: &f64| ratio.ln()).collect();
            precede_change(&logs, [0.0, 1.03_f64.ln()], 0.00954)
        };
        assert!(old(&[1.0, 0.99, 1.004, 1.0]));
        // A place that is one or two runs late, where these runs happened to be fast.
        assert!(!old(&[1.0]) && !old(&[0.9, 0.9]));
        // Ambiguous runs, and an outlier among new ones.
        assert!(!old(&[1.013, 1.012, 1.014, 1.013]) && !old(&[0.5, 1.028, 1.031, 1.027]));
    }
}
