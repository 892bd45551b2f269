//! Arrows between events, and the numbers that calls and their device work share.

use std::collections::HashMap;

use ellwand_profile::{NONE, Span};

use crate::read::MAX_SPANS;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrow {
    pub(crate) link: u32,
    pub(crate) at: u64,
    /// True if it belongs to the next span and not to the enclosing one.
    pub(crate) next: bool,
}

/// Link numbers, from 1.
#[derive(Debug, Default)]
pub(crate) struct Links {
    known: HashMap<(char, String), u32>,
}

impl Links {
    /// The number of a link by its kind and key; 0 if there are too many.
    pub(crate) fn number(&mut self, kind: char, key: &str) -> u32 {
        let next = self.known.len() as u32 + 1;
        if next as usize > MAX_SPANS {
            return 0;
        }
        *self.known.entry((kind, key.to_string())).or_insert(next)
    }
}

/// Gives the spans of a lane the numbers of the arrows at them; returns the number of arrows without a span. A span
/// that already has a link, such as a call with a correlation number, keeps it.
pub(crate) fn place(arrows: &[Arrow], lane: &mut [Span]) -> u64 {
    let mut lost = 0;
    for arrow in arrows.iter().filter(|arrow| arrow.link != 0) {
        let after = lane.partition_point(|span| span.start <= arrow.at);
        let first = lane.partition_point(|span| span.start < arrow.at);
        let index = if arrow.next { Some(first) } else { around(lane, after, arrow.at) };
        match index.and_then(|index| lane.get_mut(index)) {
            Some(span) if span.corr == 0 => span.corr = arrow.link,
            Some(_) => {}
            None => lost += 1,
        }
    }
    lost
}

/// The innermost span at a time, among those before index `after`.
fn around(lane: &[Span], after: usize, at: u64) -> Option<usize> {
    let mut index = after.checked_sub(1)?;
    loop {
        let span = lane.get(index)?;
        if span.is_open() || span.end >= at {
            return Some(index);
        }
        if span.parent == NONE || span.parent as usize >= index {
            return None;
        }
        index = span.parent as usize;
    }
}
