//! One slope common to several groups of points: how a time grows with size at fixed values of the other axes.

use crate::special::student_t_upper_quantile;

/// A slope and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// The least-squares slope.
    pub slope: f64,
    /// Ends of the interval; `None` if no residual degrees of freedom are left.
    pub interval: Option<(f64, f64)>,
    /// Number of points used.
    pub points: usize,
}

/// The slope of y over x if each group has its own level (analysis of covariance: both variables are centred within
/// their group). The interval is Student's, from the scatter around the lines. For points on a curve the interval
/// describes the misfit of a single slope, not the noise.
///
/// `None` if no group has two different x, or if a value is not finite.
pub fn common_slope(groups: &[Vec<(f64, f64)>], confidence: f64) -> Option<Slope> {
    let mut points = 0;
    let mut used = 0;
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for group in groups {
        let first = group.first()?.0;
        if group.iter().all(|(x, _)| *x == first) {
            continue;
        }
        let n = group.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| group.iter().map(of).sum::<f64>() / n;
        let (x0, y0) = (mean(|p| p.0), mean(|p| p.1));
        for (x, y) in group {
            xx += (x - x0) * (x - x0);
            xy += (x - x0) * (y - y0);
            yy += (y - y0) * (y - y0);
        }
        points += group.len();
        used += 1;
    }
    let slope = xy / xx;
    if !slope.is_finite() {
        return None;
    }
    let free = points.saturating_sub(used + 1);
    let interval = (free > 0)
        .then(|| {
            let error = ((yy - slope * xy).max(0.0) / free as f64 / xx).sqrt();
            let t = student_t_upper_quantile((1.0 - confidence) / 2.0, free as f64).ok()?;
            Some((slope - t * error, slope + t * error))
        })
        .flatten();
    Some(Slope { slope, interval, points })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_worked_example() {
        // Montgomery's textbook form: slope xy / xx, residual variance (yy - slope xy) / (n - 2), t(0.975, 2) = 4.3027.
        let slope = common_slope(&[vec![(1.0, 2.0), (2.0, 3.0), (3.0, 5.0), (4.0, 6.0)]], 0.95).unwrap();
        assert!((slope.slope - 1.4).abs() < 1e-12);
        let (low, high) = slope.interval.unwrap();
        let half = 4.302_652_73 * (0.2_f64 / 2.0 / 5.0).sqrt();
        assert!((low - (1.4 - half)).abs() < 1e-6 && (high - (1.4 + half)).abs() < 1e-6, "{low} {high}");
    }

    #[test]
    fn too_few_points_give_no_slope_or_no_interval() {
        assert_eq!(common_slope(&[], 0.95), None);
        assert_eq!(common_slope(&[vec![(1.0, 2.0)], vec![(2.0, 3.0)]], 0.95), None);
        assert_eq!(common_slope(&[vec![(1.0, f64::NAN), (2.0, 1.0)]], 0.95), None);
        let two = common_slope(&[vec![(1.0, 2.0), (3.0, 6.0)]], 0.95).unwrap();
        assert_eq!((two.slope, two.interval, two.points), (2.0, None, 2));
    }

    proptest! {
        #[test]
        fn levels_of_groups_and_a_common_shift_change_nothing(
            ys in proptest::collection::vec(-10.0_f64..10.0, 8), up in -100.0_f64..100.0, right in -10.0_f64..10.0,
        ) {
            let group = |ys: &[f64], up: f64, right: f64| -> Vec<(f64, f64)> {
                ys.iter().enumerate().map(|(x, y)| (x as f64 + right, y + up)).collect()
            };
            let plain = common_slope(&[group(&ys[..4], 0.0, 0.0), group(&ys[4..], 0.0, 0.0)], 0.95).unwrap();
            let moved = common_slope(&[group(&ys[..4], up, right), group(&ys[4..], 0.0, right)], 0.95).unwrap();
            prop_assert!((plain.slope - moved.slope).abs() < 1e-9);
            let (a, b) = (plain.interval.unwrap(), moved.interval.unwrap());
            prop_assert!((a.0 - b.0).abs() < 1e-6 && (a.1 - b.1).abs() < 1e-6);
        }
    }
}
