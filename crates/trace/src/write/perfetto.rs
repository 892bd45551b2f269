//! Perfetto's protobuf (`perfetto/trace/trace.proto`): one track per lane, slices, links as flows, counters.

use std::io::{self, Write};

use ellwand_profile::{Detail, LaneKind, Span, Trace, TraceLane, Value};

use super::UNSEEN;
use super::protobuf::Message;
use super::walk::{Step, walk};

/// Fields of `Trace` and `TracePacket`.
const PACKET: u32 = 1;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const SEQUENCE_FLAGS: u32 = 13;
const TRACK_DESCRIPTOR: u32 = 60;
/// Fields of `TrackEvent`.
const ANNOTATION: u32 = 4;
const TYPE: u32 = 9;
const NAME_IID: u32 = 10;
const TRACK: u32 = 11;
const VALUE: u32 = 44;
const FLOW: u32 = 47;
const CATEGORY_IID: u32 = 3;
/// Values of `TrackEvent.Type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const COUNTER: u64 = 4;

/// Names are sent once and every event refers to them, so readers must read the sequence from its start.
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
/// Buffer size in bytes at which the buffer is written out.
const CHUNK: usize = 1 << 18;
/// Identity of the process; the tracks of devices and lanes follow.
const PROCESS: u64 = 1;

/// Writes the trace. Open spans have no end, as in the recording.
pub(super) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let mut buffer = Message { bytes: Vec::with_capacity(CHUNK + 4096) };
    packet(&mut buffer, |packet| {
        packet.uint(SEQUENCE_FLAGS, CLEARED).message(INTERNED, |interned| names(trace, interned));
    });
    packet(&mut buffer, |packet| {
        packet.message(TRACK_DESCRIPTOR, |track| {
            track.uint(1, PROCESS).message(3, |process| {
                let name = if trace.name.is_empty() { "program" } else { &trace.name };
                process.uint(1, 1).text(6, name);
            });
        });
    });
    for (number, lane) in trace.lanes.iter().enumerate() {
        let track = PROCESS + 1 + number as u64;
        packet(&mut buffer, |packet| descriptor(packet, lane, track, number));
        events(trace, lane, track, &mut buffer, out)?;
    }
    counters(trace, &mut buffer);
    out.write_all(&buffer.bytes)
}

/// A packet of the only sequence.
fn packet(buffer: &mut Message, fill: impl FnOnce(&mut Message)) {
    buffer.message(PACKET, |packet| {
        packet.uint(SEQUENCE, 1);
        fill(packet);
    });
}

/// Number of a name: that of its site; 1 for an unknown one.
fn name_of(trace: &Trace, site: u32) -> u64 {
    if site as usize <= trace.sites.len() { u64::from(site) + 1 } else { 1 }
}

fn names(trace: &Trace, interned: &mut Message) {
    for kind in ellwand_profile::Kind::ALL {
        interned.message(1, |category| {
            category.uint(1, kind as u64 + 1).text(2, kind.word());
        });
    }
    interned.message(2, |name| {
        name.uint(1, 1).text(2, "?");
    });
    for (number, site) in trace.sites.iter().enumerate() {
        interned.message(2, |name| {
            name.uint(1, number as u64 + 2).text(2, &site.name);
        });
    }
}

fn descriptor(packet: &mut Message, lane: &TraceLane, track: u64, number: usize) {
    packet.message(TRACK_DESCRIPTOR, |descriptor| {
        descriptor.uint(1, track);
        match &lane.kind {
            LaneKind::Thread => descriptor.uint(5, PROCESS).message(4, |thread| {
                thread.uint(1, 1).uint(2, number as u64 + 1).text(5, &lane.name);
            }),
            LaneKind::Stream { device } => {
                let name = if device.is_empty() { lane.name.clone() } else { format!("{device} {}", lane.name) };
                descriptor.uint(5, PROCESS).text(2, &name)
            }
        };
    });
}

/// Nanoseconds since the start; earlier times become 0, because the format has no negative times.
fn nanos(trace: &Trace, ticks: u64) -> u64 {
    // `round` is a function call on processors without SSE 4.1; the sum is exact enough below 2^52 ns, which is 52
    // days.
    (trace.since_start_ns(ticks) + 0.5) as u64
}

fn events(trace: &Trace, lane: &TraceLane, track: u64, buffer: &mut Message, out: &mut dyn Write) -> io::Result<()> {
    let mut open: Vec<bool> = Vec::new();
    let mut result = Ok(());
    walk(trace, lane, |ticks, step| {
        let ns = nanos(trace, ticks);
        match step {
            Step::Begin(index) => {
                let span = &lane.spans[index];
                open.push(span.is_open());
                event(buffer, ns, |event| begin(trace, lane, span, track, event));
            }
            Step::End if open.pop().unwrap_or(false) => return,
            Step::End => event(buffer, ns, |event| {
                event.uint(TYPE, END).uint(TRACK, track);
            }),
        }
        if buffer.bytes.len() >= CHUNK && result.is_ok() {
            result = out.write_all(&buffer.bytes);
            buffer.bytes.clear();
        }
    });
    result
}

fn event(buffer: &mut Message, ns: u64, fill: impl FnOnce(&mut Message)) {
    buffer.message(PACKET, |packet| {
        packet.uint(TIMESTAMP, ns).uint(SEQUENCE, 1).uint(SEQUENCE_FLAGS, NEEDS_STATE).message(TRACK_EVENT, fill);
    });
}

fn begin(trace: &Trace, lane: &TraceLane, span: &Span, track: u64, event: &mut Message) {
    let (name, kind) = (name_of(trace, span.site), trace.site(span).map_or(0, |site| site.kind as u64));
    event.uint(CATEGORY_IID, kind + 1).uint(TYPE, BEGIN).uint(NAME_IID, name).uint(TRACK, track);
    if span.corr != 0 {
        event.fixed64(FLOW, span.corr.into());
    }
    if let Some(detail) = lane.detail_of(span) {
        annotations(event, detail);
    }
}

fn annotations(event: &mut Message, detail: &Detail) {
    let mut put = |name: &str, fill: &dyn Fn(&mut Message)| {
        event.message(ANNOTATION, |annotation| {
            annotation.text(10, name);
            fill(annotation);
        });
    };
    for (name, value) in detail.counts().filter(|(name, _)| !UNSEEN.contains(name)) {
        put(name, &|annotation| {
            annotation.uint(3, value);
        });
    }
    let flops = detail.counters.flops;
    if flops != 0.0 {
        put("flops", &|annotation| {
            annotation.double(5, flops);
        });
    }
    for (name, value) in &detail.args {
        put(name, &|annotation| {
            match value {
                Value::Bool(value) => annotation.uint(2, u64::from(*value)),
                Value::Int(value) => annotation.int(4, *value),
                Value::Float(value) => annotation.double(5, *value),
                Value::Text(value) => annotation.text(6, value),
            };
        });
    }
}

fn counters(trace: &Trace, buffer: &mut Message) {
    for (number, track) in trace.tracks.iter().enumerate() {
        let uuid = PROCESS + 1 + (trace.lanes.len() + number) as u64;
        packet(buffer, |packet| {
            packet.message(TRACK_DESCRIPTOR, |descriptor| {
                descriptor.uint(1, uuid).uint(5, PROCESS).text(2, &track.name).message(8, |counter| {
                    match track.unit.as_str() {
                        "B" => counter.uint(3, 3),
                        unit => counter.text(6, unit),
                    };
                });
            });
        });
        for (ticks, value) in track.points.iter().filter(|(_, value)| value.is_finite()) {
            packet(buffer, |packet| {
                packet.uint(TIMESTAMP, nanos(trace, *ticks)).uint(SEQUENCE_FLAGS, NEEDS_STATE);
                packet.message(TRACK_EVENT, |event| {
                    event.uint(TYPE, COUNTER).uint(TRACK, uuid).double(VALUE, *value);
                });
            });
        }
    }
}
