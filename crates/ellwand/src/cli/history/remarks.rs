//! Remarks on a trend besides its change points.

use ellwand_core::stats::{far_at_end, median, median_step, precede_change};
use ellwand_history::{ChangePoint, Line, Point};
use ellwand_report::units::{clean, ratio};

use super::trend::{label, percent};
use crate::cli::output::counted;

/// Number of runs after a change that make it a change point.
const FEW: usize = 4;

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
        if clears(&earlier, change, &line.points) {
            format!("{runs} of {commit} before the change: the commit is not its cause")
        } else {
            format!(
                "{runs} of {commit} before the change, too few to clear it: the change is at this commit or next to it"
            )
        }
    })
}

fn clears(earlier: &[f64], change: &ChangePoint, all: &[Point]) -> bool {
    median_step(&logs(all)).is_some_and(|step| precede_change(earlier, [change.before.ln(), change.after.ln()], step))
}

pub(super) fn logs(points: &[Point]) -> Vec<f64> {
    points.iter().filter_map(|point| Some(point.ratio?.value.ln())).collect()
}

/// The runs after the last one with a time.
fn failed(line: &Line) -> Option<String> {
    line.failed_since.map(|runs| {
        let runs = counted(runs as u64, "later run");
        format!("{runs} failed or had a wrong answer; `history show` prints which")
    })
}

/// Runs in which no change point can be found.
fn unmatched(line: &Line) -> Option<String> {
    let without = line.without_ratio.as_ref()?;
    let newest = if without.newest { ", the newest among them," } else { "" };
    Some(format!(
        "{} of {} runs{newest} have no ratio and were skipped ({})",
        without.runs,
        line.points.len(),
        clean(&without.why)
    ))
}

/// The total change, if the ratio changed several times in one direction.
fn total(line: &Line) -> Option<String> {
    let [first, .., last] = line.changes.as_slice() else { return None };
    let up = first.after > first.before;
    line.changes.iter().all(|change| (change.after > change.before) == up).then(|| {
        let points = line.changes.len();
        let by = percent(first.before, last.after);
        format!("{points} changes in one direction, {by} together: in a steady drift the single commits mean little")
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
        "{are} far from those before ({last}, not {before}): an outlier or a change; later runs will show which"
    ))
}
