//! Damages the files of a corpus at random and reads them: an error or a profile, never a panic, a hang or a profile
//! that cannot be summarized and written again. Stable Rust, a fixed seed, no coverage feedback.
//!
//! The short run is an ordinary test. A long one:
//! `ELLWAND_FUZZ_CASES=1000000 ELLWAND_FUZZ_SEED=7 cargo test --release -p ellwand-trace --test fuzz -- --ignored`
#![allow(clippy::print_stdout, reason = "the count of a long run")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use ellwand_trace::{Imported, findings, read_from};
use flate2::Compression;
use flate2::write::GzEncoder;

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

fn corpus() -> Vec<(&'static str, Vec<u8>)> {
    let mut json = Vec::new();
    common::step().write_json(&mut json).expect("writes to memory");
    let mut chrome = Vec::new();
    common::step().write_chrome("x", &mut chrome).expect("writes to memory");
    vec![
        ("profile", json),
        ("profile, small", include_bytes!("files/small.json").to_vec()),
        ("chrome export", chrome),
        ("chrome phases", include_bytes!("files/phases.json").to_vec()),
        ("pytorch", include_bytes!("files/pytorch-gpu.json").to_vec()),
    ]
}

fn damaged(random: &mut Random, corpus: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].1.clone();
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
                let other = &corpus[random.below(corpus.len())].1;
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

/// Replaces the number at or after a place by an extreme one.
fn number(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let digit = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = bytes[at..].iter().position(digit).map(|offset| at + offset) else { return };
    let end = bytes[start..].iter().position(|byte| !digit(byte)).map_or(bytes.len(), |offset| start + offset);
    let piece = PIECES[1 + random.below(10)];
    drop(bytes.splice(start..end, piece.bytes()));
}

/// What a program does with a profile that it read.
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

fn fuzz(cases: u64, seed: u64) {
    let (corpus, mut random, mut read) = (corpus(), Random(seed), 0_u64);
    for (name, bytes) in &corpus {
        use_all(&read_from(&bytes[..]).unwrap_or_else(|error| panic!("{name}: {error}")));
    }
    for case in 0..cases {
        let bytes = damaged(&mut random, &corpus);
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
        match result {
            Ok(one) => read += one,
            Err(_) => {
                let path = std::env::temp_dir().join(format!("ellwand-fuzz-{seed}-{case}"));
                let _ = std::fs::write(&path, &bytes);
                panic!("case {case} of seed {seed} panics; its file is {}", path.display());
            }
        }
    }
    println!("{cases} damaged files: {read} read, {} refused", cases - read);
    assert!(cases < 100 || read > cases / 50, "the damage is too strong to reach the analysis: {read} of {cases} read");
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn damaged_files_never_panic() {
    fuzz(600, 1);
}

#[test]
#[ignore = "minutes: run it after changes to a reader"]
fn damaged_files_never_panic_long() {
    fuzz(setting("ELLWAND_FUZZ_CASES", 200_000), setting("ELLWAND_FUZZ_SEED", 2));
}
