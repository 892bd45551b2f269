//! The data of a page: a JSON head and the entries as columns of varints, deflated.
//!
//! Starts are stored as differences, parents as distances, durations in units of the clock's quantum: 10^6 spans take
//! some megabytes instead of eighty, and the browser reads them without parsing text.

use std::io::{self, Write};

use flate2::{Compression, write::DeflateEncoder};
use serde_json::{Map, Value, json};

use crate::document::{Detail, Document, Entries};

/// Largest deviation of a time from a multiple of the quantum, in nanoseconds: the text has three decimals.
const SLACK_NS: f64 = 6e-4;

/// A profile as the page's script reads it: length of the head, head, columns; all deflated.
pub(crate) fn pack(document: &Document) -> io::Result<Vec<u8>> {
    let entries = &document.entries;
    let quantum = quantum(document);
    let columns = encode(entries, quantum);
    let mut head = document.head.clone();
    let layout: Vec<Value> = columns.iter().map(|(name, bytes)| json!([name, bytes.len()])).collect();
    head.insert("spans".into(), json!(document.spans()));
    head.insert("quantum_ns".into(), json!(quantum));
    head.insert("columns".into(), Value::Array(layout));
    head.insert("details".into(), details(&document.details));
    packed(&Value::Object(head), &columns)
}

/// JSON as a payload without columns.
pub(crate) fn pack_json(json: &Value) -> io::Result<Vec<u8>> {
    packed(json, &[])
}

fn packed(head: &Value, columns: &[(&'static str, Vec<u8>)]) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(head)?;
    let length = u32::try_from(text.len()).map_err(|_| io::Error::other("more than 4 GiB besides the spans"))?;
    let mut out = DeflateEncoder::new(Vec::new(), Compression::default());
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&text)?;
    for (_, bytes) in columns {
        out.write_all(bytes)?;
    }
    out.finish()
}

/// The largest of a few steps of which every time is a multiple.
fn quantum(document: &Document) -> f64 {
    let entries = &document.entries;
    let tick = document
        .head
        .get("clock")
        .and_then(|clock| clock.get("ns_per_tick"))
        .and_then(Value::as_f64)
        .filter(|tick| *tick > 1e-3);
    let times = || entries.start_ns.iter().chain(entries.duration_ns.iter().flatten());
    let fits = |step: &f64| times().all(|time| ((time / step).round() * step - time).abs() <= SLACK_NS);
    let longest = times().fold(0.0_f64, |longest, time| longest.max(time.abs()));
    // A picosecond as a last resort; with it, a recording of hours would exceed the 53 bits of a JavaScript number.
    [Some(1.0), tick].into_iter().flatten().find(fits).unwrap_or(if longest < 9e12 { 1e-3 } else { 1.0 })
}

fn encode(entries: &Entries, quantum: f64) -> Vec<(&'static str, Vec<u8>)> {
    let steps = |ns: f64| (ns / quantum).round() as i64;
    let mut last = 0;
    let start = entries.start_ns.iter().map(|ns| {
        let now = steps(*ns);
        zigzag(now.wrapping_sub(std::mem::replace(&mut last, now)))
    });
    let duration = |ns: &Option<f64>| ns.map_or(0, |ns| u64::try_from(steps(ns)).unwrap_or(0).saturating_add(1));
    let parent = |(at, index): (u64, &i64)| u64::try_from(*index).map_or(0, |index: u64| at.saturating_sub(index));
    let plain = |values: &[u32]| varints(values.iter().map(|value| u64::from(*value)));
    let present = entries.detail.iter().map(|detail| u64::try_from(*detail).ok());
    let linked = entries.link.iter().map(|link| (*link != 0).then_some(u64::from(*link)));
    vec![
        ("operation", plain(&entries.operation)),
        ("lane", plain(&entries.lane)),
        ("start", varints(start)),
        ("duration", varints(entries.duration_ns.iter().map(duration))),
        ("parent", varints((0..).zip(&entries.parent).map(parent))),
        ("link", sparse(linked)),
        ("detail", sparse(present)),
    ]
}

/// Values that are often absent: 0 for none, else one more than the zigzag difference from the last one present.
fn sparse(values: impl Iterator<Item = Option<u64>>) -> Vec<u8> {
    let mut last = 0;
    varints(values.map(|value| match value.and_then(|value| i64::try_from(value).ok()) {
        None => 0,
        Some(value) => zigzag(value.wrapping_sub(std::mem::replace(&mut last, value))).saturating_add(1),
    }))
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn varints(values: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut value in values {
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }
    bytes
}

/// A member of a detail.
type Field = fn(&Detail) -> Option<f64>;

/// Details as one column per field that any of them has; arguments by index, because few have any.
fn details(details: &[Detail]) -> Value {
    let fields: [(&str, Field); 9] = [
        ("bytes", |detail| detail.bytes),
        ("items", |detail| detail.items),
        ("flops", |detail| detail.flops),
        ("cpu_ns", |detail| detail.cpu_ns),
        ("allocations", |detail| detail.allocations),
        ("allocated_bytes", |detail| detail.allocated_bytes),
        ("freed_bytes", |detail| detail.freed_bytes),
        ("peak_bytes", |detail| detail.peak_bytes),
        ("rss_bytes", |detail| detail.rss_bytes),
    ];
    let mut columns = Map::new();
    for (name, field) in fields {
        if details.iter().any(|detail| field(detail).is_some()) {
            columns.insert(name.into(), details.iter().map(|detail| number(field(detail))).collect());
        }
    }
    let args = details.iter().enumerate().filter(|(_, detail)| !detail.args.is_empty());
    let args: Map<String, Value> = args.map(|(at, detail)| (at.to_string(), json!(detail.args))).collect();
    json!({"count": details.len(), "columns": columns, "args": args})
}

/// Whole numbers are written without a fraction, which is shorter.
fn number(value: Option<f64>) -> Value {
    match value {
        Some(value) if value.fract() == 0.0 && value.abs() < 9e15 => json!(value as i64),
        value => json!(value),
    }
}
