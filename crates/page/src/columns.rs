//! The data of a page: a JSON head and the entries as typed arrays, deflated.
//!
//! Starts are stored as differences, parents as distances, durations in units of the clock's quantum: 10^6 spans take
//! some megabytes instead of eighty, and the browser reads them without parsing text.

use std::io::{self, Write};

use flate2::{Compression, write::DeflateEncoder};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::document::{Document, Entries};

/// Largest deviation of a time from a multiple of the quantum, in nanoseconds: the text has three decimals.
const SLACK_NS: f64 = 6e-4;

/// The members of a profile other than its entries, and the layout of the columns of these.
#[derive(Serialize)]
struct Head<'a> {
    #[serde(flatten)]
    head: &'a Map<String, Value>,
    spans: usize,
    quantum_ns: f64,
    columns: Vec<Value>,
    details: Option<&'a RawValue>,
}

/// A profile as the page's script reads it: length of the head, head, columns; all deflated.
pub(crate) fn pack(document: &Document) -> io::Result<Vec<u8>> {
    let quantum = quantum(document);
    let columns = encode(&document.entries, quantum);
    let layout: Vec<Value> = columns.iter().map(|(name, one)| json!([name, one.wide, one.bytes.len()])).collect();
    let head = Head {
        head: &document.head,
        spans: document.spans(),
        quantum_ns: quantum,
        columns: layout,
        details: document.details.as_deref(),
    };
    let columns: Vec<&[u8]> = columns.iter().map(|(_, one)| one.bytes.as_slice()).collect();
    packed(&head, &columns)
}

/// JSON as a payload without columns.
pub(crate) fn pack_json(json: &Value) -> io::Result<Vec<u8>> {
    packed(json, &[])
}

fn packed(head: &impl Serialize, columns: &[&[u8]]) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(head)?;
    let length = u32::try_from(text.len()).map_err(|_| io::Error::other("more than 4 GiB besides the spans"))?;
    let mut out = DeflateEncoder::new(Vec::new(), Compression::default());
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&text)?;
    columns.iter().try_for_each(|bytes| out.write_all(bytes))?;
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

/// The columns with their names. A column without values means that no entry has one.
fn encode(entries: &Entries, quantum: f64) -> Vec<(&'static str, Column)> {
    let steps = |ns: f64| (ns / quantum).round() as i64;
    let mut last = 0;
    let start = entries.start_ns.iter().map(|ns| {
        let now = steps(*ns);
        now - std::mem::replace(&mut last, now)
    });
    let parent = |(at, index): (i64, &i64)| if *index < 0 { 0 } else { at - index };
    let plain = |values: &[u32]| Column::of(values.iter().map(|value| i64::from(*value)).collect());
    vec![
        ("operation", plain(&entries.operation)),
        ("lane", plain(&entries.lane)),
        ("start", Column::of(start.collect())),
        ("duration", Column::of(entries.duration_ns.iter().map(|ns| ns.map_or(-1, |ns| steps(ns).max(0))).collect())),
        ("parent", Column::of((0..).zip(&entries.parent).map(parent).collect())),
        ("link", if entries.link.iter().all(|link| *link == 0) { plain(&[]) } else { plain(&entries.link) }),
        ("detail", Column::of(entries.detail.clone())),
    ]
}

/// The bytes of a typed array: of 32-bit integers, or of doubles if one value is too large for these.
struct Column {
    wide: bool,
    bytes: Vec<u8>,
}

impl Column {
    fn of(values: Vec<i64>) -> Self {
        let narrow: Result<Vec<i32>, _> = values.iter().map(|value| i32::try_from(*value)).collect();
        match narrow {
            Ok(narrow) => Self { wide: false, bytes: narrow.into_iter().flat_map(i32::to_le_bytes).collect() },
            Err(_) => {
                Self { wide: true, bytes: values.into_iter().flat_map(|value| (value as f64).to_le_bytes()).collect() }
            }
        }
    }
}
