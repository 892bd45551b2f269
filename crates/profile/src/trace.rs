//! What a session recorded: sites, lanes and their spans.

use crate::activity::Activity;

use crate::clock::Calibration;
use crate::counters::Counters;
use crate::lane::LaneRead;
use crate::site::Site;

/// No span: what stands as the parent of an outermost one.
pub const NONE: u32 = u32::MAX;

/// One span, 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Span {
    /// Start, in ticks of [`Trace::clock`].
    pub start: u64,
    /// End, in ticks; 0 while it is open.
    pub end: u64,
    /// Number of its site: [`Trace::site`].
    pub site: u32,
    /// Index of the span around it on the same lane, or [`NONE`].
    pub parent: u32,
    /// Number that it shares with what it started elsewhere, of which it is the first; 0 is none.
    pub corr: u32,
    /// Row of its counters plus one; 0 is none: [`TraceLane::counters_of`].
    pub ext: u32,
}

const _: () = assert!(size_of::<Span>() == 32);

impl Span {
    /// Whether it had not ended when the session did; it has no duration then.
    pub fn is_open(&self) -> bool {
        self.end == 0
    }

    /// Its duration in ticks; 0 for an open one.
    pub fn ticks(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// A call site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteInfo {
    /// Name of its spans.
    pub name: String,
    /// Source file.
    pub file: String,
    /// Line.
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
    /// Its spans in the order in which they began; a parent stands before its children.
    pub spans: Vec<Span>,
    /// Rows of counters.
    pub counters: Vec<Counters>,
    /// Spans that found no room.
    pub dropped: u64,
    /// Spans whose counters found no room.
    pub dropped_counters: u64,
}

impl TraceLane {
    pub(crate) fn of(name: &str, read: LaneRead) -> Self {
        let LaneRead { spans, counters, dropped, dropped_counters } = read;
        Self { name: name.to_string(), spans, counters, dropped, dropped_counters }
    }

    /// The counters of a span, where it has some.
    pub fn counters_of(&self, span: &Span) -> Option<&Counters> {
        self.counters.get(span.ext.checked_sub(1)? as usize)
    }
}

/// What a session recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Start in nanoseconds since 1970-01-01 UTC, by the clock of the system.
    pub started_unix_ns: u64,
    /// Start in ticks.
    pub start: u64,
    /// End in ticks.
    pub end: u64,
    /// What ticks are.
    pub clock: Calibration,
    /// Call sites; see [`Trace::site`].
    pub sites: Vec<SiteInfo>,
    /// Threads that recorded something, in the order of their first spans.
    pub lanes: Vec<TraceLane>,
    /// Spans that were lost because their threads were ending.
    pub lost: u64,
    /// What a device did meanwhile, with starts since the start of the session.
    pub activities: Vec<Activity>,
}

impl Trace {
    /// The call site of a span.
    pub fn site(&self, span: &Span) -> Option<&SiteInfo> {
        self.sites.get(span.site.checked_sub(1)? as usize)
    }

    /// Name of a span.
    pub fn name(&self, span: &Span) -> &str {
        self.site(span).map_or("?", |site| &site.name)
    }

    /// Time from the start of the session to `ticks`, in nanoseconds; negative before it.
    pub fn since_start_ns(&self, ticks: u64) -> f64 {
        if ticks >= self.start { self.clock.ns(ticks - self.start) } else { -self.clock.ns(self.start - ticks) }
    }

    /// Length of the session in nanoseconds.
    pub fn wall_ns(&self) -> f64 {
        self.clock.ns(self.end.saturating_sub(self.start))
    }

    /// Duration of a span in nanoseconds.
    pub fn duration_ns(&self, span: &Span) -> f64 {
        self.clock.ns(span.ticks())
    }

    /// Spans recorded, open ones included.
    pub fn spans(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.spans.len() as u64).sum()
    }

    /// Spans that had not ended when the session did.
    pub fn open(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.spans.iter().filter(|span| span.is_open()).count() as u64).sum()
    }

    /// Spans that are missing: no room, or their thread was ending.
    pub fn dropped(&self) -> u64 {
        self.lost + self.lanes.iter().map(|lane| lane.dropped).sum::<u64>()
    }

    /// Spans whose counters are missing.
    pub fn dropped_counters(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.dropped_counters).sum()
    }
}
