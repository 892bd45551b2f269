//! The file format of speedscope: an evented profile per lane, and a sampled one for aggregated spans.

use std::io::{self, Write};

use ellwand_profile::{Trace, TraceLane};
use serde::Serialize;

use super::walk::{Step, walk};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    shared: Shared<'a>,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum Profile {
    Evented {
        name: String,
        unit: &'static str,
        start_value: f64,
        end_value: f64,
        events: Vec<Event>,
    },
    Sampled {
        name: String,
        unit: &'static str,
        start_value: f64,
        end_value: f64,
        samples: Vec<Vec<usize>>,
        weights: Vec<f64>,
    },
}

#[derive(Serialize)]
struct Event {
    #[serde(rename = "type")]
    kind: char,
    frame: usize,
    at: f64,
}

pub(super) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let sites = trace.sites.iter().map(|site| Frame {
        name: &site.name,
        file: &site.file,
        line: (site.line > 0).then_some(site.line),
    });
    // Spans of unknown sites refer to the last frame.
    let frames = sites.chain([Frame { name: "?", file: "", line: None }]).collect();
    let profiles = trace.lanes.iter().flat_map(|lane| [evented(trace, lane), sampled(trace, lane)]).flatten().collect();
    let file = File { schema: SCHEMA, exporter: "ellwand", name: &trace.name, shared: Shared { frames }, profiles };
    let mut out = io::BufWriter::with_capacity(1 << 16, out);
    serde_json::to_writer(&mut out, &file)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Time of aggregated spans that the enclosing kept spans include too: the format has no place for their negative self
/// time.
pub(super) fn counted_twice(trace: &Trace) -> f64 {
    trace.lanes.iter().flat_map(|lane| &lane.totals).map(|total| (-total.self_ns).max(0.0)).sum()
}

fn frame(trace: &Trace, site: u32) -> usize {
    (site as usize).checked_sub(1).filter(|index| *index < trace.sites.len()).unwrap_or(trace.sites.len())
}

fn evented(trace: &Trace, lane: &TraceLane) -> Option<Profile> {
    if lane.spans.is_empty() {
        return None;
    }
    let mut events = Vec::with_capacity(2 * lane.spans.len());
    let mut open = Vec::new();
    walk(trace, lane, |ticks, step| {
        let at = trace.since_start_ns(ticks);
        match step {
            Step::Begin(index) => {
                let frame = lane.spans.get(index).map_or(trace.sites.len(), |span| frame(trace, span.site));
                open.push(frame);
                events.push(Event { kind: 'O', frame, at });
            }
            Step::End => events.push(Event { kind: 'C', frame: open.pop().unwrap_or_default(), at }),
        }
    });
    let first = events.first().map_or(0.0, |event| event.at);
    let last = events.last().map_or(0.0, |event| event.at);
    Some(Profile::Evented {
        name: lane.name.clone(),
        unit: "nanoseconds",
        start_value: first.min(0.0),
        end_value: last.max(trace.wall_ns()),
        events,
    })
}

/// One sample per node of the aggregated tree, weighted with its self time.
fn sampled(trace: &Trace, lane: &TraceLane) -> Option<Profile> {
    if lane.totals.is_empty() {
        return None;
    }
    let stack = |index: usize| {
        let mut stack = Vec::new();
        let (mut at, mut below) = (index, usize::MAX);
        // Parents come first; a chain that does not go backwards is damaged and ends here.
        while let Some(total) = lane.totals.get(at).filter(|_| at < below && stack.len() < 1000) {
            stack.push(frame(trace, total.site));
            below = at;
            at = total.parent as usize;
        }
        stack.reverse();
        stack
    };
    let samples = (0..lane.totals.len()).map(stack).collect();
    let weights: Vec<f64> = lane.totals.iter().map(|total| total.self_ns.max(0.0)).collect();
    let name = format!("{} (aggregated)", lane.name);
    let end_value = weights.iter().sum();
    Some(Profile::Sampled { name, unit: "nanoseconds", start_value: 0.0, end_value, samples, weights })
}
