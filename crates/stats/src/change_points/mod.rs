//! Change points of a series: E-divisive means (Matteson and James 2014, JASA 109), in the windows and with the merge
//! of Hunter (Fleming et al. 2023, ICPE, arXiv:2301.03034), now Apache Otava.
//!
//! A window is split where the energy distance between the values before and after is largest, and each part again, as
//! long as a permutation test finds the distance significant. The test repeats the search for the largest distance on
//! shuffled values, so the choice of the place costs no false positives. Then the weakest points are removed one by
//! one, until the segments next to each point differ by a t-test and by the least change.
//!
//! Otava uses the t-test in the windows too. It is faster, but its level does not hold for a place that was chosen
//! because the difference is largest there, and one outlier among the last few values looks like a step to it.

mod beside;
mod divergence;

use std::ops::Range;

use crate::describe::median;
use crate::error::{StatsError, check_finite};
use crate::special::student_t_upper_tail;
use divergence::{Divergence, Split};

pub use beside::{far_at_end, median_step, precede_change};

/// Values in a window.
const WINDOW: usize = 50;
/// Values from one window to the next.
const STEP: usize = WINDOW / 2;
/// Minimum number of values on either side of a change. Outliers come alone or in pairs.
const SHORTEST: usize = 4;
/// Level of the permutation tests of all windows together.
const ALPHA: f64 = 0.01;
/// Maximum number of permutations of a test: from 250 values on, the level holds for each 250 values.
const PERMUTATIONS: usize = 999;
/// Level of the t-test between the segments that remain.
const MERGE: f64 = 0.001;

/// A place where a series changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub index: usize,
    /// Mean from the previous change to this one.
    pub before: f64,
    /// Mean from this change to the next one.
    pub after: f64,
    /// Two-sided p-value of Student's t-test between these segments. Too small, because the place was chosen.
    pub p: f64,
}

/// Where a series changes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changes {
    /// The change points in order.
    pub points: Vec<ChangePoint>,
    /// Number of values at the end that differ from those before, if they are too few for a change point.
    pub short: Option<usize>,
}

/// The changes of `values`. Values that do not change have one with probability of at most 1 % per 250 values, whatever
/// their distribution, if they are exchangeable. Changes of the mean by less than `least` are omitted.
///
/// A change can be found once 4 values follow it and some 10 precede it. The result depends on the values alone.
///
/// # Errors
/// A value that is not finite, a negative `least`.
pub fn change_points(values: &[f64], least: f64) -> Result<Changes, StatsError> {
    check_finite("value", values)?;
    if least.is_nan() || least < 0.0 {
        return Err(StatsError::Value { what: "least change", index: 0, value: least, expected: "at least 0" });
    }
    let (places, short) = candidates(values);
    let points = merged(values, places, least);
    let start = points.last().map_or(0, |point| point.index);
    let is_large = |short: &usize| {
        let (before, after) = values[start..].split_at(values.len() - start - short);
        (mean_and_squares(after).0 - mean_and_squares(before).0).abs() >= least
    };
    Ok(Changes { points, short: short.filter(is_large) })
}

/// Candidates of all windows, in order; and the number of values at the end that are too few for one.
fn candidates(values: &[f64]) -> (Vec<usize>, Option<usize>) {
    let windows = values.len().div_ceil(STEP).max(1);
    // Without a larger divergence among n permutations, the p-value is 1 / (n + 1).
    let permutations = ((windows as f64 / ALPHA).ceil() as usize - 1).min(PERMUTATIONS);
    let (mut all, mut short) = (Vec::new(), None);
    let mut start = 0;
    while start < values.len() {
        let window = &values[start..values.len().min(start + WINDOW)];
        let mut found = Vec::new();
        split(window, permutations, 0, &mut found);
        found.sort_unstable();
        // This window cannot place a step closer to its end. A later window finds it, if there is one.
        if let Some(few) = few_at_end(window, &found) {
            found.pop();
            short = short.max(Some(few).filter(|_| start + window.len() == values.len()));
        }
        let mirrored: Vec<f64> = window.iter().rev().copied().collect();
        if few_at_end(&mirrored, &found.iter().rev().map(|place| window.len() - place).collect::<Vec<_>>()).is_some() {
            found.remove(0);
        }
        let last = found.last().map_or(0, |last| start + last);
        all.extend(found.into_iter().map(|place| start + place));
        start = last.max(start + STEP);
    }
    all.sort_unstable();
    all.dedup();
    (all, short)
}

/// The number of values at the end that differ, if the last place is as late as a place can be and the first values
/// after it are still like those before it.
fn few_at_end(values: &[f64], places: &[usize]) -> Option<usize> {
    let place = *places.last().filter(|place| **place + SHORTEST == values.len())?;
    let start = places.len().checked_sub(2).map_or(0, |at| places[at]);
    let (before, after) = (median(&values[start..place])?, median(&values[place + 1..])?);
    let is_early = |value: &&f64| (*value - before).abs() < (*value - after).abs();
    let early = values[place..].iter().take_while(is_early).count();
    (early > 0).then_some(SHORTEST - early)
}

/// Splits values where they differ most, and the parts again. The first value has index `offset`.
fn split(values: &[f64], permutations: usize, offset: usize, found: &mut Vec<usize>) {
    let Some(largest) = Divergence::new(values).largest(SHORTEST) else { return };
    if !is_significant(values, &largest, permutations) {
        return;
    }
    let (one, other) = values.split_at(largest.place);
    found.push(offset + largest.place);
    split(one, permutations, offset, found);
    split(other, permutations, offset + largest.place, found);
}

/// True if no permutation of the values diverges as much.
fn is_significant(values: &[f64], largest: &Split, permutations: usize) -> bool {
    let mut shuffled = values.to_vec();
    let mut state = 0;
    (0..permutations).all(|_| {
        shuffle(&mut shuffled, &mut state);
        Divergence::new(&shuffled).largest(SHORTEST).is_none_or(|split| split.divergence < largest.divergence)
    })
}

/// Shuffles by Fisher and Yates, with numbers from SplitMix64 (Steele, Lea and Flood 2014).
fn shuffle(values: &mut [f64], state: &mut u64) {
    for last in (1..values.len()).rev() {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The bias of the remainder is below 2^-58 for a window.
        values.swap(last, ((z ^ (z >> 31)) % (last as u64 + 1)) as usize);
    }
}

/// Removes the weakest candidates until all that remain are significant and large enough. Windows overlap and may give
/// the same change at different places.
fn merged(values: &[f64], mut places: Vec<usize>, least: f64) -> Vec<ChangePoint> {
    loop {
        let point = |at: usize| {
            let before = if at == 0 { 0 } else { places[at - 1] };
            let after = places.get(at + 1).copied().unwrap_or(values.len());
            point(values, before..places[at], places[at]..after)
        };
        let points: Vec<ChangePoint> = (0..places.len()).map(point).collect();
        let change = |point: &ChangePoint| (point.after - point.before).abs();
        let of = |weak: fn(&ChangePoint) -> bool| points.iter().enumerate().filter(move |(_, point)| weak(point));
        let doubtful = of(|point| point.p > MERGE).max_by(|(_, a), (_, b)| a.p.total_cmp(&b.p));
        let smallest = || of(|_| true).min_by(|(_, a), (_, b)| change(a).total_cmp(&change(b)));
        match doubtful.or_else(|| smallest().filter(|(_, point)| change(point) < least)) {
            Some((at, _)) => places.remove(at),
            None => return points,
        };
    }
}

fn point(values: &[f64], before: Range<usize>, after: Range<usize>) -> ChangePoint {
    let index = after.start;
    let (before, after) = (&values[before], &values[after]);
    let [(one, _), (other, _)] = [before, after].map(mean_and_squares);
    let short = before.len().min(after.len()) < SHORTEST;
    ChangePoint { index, before: one, after: other, p: if short { 1.0 } else { p_value(before, after) } }
}

/// Two-sided p-value of Student's t-test with pooled variance; 1 if all values agree, 0 if each side is constant.
fn p_value(one: &[f64], other: &[f64]) -> f64 {
    let [(mean, squares), (other_mean, other_squares)] = [one, other].map(mean_and_squares);
    let (n, m) = (one.len() as f64, other.len() as f64);
    let (difference, freedom) = ((mean - other_mean).abs(), n + m - 2.0);
    if difference == 0.0 {
        return 1.0;
    }
    let error = ((squares + other_squares) / freedom * (1.0 / n + 1.0 / m)).sqrt();
    2.0 * student_t_upper_tail(difference / error, freedom)
}

/// Mean and sum of squared deviations, around the first value: equal values have no deviation at all.
fn mean_and_squares(values: &[f64]) -> (f64, f64) {
    let Some(origin) = values.first() else { return (f64::NAN, f64::NAN) };
    let offset = values.iter().map(|value| value - origin).sum::<f64>() / values.len() as f64;
    (origin + offset, values.iter().map(|value| (value - origin - offset).powi(2)).sum())
}

#[cfg(test)]
mod tests;
