//! Reads the JSON of `docs/profile-format.md` as a trace.

use ellwand_profile::{
    Calibration, ClockKind, Cost, Counters, Detail, Kind, LaneKind, MemoryUse, NONE, SiteInfo, Span, SpanCost, Total,
    Trace, TraceLane, Track,
};
use serde::Deserialize;

use super::limits::{Column, MAX_DETAILS, Number};
use super::{Each, Problem};
use crate::chrome::Args;

#[derive(Default)]
pub(crate) struct Ours {
    pub(crate) name: String,
    pub(crate) started_unix_ns: u64,
    pub(crate) wall_ns: Option<f64>,
    pub(crate) clock: Option<Clock>,
    pub(crate) environment: Args,
    pub(crate) cost: Option<CostRow>,
    pub(crate) losses: Losses,
    pub(crate) operations: Vec<Operation>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) entries: Entries,
    details: Vec<Detail>,
    pub(crate) totals: Vec<TotalRow>,
    pub(crate) tracks: Vec<TrackRow>,
}

#[derive(Deserialize)]
#[serde(default, expecting = "the clock: an object with kind and ns_per_tick")]
pub(crate) struct Clock {
    kind: String,
    ns_per_tick: f64,
    relative_error: f64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { kind: String::new(), ns_per_tick: 1.0, relative_error: 0.0 }
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object with span_ns, off_ns and empty_ns")]
pub(crate) struct CostRow {
    span_ns: Number,
    off_ns: Number,
    empty_ns: Number,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "an object of losses")]
pub(crate) struct Losses {
    spans: u64,
    details: u64,
    ending_threads: u64,
    sampled_out: u64,
}

#[derive(Deserialize)]
#[serde(expecting = "an operation: an object with name, kind, file and line")]
pub(crate) struct Operation {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    file: String,
    #[serde(default)]
    line: u32,
    #[serde(default)]
    span_ns: Option<f64>,
    #[serde(default)]
    empty_ns: Option<f64>,
}

#[derive(Deserialize)]
#[serde(expecting = "a lane: an object with name and kind")]
pub(crate) struct Lane {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    device: String,
    #[serde(default)]
    dropped: u64,
    #[serde(default)]
    aggregated: Option<u64>,
    #[serde(default)]
    dropped_details: u64,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "an object of columns, one per field of a span")]
pub(crate) struct Entries {
    operation: Column<i32>,
    lane: Column<i32>,
    parent: Column<i32>,
    start_ns: Column<Number>,
    duration_ns: Column<Number>,
    link: Column<u32>,
    detail: Column<i32>,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "an object of details")]
pub(crate) struct DetailRow {
    bytes: u64,
    items: u64,
    /// Earlier versions wrote null for values that are not finite.
    flops: Option<f64>,
    cpu_ns: Option<u64>,
    allocations: Option<u64>,
    allocated_bytes: Option<u64>,
    freed_bytes: Option<u64>,
    peak_bytes: Option<u64>,
    rss_bytes: Option<u64>,
    cause: u32,
    args: Args,
}

impl DetailRow {
    fn detail(self) -> Detail {
        let known = self.allocations.or(self.allocated_bytes).or(self.freed_bytes).or(self.peak_bytes).is_some();
        let memory = MemoryUse {
            allocations: self.allocations.unwrap_or(0),
            allocated_bytes: self.allocated_bytes.unwrap_or(0),
            freed_bytes: self.freed_bytes.unwrap_or(0),
            peak_bytes: self.peak_bytes.unwrap_or(0),
        };
        Detail {
            counters: Counters { bytes: self.bytes, items: self.items, flops: self.flops.unwrap_or(0.0) },
            cpu_ns: self.cpu_ns,
            memory: known.then_some(memory),
            rss_bytes: self.rss_bytes,
            args: self.args.0,
            cause: self.cause,
        }
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object of totals")]
pub(crate) struct TotalRow {
    lane: i64,
    parent: i64,
    operation: i64,
    count: u64,
    #[serde(default)]
    open: u64,
    total_ns: f64,
    self_ns: f64,
    min_ns: Number,
    max_ns: Number,
    #[serde(default)]
    square_ns2: f64,
    #[serde(default)]
    histogram: Vec<(u8, u64)>,
    #[serde(default)]
    sums: DetailRow,
}

#[derive(Deserialize)]
#[serde(expecting = "a track: an object with name, unit, at_ns and value")]
pub(crate) struct TrackRow {
    name: String,
    #[serde(default)]
    unit: String,
    at_ns: Column<f64>,
    value: Column<Number>,
}

/// Converts nanoseconds from the start to ticks of the trace.
struct Ticks {
    ns_per_tick: f64,
    /// The tick of the start, at least 1, because a span that ends at tick 0 counts as open.
    start: u64,
}

impl Ticks {
    fn at(&self, ns: f64) -> u64 {
        let ticks = (ns.abs() / self.ns_per_tick).round() as u64;
        if ns < 0.0 { self.start.saturating_sub(ticks).max(1) } else { self.start.saturating_add(ticks) }
    }
}

impl Ours {
    pub(crate) fn all_details(&mut self) -> Each<DetailRow, impl FnMut(DetailRow) -> Result<(), String>> {
        Each::new("an array of details", |row: DetailRow| {
            if self.details.len() < MAX_DETAILS {
                self.details.push(row.detail());
            }
            Ok(())
        })
    }

    pub(crate) fn finish(mut self) -> Result<Trace, Problem> {
        self.entries.check()?;
        let mut trace = Trace::in_nanoseconds();
        trace.name = std::mem::take(&mut self.name);
        trace.environment = std::mem::take(&mut self.environment.0);
        trace.started_unix_ns = self.started_unix_ns;
        trace.clock = self.clock()?;
        trace.lost = self.losses.ending_threads;
        trace.sampled_out = self.losses.sampled_out;
        let cost = |cost: CostRow| Cost::of_span(trace.clock.kind, cost.span_ns.0, cost.off_ns.0, cost.empty_ns.0);
        trace.cost = self.cost.take().map(cost);
        trace.span_costs = self.span_costs(&trace);
        trace.sites = self.sites()?;
        trace.lanes = self.empty_lanes()?;
        let earliest = self.entries.start_ns.0.iter().fold(0.0_f64, |least, start| least.min(start.0));
        let before = (-earliest / trace.clock.ns_per_tick).ceil() as u64;
        let ticks = Ticks { ns_per_tick: trace.clock.ns_per_tick, start: before.saturating_add(1) };
        trace.start = ticks.start;
        let last = self.spans(&mut trace, &ticks)?;
        trace.lanes.iter_mut().for_each(TraceLane::nest);
        trace.end = match self.wall_ns {
            Some(wall) if wall.is_finite() && wall >= 0.0 => ticks.at(wall),
            Some(wall) => {
                return Err(Problem::content("wall_ns", format!("it is {wall}; expected a time of at least 0")));
            }
            None => last.max(ticks.start),
        };
        self.add_totals(&mut trace)?;
        // Earlier versions did not record what happened to the dropped spans. If a lane aggregated by its mode, they
        // count as lost; in most such files they are fewer than the aggregated ones.
        for lane in trace.lanes.iter_mut().filter(|lane| lane.aggregated == u64::MAX) {
            lane.aggregated = Some(lane.held()).filter(|held| lane.dropped >= *held).unwrap_or(0);
        }
        self.add_tracks(&mut trace, &ticks)?;
        Ok(trace)
    }

    fn clock(&self) -> Result<Calibration, Problem> {
        let default = Clock::default();
        let clock = self.clock.as_ref().unwrap_or(&default);
        let ns_per_tick = clock.ns_per_tick;
        if !(ns_per_tick.is_finite() && ns_per_tick > 1e-6) {
            let what = format!("it is {ns_per_tick}; expected the length of a tick, more than 0");
            return Err(Problem::content("clock.ns_per_tick", what));
        }
        let known = [ClockKind::Tsc, ClockKind::Monotonic].into_iter().find(|kind| kind.word() == clock.kind);
        let kind = known.unwrap_or(ClockKind::Unknown);
        Ok(Calibration { kind, ns_per_tick, relative_error: clock.relative_error })
    }

    /// The cost by operation; empty if the file has none.
    fn span_costs(&self, trace: &Trace) -> Vec<SpanCost> {
        let all = trace.span_cost(0);
        let cost = |one: &Operation| SpanCost {
            span_ns: one.span_ns.unwrap_or(all.span_ns),
            empty_ns: one.empty_ns.unwrap_or(all.empty_ns),
        };
        let is_known = self.operations.iter().any(|one| one.span_ns.or(one.empty_ns).is_some());
        if is_known { self.operations.iter().map(cost).collect() } else { Vec::new() }
    }

    fn sites(&mut self) -> Result<Vec<SiteInfo>, Problem> {
        let known = |word: &str| if word.is_empty() { Some(Kind::Cpu) } else { Kind::of_word(word) };
        let site = |(index, Operation { name, kind, file, line, .. }): (usize, Operation)| {
            let kind = known(&kind).ok_or_else(|| {
                let words = Kind::ALL.map(Kind::word).join(", ");
                let kind = super::shortened(&kind, 40);
                Problem::content(
                    format!("operations[{index}].kind"),
                    format!("it is {kind:?}; expected one of {words}"),
                )
            })?;
            Ok(SiteInfo { name, kind, file, line })
        };
        std::mem::take(&mut self.operations).into_iter().enumerate().map(site).collect()
    }

    fn empty_lanes(&mut self) -> Result<Vec<TraceLane>, Problem> {
        let mut lanes = Vec::with_capacity(self.lanes.len());
        for (index, lane) in std::mem::take(&mut self.lanes).into_iter().enumerate() {
            let kind = match lane.kind.as_str() {
                "" | "thread" => LaneKind::Thread,
                "stream" => LaneKind::Stream { device: lane.device },
                other => {
                    let what = format!("it is {:?}; expected thread or stream", super::shortened(other, 40));
                    return Err(Problem::content(format!("lanes[{index}].kind"), what));
                }
            };
            let (dropped, dropped_details) = (lane.dropped, lane.dropped_details);
            // Without this member, the number is computed once the totals are known.
            let aggregated = lane.aggregated.unwrap_or(u64::MAX);
            let name = lane.name;
            lanes.push(TraceLane { name, kind, dropped, aggregated, dropped_details, ..TraceLane::default() });
        }
        // Programs that do not know which lane lost spans still report the total number.
        let missing = |all: u64, known: fn(&TraceLane) -> u64, lanes: &[TraceLane]| {
            all.saturating_sub(lanes.iter().fold(0, |sum: u64, lane| sum.saturating_add(known(lane))))
        };
        let spans = missing(self.losses.spans, |lane| lane.dropped, &lanes);
        let details = missing(self.losses.details, |lane| lane.dropped_details, &lanes);
        if let Some(first) = lanes.first_mut() {
            first.dropped = first.dropped.saturating_add(spans);
            first.dropped_details = first.dropped_details.saturating_add(details);
        }
        Ok(lanes)
    }

    /// Distributes the entries to their lanes; returns the tick of the last end.
    fn spans(&mut self, trace: &mut Trace, ticks: &Ticks) -> Result<u64, Problem> {
        let entries = std::mem::take(&mut self.entries);
        let mut details: Vec<Option<Detail>> = std::mem::take(&mut self.details).into_iter().map(Some).collect();
        let sites = trace.sites.len();
        // Index of each entry on its lane.
        let mut local: Vec<u32> = Vec::with_capacity(entries.lane.0.len());
        let mut last = 0;
        for (index, number) in entries.lane.0.iter().enumerate() {
            let operation = entries.operation.0[index];
            let (start_ns, duration_ns) = (entries.start_ns.0[index].0, entries.duration_ns.0[index].0);
            let wrong = |column: &str, what: String| Problem::content(format!("entries.{column}[{index}]"), what);
            let lane = usize::try_from(*number).ok().and_then(|lane| trace.lanes.get_mut(lane));
            let unknown = || wrong("lane", format!("it is {number}; expected the index of one of the lanes"));
            let lane = lane.ok_or_else(unknown)?;
            if usize::try_from(operation).map_or(true, |operation| operation >= sites) {
                let what = format!("it is {operation}; expected the index of one of the {sites} operations");
                return Err(wrong("operation", what));
            }
            let parent = match usize::try_from(entries.parent.0[index]) {
                Err(_) => NONE,
                Ok(parent) if parent < index && entries.lane.0[parent] == *number => {
                    local.get(parent).copied().unwrap_or(NONE)
                }
                Ok(parent) => {
                    let what = format!("it is {parent}; expected -1 or the index of an earlier entry on the same lane");
                    return Err(wrong("parent", what));
                }
            };
            if !start_ns.is_finite() || duration_ns < 0.0 {
                let what = format!("start {start_ns} and duration {duration_ns}; expected finite times");
                return Err(wrong("start_ns", what));
            }
            let start = ticks.at(start_ns);
            let length = (duration_ns / ticks.ns_per_tick).round() as u64;
            let end = if duration_ns.is_finite() { start.saturating_add(length) } else { 0 };
            last = last.max(start).max(end);
            let wanted = usize::try_from(entries.detail.0[index]).ok();
            // A detail belongs to one span; a file may share it, but the model cannot.
            let detail = wanted.and_then(|at| details.get_mut(at)).and_then(Option::take);
            lane.dropped_details = lane.dropped_details.saturating_add(u64::from(wanted.is_some() && detail.is_none()));
            let ext = lane.add_detail(detail);
            local.push(lane.spans.len() as u32);
            lane.spans.push(Span { start, end, site: operation as u32 + 1, parent, corr: entries.link.0[index], ext });
        }
        Ok(last)
    }

    fn add_totals(&mut self, trace: &mut Trace) -> Result<(), Problem> {
        let rows = std::mem::take(&mut self.totals);
        let mut local: Vec<(i64, u32)> = Vec::with_capacity(rows.len());
        for (index, row) in rows.into_iter().enumerate() {
            let wrong = |member: &str, value: i64, expected: &str| {
                Problem::content(format!("totals[{index}].{member}"), format!("it is {value}; expected {expected}"))
            };
            let parent = match usize::try_from(row.parent) {
                Err(_) => NONE,
                Ok(parent) => match local.get(parent) {
                    Some((lane, at)) if *lane == row.lane => *at,
                    _ => return Err(wrong("parent", row.parent, "-1 or the index of an earlier row of the same lane")),
                },
            };
            let site = usize::try_from(row.operation).ok().filter(|site| *site < trace.sites.len());
            let site = site.ok_or_else(|| wrong("operation", row.operation, "the index of one of the operations"))?;
            let lane = usize::try_from(row.lane).ok().and_then(|lane| trace.lanes.get_mut(lane));
            let lane = lane.ok_or_else(|| wrong("lane", row.lane, "the index of one of the lanes"))?;
            local.push((row.lane, lane.totals.len() as u32));
            lane.totals.push(Total {
                parent,
                site: site as u32 + 1,
                count: row.count,
                open: row.open,
                total_ns: row.total_ns,
                self_ns: row.self_ns,
                min_ns: row.min_ns.0,
                max_ns: row.max_ns.0,
                square_ns2: row.square_ns2,
                histogram: row.histogram,
                sums: row.sums.detail(),
            });
        }
        Ok(())
    }

    fn add_tracks(&mut self, trace: &mut Trace, ticks: &Ticks) -> Result<(), Problem> {
        for (index, row) in std::mem::take(&mut self.tracks).into_iter().enumerate() {
            let (times, values) = (row.at_ns.0, row.value.0);
            if times.len() != values.len() {
                let what = format!("{} times and {} values; expected as many", times.len(), values.len());
                return Err(Problem::content(format!("tracks[{index}]"), what));
            }
            let points = times.into_iter().zip(values).map(|(ns, value)| (ticks.at(ns), value.0)).collect();
            trace.tracks.push(Track { name: row.name, unit: row.unit, points });
        }
        Ok(())
    }
}

impl Entries {
    /// Fails unless every column has the same number of values. `link` and `detail` may be missing.
    fn check(&mut self) -> Result<(), Problem> {
        let rows = self.operation.0.len();
        if self.link.0.is_empty() {
            self.link.0 = vec![0; rows];
        }
        if self.detail.0.is_empty() {
            self.detail.0 = vec![-1; rows];
        }
        let columns = [
            ("lane", self.lane.0.len()),
            ("parent", self.parent.0.len()),
            ("start_ns", self.start_ns.0.len()),
            ("duration_ns", self.duration_ns.0.len()),
            ("link", self.link.0.len()),
            ("detail", self.detail.0.len()),
        ];
        match columns.into_iter().find(|(_, length)| *length != rows) {
            None => Ok(()),
            Some((name, length)) => {
                let what = format!("{length} values, but entries.operation has {rows}; expected as many");
                Err(Problem::content(format!("entries.{name}"), what))
            }
        }
    }
}
