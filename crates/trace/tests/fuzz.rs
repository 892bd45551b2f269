//! Damages the files of a corpus at random and reads them. The result must be an error or a profile, never a panic, a
//! hang or a profile that cannot be summarized and written again. Stable Rust, a fixed seed, no coverage feedback.
//!
//! The short run is an ordinary test. `cargo test --release -p ellwand-trace --test fuzz -- --ignored` spends
//! `ELLWAND_FUZZ_SECONDS` (600) on each reader, starting from `ELLWAND_FUZZ_SEED` (2).
#![allow(clippy::print_stderr, reason = "the count of a long run")]

mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use ellwand_trace::{Imported, findings, read_from};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// The generator splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Pieces that readers treat specially.
const PIECES: [&str; 40] = [
    "null",
    "-1",
    "0",
    "1e308",
    "-1e308",
    "1e-320",
    "9007199254740993",
    "18446744073709551615",
    "99999999999999999999",
    "4294967295",
    "-9223372036854775808",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "{}",
    "[[[[",
    "}}",
    ",",
    ":",
    "\"",
    "true",
    "\"ph\":\"B\"",
    "\"ph\":\"E\"",
    "\"ph\":\"b\"",
    "\"ph\":\"s\"",
    "\"ph\":\"f\"",
    "\"ph\":\"C\"",
    "\"ph\":\"M\"",
    "\"dur\":-5",
    "\"ts\":1e300",
    "\"cat\":\"kernel\"",
    "\"parent\":[5]",
    "\"ns_per_tick\":1e-300",
    "\"ns_per_tick\":1e300",
    "\"wall_ns\":1e300",
    "\"version\":1",
    "\"format\":\"ellwand profile\"",
    "\"histogram\":[[255,18446744073709551615]]",
    "\u{feff}",
];

/// The readers, each with the files that it reads.
fn corpus() -> [(&'static str, Vec<Vec<u8>>); 3] {
    let mut json = Vec::new();
    common::step().write_json(&mut json).expect("writes to memory");
    let mut chrome = Vec::new();
    common::step().write_chrome("x", &mut chrome).expect("writes to memory");
    // One event in eight of a recorded file, which contains every kind of event: all events would take eight times as
    // long.
    let packed = GzDecoder::new(&include_bytes!("files/pytorch-cpu.json.gz")[..]);
    let mut recorded: Value = serde_json::from_reader(packed).expect("the file is whole");
    let mut turn = 0..;
    recorded["traceEvents"]
        .as_array_mut()
        .expect("a list of events")
        .retain(|_| turn.next().is_some_and(|at| at % 8 == 0));
    [
        ("profile", vec![json, include_bytes!("files/small.json").to_vec()]),
        ("chrome", vec![chrome, include_bytes!("files/phases.json").to_vec()]),
        ("pytorch", vec![include_bytes!("files/pytorch-gpu.json").to_vec(), recorded.to_string().into_bytes()]),
    ]
}

/// Values that are wrong in most places and right in some.
fn values() -> [Value; 14] {
    let numbers = [0.0, -1.0, 1.0, 0.5, 1e300, 1e-300, 4_294_967_295.0, 1e19];
    let [a, b, c, d, e, f, g, h] = numbers.map(Value::from);
    [a, b, c, d, e, f, g, h, Value::Null, true.into(), "".into(), "kernel".into(), json!([]), json!({})]
}

/// Changes values of a file so that it stays JSON: most damage to bytes never gets past the parser.
fn changed(random: &mut Random, file: &[u8]) -> Vec<u8> {
    let mut root: Value = serde_json::from_slice(file).expect("files of the corpus are JSON");
    for _ in 0..=random.below(4) {
        let copy = (random.below(3) == 0).then(|| within(random, &mut root).clone());
        let (place, keep) = (within(random, &mut root), random.below(2) == 0);
        match (copy, place) {
            (Some(copy), place) => *place = copy,
            (None, Value::Array(list)) if !list.is_empty() => {
                let one = list.remove(random.below(list.len()));
                if keep {
                    list.extend([one.clone(), one]);
                }
            }
            (None, Value::Object(map)) if !map.is_empty() => {
                let name = map.keys().nth(random.below(map.len())).cloned();
                map.remove(&name.expect("the place is in the map"));
            }
            (None, place) => *place = values()[random.below(14)].clone(),
        }
    }
    root.to_string().into_bytes()
}

/// A place in a file, seldom near its root.
fn within<'a>(random: &mut Random, place: &'a mut Value) -> &'a mut Value {
    let children = place.as_array().map(Vec::len).or_else(|| place.as_object().map(serde_json::Map::len)).unwrap_or(0);
    if children == 0 || random.below(12) == 0 {
        return place;
    }
    let at = random.below(children);
    let child = match place {
        Value::Array(list) => list.get_mut(at),
        Value::Object(map) => map.values_mut().nth(at),
        _ => None,
    };
    within(random, child.expect("the place is in the value"))
}

fn damaged(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let file = &corpus[random.below(corpus.len())];
    let mut bytes = if random.below(2) == 0 { changed(random, file) } else { torn(random, file.clone(), corpus) };
    if random.below(16) == 0 {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        std::io::Write::write_all(&mut packed, &bytes).expect("writes to memory");
        bytes = packed.finish().expect("writes to memory");
        if random.below(2) == 0 && !bytes.is_empty() {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
    }
    bytes
}

fn torn(random: &mut Random, mut bytes: Vec<u8>, corpus: &[Vec<u8>]) -> Vec<u8> {
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.next() as u8),
            2 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            3 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            4 => drop(bytes.splice(at..at, PIECES[random.below(PIECES.len())].bytes())),
            5 => number(random, &mut bytes, at),
            6 => {
                // Move a piece of this or another file here.
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len());
                let to = (from + random.below(200)).min(other.len());
                drop(bytes.splice(at..at, other[from..to].iter().copied()));
            }
            _ => {
                let to = (at + random.below(60)).min(bytes.len());
                drop(bytes.drain(at..to));
            }
        }
    }
    bytes
}

/// Replaces the number at or after a place with an extreme one.
fn number(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let digit = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = bytes[at..].iter().position(digit).map(|offset| at + offset) else { return };
    let end = bytes[start..].iter().position(|byte| !digit(byte)).map_or(bytes.len(), |offset| start + offset);
    let piece = PIECES[1 + random.below(10)];
    drop(bytes.splice(start..end, piece.bytes()));
}

/// Does what a program does with a profile that it has read.
fn use_all(imported: &Imported) {
    let trace = &imported.trace;
    let breakdown = trace.breakdown();
    assert_eq!(breakdown.wall_ticks(), trace.end.saturating_sub(trace.start));
    assert!(!format!("{} {} {}", trace.summary(), trace.summary_by_site(), breakdown).is_empty());
    assert!(findings(trace, None).iter().all(|finding| !finding.to_string().is_empty()));
    ellwand_trace::diff(trace, trace, &ellwand_trace::DiffOptions::default()).expect("default options");
    for format in ellwand_trace::FORMATS {
        (format.write)(trace, &mut std::io::sink()).unwrap_or_else(|error| panic!("{}: {error}", format.name));
    }
    let mut again = Vec::new();
    trace.write_json(&mut again).expect("writes to memory");
    let back = read_from(&again[..]).unwrap_or_else(|error| panic!("its own file is not read: {error}"));
    assert_eq!(back.trace.spans(), trace.spans());
}

/// Damages the files of each reader until `go_on` rejects the number of a case. The random numbers of a case depend
/// only on the seed and its number.
fn fuzz(seed: u64, go_on: impl Fn(&str, u64) -> bool) {
    for (name, files) in &corpus() {
        for bytes in files {
            use_all(&read_from(&bytes[..]).unwrap_or_else(|error| panic!("{name}: {error}")));
        }
        let (mut case, mut read) = (0, 0_u64);
        while go_on(name, case) {
            let mut random = Random(Random(seed).next() ^ Random(case).next());
            let bytes = damaged(&mut random, files);
            let result = catch_unwind(AssertUnwindSafe(|| match read_from(&bytes[..]) {
                Ok(imported) => {
                    use_all(&imported);
                    1
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    0
                }
            }));
            let Ok(one) = result else {
                let path = std::env::temp_dir().join(format!("ellwand-fuzz-{name}-{seed}-{case}"));
                let _ = std::fs::write(&path, &bytes);
                panic!("{name}: case {case} of seed {seed} panics; its file is {}", path.display());
            };
            (read, case) = (read + one, case + 1);
        }
        eprintln!("{name}: {case} damaged files, {read} read, {} refused", case - read);
        assert!(case < 100 || read > case / 50, "the damage is too strong to reach the analysis");
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn damaged_files_never_panic() {
    fuzz(1, |_, case| case < 200);
}

#[test]
#[ignore = "takes ten minutes a reader"]
fn damaged_files_never_panic_long() {
    let (seconds, started) = (setting("ELLWAND_FUZZ_SECONDS", 600), RefCell::new(BTreeMap::new()));
    fuzz(setting("ELLWAND_FUZZ_SEED", 2), |reader, _| {
        let now = Instant::now();
        let start = *started.borrow_mut().entry(reader.to_string()).or_insert(now);
        now - start < Duration::from_secs(seconds)
    });
}
