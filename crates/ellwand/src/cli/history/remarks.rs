//! What a reader of a trend should know besides its change points.

use ellwand_history::Line;
use ellwand_report::units::ratio;

use super::trend::percent;

/// Runs after a change that make it a change point.
const FEW: usize = 4;

/// Remarks on a line, for the text and the page.
pub(super) fn remarks(line: &Line) -> Vec<String> {
    recent(line).into_iter().collect()
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
