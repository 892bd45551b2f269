//! The trace of all collected events.

use std::collections::BTreeMap;

use ellwand_profile::{LaneKind, Trace, TraceLane, Value};

use super::events::{Events, Names, Track, shifted};
use super::links::place;
use super::nest::{nest, overlap_name};
use crate::read::counted;

/// Microseconds since 1970 of the years 2001 to 2096: times in this range are dates.
const DATES: std::ops::Range<i64> = 1_000_000_000_000_000_000..4_000_000_000_000_000_000;

impl Events {
    /// The trace, and notes on what was skipped or changed.
    pub(crate) fn finish(mut self) -> (Trace, Vec<String>) {
        let mut trace = Trace::in_nanoseconds();
        let ours = self.facts.iter().any(|(name, value)| name == "program" && *value == Value::Text("ellwand".into()));
        let own = |name: &str| number(&self.facts, name).filter(|_| ours);
        let aggregated = own("aggregated").unwrap_or(0);
        // Our own export measures times from the start of the recording.
        if let Some(wall) = own("wall_ns").and_then(|wall| i64::try_from(wall).ok()) {
            self.extend(0, wall);
        }
        let (first, last) = self.extent.unwrap_or((0, 0));
        trace.start = 1;
        // Ticks of the trace count from 1 at the first event.
        let offset = shifted(first) - 1;
        trace.end = shifted(last).saturating_sub(offset).max(1);
        self.environment(&mut trace, first, ours);
        let several = self.processes() > 1;
        let (mut cut, mut lost_arrows, mut overlapping, mut beyond) = (0, 0, 0, 0);
        for mut track in std::mem::take(&mut self.tracks) {
            if track.spans.is_empty() && track.dropped == 0 {
                lost_arrows += track.arrows.len() as u64;
                continue;
            }
            for span in &mut track.spans {
                span.start = span.start.saturating_sub(offset).max(1);
                span.end = if span.is_open() { 0 } else { span.end.saturating_sub(offset).max(span.start) };
            }
            track.arrows.iter_mut().for_each(|arrow| arrow.at = arrow.at.saturating_sub(offset));
            let (name, kind) = (name(&track, &self.names, several), lane_kind(&track, &self.names));
            let nested = nest(std::mem::take(&mut track.spans), std::mem::take(&mut track.details));
            cut += nested.cut;
            overlapping += nested.lanes.len().saturating_sub(1) as u64;
            let mut dropped = (track.dropped + nested.dropped, track.dropped_details);
            beyond += dropped.0;
            if nested.lanes.is_empty() {
                trace.lost += std::mem::take(&mut dropped.0);
            }
            for (number, (mut spans, details)) in nested.lanes.into_iter().enumerate() {
                if number == 0 {
                    lost_arrows += place(&track.arrows, &mut spans);
                }
                let name = if number == 0 { name.clone() } else { overlap_name(&name, number) };
                let (dropped, dropped_details) = std::mem::take(&mut dropped);
                let kind = kind.clone();
                trace.lanes.push(TraceLane {
                    name,
                    kind,
                    spans,
                    details,
                    dropped,
                    dropped_details,
                    ..TraceLane::default()
                });
            }
        }
        trace.sites = std::mem::take(&mut self.sites);
        trace.tracks = std::mem::take(&mut self.counters.tracks);
        for track in &mut trace.tracks {
            track.points.iter_mut().for_each(|point| point.0 = point.0.saturating_sub(offset).max(1));
            track.points.sort_by_key(|point| point.0);
        }
        self.note_repairs([cut, overlapping, lost_arrows, beyond, aggregated], trace.dropped_details());
        let phases = self.skipped.iter().map(|(phase, count)| format!("{count} of phase {phase:?}"));
        let phases: Vec<String> = phases.take(20).collect();
        if !phases.is_empty() {
            self.notes.push(format!("skipped events: {}", phases.join(", ")));
        }
        (trace, self.notes)
    }

    /// Notes what was skipped or changed, if anything.
    fn note_repairs(&mut self, [cut, overlapping, lost_arrows, beyond, aggregated]: [u64; 5], lost_details: u64) {
        let counts = [
            (cut, "span was", "spans were", "shortened by up to 1 µs, so that spans nest"),
            (overlapping, "lane was", "lanes were", "added for spans that overlap others of their thread"),
            (lost_arrows, "end of an arrow has", "ends of arrows have", "no span"),
            (
                self.repeated,
                "range or mark that repeats another event was",
                "ranges and marks that repeat other events were",
                "left out",
            ),
            (self.unmatched_ends, "end of a span has", "ends of spans have", "no beginning"),
            (
                self.impossible,
                "event has an impossible time",
                "events have impossible times",
                "(a negative duration, or beyond 146 years), changed to the nearest possible",
            ),
            (self.counters.dropped, "value of a counter is", "values of counters are", "beyond the limit"),
            (beyond, "span is", "spans are", "beyond the limits"),
            (aggregated, "aggregated span is", "aggregated spans are", "not in this file; its times lack them"),
            (
                lost_details,
                "span lost its arguments, which are",
                "spans lost their arguments, which are",
                "beyond the limit",
            ),
        ];
        let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
        self.notes.extend(counts.map(|(count, one, many, what)| format!("{} {what}", counted(count, one, many))));
    }

    fn processes(&self) -> usize {
        let hosts = self.tracks.iter().filter(|track| !track.stream && !track.spans.is_empty());
        hosts.map(|track| &track.process).collect::<std::collections::HashSet<_>>().len()
    }

    fn environment(&mut self, trace: &mut Trace, first: i64, ours: bool) {
        let base = number(&self.facts, "baseTimeNanoseconds").unwrap_or(0);
        let date = first.saturating_add_unsigned(base);
        if DATES.contains(&date) {
            trace.started_unix_ns = date.unsigned_abs();
        }
        if ours {
            trace.started_unix_ns = number(&self.facts, "started_unix_ns").unwrap_or(trace.started_unix_ns);
            trace.lost = number(&self.facts, "dropped").unwrap_or(0);
            const KNOWN: [&str; 8] =
                ["program", "clock", "started_unix_ns", "wall_ns", "open", "dropped", "dropped_details", "aggregated"];
            self.facts.retain(|(name, _)| !KNOWN.contains(&name.as_str()));
        }
        self.facts.retain(|(name, _)| name != "displayTimeUnit");
        let process = self.names.processes.values().find(|name| !name.is_empty());
        trace.name = match self.facts.iter().find(|(name, _)| name == "traceName") {
            // PyTorch first writes a file in a temporary directory: the name of the file that is read is better than
            // that path.
            Some((_, Value::Text(name))) if name.contains(['/', '\\']) => String::new(),
            Some((_, Value::Text(name))) => name.clone(),
            _ => process.filter(|_| self.names.processes.len() == 1 || ours).cloned().unwrap_or_default(),
        };
        trace.environment = std::mem::take(&mut self.facts);
    }
}

/// The value of a fact that is a count.
fn number(facts: &[(String, Value)], name: &str) -> Option<u64> {
    facts.iter().find(|(known, _)| known == name).and_then(|(_, value)| match value {
        Value::Text(text) => text.parse::<u64>().ok(),
        Value::Int(value) => u64::try_from(*value).ok(),
        _ => None,
    })
}

/// The name of a lane, with its process if several processes have threads.
fn name(track: &Track, names: &Names, several: bool) -> String {
    let known = names.threads.get(&(track.process.clone(), track.thread.clone())).filter(|name| !name.is_empty());
    let thread = known.cloned().unwrap_or_else(|| {
        let number = track.thread.parse::<i64>().is_ok();
        match track.thread.as_str() {
            "" => "thread".to_string(),
            thread if number => format!("thread {thread}"),
            thread => thread.to_string(),
        }
    });
    let thread = thread.trim().to_string();
    if !several || track.stream {
        return thread;
    }
    let process = names.processes.get(&track.process).cloned().unwrap_or_else(|| format!("process {}", track.process));
    format!("{process}: {thread}")
}

fn lane_kind(track: &Track, names: &Names) -> LaneKind {
    if !track.stream {
        return LaneKind::Thread;
    }
    let named = |table: &BTreeMap<String, String>| table.get(&track.process).filter(|name| !name.is_empty()).cloned();
    let label = named(&names.labels).filter(|label| !label.eq_ignore_ascii_case("cpu"));
    let numbered = track.device.map(|number| format!("device {number}"));
    LaneKind::Stream { device: label.or(numbered).or_else(|| named(&names.processes)).unwrap_or_default() }
}
