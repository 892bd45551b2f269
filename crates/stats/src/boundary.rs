//! Group-sequential boundaries: how far the mean may lie from the truth at each look, if all looks share one error.
//!
//! Armitage, McPherson and Rowe 1969; Lan and DeMets 1983. With the information I_k at look k (one over the variance of
//! the mean), S_k = I_k (mean - truth) is a walk with normal steps of variance I_k - I_(k-1). The boundary c_k is chosen
//! so that S leaves -c_k ..= c_k at look k, and not before, with a probability given in advance. The density of S among
//! the walks that have not left is carried from look to look by numerical integration:
//!
//! ```text
//! f_k(s) = integral over -c_(k-1) ..= c_(k-1) of f_(k-1)(u) phi((s - u) / step) / step du
//! ```
//!
//! The density is even, so half of it is kept.

use std::f64::consts::{PI, SQRT_2};

/// Steps of Simpson's rule on 0 ..= c; even.
const STEPS: usize = 32;
/// Smallest standard deviation of a step of the walk, in steps of the rule, that the rule resolves.
const FINEST: f64 = 1.5;

/// The walks that have not left at the last look.
struct Inside {
    information: f64,
    /// The boundary at that look.
    edge: f64,
    /// f(s) at s = 0, c / STEPS, .., c, times the weight of that point in the integral.
    density: [f64; STEPS + 1],
}

/// The nominal level of each look: the probability that a normal mean alone misses the truth by as much as the boundary
/// of that look. `information` ascends; `shares` are the probabilities of a first exit at each look.
pub(crate) fn levels(information: &[f64], shares: &[f64]) -> Vec<f64> {
    let mut inside: Option<Inside> = None;
    let level = |(&information, &share): (&f64, &f64)| {
        let Some(before) = &inside else {
            let edge = two_sided_quantile(share) * information.sqrt();
            let density = |s: f64| normal_density(s / information.sqrt()) / information.sqrt();
            inside = Some(Inside::new(information, edge, density));
            return share;
        };
        let step = (information - before.information).max(0.0).sqrt();
        if step < FINEST * before.edge / STEPS as f64 {
            // Too little is new for the rule. The share itself as the level errs to the safe side (Bonferroni).
            return share;
        }
        let z = falling_root(|z| before.leaves(z * information.sqrt(), step) - share);
        inside = Some(Inside::new(information, z * information.sqrt(), |s| before.moved_to(s, step)));
        libm::erfc(z / SQRT_2)
    };
    information.iter().zip(shares).map(level).collect()
}

impl Inside {
    fn new(information: f64, edge: f64, density: impl Fn(f64) -> f64) -> Self {
        let width = edge / STEPS as f64;
        let weight = |point: usize| match point {
            0 | STEPS => width / 3.0,
            odd if odd % 2 == 1 => 4.0 * width / 3.0,
            _ => 2.0 * width / 3.0,
        };
        let density = std::array::from_fn(|point| density(point as f64 * width) * weight(point));
        Self { information, edge, density }
    }

    /// Points of the rule with the probability at each and at its mirror image.
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.density.iter().enumerate().map(|(point, mass)| (point as f64 * self.edge / STEPS as f64, *mass))
    }

    /// The probability of leaving -edge ..= edge with a normal step.
    fn leaves(&self, edge: f64, step: f64) -> f64 {
        // A point and its mirror image leave with equal probability.
        let beyond = |s: f64| 0.5 * libm::erfc((edge - s) / (step * SQRT_2));
        self.points().map(|(s, mass)| 2.0 * mass * (beyond(s) + beyond(-s))).sum()
    }

    /// The density at `s` after a normal step.
    fn moved_to(&self, s: f64, step: f64) -> f64 {
        let from = |u: f64| normal_density((s - u) / step) / step;
        self.points().map(|(u, mass)| mass * (from(u) + from(-u))).sum()
    }
}

fn normal_density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// z such that a standard normal value lies outside -z ..= z with probability `outside`.
fn two_sided_quantile(outside: f64) -> f64 {
    falling_root(|z| libm::erfc(z / SQRT_2) - outside)
}

/// The root of a falling function within 0 ..= 16, by bisection.
fn falling_root(of: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 16.0);
    for _ in 0..32 {
        let middle = 0.5 * (low + high);
        if of(middle) > 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundaries_are_those_of_pocock() {
        // Pocock 1977, table 1: five equally spaced looks at 2.413, ten at 2.555 leave with 5 % in all. The shares are
        // the first exits from these boundaries, so the boundaries come out equal.
        for (looks, z) in [(2, 2.178), (5, 2.413), (10, 2.555)] {
            let information: Vec<f64> = (1..=looks).map(f64::from).collect();
            let mut shares: Vec<f64> = Vec::new();
            let mut inside: Option<Inside> = None;
            for &i in &information {
                let edge = z * i.sqrt();
                match &inside {
                    None => {
                        shares.push(libm::erfc(z / SQRT_2));
                        inside = Some(Inside::new(i, edge, normal_density));
                    }
                    Some(before) => {
                        shares.push(before.leaves(edge, 1.0));
                        inside = Some(Inside::new(i, edge, |s| before.moved_to(s, 1.0)));
                    }
                }
            }
            let all: f64 = shares.iter().sum();
            assert!((all - 0.05).abs() < 2e-4, "{looks}: {all}");
            for level in levels(&information, &shares) {
                assert!((two_sided_quantile(level) - z).abs() < 1e-4, "{looks}: {level}");
            }
        }
    }

    #[test]
    fn levels_lie_between_bonferroni_and_a_single_look() {
        let information = [6.0, 9.0, 12.0, 30.0, 31.0, 400.0];
        let shares = [2e-3, 1e-3, 1e-3, 2e-3, 1e-3, 3e-3];
        let mut all = 0.0;
        for (level, share) in levels(&information, &shares).into_iter().zip(shares) {
            all += share;
            assert!(share * (1.0 - 1e-6) <= level && level <= all * (1.0 + 1e-6), "{share}: {level}");
        }
        // Looks with little in common share nothing.
        let apart = levels(&[1.0, 1e6], &[1e-3, 1e-3])[1];
        assert!((apart / 1e-3 - 1.0).abs() < 0.01, "{apart}");
    }

    #[test]
    fn a_look_that_shows_nothing_new_gets_its_share() {
        for again in [10.0, 10.0 + 1e-9] {
            assert_eq!(levels(&[10.0, again], &[1e-3, 1e-3])[1], 1e-3);
        }
    }
}
