//! The profile as a file: the JSON of `docs/profile-format.md`.

use std::io::{self, Write};

use crate::breakdown::Part;
use crate::clock::ClockKind;
use crate::detail::{Detail, Total, Track, Value};
use crate::encode::Encoder;
use crate::kind::LaneKind;
use crate::summary::{Row, Summary};
use crate::sweep::Sweep;
use crate::trace::{NONE, Span, Trace, TraceLane};

/// The value of `format` in the file.
pub const FORMAT: &str = "ellwand profile";
/// Version of the file format.
pub const VERSION: u32 = 1;
/// Bottlenecks per order in the file.
const BOTTLENECKS: usize = 10;

impl Trace {
    /// Writes the profile with its summary, bottlenecks and breakdown as JSON; the format is described in
    /// `docs/profile-format.md`.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut json = Encoder::new(out);
        let json_ref = &mut json;
        let numbers = self.used_sites();
        self.head(json_ref, &numbers);
        self.entries(json_ref, &numbers);
        json_ref.raw(",\n\"details\":[");
        for lane in &self.lanes {
            for one in &lane.details {
                detail(json_ref, one);
                json_ref.byte(b',');
            }
        }
        json_ref.end_list();
        self.totals(json_ref, &numbers);
        json_ref.raw(",\n\"tracks\":[");
        self.tracks.iter().for_each(|one| track(json_ref, self, one));
        json_ref.end_list();
        self.meaning(json_ref);
        json_ref.raw("}\n");
        json.finish()
    }

    /// Index in the file for each site number, -1 for sites without spans: a process also has sites of other
    /// recordings, and of the profiler.
    fn used_sites(&self) -> Vec<i64> {
        let mut numbers = vec![-1; self.sites.len() + 1];
        let mut found = |site: u32| {
            if let Some(number) = numbers.get_mut(site as usize).filter(|_| site != 0) {
                *number = 0;
            }
        };
        for lane in &self.lanes {
            lane.spans.iter().for_each(|span| found(span.site));
            lane.totals.iter().for_each(|total| found(total.site));
        }
        for (number, index) in numbers.iter_mut().filter(|number| **number == 0).zip(0..) {
            *number = index;
        }
        numbers
    }

    fn head(&self, json: &mut Encoder, numbers: &[i64]) {
        json.raw("{\"format\":").string(FORMAT).raw(",\"version\":").uint(VERSION.into());
        json.raw(",\n\"name\":").string(&self.name);
        if self.started_unix_ns > 0 {
            json.raw(",\"started_unix_ns\":").uint(self.started_unix_ns);
        }
        json.raw(",\"wall_ns\":").ns(self.wall_ns());
        if self.clock.kind != ClockKind::Unknown {
            json.raw(",\n\"clock\":{\"kind\":").string(self.clock.kind.word());
            json.raw(",\"ns_per_tick\":").number(self.clock.ns_per_tick);
            json.raw(",\"relative_error\":").number(self.clock.relative_error).raw("}");
        }
        json.raw(",\n\"environment\":");
        members(json, &self.environment);
        if let Some(cost) = &self.cost {
            json.raw(",\n\"cost\":{\"span_ns\":").number(cost.on_ns).raw(",\"off_ns\":").number(cost.off_ns);
            json.raw(",\"empty_ns\":").number(cost.empty_ns).raw("}");
        }
        let dropped = self.lanes.iter().fold(0, |sum: u64, lane| sum.saturating_add(lane.dropped));
        json.raw(",\n\"losses\":{\"spans\":").uint(dropped).raw(",\"details\":").uint(self.dropped_details());
        json.raw(",\"ending_threads\":").uint(self.lost).raw(",\"open\":").uint(self.open());
        json.raw(",\"sampled_out\":").uint(self.sampled_out).raw("}");
        json.raw(",\n\"operations\":[");
        for (at, site) in self.sites.iter().enumerate().filter(|(at, _)| numbers[at + 1] >= 0) {
            json.raw("{\"name\":").string(&site.name).raw(",\"kind\":").string(site.kind.word());
            json.raw(",\"file\":").string(&site.file).raw(",\"line\":").uint(site.line.into());
            if let Some(cost) = self.span_costs.get(at) {
                json.raw(",\"span_ns\":").ns(cost.span_ns).raw(",\"empty_ns\":").ns(cost.empty_ns);
            }
            json.raw("},");
        }
        json.end_list();
        json.raw(",\n\"lanes\":[");
        self.lanes.iter().for_each(|one| lane(json, one));
        json.end_list();
    }

    /// The spans, one column per field.
    fn entries(&self, json: &mut Encoder, numbers: &[i64]) {
        let (mut spans, mut details) = (0, 0);
        let mut places: Vec<Place> = Vec::with_capacity(self.lanes.len());
        for (number, lane) in self.lanes.iter().enumerate() {
            places.push(Place { lane, number: number as u64, spans, details });
            spans += lane.spans.len() as i64;
            details += lane.details.len() as i64;
        }
        json.raw(",\n\"entries\":{\n\"operation\":");
        column(json, &places, &|json, _, span| json.int(number_of(numbers, span.site)));
        json.raw(",\n\"lane\":");
        column(json, &places, &|json, place, _| json.uint(place.number));
        json.raw(",\n\"parent\":");
        column(json, &places, &|json, place, span| {
            json.int(if span.parent == NONE { -1 } else { place.spans + i64::from(span.parent) })
        });
        json.raw(",\n\"start_ns\":");
        column(json, &places, &|json, _, span| json.ns(self.since_start_ns(span.start)));
        json.raw(",\n\"duration_ns\":");
        column(json, &places, &|json, _, span| json.ns(if span.is_open() { f64::NAN } else { self.duration_ns(span) }));
        json.raw(",\n\"link\":");
        column(json, &places, &|json, _, span| json.uint(span.corr.into()));
        json.raw(",\n\"detail\":");
        column(json, &places, &|json, place, span| {
            let known = place.lane.detail_of(span).is_some();
            json.int(if known { place.details + i64::from(span.ext) - 1 } else { -1 })
        });
        json.raw("}");
    }

    fn totals(&self, json: &mut Encoder, numbers: &[i64]) {
        json.raw(",\n\"totals\":[");
        let mut first = 0;
        for (lane, TraceLane { totals, .. }) in self.lanes.iter().enumerate() {
            for one in totals {
                let parent = if one.parent == NONE { -1 } else { first + i64::from(one.parent) };
                json.raw("{\"lane\":").uint(lane as u64).raw(",\"parent\":").int(parent);
                json.raw(",\"operation\":").int(number_of(numbers, one.site));
                total(json, one);
            }
            first += totals.len() as i64;
        }
        json.end_list();
    }

    /// Writes what is computed from the rest.
    fn meaning(&self, json: &mut Encoder) {
        let (summary, sweep) = (self.summary_by_site(), Sweep::over(self));
        json.raw(",\n\"summary\":[");
        summary.rows.iter().for_each(|one| row(json, one, &summary));
        json.end_list();
        json.raw(",\n\"bottlenecks\":[");
        for one in &self.bottlenecks_of(&summary, &sweep, BOTTLENECKS) {
            json.raw("{\"by\":").string(one.by.word()).raw(",\"operation\":").string(&one.operation);
            if let Some(place) = &one.place {
                json.raw(",\"place\":").string(place);
            }
            json.raw(",\"ns\":").ns(one.ns).raw(",\"share\":").number(one.share).raw("},");
        }
        json.end_list();
        let breakdown = self.breakdown_of(&sweep);
        let parts = breakdown.picoseconds();
        json.raw(",\n\"breakdown\":{\"wall_ns\":").thousandths(parts.iter().sum());
        if breakdown.cpu_is_least {
            json.raw(",\"cpu_is_least\":true");
        }
        json.raw(",\"parts\":[");
        for (part, picoseconds) in Part::ALL.iter().zip(parts).filter(|(_, picoseconds)| *picoseconds > 0) {
            json.raw("{\"part\":").string(part.word()).raw(",\"ns\":").thousandths(picoseconds).raw("},");
        }
        json.end_list();
        json.raw("},\n\"memory\":");
        match self.memory_peak() {
            Some((track, ticks, peak)) => {
                json.raw("{\"track\":").string(&track.name).raw(",\"peak_bytes\":").number(peak);
                json.raw(",\"peak_at_ns\":").ns(self.since_start_ns(ticks)).raw("}");
            }
            None => {
                json.raw("null");
            }
        }
    }

    /// The largest value of the track `heap`, or else of the first track in bytes: the track, its time and the value.
    pub fn memory_peak(&self) -> Option<(&Track, u64, f64)> {
        let of_bytes = || self.tracks.iter().filter(|track| track.unit == "B" && !track.points.is_empty());
        let track = of_bytes().find(|track| track.name == "heap").or_else(|| of_bytes().next())?;
        let known = track.points.iter().filter(|(_, value)| value.is_finite());
        // The first of equal peaks.
        let (ticks, peak) = known.rev().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((track, *ticks, *peak))
    }
}

fn number_of(numbers: &[i64], site: u32) -> i64 {
    numbers.get(site as usize).copied().unwrap_or(-1)
}

/// A lane, its number, and the column indices of its first span and detail.
struct Place<'a> {
    lane: &'a TraceLane,
    number: u64,
    spans: i64,
    details: i64,
}

fn column<'a>(
    json: &mut Encoder<'a>,
    places: &[Place],
    write: &dyn for<'b> Fn(&'b mut Encoder<'a>, &Place, &Span) -> &'b mut Encoder<'a>,
) {
    json.raw("[");
    for place in places {
        for span in &place.lane.spans {
            write(json, place, span).byte(b',');
        }
    }
    json.end_list();
}

fn total(json: &mut Encoder, total: &Total) {
    json.raw(",\"count\":").uint(total.count).raw(",\"open\":").uint(total.open);
    json.raw(",\"total_ns\":").number(total.total_ns).raw(",\"self_ns\":").number(total.self_ns);
    json.raw(",\"min_ns\":").number(total.min_ns).raw(",\"max_ns\":").number(total.max_ns);
    json.raw(",\"square_ns2\":").number(total.square_ns2).raw(",\"histogram\":[");
    for (power, count) in &total.histogram {
        json.raw("[").uint((*power).into()).raw(",").uint(*count).raw("],");
    }
    json.end_list();
    if total.sums != Detail::default() {
        json.raw(",\"sums\":");
        detail(json, &total.sums);
    }
    json.raw("},");
}

fn lane(json: &mut Encoder, lane: &TraceLane) {
    json.raw("{\"name\":").string(&lane.name);
    match &lane.kind {
        LaneKind::Thread => json.raw(",\"kind\":\"thread\""),
        LaneKind::Stream { device } => json.raw(",\"kind\":\"stream\",\"device\":").string(device),
    };
    let (dropped, details) = (lane.dropped, lane.dropped_details);
    // Written even if 0; otherwise a reader would have to guess.
    for (name, is_shown, number) in [
        ("dropped", dropped > 0, dropped),
        ("aggregated", dropped > 0, lane.overflowed()),
        ("dropped_details", details > 0, details),
    ] {
        if is_shown {
            json.member(false, name).uint(number);
        }
    }
    json.raw("},");
}

pub(crate) fn members(json: &mut Encoder, values: &[(String, Value)]) {
    json.raw("{");
    for (index, (name, value)) in values.iter().enumerate() {
        put(json.member(index == 0, name), value);
    }
    json.raw("}");
}

pub(crate) fn put(json: &mut Encoder, value: &Value) {
    match value {
        Value::Int(value) => json.int(*value),
        Value::Float(value) => json.number(*value),
        Value::Bool(value) => json.raw(if *value { "true" } else { "false" }),
        Value::Text(value) => json.string(value),
    };
}

fn detail(json: &mut Encoder, detail: &Detail) {
    json.raw("{");
    let mut first = true;
    for (name, value) in detail.counts() {
        json.member(std::mem::take(&mut first), name).uint(value);
    }
    if detail.counters.flops != 0.0 && detail.counters.flops.is_finite() {
        json.member(std::mem::take(&mut first), "flops").number(detail.counters.flops);
    }
    if !detail.args.is_empty() {
        json.member(first, "args");
        members(json, &detail.args);
    }
    json.raw("}");
}

fn track(json: &mut Encoder, trace: &Trace, track: &Track) {
    json.raw("{\"name\":").string(&track.name).raw(",\"unit\":").string(&track.unit).raw(",\"at_ns\":[");
    track.points.iter().for_each(|(ticks, _)| json.ns(trace.since_start_ns(*ticks)).byte(b','));
    json.end_list();
    json.raw(",\"value\":[");
    track.points.iter().for_each(|(_, value)| json.number(*value).byte(b','));
    json.end_list();
    json.raw("},");
}

fn row(json: &mut Encoder, row: &Row, summary: &Summary) {
    json.raw("{\"operation\":").string(row.name()).raw(",\"kind\":").string(row.kind.word());
    json.raw(",\"file\":").string(&row.file).raw(",\"line\":").uint(row.line.into());
    json.raw(",\"calls\":").uint(row.count).raw(",\"open\":").uint(row.open);
    json.raw(",\"aggregated\":").uint(row.aggregated).raw(",\"lanes\":").uint(row.lanes as u64);
    let times = [
        ("total_ns", Some(row.total_ns)),
        ("self_ns", Some(row.self_ns)),
        ("mean_ns", Some(row.mean_ns)),
        ("min_ns", Some(row.min_ns)),
        ("max_ns", Some(row.max_ns)),
        ("std_ns", Some(row.std_ns)),
        ("p50_ns", Some(row.median_ns)),
        ("p90_ns", Some(row.p90_ns)),
        ("p99_ns", Some(row.p99_ns)),
        ("cpu_ns", row.cpu_ns),
        ("waiting_ns", row.waiting_ns),
        ("device_ns", Some(row.device_ns)),
        ("transfer_ns", Some(row.transfer_ns)),
        ("overhead_ns", row.overhead_ns),
        ("corrected_total_ns", row.corrected_total_ns()),
        ("corrected_self_ns", row.corrected_self_ns()),
    ];
    for (name, ns) in times {
        if let Some(ns) = ns {
            json.member(false, name).ns(ns);
        }
    }
    for (name, value) in [("bytes", row.counters.bytes), ("items", row.counters.items)] {
        if value > 0 {
            json.member(false, name).uint(value);
        }
    }
    let numbers = [
        ("flops", Some(row.counters.flops).filter(|flops| *flops != 0.0)),
        ("share_of_wall", Some(row.share(summary))),
        ("share_of_cpu", row.cpu_share(summary)),
        ("gb_per_s", row.gb_per_s()),
        ("gflop_per_s", row.gflop_per_s()),
        ("items_per_s", row.items_per_s()),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            json.member(false, name).number(value);
        }
    }
    if let Some(memory) = &row.memory {
        json.raw(",\"allocations\":").uint(memory.allocations);
        json.raw(",\"allocated_bytes\":").uint(memory.allocated_bytes);
        json.raw(",\"peak_bytes\":").uint(memory.peak_bytes);
        if row.without_memory > 0 {
            json.raw(",\"without_memory\":").uint(row.without_memory);
        }
    }
    json.raw("},");
}
