//! The parent of each span, across threads.

use std::collections::HashMap;

use crate::trace::{NONE, Trace};

/// Finds the parent of each span: on its own lane, or the span of another lane that it is linked to.
pub(crate) struct Outer<'a> {
    trace: &'a Trace,
    /// The first span of each correlation number: the parent of the others.
    sources: HashMap<u32, (usize, usize)>,
}

impl Trace {
    /// The first span of each correlation number, by its lane and its index there; it started the others.
    pub fn starters(&self) -> HashMap<u32, (usize, usize)> {
        let mut starters: HashMap<u32, (usize, usize)> = HashMap::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            for (index, span) in lane.spans.iter().enumerate().filter(|(_, span)| span.corr != 0) {
                let known = starters.entry(span.corr).or_insert((number, index));
                if span.start < self.lanes[known.0].spans[known.1].start {
                    *known = (number, index);
                }
            }
        }
        starters
    }
}

impl<'a> Outer<'a> {
    pub(crate) fn of(trace: &'a Trace) -> Self {
        Self { trace, sources: trace.starters() }
    }

    /// The span that a span is linked to as its cause.
    pub(crate) fn source(&self, lane: usize, index: usize) -> Option<(usize, usize)> {
        let lane_of = self.trace.lanes.get(lane)?;
        let span = lane_of.spans.get(index)?;
        // A span that caused others has the link of its effects; its own cause is in its details.
        let cause = lane_of.detail_of(span).map_or(0, |detail| detail.cause);
        let link = if cause != 0 { cause } else { span.corr };
        self.sources.get(&link).copied().filter(|source| link != 0 && *source != (lane, index))
    }

    /// The parent of a span: on its own thread, or else the linked span of another thread.
    pub(crate) fn around(&self, lane: usize, index: usize) -> Option<(usize, usize)> {
        let span = self.trace.lanes.get(lane)?.spans.get(index)?;
        if span.parent != NONE {
            return Some((lane, span.parent as usize)).filter(|(_, parent)| *parent < index);
        }
        self.source(lane, index)
    }

    /// The span and its ancestors that have no node yet, outermost first. Sets them to [`NONE`]: circular links are a
    /// user error, and the span that would close the circle becomes an outermost one.
    pub(crate) fn without_node(&self, node_of: &mut [Vec<Option<u32>>], span: (usize, usize)) -> Vec<(usize, usize)> {
        let mut chain = Vec::new();
        let mut at = Some(span);
        while let Some((lane, index)) = at.filter(|(lane, index)| node_of[*lane][*index].is_none()) {
            node_of[lane][index] = Some(NONE);
            chain.push((lane, index));
            at = self.around(lane, index);
        }
        chain.reverse();
        chain
    }
}
