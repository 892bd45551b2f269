//! The Chrome trace-event format, which Perfetto and browsers open.

use std::io::{self, Write};

use crate::clock::ClockKind;
use crate::detail::Detail;
use crate::encode::Encoder;
use crate::json::put;
use crate::kind::{Kind, LaneKind};
use crate::trace::{Span, Trace, TraceLane};

/// Process number of host threads; those of devices follow.
const HOST: u64 = 1;
const DEVICES: u64 = 3;

impl Trace {
    /// Writes the trace in the Chrome trace-event format (JSON). `process` is the name of the process in the file. The
    /// counts of lost spans are under `otherData`, which Perfetto shows with the trace, and so are those of aggregated
    /// spans, which the format cannot hold.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_chrome(&self, process: &str, out: &mut dyn Write) -> io::Result<()> {
        let mut json = Encoder::new(out);
        self.chrome_events(process, &mut json);
        json.finish()
    }

    fn chrome_events(&self, process: &str, json: &mut Encoder) {
        self.chrome_head(json);
        meta(json, "process_name", HOST, 0, process, "");
        let devices = self.devices();
        for (number, device) in devices.iter().enumerate() {
            meta(json, "process_name", DEVICES + number as u64, 0, device, ",\n");
        }
        let process_of = |kind: &LaneKind| match kind {
            LaneKind::Thread => HOST,
            LaneKind::Stream { device } => {
                DEVICES + devices.iter().position(|known| *known == device).unwrap_or(0) as u64
            }
        };
        let starters = self.starters();
        // Links of spans that other spans started.
        let mut several: Vec<u64> = Vec::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            let is_other = |at: usize, span: &Span| span.corr != 0 && starters.get(&span.corr) != Some(&(number, at));
            let others = lane.spans.iter().enumerate().filter(|(at, span)| is_other(*at, span));
            others.for_each(|(_, span)| several.push(span.corr.into()));
        }
        several.sort_unstable();
        for (number, lane) in self.lanes.iter().enumerate() {
            // Threads are numbered from 1, since viewers use 0 for the idle task.
            let (pid, tid) = (process_of(&lane.kind), number as u64 + 1);
            meta(json, "thread_name", pid, tid, &lane.name, ",\n");
            for span in &lane.spans {
                self.event(json, span, lane.detail_of(span), (pid, tid));
                if several.binary_search(&span.corr.into()).is_ok()
                    && let Some((first, at)) = starters.get(&span.corr)
                {
                    let starts = *first == number && self.lanes[number].spans[*at].start == span.start;
                    self.arrow(json, span, starts, (pid, tid));
                }
            }
        }
        for track in &self.tracks {
            for (ticks, value) in track.points.iter().filter(|(_, value)| value.is_finite()) {
                json.raw(",\n{\"ph\":\"C\",\"name\":").string(&track.name).raw(",\"pid\":1,\"tid\":0,\"ts\":");
                micros(json, self.since_start_ns(*ticks));
                let unit = if track.unit.is_empty() { "value" } else { &track.unit };
                json.raw(",\"args\":{").member(true, unit).number(*value).raw("}}");
            }
        }
        json.raw("\n]}\n");
    }

    fn chrome_head(&self, json: &mut Encoder) {
        let aggregated =
            |sum: u64, lane: &TraceLane| lane.totals.iter().fold(sum, |sum, one| sum.saturating_add(one.count));
        json.raw("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":\"ellwand\"");
        if self.clock.kind != ClockKind::Unknown {
            json.member(false, "clock").string(self.clock.kind.word());
        }
        if self.started_unix_ns > 0 {
            json.member(false, "started_unix_ns").string(&self.started_unix_ns.to_string());
        }
        let counts = [
            ("wall_ns", self.wall_ns().round() as u64),
            ("open", self.open()),
            ("dropped", self.dropped()),
            ("dropped_details", self.dropped_details()),
            ("aggregated", self.lanes.iter().fold(0, aggregated)),
        ];
        for (name, count) in counts {
            json.member(false, name).string(&count.to_string());
        }
        json.raw("},\n\"traceEvents\":[\n");
    }

    /// Names of devices, sorted.
    fn devices(&self) -> Vec<&str> {
        let mut devices: Vec<&str> = Vec::new();
        for lane in &self.lanes {
            if let LaneKind::Stream { device } = &lane.kind
                && let Err(at) = devices.binary_search(&device.as_str())
            {
                devices.insert(at, device);
            }
        }
        devices
    }

    fn event(&self, json: &mut Encoder, span: &Span, detail: Option<&Detail>, (pid, tid): (u64, u64)) {
        if span.is_open() {
            json.raw(",\n{\"ph\":\"B\"");
        } else {
            json.raw(",\n{\"ph\":\"X\",\"dur\":");
            micros(json, self.duration_ns(span));
        }
        let site = self.site(span);
        json.raw(",\"name\":").string(self.name(span));
        json.raw(",\"cat\":").string(site.map_or(Kind::Cpu, |site| site.kind).word()).raw(",\"ts\":");
        micros(json, self.since_start_ns(span.start));
        json.raw(",\"pid\":").uint(pid).raw(",\"tid\":").uint(tid).raw(",\"args\":{");
        // Operations read from other programs' files have no source line.
        match site.filter(|site| !site.file.is_empty()) {
            Some(site) => json.raw("\"at\":").string(&format!("{}:{}", site.file, site.line)),
            None => json.raw("\"at\":\"?\""),
        };
        if span.corr != 0 {
            json.raw(",\"corr\":").uint(span.corr.into());
        }
        if let Some(detail) = detail {
            arguments(json, detail);
        }
        json.raw("}}");
    }

    fn arrow(&self, json: &mut Encoder, span: &Span, starts: bool, (pid, tid): (u64, u64)) {
        json.raw(if starts { ",\n{\"ph\":\"s\"" } else { ",\n{\"ph\":\"f\",\"bp\":\"e\"" });
        json.raw(",\"id\":").uint(span.corr.into()).raw(",\"name\":\"link\",\"cat\":\"link\",\"ts\":");
        micros(json, self.since_start_ns(span.start));
        json.raw(",\"pid\":").uint(pid).raw(",\"tid\":").uint(tid).raw("}");
    }
}

/// The format's unit is the microsecond; three decimals keep nanoseconds.
fn micros(json: &mut Encoder, ns: f64) {
    json.ns(ns.round() / 1e3);
}

fn meta(json: &mut Encoder, what: &str, pid: u64, tid: u64, name: &str, before: &str) {
    json.raw(before).raw("{\"ph\":\"M\",\"name\":").string(what).raw(",\"pid\":").uint(pid);
    json.raw(",\"tid\":").uint(tid).raw(",\"args\":{\"name\":").string(name).raw("}}");
}

/// The details of a span as members, each preceded by a comma; counters at 0 were not declared and are omitted.
fn arguments(json: &mut Encoder, detail: &Detail) {
    for (name, value) in detail.counts() {
        json.member(false, name).uint(value);
    }
    if detail.counters.flops != 0.0 {
        json.member(false, "flops").number(detail.counters.flops);
    }
    for (name, value) in &detail.args {
        put(json.member(false, name), value);
    }
}
