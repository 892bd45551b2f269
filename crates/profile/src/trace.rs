//! The recording of a session: sites, lanes and their spans.

use crate::activity::Activity;

use crate::clock::Calibration;
use crate::counters::Counters;
use crate::lane::LaneRead;
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
    /// Index of its counters plus one, 0 for none: [`TraceLane::counters_of`].
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

/// A call site, without its registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteInfo {
    /// Name of its spans.
    pub name: String,
    /// Source file of the call site.
    pub file: String,
    /// Line of the call site, starting at 1.
    pub line: u32,
}

impl SiteInfo {
    pub(crate) fn of(site: &Site) -> Self {
        Self { name: site.name.to_string(), file: site.file.to_string(), line: site.line }
    }
}

/// The spans of one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceLane {
    /// Name of the thread.
    pub name: String,
    /// Spans in order of their start; a parent precedes its children.
    pub spans: Vec<Span>,
    /// Counters, referred to by [`Span::ext`].
    pub counters: Vec<Counters>,
    /// Spans lost because the buffer was full.
    pub dropped: u64,
    /// Spans whose counters were lost because the buffer was full.
    pub dropped_counters: u64,
}

impl TraceLane {
    pub(crate) fn of(name: &str, read: LaneRead) -> Self {
        let LaneRead { spans, counters, dropped, dropped_counters } = read;
        Self { name: name.to_string(), spans, counters, dropped, dropped_counters }
    }

    /// The counters of a span, if it has any.
    pub fn counters_of(&self, span: &Span) -> Option<&Counters> {
        self.counters.get(span.ext.checked_sub(1)? as usize)
    }
}

/// Everything that a session recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
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
    /// Activities of a device during the session; their starts count from the start of the session.
    pub activities: Vec<Activity>,
}

impl Trace {
    /// The call site of a span; `None` if its number is unknown.
    pub fn site(&self, span: &Span) -> Option<&SiteInfo> {
        self.sites.get(span.site.checked_sub(1)? as usize)
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
        self.lost + self.lanes.iter().map(|lane| lane.dropped).sum::<u64>()
    }

    /// Number of spans whose counters were lost.
    pub fn dropped_counters(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.dropped_counters).sum()
    }
}
