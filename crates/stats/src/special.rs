//! The special functions for the intervals: the regularised incomplete beta function and, from it, Student's t and the
//! binomial distribution. ln Gamma comes from `libm`.
//!
//! Tails are computed and inverted as tails, never as one minus a probability, so small tails keep their digits.

use crate::error::{StatsError, check_inside};

/// ln Gamma(x) for x > 0.
pub fn ln_gamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// The regularised incomplete beta function I_x(a, b) for a, b > 0; `x` outside 0 ..= 1 is clamped.
///
/// Uses the continued fraction DLMF 8.17.22 (<https://dlmf.nist.gov/8.17.E22>), evaluated by the modified Lentz method
/// (Thompson and Barnett 1986), on the side of the mean a / (a + b) where it converges fast; the other side follows
/// from I_x(a, b) = 1 - I_(1-x)(b, a), DLMF 8.17.4. NaN unless a and b are positive.
pub fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    incomplete_beta_both(x, 1.0 - x, a, b)
}

/// I_x(a, b) with `y` = 1 - x given separately, since the difference loses its digits near x = 1.
fn incomplete_beta_both(x: f64, y: f64, a: f64, b: f64) -> f64 {
    if x.is_nan() || a.is_nan() || b.is_nan() || a <= 0.0 || b <= 0.0 {
        return f64::NAN;
    }
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    // x^a (1-x)^b / B(a, b) by logarithms, since the factors over- or underflow long before their product.
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * y.ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front / a * beta_fraction(x, a, b)
    } else {
        1.0 - front / b * beta_fraction(y, b, a)
    }
}

/// The continued fraction 1 / (1 + d_1 / (1 + d_2 / (1 + ...))) of DLMF 8.17.22.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    // Lentz: replace a vanishing denominator by a tiny one.
    let nonzero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    // The number of terms grows as sqrt(max(a, b)): 10 000 suffice beyond a, b = 1e6.
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / nonzero(1.0 + even * d);
        c = nonzero(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / nonzero(1.0 + odd * d);
        c = nonzero(1.0 + odd / c);
        let step = d * c;
        fraction *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// The x with I_x(a, b) = `share`, by bisection down to adjacent numbers: slow (some 1000 terms) but robust.
pub fn incomplete_beta_inverse(share: f64, a: f64, b: f64) -> f64 {
    if share.is_nan() || a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if incomplete_beta(middle, a, b) < share { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// P(T > t) for Student's t with `df` > 0 degrees of freedom (DLMF 8.17 and Abramowitz and Stegun 26.7.1).
pub fn student_t_upper_tail(t: f64, df: f64) -> f64 {
    let square = t * t;
    // P(|T| > |t|) / 2 with x = df / (df + t^2); both x and 1 - x keep their digits.
    let half = if square.is_infinite() {
        0.0
    } else {
        0.5 * incomplete_beta_both(df / (df + square), square / (df + square), 0.5 * df, 0.5)
    };
    if t >= 0.0 { half } else { 1.0 - half }
}

/// The value that Student's t with `df` degrees of freedom exceeds with probability `tail`.
///
/// # Errors
/// `tail` not strictly between 0 and 1, or `df` not positive.
pub fn student_t_upper_quantile(tail: f64, df: f64) -> Result<f64, StatsError> {
    check_inside("tail", tail, 0.0, 1.0, "a probability strictly between 0 and 1")?;
    check_inside("degrees of freedom", df, 0.0, f64::INFINITY, "a positive number")?;
    if tail > 0.5 {
        return Ok(-student_t_upper_quantile(1.0 - tail, df)?);
    }
    // I_x(df / 2, 1 / 2) = 2 tail with x = df / (df + t^2); near the middle, the mirrored form keeps the digits of 1 - x.
    Ok(if tail < 0.1 {
        let x = incomplete_beta_inverse(2.0 * tail, 0.5 * df, 0.5);
        (df * (1.0 - x) / x).sqrt()
    } else {
        let y = incomplete_beta_inverse(1.0 - 2.0 * tail, 0.5, 0.5 * df);
        (df * y / (1.0 - y)).sqrt()
    })
}

/// P(X >= `count`) for X binomial with `trials` and success probability `share`: I_share(count, trials - count + 1),
/// DLMF 8.17.5.
pub fn binomial_upper_tail(count: u64, trials: u64, share: f64) -> f64 {
    if share.is_nan() {
        f64::NAN
    } else if count == 0 {
        1.0
    } else if count > trials {
        0.0
    } else {
        incomplete_beta(share, count as f64, (trials - count) as f64 + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Fisher and Yates, Statistical Tables, table III (and NIST/SEMATECH e-Handbook 1.3.6.7.2): upper quantiles of t for
    /// df = 1 ..= 30 at 0.90, 0.95, 0.99 and 0.995.
    #[allow(clippy::approx_constant, reason = "2.718 is a quantile, not e")]
    const T_TABLE: [[f64; 4]; 30] = [
        [3.078, 6.314, 31.821, 63.657],
        [1.886, 2.920, 6.965, 9.925],
        [1.638, 2.353, 4.541, 5.841],
        [1.533, 2.132, 3.747, 4.604],
        [1.476, 2.015, 3.365, 4.032],
        [1.440, 1.943, 3.143, 3.707],
        [1.415, 1.895, 2.998, 3.499],
        [1.397, 1.860, 2.896, 3.355],
        [1.383, 1.833, 2.821, 3.250],
        [1.372, 1.812, 2.764, 3.169],
        [1.363, 1.796, 2.718, 3.106],
        [1.356, 1.782, 2.681, 3.055],
        [1.350, 1.771, 2.650, 3.012],
        [1.345, 1.761, 2.624, 2.977],
        [1.341, 1.753, 2.602, 2.947],
        [1.337, 1.746, 2.583, 2.921],
        [1.333, 1.740, 2.567, 2.898],
        [1.330, 1.734, 2.552, 2.878],
        [1.328, 1.729, 2.539, 2.861],
        [1.325, 1.725, 2.528, 2.845],
        [1.323, 1.721, 2.518, 2.831],
        [1.321, 1.717, 2.508, 2.819],
        [1.319, 1.714, 2.500, 2.807],
        [1.318, 1.711, 2.492, 2.797],
        [1.316, 1.708, 2.485, 2.787],
        [1.315, 1.706, 2.479, 2.779],
        [1.314, 1.703, 2.473, 2.771],
        [1.313, 1.701, 2.467, 2.763],
        [1.311, 1.699, 2.462, 2.756],
        [1.310, 1.697, 2.457, 2.750],
    ];

    #[test]
    fn t_quantiles_agree_with_the_published_table() {
        for (row, df) in T_TABLE.iter().zip(1..) {
            for (expected, tail) in row.iter().zip([0.10, 0.05, 0.01, 0.005]) {
                let got = student_t_upper_quantile(tail, f64::from(df)).unwrap();
                assert!((got - expected).abs() <= 0.000_501, "df {df} tail {tail}: {got} against {expected}");
            }
        }
    }

    #[test]
    fn t_has_closed_forms_for_one_and_two_degrees_of_freedom() {
        for t in [1e-9, 0.3, 1.0, 7.5, 1e4, 1e9] {
            // Cauchy: P(T > t) = atan(1 / t) / pi.
            let cauchy = (1.0_f64 / t).atan() / std::f64::consts::PI;
            assert!((student_t_upper_tail(t, 1.0) / cauchy - 1.0).abs() < 1e-12, "{t}");
            // df = 2: P(T > t) = 1 / (u (u + t)) with u = sqrt(2 + t^2).
            let u = (2.0 + t * t).sqrt();
            let two = 1.0 / (u * (u + t));
            assert!((student_t_upper_tail(t, 2.0) / two - 1.0).abs() < 1e-12, "{t}");
        }
    }

    #[test]
    fn t_tends_to_the_normal_distribution() {
        // The 97.5 % and 99.9 % points of the normal distribution; the correction of order 1/df is below 1e-6 here.
        assert!((student_t_upper_quantile(0.025, 1e7).unwrap() - 1.959_963_984_540).abs() < 1e-6);
        assert!((student_t_upper_quantile(0.001, 1e7).unwrap() - 3.090_232_306_168).abs() < 2e-6);
    }

    #[test]
    fn ln_gamma_of_factorials_and_a_half() {
        assert!((ln_gamma(11.0) - 3_628_800.0_f64.ln()).abs() < 1e-13);
        assert!((ln_gamma(0.5) - 0.5 * std::f64::consts::PI.ln()).abs() < 1e-15);
    }

    #[test]
    fn binomial_tail_equals_the_sum_of_its_terms() {
        for (trials, share) in [(10_u64, 0.5_f64), (30, 0.1), (7, 0.93)] {
            let mut sum = 0.0;
            for count in (0..=trials).rev() {
                let (n, k) = (trials as f64, count as f64);
                let ln_choose = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
                sum += (ln_choose + k * share.ln() + (n - k) * (1.0 - share).ln()).exp();
                let got = binomial_upper_tail(count, trials, share);
                assert!((got - sum).abs() < 1e-12, "{count} of {trials} at {share}: {got} against {sum}");
            }
        }
        assert_eq!(binomial_upper_tail(4, 3, 0.5), 0.0);
        assert!((binomial_upper_tail(8, 8, 0.5) * 256.0 - 1.0).abs() < 1e-13);
    }

    #[test]
    fn arguments_out_of_range_are_errors() {
        for (tail, df) in [(0.0, 3.0), (1.0, 3.0), (f64::NAN, 3.0), (0.1, 0.0), (0.1, f64::INFINITY)] {
            assert!(matches!(student_t_upper_quantile(tail, df), Err(StatsError::Setting { .. })), "{tail} {df}");
        }
        assert!(incomplete_beta(0.5, -1.0, 2.0).is_nan());
    }

    proptest! {
        #[test]
        fn quantile_inverts_the_tail(ln_tail in -60.0_f64..-0.7, df in 1.0_f64..200.0) {
            let tail = ln_tail.exp();
            let t = student_t_upper_quantile(tail, df).unwrap();
            prop_assert!((student_t_upper_tail(t, df) / tail - 1.0).abs() < 1e-10);
        }

        #[test]
        fn beta_reflects_grows_and_inverts(x in 0.001_f64..0.999, a in 0.1_f64..400.0, b in 0.1_f64..400.0) {
            let share = incomplete_beta(x, a, b);
            prop_assert!((share + incomplete_beta(1.0 - x, b, a) - 1.0).abs() < 1e-10);
            prop_assert!(incomplete_beta(x * 0.99, a, b) <= share + 1e-14);
            // a I_x(a, b) recurrence, DLMF 8.17.20.
            let step = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a + 1.0) - ln_gamma(b)).exp();
            prop_assert!((share - step - incomplete_beta(x, a + 1.0, b)).abs() < 1e-10);
            if share > 1e-6 && share < 1.0 - 1e-6 {
                let back = incomplete_beta(incomplete_beta_inverse(share, a, b), a, b);
                prop_assert!((back - share).abs() < 1e-10);
            }
        }
    }
}
