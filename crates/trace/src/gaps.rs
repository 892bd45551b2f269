//! What a profile lacks, in sentences, and how many calls it counts.

use ellwand_profile::{LaneKind, NONE, Span, Trace};

use crate::read::counted;

/// Spans that have no entry in a profile, by the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gaps {
    /// Spans for which there was no room as entries; the totals of their operation include them.
    pub aggregated: u64,
    /// Spans that are lost.
    pub lost: u64,
    /// Device operations with impossible times, which are lost too.
    pub refused: u64,
    /// Kept spans that lost declared work or measurements.
    pub details: u64,
    /// Outermost spans that sampling skipped, with everything inside.
    pub sampled_out: u64,
    /// Number of spans kept of each thread, if earlier ones may be missing; otherwise 0.
    pub last: u64,
    /// Outermost spans that are kept; 0 if aggregation or a ring makes their number unknown.
    outermost: u64,
}

impl Gaps {
    /// The gaps of a profile.
    pub fn of(trace: &Trace) -> Self {
        let aggregated = trace.lanes.iter().fold(0_u64, |sum, lane| sum.saturating_add(lane.overflowed()));
        let streams = trace.lanes.iter().filter(|lane| lane.kind != LaneKind::Thread);
        let refused = streams.fold(0_u64, |sum, lane| sum.saturating_add(lane.dropped - lane.overflowed()));
        let last = trace.last_spans();
        let whole = last.is_none() && trace.lanes.iter().all(|lane| lane.totals.is_empty());
        // Sampling never skips device operations.
        let threads = trace.lanes.iter().filter(|lane| lane.kind == LaneKind::Thread);
        let outermost = threads
            .flat_map(|lane| &lane.spans)
            .filter(|span| whole && span.parent == NONE && !trace.is_own(span.site))
            .count() as u64;
        Self {
            aggregated,
            lost: trace.dropped().saturating_sub(aggregated).saturating_sub(refused),
            refused,
            details: trace.dropped_details(),
            sampled_out: trace.sampled_out,
            last: last.unwrap_or(0),
            outermost,
        }
    }

    /// Outermost spans kept and skipped by sampling, if sampling skipped any and both numbers are known.
    pub(crate) fn sampling(&self) -> Option<(u64, u64)> {
        (self.outermost > 0 && self.sampled_out > 0 && self.lost == 0).then_some((self.outermost, self.sampled_out))
    }

    /// True if calls, times or quantities of the profile are too low.
    pub const fn are_real(&self) -> bool {
        self.lost > 0 || self.refused > 0 || self.details > 0 || self.sampled_out > 0 || self.last > 0
    }

    /// A sentence for each kind of gap.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let mut add = |number: u64, [one, many]: [&str; 2], what: &str| {
            if number > 0 {
                sentences.push(format!("{} {what}", counted(number, one, many)));
            }
        };
        // In a ring, these are the earlier spans of the last sentence.
        let lost = if self.last > 0 { 0 } else { self.lost };
        add(lost, ["span was", "spans were"], "lost: calls and times lack them");
        add(
            self.refused,
            ["operation of a device was", "operations of devices were"],
            "left out: they end before they begin, or lie outside the recording",
        );
        add(
            self.aggregated,
            ["span is", "spans are"],
            "only in the totals of their operations, because the memory for spans was full: calls and times contain them",
        );
        add(
            self.details,
            ["span", "spans"],
            "lost arguments, because the memory for them was full (in profiles of earlier versions also declared work, CPU time and allocations)",
        );
        let rate = if self.outermost > 0 {
            let all = self.outermost.saturating_add(self.sampled_out);
            format!(" (1 in {:.0} recorded)", all as f64 / self.outermost as f64)
        } else {
            String::new()
        };
        add(
            self.sampled_out,
            ["outermost span was", "outermost spans were"],
            &format!("skipped by sampling{rate}: calls and times lack them"),
        );
        if self.last > 0 {
            let spans = counted(self.last, "span", "spans");
            let earlier =
                if self.lost > 0 { format!("{} earlier ones", self.lost) } else { "earlier ones".to_string() };
            sentences.push(format!(
                "only the last {spans} of each thread are kept: calls, times and the profiler's own cost lack {earlier}"
            ));
        }
        sentences
    }
}

/// The kept spans of the program, without the recorder's own calls.
pub(crate) fn spans(trace: &Trace) -> impl Iterator<Item = &Span> {
    trace.lanes.iter().flat_map(|lane| &lane.spans).filter(|span| !trace.is_own(span.site))
}

/// The number of a profile's calls that ended, that are open, and that are entries: `200000 calls, 1 open (11264 kept
/// as spans)`. Without the recorder's own calls.
pub fn calls(trace: &Trace) -> String {
    let totals = || trace.lanes.iter().flat_map(|lane| &lane.totals);
    let kept = spans(trace).count() as u64;
    let open = spans(trace).filter(|span| span.is_open()).count() as u64;
    let ended = totals().fold(kept - open, |sum, total| sum.saturating_add(total.count));
    let open = totals().fold(open, |sum, total| sum.saturating_add(total.open));
    let mut calls = counted(ended, "call", "calls");
    if open > 0 {
        calls.push_str(&format!(", {open} open"));
    }
    if ended.saturating_add(open) == kept { calls } else { format!("{calls} ({kept} kept as spans)") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ellwand_profile::{Kind, SiteInfo, Total, TraceLane};

    use super::*;

    fn recorded(kept: u64, held: u64, dropped: u64) -> Trace {
        let site = |name: &str, kind| SiteInfo { name: name.into(), kind, file: String::new(), line: 0 };
        let span = |site, at| Span { start: at, end: at + 1, site, parent: NONE, corr: 0, ext: 0 };
        let mut spans: Vec<Span> = (1..=kept).map(|at| span(1, at)).collect();
        spans.push(span(2, kept + 2));
        let total = Total { parent: NONE, site: 1, count: held, ..Total::default() };
        let totals = if held > 0 { vec![total] } else { Vec::new() };
        // A lane that kept some spans aggregated the others for lack of room, not because of its mode.
        let aggregated = if kept > 0 { held } else { 0 };
        Trace {
            end: 1000,
            sites: vec![site("step", Kind::Cpu), site("(room for spans)", Kind::Instrumentation)],
            lanes: vec![TraceLane { spans, totals, dropped, aggregated, ..TraceLane::default() }],
            ..Trace::in_nanoseconds()
        }
    }

    #[test]
    fn spans_in_totals_are_not_lost() {
        let full = Gaps::of(&recorded(10, 90, 93));
        assert_eq!((full.aggregated, full.lost, full.are_real()), (90, 3, true));
        let full = Gaps::of(&recorded(10, 90, 90));
        assert_eq!((full.aggregated, full.lost, full.are_real()), (90, 0, false));
        assert!(full.sentences()[0].starts_with("90 spans are only in the totals"), "{:?}", full.sentences());
        let aggregate = Gaps::of(&recorded(0, 90, 3));
        assert_eq!((aggregate.aggregated, aggregate.lost), (0, 3));
        assert_eq!(Gaps::of(&recorded(10, 0, 0)).sentences(), Vec::<String>::new());
    }

    #[test]
    fn impossible_device_operations_have_a_separate_reason() {
        let mut trace = recorded(10, 0, 0);
        let kind = LaneKind::Stream { device: "cuda:0".into() };
        trace.lanes.push(TraceLane { kind, dropped: 2, ..TraceLane::default() });
        let gaps = Gaps::of(&trace);
        assert_eq!((gaps.lost, gaps.refused, gaps.are_real()), (0, 2, true));
        assert!(gaps.sentences()[0].starts_with("2 operations of devices were left out: they end before"));
    }

    #[test]
    fn sampling_names_its_rate_unless_totals_hide_it() {
        let sampled =
            |held| Gaps::of(&Trace { sampled_out: 90, ..recorded(10, held, held) }).sentences().pop().unwrap();
        assert_eq!(
            sampled(0),
            "90 outermost spans were skipped by sampling (1 in 10 recorded): calls and times lack them"
        );
        assert_eq!(sampled(5), "90 outermost spans were skipped by sampling: calls and times lack them");
    }

    #[test]
    fn a_ring_says_that_earlier_spans_are_missing() {
        let ring = |last: i64, sampled_out| {
            let environment = vec![("last spans of a thread".to_string(), last.into())];
            Gaps::of(&Trace { environment, sampled_out, ..recorded(10, 0, 0) })
        };
        assert_eq!((ring(11, 0).last, ring(11, 0).are_real(), ring(12, 0).are_real()), (11, true, false));
        assert_eq!(
            ring(11, 90).sentences(),
            [
                "90 outermost spans were skipped by sampling: calls and times lack them",
                "only the last 11 spans of each thread are kept: calls, times and the profiler's own cost lack earlier ones"
            ]
        );
    }

    #[test]
    fn a_ring_counts_the_spans_that_it_dropped() {
        let environment = vec![("last spans of a thread".to_string(), 11.into())];
        let ring = Gaps::of(&Trace { environment, ..recorded(10, 0, 7) });
        assert_eq!(
            ring.sentences(),
            [
                "only the last 11 spans of each thread are kept: calls, times and the profiler's own cost lack 7 earlier ones"
            ]
        );
    }

    #[test]
    fn calls_are_those_of_the_program() {
        assert_eq!(calls(&recorded(10, 0, 0)), "10 calls");
        assert_eq!(calls(&recorded(10, 90, 90)), "100 calls (10 kept as spans)");
        assert_eq!(calls(&recorded(0, 157, 0)), "157 calls (0 kept as spans)");
        let mut open = recorded(10, 90, 90);
        open.lanes[0].spans[9].end = 0;
        assert_eq!(calls(&open), "99 calls, 1 open (10 kept as spans)");
    }
}
