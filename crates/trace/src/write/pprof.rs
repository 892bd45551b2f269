//! pprof's protobuf (`profile.proto`), compressed with gzip: calls and self time by stack.

use std::collections::HashMap;
use std::io::{self, Write};

use ellwand_profile::{Row, Trace};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::protobuf::Message;

/// Strings without duplicates; the first is empty, as the format requires.
struct Strings {
    all: Vec<String>,
    known: HashMap<String, u64>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let number = self.all.len() as u64;
        self.all.push(text.to_string());
        self.known.insert(text.to_string(), number);
        number
    }
}

pub(super) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let mut strings = Strings { all: vec![String::new()], known: HashMap::from([(String::new(), 0)]) };
    let mut profile = Message::default();
    for (kind, unit) in [("calls", "count"), ("time", "nanoseconds")] {
        let (kind, unit) = (strings.number(kind), strings.number(unit));
        profile.message(1, |value| {
            value.uint(1, kind).uint(2, unit);
        });
    }
    let mut places: HashMap<(String, String, u32), u64> = HashMap::new();
    // Location numbers from the outermost span to the current row.
    let mut stack: Vec<u64> = Vec::new();
    for row in trace.summary().rows {
        let next = places.len() as u64 + 1;
        let key = (row.name().to_string(), row.file.clone(), row.line);
        let place = *places.entry(key).or_insert_with(|| {
            location(&mut profile, &mut strings, &row, next);
            next
        });
        stack.truncate(row.depth());
        stack.push(place);
        if row.count == 0 {
            continue;
        }
        profile.message(2, |sample| {
            sample.packed(1, stack.iter().rev().copied());
            sample.packed(2, [row.count, row.self_ns.round() as u64]);
        });
    }
    let time = strings.number("time");
    profile.uint(9, trace.started_unix_ns).uint(10, trace.wall_ns().round() as u64).uint(14, time);
    for text in &strings.all {
        profile.text(6, text);
    }
    let mut packed = GzEncoder::new(out, Compression::fast());
    packed.write_all(&profile.bytes)?;
    packed.finish().map(drop)
}

/// A function and its only location, which have the same number.
fn location(profile: &mut Message, strings: &mut Strings, row: &Row, number: u64) {
    let (name, file) = (strings.number(row.name()), strings.number(&row.file));
    profile.message(5, |function| {
        function.uint(1, number).uint(2, name).uint(3, name).uint(4, file).uint(5, row.line.into());
    });
    profile.message(4, |location| {
        location.uint(1, number).message(4, |line| {
            line.uint(1, number).uint(2, row.line.into());
        });
    });
}
