//! Makes the spans of a lane nest: a span ends no later than its enclosing span, and the interleaved recordings of
//! tasks on one thread are split into as many lanes as overlap.

use crate::trace::{NONE, TraceLane};

impl TraceLane {
    /// Ends each span no later than its enclosing span, and moves spans that began after that end out of it. A guard
    /// may outlive the enclosing guard, but times add up only if spans nest. Drops CPU time and allocations that
    /// include what followed. Open spans stay open.
    pub fn nest(&mut self) {
        // Latest end of each span.
        let mut ends: Vec<u64> = Vec::with_capacity(self.spans.len());
        let mut parents: Vec<u32> = Vec::with_capacity(self.spans.len());
        for span in &mut self.spans {
            let mut around = u64::MAX;
            while let Some(end) = ends.get(span.parent as usize) {
                if *end >= span.start {
                    around = *end;
                    break;
                }
                span.parent = parents[span.parent as usize];
            }
            if span.parent as usize >= ends.len() {
                span.parent = NONE;
            }
            if !span.is_open() && span.end > around {
                // Files round the start and the duration.
                let is_rounding = span.end - around <= ROUNDING;
                span.end = around;
                let detail = span.ext.checked_sub(1).and_then(|at| self.details.get_mut(at as usize));
                if let Some(detail) = detail.filter(|_| !is_rounding) {
                    (detail.cpu_ns, detail.memory) = (None, None);
                }
            }
            ends.push(if span.is_open() { around } else { span.end });
            parents.push(span.parent);
        }
    }
}

/// Ticks by which rounding may make a span seem to end too late.
const ROUNDING: u64 = 2;

/// The lane, followed by lanes for outermost spans that begin while an earlier one is open. Each outermost span goes to
/// the first free lane, with everything inside it.
pub(crate) fn untangled(mut lane: TraceLane) -> Vec<TraceLane> {
    lane.nest();
    let places = places(&lane);
    let count = places.iter().max().map_or(1, |last| last + 1);
    if count == 1 {
        return vec![lane];
    }
    let TraceLane { name, kind, spans, mut details, totals, dropped, aggregated, dropped_details } = lane;
    let mut lanes: Vec<TraceLane> = Vec::with_capacity(count);
    for number in 0..count {
        let name = if number == 0 { name.clone() } else { format!("{name} ({})", number + 1) };
        lanes.push(TraceLane { name, kind: kind.clone(), ..TraceLane::default() });
    }
    // The new index of each span.
    let mut moved: Vec<u32> = Vec::with_capacity(spans.len());
    for (mut span, place) in spans.into_iter().zip(places) {
        let lane = &mut lanes[place];
        moved.push(lane.spans.len() as u32);
        span.parent = moved.get(span.parent as usize).copied().unwrap_or(NONE);
        let detail = span.ext.checked_sub(1).and_then(|at| details.get_mut(at as usize));
        span.ext = lane.add_detail(detail.map(std::mem::take));
        lane.spans.push(span);
    }
    if let Some(first) = lanes.first_mut() {
        (first.totals, first.dropped, first.aggregated, first.dropped_details) =
            (totals, dropped, aggregated, dropped_details);
    }
    lanes
}

/// The lane number of each span. An open span never frees its lane.
fn places(lane: &TraceLane) -> Vec<usize> {
    // End of the last outermost span of each lane.
    let mut busy: Vec<u64> = Vec::new();
    let mut places: Vec<usize> = Vec::with_capacity(lane.spans.len());
    for span in &lane.spans {
        if let Some(place) = places.get(span.parent as usize) {
            places.push(*place);
            continue;
        }
        let end = if span.is_open() { u64::MAX } else { span.end };
        let free = busy.iter().position(|until| *until <= span.start).unwrap_or(busy.len());
        match busy.get_mut(free) {
            Some(until) => *until = end,
            None => busy.push(end),
        }
        places.push(free);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::Detail;
    use crate::trace::Span;

    fn span(start: u64, end: u64, parent: u32, ext: u32) -> Span {
        Span { start, end, site: 1, parent, corr: 0, ext }
    }

    fn lane(spans: Vec<Span>) -> TraceLane {
        let detail = |bytes: u64| Detail { rss_bytes: Some(bytes), ..Detail::default() };
        TraceLane {
            name: "main".into(),
            spans,
            details: vec![detail(10), detail(20)],
            dropped: 3,
            ..TraceLane::default()
        }
    }

    #[test]
    fn spans_that_nest_stay_as_they_are() {
        let nested = lane(vec![span(1, 9, NONE, 1), span(2, 3, 0, 0), span(9, 12, NONE, 2)]);
        assert_eq!(untangled(nested.clone()), [nested]);
    }

    #[test]
    fn a_span_ends_with_the_one_around_and_what_began_later_is_not_inside() {
        let mut late = vec![
            span(1, 10, NONE, 0),
            span(2, 30, 0, 1),
            span(3, 12, 1, 2),
            // A leaked guard.
            span(4, 0, 2, 0),
            span(5, 15, 3, 0),
            span(20, 25, 3, 0),
            span(40, 0, NONE, 0),
            span(50, 60, 6, 0),
            // A damaged parent.
            span(50, 60, 9, 0),
        ];
        let mut lane = TraceLane { spans: late.clone(), ..TraceLane::default() };
        let measured = Detail { cpu_ns: Some(7), rss_bytes: Some(8), ..Detail::default() };
        lane.details = vec![measured.clone(), measured.clone()];
        lane.nest();
        (late[1].end, late[2].end, late[4].end) = (10, 10, 10);
        (late[5].parent, late[8].parent) = (NONE, NONE);
        assert_eq!(lane.spans, late);
        assert_eq!(lane.details, [Detail { cpu_ns: None, ..measured.clone() }, measured]);
        let once = lane.clone();
        lane.nest();
        assert_eq!(lane, once);
    }

    #[test]
    fn tasks_that_took_turns_get_a_lane_each_with_what_is_inside() {
        // a and b overlap, b is open; c begins when a has ended.
        let tangled = vec![
            span(1, 10, NONE, 0),
            span(2, 0, NONE, 2),
            span(3, 4, 0, 1),
            span(5, 6, 1, 0),
            span(11, 12, NONE, 0),
            span(11, 12, 4, 0),
        ];
        let lanes = untangled(lane(tangled));
        let names: Vec<&str> = lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!(names, ["main", "main (2)"]);
        let first = [span(1, 10, NONE, 0), span(3, 4, 0, 1), span(11, 12, NONE, 0), span(11, 12, 2, 0)];
        assert_eq!(lanes[0].spans, first);
        assert_eq!(lanes[1].spans, [span(2, 0, NONE, 1), span(5, 6, 0, 0)]);
        let resident =
            |lane: &TraceLane, index: usize| lane.detail_of(&lane.spans[index]).and_then(|detail| detail.rss_bytes);
        assert_eq!((resident(&lanes[0], 1), resident(&lanes[1], 0)), (Some(10), Some(20)));
        assert_eq!((lanes[0].dropped, lanes[1].dropped), (3, 0));
    }
}
