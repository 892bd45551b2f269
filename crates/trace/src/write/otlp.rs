//! Spans for OpenTelemetry: an `ExportTraceServiceRequest` in protobuf, the body of a POST to `/v1/traces`.
//!
//! Every outermost span becomes an OpenTelemetry trace, with the spans inside it and those that it started on other
//! lanes. If the recording sampled them, their trace state contains the threshold of OpenTelemetry's probability
//! sampling, from which a backend computes how many spans each one represents.

use std::collections::HashMap;
use std::io::{self, Write};

use ellwand_profile::{LaneKind, Span, Trace, TraceLane, Value};

use super::UNSEEN;
use super::protobuf::Message;
use crate::gaps::Gaps;

/// Field of both requests: the telemetry of a resource. Requests can be concatenated.
const RESOURCE: u32 = 1;
/// Fields of `Span`.
const TRACE_ID: u32 = 1;
const SPAN_ID: u32 = 2;
const TRACE_STATE: u32 = 3;
const PARENT: u32 = 4;
const NAME: u32 = 5;
const KIND: u32 = 6;
const START: u32 = 7;
const END: u32 = 8;
const ATTRIBUTE: u32 = 9;
/// `SPAN_KIND_INTERNAL`
const INTERNAL: u64 = 1;
/// Spans per block of the request; each block is written as a whole.
const BLOCK: usize = 4096;

/// A span by its lane and its index there.
type Place = (usize, usize);

pub(super) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let ids = Ids::of(trace);
    for (number, lane) in trace.lanes.iter().enumerate() {
        for (block, spans) in lane.spans.chunks(BLOCK).enumerate() {
            let mut request = Message::default();
            resource(trace, &mut request, |scope| {
                for (index, span) in spans.iter().enumerate() {
                    let place = (number, block * BLOCK + index);
                    scope.message(2, |message| one(trace, lane, span, place, &ids, message));
                }
            });
            out.write_all(&request.bytes)?;
        }
    }
    Ok(())
}

/// A resource of the request: the program and its environment, and what `fill` adds to its scope.
pub(super) fn resource(trace: &Trace, request: &mut Message, fill: impl FnOnce(&mut Message)) {
    request.message(RESOURCE, |resource| {
        resource.message(1, |facts| {
            let name = if trace.name.is_empty() { "unknown_service" } else { &trace.name };
            attribute(facts, 1, "service.name", &Value::Text(name.into()));
            trace.environment.iter().for_each(|(name, value)| attribute(facts, 1, &format!("ellwand.{name}"), value));
        });
        resource.message(2, |scope| {
            scope.message(1, |about| {
                about.text(1, "ellwand").text(2, env!("CARGO_PKG_VERSION"));
            });
            fill(scope);
        });
    });
}

/// A `KeyValue` in the repeated field `field`.
pub(super) fn attribute(message: &mut Message, field: u32, name: &str, value: &Value) {
    message.message(field, |pair| {
        pair.text(1, name).message(2, |any| {
            match value {
                Value::Text(value) => any.text(1, value),
                Value::Bool(value) => any.uint(2, u64::from(*value)),
                Value::Int(value) => any.int(3, *value),
                Value::Float(value) => any.double(4, *value),
            };
        });
    });
}

/// Nanoseconds since 1970.
pub(super) fn unix_ns(trace: &Trace, ticks: u64) -> u64 {
    let since = trace.since_start_ns(ticks);
    if since < 0.0 {
        trace.started_unix_ns.saturating_sub(-since.round() as u64)
    } else {
        trace.started_unix_ns.saturating_add(since.round() as u64)
    }
}

fn one(trace: &Trace, lane: &TraceLane, span: &Span, place: Place, ids: &Ids, message: &mut Message) {
    let start = unix_ns(trace, span.start);
    let end = unix_ns(trace, if span.is_open() { trace.end } else { span.end });
    message.block(TRACE_ID, &ids.trace(trace, place)).block(SPAN_ID, &ids.span(place));
    if let Some(state) = ids.state(trace, place) {
        message.text(TRACE_STATE, &state);
    }
    if let Some(parent) = ids.parent(trace, place) {
        message.block(PARENT, &ids.span(parent));
    }
    message.text(NAME, trace.name(span)).uint(KIND, INTERNAL).fixed64(START, start).fixed64(END, end.max(start));
    let mut add = |name: &str, value: Value| attribute(message, ATTRIBUTE, name, &value);
    add("thread.name", Value::Text(lane.name.clone()));
    if let Some(site) = trace.site(span) {
        add("ellwand.kind", Value::Text(site.kind.word().into()));
        if site.line > 0 {
            add("code.file.path", Value::Text(site.file.clone()));
            add("code.line.number", Value::Int(site.line.into()));
        }
    }
    if span.is_open() {
        add("ellwand.open", Value::Bool(true));
    }
    if let Some(detail) = lane.detail_of(span) {
        for (name, value) in detail.counts().filter(|(name, _)| !UNSEEN.contains(name)) {
            add(&format!("ellwand.{name}"), Value::Int(i64::try_from(value).unwrap_or(i64::MAX)));
        }
        if detail.counters.flops != 0.0 {
            add("ellwand.flops", Value::Float(detail.counters.flops));
        }
        detail.args.iter().for_each(|(name, value)| add(name, value.clone()));
    }
}

/// Identities of spans, and which span started which.
struct Ids {
    seed: u64,
    /// For each span, by lane: the index of its outermost enclosing span.
    outermost: Vec<Vec<usize>>,
    /// The first span with each correlation number, which started the others.
    starters: HashMap<u32, Place>,
    /// The share of all outermost spans that sampling skipped, in units of 2^-56; 0 if it is zero or unknown.
    threshold: u64,
}

impl Ids {
    fn of(trace: &Trace) -> Self {
        let text = trace.name.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        let facts = [trace.started_unix_ns, trace.start, trace.end, trace.spans()];
        let seed = facts.into_iter().fold(text, |hash, fact| mix(hash ^ fact));
        let mut all = Vec::new();
        for lane in &trace.lanes {
            let mut outermost = Vec::with_capacity(lane.spans.len());
            for (index, span) in lane.spans.iter().enumerate() {
                // A parent precedes its children; in a damaged profile, a span without such a parent is outermost.
                outermost.push(outermost.get(span.parent as usize).copied().unwrap_or(index));
            }
            all.push(outermost);
        }
        let sampling = Gaps::of(trace).sampling();
        let threshold = sampling.map_or(0, |(kept, skipped)| {
            ((u128::from(skipped) << 56) / (u128::from(kept) + u128::from(skipped))) as u64
        });
        Self { seed, outermost: all, starters: trace.starters(), threshold }
    }

    fn span(&self, (lane, index): Place) -> [u8; 8] {
        // Zero would mean a missing identity.
        mix(mix(self.seed ^ lane as u64) ^ index as u64).max(1).to_be_bytes()
    }

    /// The enclosing span, or the span on another lane that started it.
    fn parent(&self, trace: &Trace, (lane, index): Place) -> Option<Place> {
        let span = &trace.lanes[lane].spans[index];
        if (span.parent as usize) < index {
            return Some((lane, span.parent as usize));
        }
        self.starter(trace, (lane, index))
    }

    /// The span that started an outermost one. It must be earlier, so chains of starters cannot form a circle.
    fn starter(&self, trace: &Trace, (lane, index): Place) -> Option<Place> {
        let when = |(lane, index): Place| (trace.lanes[lane].spans[index].start, lane, index);
        let starter = self.starters.get(&trace.lanes[lane].spans[index].corr).copied()?;
        (starter.0 != lane && when(self.outer(starter)) < when((lane, index))).then_some(starter)
    }

    fn outer(&self, (lane, index): Place) -> Place {
        (lane, self.outermost[lane][index])
    }

    /// The outermost span of the trace that a span belongs to.
    fn root(&self, trace: &Trace, place: Place) -> Place {
        let mut root = self.outer(place);
        while let Some(starter) = self.starter(trace, root) {
            root = self.outer(starter);
        }
        root
    }

    /// The threshold of sampling and a random value that is not below it, as if a sampler had drawn it and kept the
    /// span. Specification: TraceState, Probability Sampling.
    fn state(&self, trace: &Trace, place: Place) -> Option<String> {
        let root = self.root(trace, place);
        if self.threshold == 0 || trace.lanes.get(root.0)?.kind != LaneKind::Thread {
            return None;
        }
        let above = u128::from((1 << 56) - self.threshold);
        let drawn = (u128::from(mix(u64::from_be_bytes(self.span(root)))) * above) >> 64;
        let threshold = format!("{:014x}", self.threshold);
        Some(format!("ot=th:{};rv:{:014x}", threshold.trim_end_matches('0'), self.threshold + drawn as u64))
    }

    fn trace(&self, trace: &Trace, place: Place) -> [u8; 16] {
        let id = self.span(self.root(trace, place));
        let mut both = [0; 16];
        both[..8].copy_from_slice(&self.seed.to_be_bytes());
        both[8..].copy_from_slice(&id);
        both
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): a permutation in which every bit depends on every bit.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
