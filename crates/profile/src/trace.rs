//! The recording of a session: sites, lanes and their spans.

use crate::clock::Calibration;
use crate::cost::{Cost, SpanCost};
use crate::counters::Counters;
use crate::detail::{Detail, Total, Track, Value};
use crate::environment::LAST_SPANS;
use crate::inner;
use crate::kind::{Kind, LaneKind};
use crate::site::Site;

/// Parent index of an outermost span.
pub const NONE: u32 = u32::MAX;

/// One recorded span, 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Span {
    /// Start, in ticks of [`Trace::clock`].
    pub start: u64,
    /// End in ticks; 0 while the span is open.
    pub end: u64,
    /// Number of its call site: [`Trace::site`].
    pub site: u32,
    /// Index of the span around it on the same lane, or [`NONE`].
    pub parent: u32,
    /// Correlation number shared with the spans it started on other threads; 0 for none.
    pub corr: u32,
    /// Index of its details plus one, 0 for none: [`TraceLane::detail_of`].
    pub ext: u32,
}

const _: () = assert!(size_of::<Span>() == 32);

impl Span {
    /// True if the span had not ended when the session did; it then has no duration.
    pub fn is_open(&self) -> bool {
        self.end == 0
    }

    /// Duration in ticks; 0 for an open span.
    pub fn ticks(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// An operation: the name, kind and source location that many spans share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteInfo {
    /// Name of its spans.
    pub name: String,
    /// What its spans spend their time on.
    pub kind: Kind,
    /// Source file of the call site.
    pub file: String,
    /// Line of the call site, starting at 1.
    pub line: u32,
}

impl SiteInfo {
    pub(crate) fn of(site: &Site) -> Self {
        Self { name: site.name.to_string(), kind: site.kind, file: site.file.to_string(), line: site.line }
    }
}

/// The spans of one thread.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TraceLane {
    /// Name of the thread or stream.
    pub name: String,
    /// Whether this is a thread of the host or a stream of a device.
    pub kind: LaneKind,
    /// Spans in order of their start; a parent precedes its children.
    pub spans: Vec<Span>,
    /// Details, referred to by [`Span::ext`].
    pub details: Vec<Detail>,
    /// The calling-context tree of spans that were aggregated instead of kept.
    pub totals: Vec<Total>,
    /// Spans for which there was no room, those included that a ring dropped for later ones.
    pub dropped: u64,
    /// The ones of `dropped` that `totals` holds; the others are lost.
    pub aggregated: u64,
    /// Spans that lost arguments because the buffer was full; in profiles of earlier versions, also work and
    /// measurements.
    pub dropped_details: u64,
}

impl TraceLane {
    /// The details of a span, if it has any.
    pub fn detail_of(&self, span: &Span) -> Option<&Detail> {
        self.details.get(span.ext.checked_sub(1)? as usize)
    }

    /// Adds details, if there are any; returns the [`Span::ext`] of their span.
    pub fn add_detail(&mut self, detail: Option<Detail>) -> u32 {
        detail.map_or(0, |detail| {
            self.details.push(detail);
            self.details.len() as u32
        })
    }

    /// Name of a lane that `later` threads continued after its first thread had ended.
    pub(crate) fn name_of(first: &str, later: u32) -> String {
        match later {
            0 => first.to_string(),
            1 => format!("{first} and 1 later thread"),
            n => format!("{first} and {n} later threads"),
        }
    }

    /// Number of spans that only `totals` holds: aggregated ones, open or not.
    pub fn held(&self) -> u64 {
        self.totals.iter().fold(0, |sum, total| sum.saturating_add(total.count).saturating_add(total.open))
    }

    /// Number of spans that were aggregated because the budget had no room for them.
    pub fn overflowed(&self) -> u64 {
        // A damaged file may claim any number.
        self.aggregated.min(self.dropped)
    }

    /// True if several threads recorded it, one after the other; its name shows that, also in a file.
    #[inline]
    pub fn is_of_many_threads(&self) -> bool {
        let later = self.name.rsplit_once(" and ").and_then(|(_, later)| later.split_once(" later thread"));
        later.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
    }

    /// For each span: false if it is inside another span of the same operation, as in a recursive function.
    pub fn outermost(&self) -> Vec<bool> {
        inner::outermost(&self.spans.iter().map(|span| (span.parent, span.site)).collect::<Vec<_>>())
    }

    /// The counters of a span, if it has details.
    pub fn counters_of(&self, span: &Span) -> Option<&Counters> {
        self.detail_of(span).map(|detail| &detail.counters)
    }
}

/// Everything that a session recorded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// Name of the program or of what was recorded; may be empty.
    pub name: String,
    /// Facts about the machine and the program, by name.
    pub environment: Vec<(String, Value)>,
    /// Start in nanoseconds since 1970-01-01 UTC, on the system clock.
    pub started_unix_ns: u64,
    /// Start of the session in ticks.
    pub start: u64,
    /// End of the session in ticks.
    pub end: u64,
    /// The conversion from ticks to nanoseconds.
    pub clock: Calibration,
    /// Call sites, indexed by [`Trace::site`].
    pub sites: Vec<SiteInfo>,
    /// Threads that recorded spans, in the order of their first spans.
    pub lanes: Vec<TraceLane>,
    /// Spans lost because their threads were ending.
    pub lost: u64,
    /// Outermost spans skipped by sampling, with everything inside them.
    pub sampled_out: u64,
    /// Quantities over time.
    pub tracks: Vec<Track>,
    /// The cost of a span, measured before or after the recording; the mean over all spans if costs differ.
    pub cost: Option<Cost>,
    /// The cost of a span by call site, in the order of `sites`; sites beyond its end have the mean cost.
    pub span_costs: Vec<SpanCost>,
}

impl Trace {
    /// An empty trace whose ticks are nanoseconds, for recordings of other programs.
    pub fn in_nanoseconds() -> Self {
        Self::default()
    }

    /// The call site of a span; `None` if its number is unknown.
    pub fn site(&self, span: &Span) -> Option<&SiteInfo> {
        self.site_of(span.site)
    }

    /// The call site with a number; `None` if that is unknown.
    pub(crate) fn site_of(&self, number: u32) -> Option<&SiteInfo> {
        self.sites.get(number.checked_sub(1)? as usize)
    }

    /// The cost of a span of a call site; NaN if unknown.
    pub fn span_cost(&self, site: u32) -> SpanCost {
        let own = site.checked_sub(1).and_then(|at| self.span_costs.get(at as usize)).copied();
        let unknown = SpanCost { span_ns: f64::NAN, empty_ns: f64::NAN };
        own.unwrap_or_else(|| {
            self.cost.map_or(unknown, |cost| SpanCost { span_ns: cost.on_ns, empty_ns: cost.empty_ns })
        })
    }

    /// Name of a span, or `?` if its call site is unknown.
    pub fn name(&self, span: &Span) -> &str {
        self.site(span).map_or("?", |site| &site.name)
    }

    /// Nanoseconds from the start of the session to `ticks`; negative before the start.
    pub fn since_start_ns(&self, ticks: u64) -> f64 {
        if ticks >= self.start { self.clock.ns(ticks - self.start) } else { -self.clock.ns(self.start - ticks) }
    }

    /// Duration of the session in nanoseconds.
    pub fn wall_ns(&self) -> f64 {
        self.clock.ns(self.end.saturating_sub(self.start))
    }

    /// Duration of a span in nanoseconds.
    pub fn duration_ns(&self, span: &Span) -> f64 {
        self.clock.ns(span.ticks())
    }

    /// Number of recorded spans, including open ones.
    pub fn spans(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.spans.len() as u64).sum()
    }

    /// Number of spans that had not ended when the session did.
    pub fn open(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.spans.iter().filter(|span| span.is_open()).count() as u64).sum()
    }

    /// Number of lost spans: the buffer was full or their thread was ending.
    pub fn dropped(&self) -> u64 {
        self.lanes.iter().fold(self.lost, |sum, lane| sum.saturating_add(lane.dropped))
    }

    /// The number of spans kept of each thread, if the recording kept only the last ones
    /// ([`Mode::Ring`](crate::Mode::Ring)) and a thread has that many: earlier ones may be missing.
    pub fn last_spans(&self) -> Option<u64> {
        let fact = self.environment.iter().find(|(name, _)| name == LAST_SPANS);
        let Some((_, Value::Int(last))) = fact else { return None };
        let last = u64::try_from(*last).ok()?;
        self.lanes.iter().any(|lane| lane.kind == LaneKind::Thread && lane.spans.len() as u64 >= last).then_some(last)
    }

    /// True if the recording kept only the last spans of each thread.
    pub fn is_of_ring(&self) -> bool {
        self.environment.iter().any(|(name, _)| name == LAST_SPANS)
    }

    /// Number of spans whose details were lost.
    pub fn dropped_details(&self) -> u64 {
        self.lanes.iter().fold(0, |sum, lane| sum.saturating_add(lane.dropped_details))
    }
}
