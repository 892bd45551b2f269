//! Turns the events of a thread, which may overlap arbitrarily, into lanes on which spans nest.

use ellwand_profile::{Detail, LaneKind, NONE, Span, TraceLane};

/// Overlaps up to this many ticks may come from rounding; the earlier or inner span is cut.
const ROUNDING: u64 = 1000;
/// At most this fraction (as a divisor) of a span's length is cut, unless all times are rounded to [`ROUNDING`].
const CUT: u64 = 10;
/// Lanes per thread. Events of more than this many overlapping tasks are counted as lost.
const MAX_LANES: usize = 64;
const OVERLAP: &str = " (overlap ";

/// The name of the `number`th lane for spans that overlap others of their thread.
pub(crate) fn overlap_name(thread: &str, number: usize) -> String {
    format!("{thread}{OVERLAP}{number})")
}

/// True for the lane of a thread of the host, false for a stream and for the names of [`overlap_name`].
pub(crate) fn is_thread(lane: &TraceLane) -> bool {
    let number = lane.name.rsplit_once(OVERLAP).and_then(|(_, rest)| rest.strip_suffix(')'));
    lane.kind == LaneKind::Thread && number.is_none_or(|number| number.parse::<usize>().is_err())
}

#[derive(Debug, Default)]
pub(crate) struct Nested {
    /// Spans with their details: the thread's own lane, then those of events that overlap.
    pub(crate) lanes: Vec<(Vec<Span>, Vec<Detail>)>,
    /// Number of events without a lane.
    pub(crate) dropped: u64,
    /// Number of spans that were cut by up to [`ROUNDING`].
    pub(crate) cut: u64,
}

/// Nests spans by their times; open ones have no end. Renumbers the details on each lane.
pub(crate) fn nest(mut spans: Vec<Span>, mut details: Vec<Detail>) -> Nested {
    let until = |span: &Span| if span.is_open() { u64::MAX } else { span.end };
    let first = spans.first().map_or(0, |span| span.start);
    let is_whole = |ticks: u64| ticks.is_multiple_of(ROUNDING);
    let rounded = spans.iter().all(|span| is_whole(span.start.abs_diff(first)) && is_whole(span.ticks()));
    let most = |length: u64| if rounded { ROUNDING } else { ROUNDING.min(length / CUT) };
    let mut nested = Nested::default();
    while !spans.is_empty() && nested.lanes.len() < MAX_LANES {
        // A stable sort: of spans with equal times, the first in the file is the outer one.
        spans.sort_by_key(|span| (span.start, std::cmp::Reverse(until(span))));
        let mut lane: Vec<Span> = Vec::with_capacity(spans.len());
        let mut stack: Vec<usize> = Vec::new();
        let mut rest = Vec::new();
        for mut span in spans {
            let over = |lane: &[Span], top: usize| lane.get(top).map_or(0, until);
            while let Some(top) = stack.last().copied() {
                let (top_end, end) = (over(&lane, top), until(&span));
                let length = top_end.saturating_sub(lane.get(top).map_or(0, |top| top.start));
                if top_end <= span.start {
                    stack.pop();
                } else if end <= top_end {
                    break;
                } else if top_end - span.start <= most(length) {
                    if let Some(top) = lane.get_mut(top).filter(|top| !top.is_open()) {
                        top.end = span.start.max(top.start).max(1);
                        nested.cut += 1;
                    }
                    stack.pop();
                } else if end - top_end > ROUNDING && end != u64::MAX && length <= (end - span.start) / 10 {
                    // A short span that overlaps the start of a much longer one, such as the call that begins a range,
                    // moves to another lane, with all spans after it on this lane, which are inside it.
                    rest.extend(lane.drain(top..));
                    stack.pop();
                } else {
                    break;
                }
            }
            let parent = stack.last().copied();
            if let Some(parent_end) = parent.map(|parent| over(&lane, parent)).filter(|limit| until(&span) > *limit) {
                if span.is_open() || until(&span) - parent_end > most(span.ticks()) {
                    rest.push(span);
                    continue;
                }
                span.end = parent_end;
                nested.cut += 1;
            }
            span.parent = parent.map_or(NONE, |parent| parent as u32);
            stack.push(lane.len());
            lane.push(span);
        }
        let own = renumbered(&mut lane, &mut details);
        nested.lanes.push((lane, own));
        spans = rest;
    }
    nested.dropped = spans.len() as u64;
    nested
}

/// Moves the details of a lane's spans to a list for that lane.
fn renumbered(lane: &mut [Span], details: &mut [Detail]) -> Vec<Detail> {
    let mut own = Vec::new();
    for span in lane.iter_mut().filter(|span| span.ext != 0) {
        span.ext = match details.get_mut((span.ext - 1) as usize) {
            Some(detail) => {
                own.push(std::mem::take(detail));
                own.len() as u32
            }
            None => 0,
        };
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(start: u64, end: u64) -> Span {
        Span { start, end, site: 1, parent: NONE, corr: 0, ext: 0 }
    }

    fn shape(nested: &Nested) -> Vec<Vec<(u64, u64, i64)>> {
        let row = |span: &Span| (span.start, span.end, if span.parent == NONE { -1 } else { i64::from(span.parent) });
        nested.lanes.iter().map(|(spans, _)| spans.iter().map(row).collect()).collect()
    }

    #[test]
    fn spans_nest_by_time_and_overlapping_ones_get_a_lane() {
        let spans = vec![span(10_000, 90_000), span(50_000, 120_000), span(20_000, 30_000), span(30_000, 40_000)];
        let nested = nest(spans, Vec::new());
        assert_eq!(
            shape(&nested),
            [vec![(10_000, 90_000, -1), (20_000, 30_000, 0), (30_000, 40_000, 0)], vec![(50_000, 120_000, -1)],]
        );
        assert_eq!((nested.cut, nested.dropped), (0, 0));
    }

    #[test]
    fn overlaps_by_rounding_are_cut() {
        let siblings = nest(vec![span(10_000, 20_300), span(20_000, 90_000)], Vec::new());
        assert_eq!(shape(&siblings), [[(10_000, 20_000, -1), (20_000, 90_000, -1)]]);
        let child = nest(vec![span(10_000, 20_000), span(12_000, 20_400)], Vec::new());
        assert_eq!(shape(&child), [[(10_000, 20_000, -1), (12_000, 20_000, 0)]]);
        assert_eq!((siblings.cut, child.cut), (1, 1));
    }

    #[test]
    fn at_most_a_tenth_is_cut_unless_all_times_are_rounded() {
        let overlapping = nest(vec![span(10_000, 10_900), span(10_150, 11_050), span(10_300, 11_200)], Vec::new());
        assert_eq!((overlapping.cut, overlapping.lanes.len()), (0, 3));
        let child = nest(vec![span(10_000, 20_000), span(18_000, 20_900)], Vec::new());
        assert_eq!((child.cut, child.lanes.len()), (0, 2));
        let rounded = nest(vec![span(1, 10_001), span(8_001, 11_001), span(12_001, 14_001)], Vec::new());
        assert_eq!(shape(&rounded), [[(1, 10_001, -1), (8_001, 10_001, 0), (12_001, 14_001, -1)]]);
        let inner_too = nest(vec![span(1, 10_001), span(9_901, 10_001), span(9_951, 20_001)], Vec::new());
        assert_eq!(shape(&inner_too), [vec![(1, 9_951, -1), (9_951, 20_001, -1)], vec![(9_901, 10_001, -1)]]);
    }

    #[test]
    fn a_short_span_over_the_start_of_a_long_one_gives_way() {
        let enter = [span(20_000, 40_000), span(22_000, 25_000)];
        let nested = nest([&[span(10_000, 999_000)], &enter[..], &[span(30_000, 900_000)]].concat(), Vec::new());
        assert_eq!(
            shape(&nested),
            [vec![(10_000, 999_000, -1), (30_000, 900_000, 0)], vec![(20_000, 40_000, -1), (22_000, 25_000, 0)]]
        );
    }

    #[test]
    fn hundreds_of_overlapping_tasks_are_bounded_and_counted() {
        let spans: Vec<Span> = (0..100).map(|task| span(1 + task * 10_000, 5_000_000 + task * 10_000)).collect();
        let nested = nest(spans, Vec::new());
        assert_eq!((nested.lanes.len(), nested.dropped), (64, 36));
    }

    proptest! {
        #[test]
        fn every_lane_nests_and_nothing_is_lost(times in proptest::collection::vec((1_u64..50_000, 0_u64..50_000, any::<bool>()), 0..60)) {
            let spans: Vec<Span> = times
                .iter()
                .enumerate()
                .map(|(index, (start, length, open))| Span { ext: index as u32 + 1, ..span(*start, if *open { 0 } else { start + length }) })
                .collect();
            let details = (0..times.len()).map(|at| Detail { cpu_ns: Some(at as u64), ..Detail::default() }).collect();
            let nested = nest(spans, details);
            let mut seen: Vec<u64> = Vec::new();
            for (lane, details) in &nested.lanes {
                prop_assert_eq!(lane.len(), details.len());
                seen.extend(details.iter().filter_map(|detail| detail.cpu_ns));
                prop_assert!(lane.is_sorted_by_key(|span| span.start));
                let until = |span: &Span| if span.is_open() { 200_000 } else { span.end };
                for (index, span) in lane.iter().enumerate() {
                    if span.parent != NONE {
                        let parent = lane[span.parent as usize];
                        prop_assert!((span.parent as usize) < index);
                        prop_assert!(parent.start <= span.start && until(span) <= until(&parent));
                    }
                }
            }
            seen.sort_unstable();
            prop_assert_eq!(seen.len() as u64 + nested.dropped, times.len() as u64);
            seen.dedup();
            prop_assert_eq!(seen.len() as u64 + nested.dropped, times.len() as u64);
        }
    }
}
