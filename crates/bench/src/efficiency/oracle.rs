//! The oracle: a sequential test that knows both variances, with the same probability of a wrong interval as the rule.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::noise::{Cost, normal};
use ellwand_core::stats::median;

/// Looks, and how much the information grows from one to the next.
const LOOKS: i32 = 60;
const GROWTH: f64 = 1.2;
/// Information at the first look: a standard error of 5 %.
const FIRST: f64 = 400.0;

/// The width, in standard errors, with which the intervals of all looks together miss with probability `alpha`, for
/// normal values with known variance; found by simulation.
pub(super) fn width(alpha: f64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut farthest: Vec<f64> = (0..40_000)
        .map(|_| {
            path(&mut random).iter().enumerate().map(|(k, off)| off.abs() * information(k).sqrt()).fold(0.0, f64::max)
        })
        .collect();
    farthest.sort_by(f64::total_cmp);
    farthest[(farthest.len() as f64 * (1.0 - alpha)) as usize]
}

fn information(look: usize) -> f64 {
    FIRST * GROWTH.powi(look as i32)
}

/// Errors of the mean at all looks, in standard errors.
fn path(random: &mut ChaCha8Rng) -> Vec<f64> {
    let (mut sum, mut before) = (0.0, 0.0);
    (0..LOOKS as usize)
        .map(|look| {
            sum += (information(look) - before).sqrt() * normal(random);
            before = information(look);
            sum / before
        })
        .collect()
}

/// Median seconds until the interval is inside or outside the region of equivalence, with the best number of rounds for
/// these deviations and costs.
pub(super) fn seconds([process, round]: [f64; 2], cost: Cost, theta: f64, edge: f64, width: f64) -> f64 {
    let (between, within) = (process * process, round * round);
    let best = (within / between * cost.start_s / cost.round_s).sqrt().max(1.0);
    let second = (between + within / best) * (cost.start_s + best * cost.round_s);
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let times: Vec<f64> = (0..2000)
        .map(|_| {
            let found = path(&mut random).into_iter().enumerate().find(|(look, off)| {
                let (half, mean) = (width / information(*look).sqrt(), theta + off);
                mean.abs() + half <= edge || mean.abs() - half > edge
            });
            information(found.map_or(LOOKS as usize, |(look, _)| look)) * second
        })
        .collect();
    median(&times).unwrap_or(f64::NAN)
}
