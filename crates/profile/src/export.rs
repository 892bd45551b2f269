//! Exports a trace for other programs. JSON is written by hand, since a general writer costs ten times as much per
//! span.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::counters::Counters;
use crate::trace::{NONE, Trace};

/// Format version of [`Trace::write_json_lines`].
const VERSION: u32 = 1;

/// Encodes `text` as a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Encodes a number as JSON; `null` if it is not finite.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { "null".to_string() }
}

/// The counters as JSON members, each preceded by a comma; counters at 0 were not declared and are omitted.
fn members(counters: Option<&Counters>) -> String {
    let mut out = String::new();
    let Some(counters) = counters else { return out };
    for (name, value) in [("bytes", counters.bytes), ("items", counters.items)] {
        if value > 0 {
            out.push_str(&format!(",\"{name}\":{value}"));
        }
    }
    if counters.flops != 0.0 {
        out.push_str(&format!(",\"flops\":{}", number(counters.flops)));
    }
    out
}

impl Trace {
    /// Writes the trace as JSON lines: one line of kind `trace`, then `site`, `lane` and `span` lines. Times are
    /// nanoseconds since the start of the session; the duration `ns` of an open span is null.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_json_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{{\"kind\":\"trace\",\"version\":{VERSION},\"started_unix_ns\":{},\"wall_ns\":{},\"clock\":{{\"kind\":{},\"ns_per_tick\":{},\"relative_error\":{}}},\"spans\":{},\"open\":{},\"dropped\":{},\"dropped_details\":{}}}",
            self.started_unix_ns,
            number(self.wall_ns()),
            quoted(self.clock.kind.word()),
            number(self.clock.ns_per_tick),
            number(self.clock.relative_error),
            self.spans(),
            self.open(),
            self.dropped(),
            self.dropped_details(),
        )?;
        for (index, site) in self.sites.iter().enumerate() {
            let (name, file, line) = (quoted(&site.name), quoted(&site.file), site.line);
            writeln!(
                out,
                "{{\"kind\":\"site\",\"site\":{},\"name\":{name},\"file\":{file},\"line\":{line}}}",
                index + 1
            )?;
        }
        for (number, lane) in self.lanes.iter().enumerate() {
            let (name, dropped) = (quoted(&lane.name), lane.dropped);
            writeln!(out, "{{\"kind\":\"lane\",\"lane\":{number},\"name\":{name},\"dropped\":{dropped}}}")?;
        }
        for (lane_number, lane) in self.lanes.iter().enumerate() {
            for (index, span) in lane.spans.iter().enumerate() {
                let parent = if span.parent == NONE { "null".to_string() } else { span.parent.to_string() };
                let ns = if span.is_open() { "null".to_string() } else { number(self.duration_ns(span)) };
                let corr = if span.corr == 0 { String::new() } else { format!(",\"corr\":{}", span.corr) };
                writeln!(
                    out,
                    "{{\"kind\":\"span\",\"lane\":{lane_number},\"index\":{index},\"site\":{},\"parent\":{parent},\"start_ns\":{},\"ns\":{ns}{corr}{}}}",
                    span.site,
                    number(self.since_start_ns(span.start)),
                    members(lane.counters_of(span)),
                )?;
            }
        }
        Ok(())
    }

    /// Writes the trace in the Chrome trace-event format (JSON), which Perfetto and browsers open. `process` is the
    /// name of the process there. Lost spans are counted under `otherData`, which Perfetto shows with the trace.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_chrome(&self, process: &str, out: &mut dyn Write) -> io::Result<()> {
        write!(
            out,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"program\":\"ellwand\",\"clock\":{},\"started_unix_ns\":\"{}\",\"open\":\"{}\",\"dropped\":\"{}\",\"dropped_details\":\"{}\"}},\n\"traceEvents\":[\n",
            quoted(self.clock.kind.word()),
            self.started_unix_ns,
            self.open(),
            self.dropped(),
            self.dropped_details(),
        )?;
        let meta = |name: &str, tid: usize, value: &str| {
            let value = quoted(value);
            format!("{{\"ph\":\"M\",\"name\":\"{name}\",\"pid\":1,\"tid\":{tid},\"args\":{{\"name\":{value}}}}}")
        };
        write!(out, "{}", meta("process_name", 0, process))?;
        for (number, lane) in self.lanes.iter().enumerate() {
            // Threads are numbered from 1, since viewers use 0 for the idle task.
            write!(out, ",\n{}", meta("thread_name", number + 1, &lane.name))?;
        }
        let sites: Vec<(String, String)> = self
            .sites
            .iter()
            .map(|site| (quoted(&site.name), quoted(&format!("{}:{}", site.file, site.line))))
            .collect();
        let unknown = (quoted("?"), quoted("?"));
        for (number, lane) in self.lanes.iter().enumerate() {
            for span in &lane.spans {
                let (name, place) = sites.get((span.site as usize).wrapping_sub(1)).unwrap_or(&unknown);
                // The format's unit is the microsecond; three decimals keep nanoseconds.
                let start = self.since_start_ns(span.start) / 1e3;
                let phase = if span.is_open() {
                    "\"ph\":\"B\"".to_string()
                } else {
                    format!("\"ph\":\"X\",\"dur\":{:.3}", self.duration_ns(span) / 1e3)
                };
                let corr = if span.corr == 0 { String::new() } else { format!(",\"corr\":{}", span.corr) };
                write!(
                    out,
                    ",\n{{{phase},\"name\":{name},\"cat\":\"cpu\",\"ts\":{start:.3},\"pid\":1,\"tid\":{},\"args\":{{\"at\":{place}{corr}{}}}}}",
                    number + 1,
                    members(lane.counters_of(span)),
                )?;
            }
        }
        self.write_activities(out)?;
        writeln!(out, "\n]}}")
    }

    /// Writes the device's activities as a separate process, with an arrow from each call to the operation it started.
    fn write_activities(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut lanes: Vec<&str> = self.activities.iter().map(|activity| activity.lane.as_str()).collect();
        lanes.sort_unstable();
        lanes.dedup();
        if !lanes.is_empty() {
            write!(
                out,
                ",\n{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"tid\":0,\"args\":{{\"name\":\"device\"}}}}"
            )?;
        }
        for (number, lane) in lanes.iter().enumerate() {
            let (tid, name) = (number + 1, quoted(lane));
            write!(
                out,
                ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":2,\"tid\":{tid},\"args\":{{\"name\":{name}}}}}"
            )?;
        }
        let known: BTreeSet<(u32, bool)> = self.activities.iter().map(|one| (one.corr, one.call)).collect();
        for activity in &self.activities {
            let tid = lanes.binary_search(&activity.lane.as_str()).unwrap_or(0) + 1;
            let (name, detail, corr) = (quoted(&activity.name), quoted(&activity.detail), activity.corr);
            let (start, dur) = (activity.start_ns as f64 / 1e3, activity.ns as f64 / 1e3);
            let category = if activity.call { "driver" } else { "device" };
            write!(
                out,
                ",\n{{\"ph\":\"X\",\"dur\":{dur:.3},\"name\":{name},\"cat\":\"{category}\",\"ts\":{start:.3},\"pid\":2,\"tid\":{tid},\"args\":{{\"detail\":{detail},\"corr\":{corr}}}}}"
            )?;
            if corr != 0 && known.contains(&(corr, !activity.call)) {
                let end = if activity.call { "\"ph\":\"s\"" } else { "\"ph\":\"f\",\"bp\":\"e\"" };
                write!(
                    out,
                    ",\n{{{end},\"id\":{corr},\"name\":\"launch\",\"cat\":\"launch\",\"ts\":{start:.3},\"pid\":2,\"tid\":{tid}}}"
                )?;
            }
        }
        Ok(())
    }
}
