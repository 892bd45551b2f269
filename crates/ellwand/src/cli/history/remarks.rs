//! What a reader of a trend should know besides its change points.

use ellwand_history::{Line, Point};
use ellwand_report::units::ratio;

use super::trend::{label, percent};
use crate::cli::output::counted;

/// Runs after a change that make it a change point.
const FEW: usize = 4;

/// Remarks on a line, for the text and the page.
pub(super) fn remarks(line: &Line) -> Vec<String> {
    let of_changes = line
        .changes
        .iter()
        .flat_map(|change| [machine(line, change.point), same_commit(line, change.point)].into_iter().flatten());
    of_changes.chain(total(line)).chain(recent(line)).collect()
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

/// A commit with runs on both sides of a change point.
fn same_commit(line: &Line, at: usize) -> Option<String> {
    let after = &line.points[at];
    let same = |point: &&Point| !point.changed && point.commit == after.commit && point.commit.is_some();
    let earlier = line.points[..at].iter().filter(same).count();
    (earlier > 0 && !after.changed).then(|| {
        let runs = counted(earlier as u64, "run");
        format!("{runs} of {} before the change: the commit is not its cause", label(after))
    })
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
