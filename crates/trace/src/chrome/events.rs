//! Collects events until the file ends.

use std::collections::{BTreeMap, HashMap};

use ellwand_profile::{Counters, Detail, Kind, MemoryUse, NONE, SiteInfo, Span, Value};

use super::category::{Class, class};
use super::event::Event;
use super::links::{Arrow, Links};
use super::scalar::{Args, Scalar};
use super::tracks::Tracks;
use crate::read::{Each, MAX_DETAILS, MAX_SPANS, shortened};

/// Maximum number of facts kept about the recording.
const MAX_FACTS: usize = 200;
/// Arguments that only number objects within the file.
const BOOKKEEPING: [&str; 12] = [
    "External id",
    "Record function id",
    "Ev Idx",
    "Sequence number",
    "Fwd thread id",
    "Python parent id",
    "Python id",
    "Python module id",
    "queued",
    "context",
    "cbid",
    "Trace id",
];

/// Spans of one thread, stream or kind of task, with times in nanoseconds of the file, shifted to be at least 1.
#[derive(Debug, Default)]
pub(crate) struct Track {
    pub(crate) process: String,
    pub(crate) thread: String,
    pub(crate) stream: bool,
    pub(crate) device: Option<i64>,
    pub(crate) spans: Vec<Span>,
    pub(crate) details: Vec<Detail>,
    pub(crate) dropped: u64,
    pub(crate) dropped_details: u64,
    /// Spans that have begun but not ended, per task; a thread is one task.
    open: HashMap<String, Vec<usize>>,
    pub(crate) arrows: Vec<Arrow>,
}

#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) processes: BTreeMap<String, String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) threads: HashMap<(String, String), String>,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    read: u64,
    spans: usize,
    details: usize,
    pub(crate) sites: Vec<SiteInfo>,
    site_of: HashMap<(String, Kind, String), u32>,
    pub(crate) tracks: Vec<Track>,
    track_of: HashMap<(String, String), usize>,
    pub(crate) names: Names,
    pub(crate) counters: Tracks,
    pub(crate) links: Links,
    pub(crate) facts: Vec<(String, Value)>,
    pub(crate) notes: Vec<String>,
    /// Skipped events by phase.
    pub(crate) skipped: BTreeMap<char, u64>,
    pub(crate) unmatched_ends: u64,
    /// Negative durations and times that [`shifted`] limits.
    pub(crate) impossible: u64,
    /// Number of stream ranges that repeat those of the host.
    pub(crate) repeated: u64,
    /// First and last time, in nanoseconds of the file.
    pub(crate) extent: Option<(i64, i64)>,
}

/// Times of files may be negative; spans need positive ones.
const SHIFT: i64 = 1 << 62;

/// A time of the file as ticks of a span under construction.
pub(crate) fn shifted(ns: i64) -> u64 {
    ns.clamp(1 - SHIFT, SHIFT).saturating_add(SHIFT).unsigned_abs()
}

impl Events {
    pub(crate) fn events(&self) -> u64 {
        self.read
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(crate) fn fact(&mut self, name: &str, value: Value) {
        if self.facts.len() < MAX_FACTS {
            let value = match value {
                Value::Text(text) => Value::Text(shortened(&text, 200)),
                other => other,
            };
            self.facts.push((shortened(name, 100), value));
        }
    }

    pub(crate) fn facts(&mut self, args: Args) {
        args.0.into_iter().for_each(|(name, value)| self.fact(&name, value));
    }

    /// Reads `deviceProperties` of the PyTorch profiler.
    pub(crate) fn devices(&mut self, devices: serde_json::Value) {
        for (number, device) in devices.as_array().into_iter().flatten().take(64).enumerate() {
            if let Some(name) = device.get("name").and_then(|name| name.as_str()) {
                self.fact(&format!("device {number}"), Value::Text(name.to_string()));
            }
        }
    }

    /// Reads an array of events; some programs end the list with a comma and `null`.
    pub(crate) fn list(&mut self) -> Each<Option<Event>, impl FnMut(Option<Event>) -> Result<(), String>> {
        Each::new("an array of trace events", |event: Option<Event>| {
            event.into_iter().for_each(|event| self.add(event));
            Ok(())
        })
    }

    fn add(&mut self, mut event: Event) {
        self.read += 1;
        let phase = event.phase();
        if phase == 'M' {
            return self.metadata(&event);
        }
        let Some(start) = event.ts.0 else {
            *self.skipped.entry(phase).or_insert(0) += 1;
            return;
        };
        match phase {
            'X' => self.complete(event, start),
            'B' => self.begin(event, start, String::new()),
            'E' => self.end(event, start, &String::new()),
            'b' | 'S' => {
                let task = format!("{}\u{0}{}", event.connection(), event.name.key());
                self.begin(event, start, task);
            }
            'e' | 'F' => {
                let task = format!("{}\u{0}{}", event.connection(), event.name.key());
                self.end(event, start, &task);
            }
            'i' | 'I' | 'R' | 'n' if event.name.text() == Some("[memory]") => {
                self.counters.memory(start, &mut event.args);
                self.extend(start, start);
            }
            // Marks of the PyTorch profiler about itself.
            'i' if matches!(event.pid.text(), Some("Traces" | "")) => self.repeated += 1,
            'i' | 'I' | 'R' | 'n' => {
                let task = phase == 'n';
                let track = self.track(&event, task);
                let kind = if task { Kind::InFlight } else { Kind::Cpu };
                self.span(track, event, kind, (start, Some(start)));
            }
            'C' => {
                self.counters.counter(start, &event.name.key(), &event.args);
                self.extend(start, start);
            }
            // Arrows from forward to backward operations are not launches, and a span has room for only one link.
            's' | 't' | 'f' if event.category() != "fwdbwd" => self.arrow(&event, phase, start),
            's' | 't' | 'f' => {}
            other => *self.skipped.entry(other).or_insert(0) += 1,
        }
    }

    fn metadata(&mut self, event: &Event) {
        let value = |name: &str| event.args.0.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let text = |name: &str| match value(name) {
            Some(Value::Text(text)) => Some(text.clone()),
            Some(Value::Int(number)) => Some(number.to_string()),
            _ => None,
        };
        let process = event.pid.key();
        match event.name.text() {
            Some("process_name") => drop(text("name").map(|name| self.names.processes.insert(process, name))),
            Some("process_labels") => drop(text("labels").map(|name| self.names.labels.insert(process, name))),
            Some("thread_name") => {
                drop(text("name").map(|name| self.names.threads.insert((process, event.tid.key()), name)));
            }
            _ => {}
        }
    }

    /// The track of an event: its thread, or its process and category for tasks that no thread runs.
    fn track(&mut self, event: &Event, task: bool) -> usize {
        let process = event.pid.key();
        let thread = if task { format!("tasks: {}", shortened(event.category(), 80)) } else { event.tid.key() };
        let tracks = &mut self.tracks;
        *self.track_of.entry((process, thread)).or_insert_with_key(|(process, thread)| {
            tracks.push(Track { process: process.clone(), thread: thread.clone(), ..Track::default() });
            tracks.len() - 1
        })
    }

    fn complete(&mut self, event: Event, start: i64) {
        let end = start.saturating_add(event.dur.nanos().unwrap_or(0));
        match class(event.category(), event.name.text().unwrap_or_default()) {
            Class::Extent => self.extend(start, end),
            Class::Repeated => self.repeated += 1,
            Class::Span(kind) => {
                let track = self.track(&event, false);
                self.span(track, event, kind, (start, Some(end)));
            }
        }
    }

    fn begin(&mut self, event: Event, start: i64, task: String) {
        let track = self.track(&event, !task.is_empty());
        let kind = match class(event.category(), event.name.text().unwrap_or_default()) {
            _ if !task.is_empty() => Kind::InFlight,
            Class::Span(kind) => kind,
            Class::Repeated | Class::Extent => Kind::Cpu,
        };
        self.span(track, event, kind, (start, None));
        if let Some(track) = self.tracks.get_mut(track) {
            let last = track.spans.len().saturating_sub(1);
            track.open.entry(task).or_default().push(last);
        }
    }

    fn end(&mut self, event: Event, end: i64, task: &String) {
        let number = self.track(&event, !task.is_empty());
        let Some(track) = self.tracks.get_mut(number) else { return };
        let index = track.open.get_mut(task).and_then(Vec::pop);
        if track.open.get(task).is_some_and(Vec::is_empty) {
            track.open.remove(task);
        }
        let Some(span) = index.and_then(|index| track.spans.get_mut(index)) else {
            self.unmatched_ends += 1;
            return;
        };
        self.impossible += u64::from(shifted(end) < span.start);
        span.end = shifted(end).max(span.start);
        let (ext, more) = (span.ext, detail(event));
        if let (Some(detail), Some(more)) = (ext.checked_sub(1).and_then(|at| track.details.get_mut(at as usize)), more)
        {
            detail.args.extend(more.args);
        }
        self.extend(end, end);
    }

    fn arrow(&mut self, event: &Event, phase: char, at: i64) {
        let link = self.links.number('a', &event.connection());
        let track = self.track(event, false);
        // The end of an arrow belongs to the next span unless the event marks it as inside a span.
        let next = phase == 'f' && event.bp.text() != Some("e");
        if let Some(track) = self.tracks.get_mut(track).filter(|track| track.arrows.len() < MAX_DETAILS) {
            track.arrows.push(Arrow { link, at: shifted(at), next });
        }
    }

    pub(super) fn extend(&mut self, start: i64, end: i64) {
        self.impossible += u64::from(start <= -SHIFT || end > SHIFT || end < start);
        let (first, last) = self.extent.unwrap_or((start, end));
        self.extent = Some((first.min(start), last.max(end).max(start)));
    }

    fn span(&mut self, track: usize, mut event: Event, kind: Kind, (start, end): (i64, Option<i64>)) {
        self.extend(start, end.unwrap_or(start));
        let full = self.spans >= MAX_SPANS;
        if full {
            if let Some(track) = self.tracks.get_mut(track) {
                track.dropped += 1;
            }
            return;
        }
        let mut name = match std::mem::take(&mut event.name) {
            Scalar(Some(Value::Text(name))) => name,
            other => other.key(),
        };
        if let Some(step) = name.strip_prefix("ProfilerStep#").map(str::to_string) {
            // All steps become one operation, with the number as an argument, so they can be compared.
            event.args.0.push(("step".to_string(), step.parse().map_or(Value::Text(step), Value::Int)));
            name = "ProfilerStep".to_string();
        }
        if let Some(at) = name.find(" object at 0x") {
            // Remove the address, which differs between runs, so that all calls of one function are one operation.
            let rest = name.get(at + 13..).unwrap_or_default().trim_start_matches(|c: char| c.is_ascii_hexdigit());
            name = format!("{}{rest}", name.get(..at).unwrap_or_default());
        }
        let place = match event.args.take("at") {
            Some(Value::Text(place)) => place,
            _ => String::new(),
        };
        let correlation = event.args.take_number("correlation").or_else(|| event.args.take_number("corr"));
        let corr = match correlation.filter(|number| *number != 0.0 && kind != Kind::Instrumentation) {
            Some(number) => self.links.number('c', &number.to_string()),
            None => 0,
        };
        let cause = event.args.take_number("cause").map_or(0, |number| self.links.number('c', &number.to_string()));
        let site = self.site(name, kind, place);
        let Some(track) = self.tracks.get_mut(track) else { return };
        let device = kind_is_of_device(kind);
        track.stream |= device;
        if device && track.device.is_none() {
            track.device = event.args.take_number("device").map(|number| number as i64);
        }
        let mut ext = 0;
        let mut detail = detail(event);
        if cause != 0 {
            detail.get_or_insert_default().cause = cause;
        }
        if let Some(detail) = detail {
            if self.details < MAX_DETAILS {
                self.details += 1;
                track.details.push(detail);
                ext = track.details.len() as u32;
            } else {
                track.dropped_details += 1;
            }
        }
        let end = end.map_or(0, |end| shifted(end.max(start)));
        track.spans.push(Span { start: shifted(start), end, site, parent: NONE, corr, ext });
        self.spans += 1;
    }

    fn site(&mut self, name: String, kind: Kind, place: String) -> u32 {
        let sites = &mut self.sites;
        *self.site_of.entry((name, kind, place)).or_insert_with_key(|(name, kind, place)| {
            let (file, line) = match place.rsplit_once(':') {
                Some((file, line)) => (file.to_string(), line.parse().unwrap_or(0)),
                None => (place.clone(), 0),
            };
            sites.push(SiteInfo { name: name.clone(), kind: *kind, file, line });
            sites.len() as u32
        })
    }
}

fn kind_is_of_device(kind: Kind) -> bool {
    matches!(kind, Kind::Kernel | Kind::HostToDevice | Kind::DeviceToHost | Kind::DeviceToDevice)
}

/// The details of an event besides its times, if it has any.
fn detail(mut event: Event) -> Option<Detail> {
    event.args.0.retain(|(name, _)| !BOOKKEEPING.contains(&name.as_str()));
    let args = &mut event.args;
    let counters = Counters {
        bytes: args.take_count("bytes").unwrap_or(0),
        items: args.take_count("items").unwrap_or(0),
        flops: args.take_number("flops").unwrap_or(0.0),
    };
    let cpu_ns = args.take_count("cpu_ns").or_else(|| event.tdur.nanos().and_then(|ns| u64::try_from(ns).ok()));
    let memory = args.take_count("allocations").map(|allocations| MemoryUse {
        allocations,
        allocated_bytes: args.take_count("allocated_bytes").unwrap_or(0),
        freed_bytes: args.take_count("freed_bytes").unwrap_or(0),
        peak_bytes: args.take_count("peak_bytes").unwrap_or(0),
    });
    let rss_bytes = args.take_count("rss_bytes");
    let detail = Detail { counters, cpu_ns, memory, rss_bytes, args: std::mem::take(&mut args.0), ..Detail::default() };
    (detail != Detail::default()).then_some(detail)
}
