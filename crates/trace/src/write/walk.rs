//! The spans of a lane as begins and ends in order of time, properly nested, as viewers require.

use ellwand_profile::{Trace, TraceLane};

/// A begin or an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The span with this index begins.
    Begin(usize),
    /// The most recently begun span that has not ended yet ends.
    End,
}

/// Calls `step` with ticks and steps. A span that ends after its enclosing span ends with it; times that go backwards
/// are raised. Open spans end at the end of the trace.
pub(super) fn walk(trace: &Trace, lane: &TraceLane, mut step: impl FnMut(u64, Step)) {
    let mut now = 0;
    let mut ends: Vec<u64> = Vec::new();
    for (index, span) in lane.spans.iter().enumerate() {
        while let Some(end) = ends.pop_if(|end| *end <= span.start) {
            now = now.max(end);
            step(now, Step::End);
        }
        now = now.max(span.start);
        let end = if span.is_open() { trace.end.max(span.start) } else { span.end };
        ends.push(end.max(now).min(ends.last().copied().unwrap_or(u64::MAX)));
        step(now, Step::Begin(index));
    }
    while let Some(end) = ends.pop() {
        now = now.max(end);
        step(now, Step::End);
    }
}
