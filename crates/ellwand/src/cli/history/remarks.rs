//! What a reader of a trend should know besides its change points.

use ellwand_core::stats::median;
use ellwand_history::{ChangePoint, Line, Point};
use ellwand_report::units::{clean, ratio};

use super::trend::{label, percent};
use crate::cli::output::counted;

/// Runs after a change that make it a change point.
const FEW: usize = 4;
/// Fewest runs before a change that clear their commit: its place is often late by one or two runs.
const CLEAR: usize = 3;
/// Fewest runs whose scatter says what is far from them.
const SCATTER: usize = 10;
/// Median steps from run to run beyond which a run is far from the others: 9.5 standard deviations of Gaussian noise.
const FAR: f64 = 10.0;
/// How many times as likely the old ratio must be.
const ODDS: f64 = 1000.0;

/// Remarks on a line, for the text and the page.
pub(super) fn remarks(line: &Line, rope: f64) -> Vec<String> {
    let of_changes = line
        .changes
        .iter()
        .flat_map(|change| [machine(line, change.point), same_commit(line, change)].into_iter().flatten());
    of_changes
        .chain(total(line))
        .chain(recent(line).or_else(|| outlying(line, rope)))
        .chain(unmatched(line))
        .chain(failed(line))
        .collect()
}

/// A change of the machine between the runs around a change point.
fn machine(line: &Line, at: usize) -> Option<String> {
    let (before, after) = (&line.points[at.checked_sub(1)?], &line.points[at]);
    (before.machine != after.machine).then(|| {
        let [one, other] = [&before.machine, &after.machine].map(|id| id.chars().take(8).collect::<String>());
        let place = label(after);
        format!("at {place} the machine changed too, from {one} to {other}: the ratio may differ between them without a change of code")
    })
}

/// A commit with runs on both sides of a change point. The place of a change is uncertain by some runs, so the earlier runs
/// clear the commit only if they clearly have the old ratio.
fn same_commit(line: &Line, change: &ChangePoint) -> Option<String> {
    let after = &line.points[change.point];
    let start = line.changes.iter().map(|other| other.point).filter(|point| *point < change.point).max().unwrap_or(0);
    let same = |point: &&Point| !point.changed && point.commit == after.commit && point.commit.is_some();
    let earlier = line.points[start..change.point].iter().filter(same);
    let earlier: Vec<f64> = earlier.filter_map(|point| Some(point.ratio?.value.ln())).collect();
    (!earlier.is_empty() && !after.changed).then(|| {
        let (runs, commit) = (counted(earlier.len() as u64, "run"), label(after));
        if clearly_old(&earlier, change, deviation(&line.points)) {
            format!("{runs} of {commit} before the change: the commit is not its cause")
        } else {
            format!(
                "{runs} of {commit} before the change, too few to clear it: the change is at this commit or next to it"
            )
        }
    })
}

/// True if at least [`CLEAR`] values are [`ODDS`] times as likely with the mean before the change as with the one after
/// it. If they came after the change, that happens once in `ODDS` (Ville's inequality for likelihood ratios, for any
/// number of values). A value outside the two means counts as the nearer mean: an outlier alone proves nothing.
fn clearly_old(values: &[f64], change: &ChangePoint, deviation: f64) -> bool {
    let (before, after) = (change.before.ln(), change.after.ln());
    let gain = |value: &f64| {
        let value = value.clamp(before.min(after), before.max(after));
        (value - after).powi(2) - (value - before).powi(2)
    };
    values.len() >= CLEAR && values.iter().map(gain).sum::<f64>() > 2.0 * deviation.powi(2) * ODDS.ln()
}

/// Standard deviation of the logarithm of a ratio.
fn deviation(points: &[Point]) -> f64 {
    median_step(&logs(points)) / (0.6745 * std::f64::consts::SQRT_2)
}

fn logs(points: &[Point]) -> Vec<f64> {
    points.iter().filter_map(|point| Some(point.ratio?.value.ln())).collect()
}

/// Median difference of two values in a row: a step or an outlier does not widen it.
fn median_step(values: &[f64]) -> f64 {
    let steps: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    median(&steps).unwrap_or(f64::INFINITY)
}

/// The runs after the last one with a time.
fn failed(line: &Line) -> Option<String> {
    line.failed_since.map(|runs| {
        let runs = counted(runs as u64, "later run");
        format!("{runs} failed or had a wrong answer; `history show` prints which")
    })
}

/// Runs that no change point can be seen in.
fn unmatched(line: &Line) -> Option<String> {
    let (without, reference) = (line.without_ratio?, line.reference.as_ref()?);
    let newest = if without.newest { ", the newest among them," } else { "" };
    Some(format!(
        "{} of {} runs{newest} have no ratio ({} was not measured with them) and were not looked at",
        without.runs,
        line.points.len(),
        clean(reference)
    ))
}

/// The change from first to last, if the ratio went in one direction several times.
fn total(line: &Line) -> Option<String> {
    let [first, .., last] = line.changes.as_slice() else { return None };
    let up = first.after > first.before;
    line.changes.iter().all(|change| (change.after > change.before) == up).then(|| {
        let points = line.changes.len();
        let by = percent(first.before, last.after);
        format!("{points} changes in one direction, {by} together: after a steady drift the single commits mean little")
    })
}

/// The last runs that are too few for a change point.
fn recent(line: &Line) -> Option<String> {
    let recent = line.recent?;
    let (word, runs) = if recent.after > recent.before { ("slower", recent.runs) } else { ("faster", recent.runs) };
    let look = if runs == 1 { "the last run looks".into() } else { format!("the last {runs} runs look") };
    Some(format!(
        "{look} {word} ({}: {} to {}); a change point needs {FEW} runs after the change",
        percent(recent.before, recent.after),
        ratio(recent.before),
        ratio(recent.after)
    ))
}

/// Last runs far from those before them. One outlier looks the same, so this claims no change.
fn outlying(line: &Line, rope: f64) -> Option<String> {
    let start = line.changes.last().map_or(0, |change| change.point);
    let values = logs(&line.points[start..]);
    let runs = far_at_end(&values, rope.ln_1p())?;
    let (before, last) = values.split_at(values.len() - runs);
    let are = if runs == 1 { "the last run is".into() } else { format!("the last {runs} runs are") };
    let [last, before] = [median(last)?, median(before)?].map(|log| ratio(log.exp()));
    Some(format!(
        "{are} far from those before ({last}, not {before}): an outlier or a change, which later runs will show"
    ))
}

/// The number of values at the end, fewer than [`FEW`], that are all further from the median of the values before than
/// [`FAR`] median steps, and than `least`, to the same side.
fn far_at_end(values: &[f64], least: f64) -> Option<usize> {
    let far = |runs: &usize| {
        let (before, last) = values.split_at_checked(values.len().checked_sub(*runs)?)?;
        let centre = median(before).filter(|_| before.len() >= SCATTER)?;
        let limit = least.max(FAR * median_step(before));
        let up = last.iter().all(|value| value - centre > limit);
        (up || last.iter().all(|value| centre - value > limit)).then_some(())
    };
    (1..FEW).rev().find(|runs| far(runs).is_some())
}

#[cfg(test)]
mod tests {
    use super::{ChangePoint, clearly_old, far_at_end};

    /// Gaussian noise with a fixed seed.
    fn gaussian(state: &mut u64) -> f64 {
        let mut uniform = || {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
    }

    #[test]
    fn last_runs_far_outside_the_scatter_are_counted() {
        let calm: Vec<f64> = (0..20).map(|n| f64::from(n % 3) * 0.004).collect();
        let with = |last: &[f64]| far_at_end(&[&calm[..], last].concat(), 0.01);
        assert_eq!([&[2.3][..], &[0.5, 0.4], &[-0.5, -0.6, -0.5]].map(with), [Some(1), Some(2), Some(3)]);
        // An outlier before a plain run, two on different sides, and a run in reach of the others.
        assert_eq!([&[2.3, 0.0][..], &[0.03]].map(with), [None, None]);
        assert_eq!(with(&[0.5, -0.5]), Some(1));
        assert_eq!(far_at_end(&[0.0, 0.0, 0.0, 0.5], 0.01), None, "too few to know the scatter");
        assert_eq!([far_at_end(&[0.0; 20], 0.01), far_at_end(&[], 0.01)], [None; 2]);
    }

    #[test]
    fn noise_alone_is_rarely_far_from_itself() {
        let mut state = 1;
        let mut count = |noise: &dyn Fn(&mut u64) -> f64| {
            let alarm = |_: &i32| {
                let values: Vec<f64> = (0..40).map(|_| noise(&mut state)).collect();
                far_at_end(&values, 0.01).is_some()
            };
            (0..2000).filter(alarm).count()
        };
        let gauss = count(&|state| 0.01 * gaussian(state));
        // Student's t with two degrees of freedom.
        let heavy =
            count(&|state| 0.01 * gaussian(state) / ((gaussian(state).powi(2) + gaussian(state).powi(2)) / 2.0).sqrt());
        // One run in 20 takes 30 % longer: named as often as it is the last one.
        let outliers = count(&|state| {
            let value = 0.01 * gaussian(state);
            if gaussian(state) > 1.645 { value + 0.3 } else { value }
        });
        assert!(gauss == 0 && heavy < 20, "{gauss} and {heavy} of 2000");
        assert!((60..120).contains(&outliers), "{outliers} of 2000");
    }

    #[test]
    fn a_commit_is_cleared_by_clearly_old_runs_only() {
        let change = ChangePoint { point: 8, before: 1.0, after: 1.03, p: 0.0 };
        let old = |ratios: &[f64]| {
            let logs: Vec<f64> = ratios.iter().map(|ratio: &f64| ratio.ln()).collect();
            clearly_old(&logs, &change, 0.01)
        };
        assert!(old(&[1.0, 0.99, 1.004, 1.0]));
        // A place that is late by one or two runs, whose runs happened to be fast.
        assert!(!old(&[1.0]) && !old(&[0.9, 0.9]));
        // Doubtful runs, and an outlier among new ones.
        assert!(!old(&[1.013, 1.012, 1.014, 1.013]) && !old(&[0.5, 1.028, 1.031, 1.027]));
    }
}
