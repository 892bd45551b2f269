//! The ratio of two means with its interval.

use ellwand_stats::Difference;
use ellwand_stats::special::{student_t_upper_quantile, student_t_upper_tail};
use serde::Serialize;

use super::{DiffOptions, UNKNOWN};

/// The mean over repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) mean: f64,
    /// Standard error of the mean; `None` for fewer than two groups.
    pub(super) error: Option<f64>,
    pub(super) groups: usize,
}

impl Sample {
    /// A sample of the means of groups of nearly equal size.
    pub(super) fn of(groups: &[f64], sizes: &[u32]) -> Self {
        let n = groups.len() as f64;
        let all: f64 = sizes.iter().map(|size| f64::from(*size)).sum();
        let mean = groups.iter().zip(sizes).map(|(value, size)| value * f64::from(*size)).sum::<f64>() / all.max(1.0);
        let squares: f64 = groups.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (groups.len() >= 2).then(|| (squares / (n - 1.0) / n).sqrt());
        Self { mean, error, groups: groups.len() }
    }
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// Candidate over baseline: above 1 is slower.
    pub ratio: f64,
    /// Lower end of the interval at the confidence 1 - alpha.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Probability of a ratio at least this far from 1 if nothing changed; for nodes, corrected for their number
    /// (Holm).
    pub p: f64,
}

impl Ratio {
    /// `None` without spread on both sides or if a mean is not positive.
    pub(super) fn of(a: &Sample, b: &Sample, alpha: f64) -> Option<Self> {
        let (error_a, error_b) = (a.error? / a.mean, b.error? / b.mean);
        if !(a.mean > 0.0 && b.mean > 0.0) {
            return None;
        }
        let (squared_a, squared_b) = (error_a * error_a, error_b * error_b);
        let log = (b.mean / a.mean).ln();
        let error = (squared_a + squared_b).sqrt();
        if error == 0.0 {
            // All groups agree to the last bit: the clock did not resolve their spread.
            let ratio = log.exp();
            return Some(Self { ratio, low: ratio, high: ratio, p: if log == 0.0 { 1.0 } else { 0.0 } });
        }
        // Welch and Satterthwaite.
        let freedom = |squared: f64, groups: usize| squared * squared / (groups as f64 - 1.0);
        let df = (squared_a + squared_b).powi(2) / (freedom(squared_a, a.groups) + freedom(squared_b, b.groups));
        let half = student_t_upper_quantile(0.5 * alpha, df).ok()? * error;
        let p = (2.0 * student_t_upper_tail((log / error).abs(), df)).min(1.0);
        Some(Self { ratio: log.exp(), low: (log - half).exp(), high: (log + half).exp(), p })
    }

    pub(super) fn verdict(&self, options: &DiffOptions, p: f64) -> Difference {
        let most = 1.0 + options.rope;
        if self.low > most && p < options.alpha {
            Difference::Slower
        } else if self.high < 1.0 / most && p < options.alpha {
            Difference::Faster
        } else if self.low >= 1.0 / most && self.high <= most {
            Difference::Same
        } else {
            UNKNOWN
        }
    }
}

/// p-values corrected for the number of tests, valid under any dependence between them (Holm 1979).
pub(super) fn holm(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> = values.iter().enumerate().filter_map(|(at, p)| Some((at, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut corrected = vec![None; values.len()];
    let (tests, mut least) = (order.len(), 0.0_f64);
    for (rank, (at, p)) in order.into_iter().enumerate() {
        least = least.max((p * (tests - rank) as f64).min(1.0));
        if let Some(slot) = corrected.get_mut(at) {
            *slot = Some(least);
        }
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn welch_on_a_textbook_sample() {
        // Two groups of relative standard errors 1 % and 2 % with 10 and 20 values, 5 % apart.
        let a = Sample { mean: 100.0, error: Some(1.0), groups: 10 };
        let b = Sample { mean: 105.0, error: Some(2.1), groups: 20 };
        let ratio = Ratio::of(&a, &b, 0.05).unwrap();
        // df = (1e-4 + 4e-4)^2 / (1e-8 / 9 + 1.6e-7 / 19) = 26.23; t(0.975, 26.23) = 2.0547.
        assert!((ratio.ratio - 1.05).abs() < 1e-12);
        assert!((ratio.high.ln() - 1.05_f64.ln() - 2.0547 * 5e-4_f64.sqrt()).abs() < 1e-5, "{ratio:?}");
        assert!((ratio.p - 0.0384).abs() < 5e-4, "{ratio:?}");
        assert_eq!(Ratio::of(&a, &Sample { error: None, ..b }, 0.05), None);
        assert_eq!(Ratio::of(&a, &Sample { mean: 0.0, ..b }, 0.05), None);
    }

    #[test]
    fn holm_corrects_for_the_number_of_tests() {
        let corrected = holm(&[Some(0.01), None, Some(0.04), Some(0.03), Some(0.9)]);
        let rounded: Vec<Option<f64>> = corrected.into_iter().map(|p| p.map(|p| (p * 1e6).round() / 1e6)).collect();
        assert_eq!(rounded, [Some(0.04), None, Some(0.09), Some(0.09), Some(0.9)]);
    }
}
