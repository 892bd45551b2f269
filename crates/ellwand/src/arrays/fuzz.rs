//! Seeded mutations of array files and records: whatever a file contains, reading it returns a value or an error.
//!
//! `cargo test -p ellwand --features arrays --lib -- --ignored fuzz` spends `ELLWAND_FUZZ_SECONDS` (600) on each format,
//! within 4 GiB of address space.

use std::io::Write;
use std::time::{Duration, Instant};

use ellwand_core::record;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::{npy, npz, safetensors};

/// Mutations of each format that every test run tries.
const FEW: usize = 1000;

/// Numbers in text that readers tend to handle wrongly.
const NUMBERS: [&str; 8] =
    ["0", "-1", "1e999", "4294967296", "9223372036854775807", "18446744073709551616", "0.5", "null"];

fn corpus(folder: &str, extensions: &[&str]) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let wanted = paths.iter().filter(|path| extensions.iter().any(|end| path.to_string_lossy().ends_with(end)));
    let files: Vec<_> = wanted.map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!files.is_empty());
    files
}

/// One to four changes of a file of the corpus.
fn mutated(corpus: &[Vec<u8>], coin: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = corpus.choose(coin).unwrap().clone();
    for _ in 0..coin.random_range(1..=4) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = coin.random_range(0..bytes.len());
        let end = (at + coin.random_range(1..=32_usize)).min(bytes.len());
        match coin.random_range(0..8) {
            0 => bytes[at] ^= 1 << coin.random_range(0..8),
            1 => bytes[at] = *[0, 1, 0x7f, 0x80, 0xff, b'\n', b'"', 0x1b].choose(coin).unwrap(),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            5 => bytes[at..end].fill_with(|| coin.random()),
            6 => {
                let other = corpus.choose(coin).unwrap();
                let from = coin.random_range(0..other.len());
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
            _ => number(&mut bytes, at, coin),
        }
    }
    bytes
}

/// Replaces the first number after `at`.
fn number(bytes: &mut Vec<u8>, at: usize, coin: &mut ChaCha8Rng) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|start| at + start) else { return };
    let len = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    bytes.splice(start..start + len, NUMBERS.choose(coin).unwrap().bytes());
}

fn try_npy(corpus: &[Vec<u8>], coin: &mut ChaCha8Rng) {
    check(npy::parse("x", &mutated(corpus, coin)));
}

fn try_npz(corpus: &[Vec<u8>], coin: &mut ChaCha8Rng) {
    let bytes = if coin.random_bool(0.5) {
        mutated(corpus, coin)
    } else {
        // Puts the damaged array into an intact archive, so that the array's reader sees it.
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        archive.start_file("x.npy", zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(&mutated(&self::corpus("fuzz", &["f32.npy", "nested.npy"]), coin)).unwrap();
        archive.finish().unwrap().into_inner()
    };
    check(npz::parse("x", &bytes, None));
    check(npz::parse("x", &bytes, Some("x")));
}

fn try_safetensors(corpus: &[Vec<u8>], coin: &mut ChaCha8Rng) {
    check(safetensors::parse("x", &mutated(corpus, coin), None));
}

/// Half of the tries have correct checksums, so that the code after the checksums is tested too. A record that can be
/// read must be reportable.
fn try_record(corpus: &[Vec<u8>], coin: &mut ChaCha8Rng) {
    let bytes = mutated(corpus, coin);
    let text = String::from_utf8_lossy(&bytes);
    let sealed = coin.random_bool(0.5);
    let text = if sealed { text.lines().map(|line| record::seal(line) + "\n").collect() } else { text.into_owned() };
    let Ok(record) = record::parse(&text) else { return };
    let Ok(report) = ellwand_report::Report::from_records(&[record], &ellwand_report::Options::default()) else {
        return;
    };
    for format in ellwand_report::FORMATS {
        let _ = (format.write)(&report, &mut std::io::sink());
    }
}

fn check<T>(read: Result<T, ellwand_core::error::InputError>) {
    if let Err(error) = read {
        assert!(error.to_string().len() > 10);
    }
}

type Try = fn(&[Vec<u8>], &mut ChaCha8Rng);
const FORMATS: [(&str, &str, &[&str], Try); 4] = [
    ("npy", "fuzz", &[".npy"], try_npy),
    ("npz", "fuzz", &[".npz"], try_npz),
    ("safetensors", "fuzz", &[".safetensors"], try_safetensors),
    ("record", "records", &["v1.jsonl", "v1-comparisons.jsonl", "v1-cold.jsonl", "v1-views.jsonl"], try_record),
];

/// Tries one seed after another; a panic names its seed.
fn tries((name, folder, extensions, one): (&str, &str, &[&str], Try), go_on: &dyn Fn(usize) -> bool) -> usize {
    let corpus = corpus(folder, extensions);
    let mut seed = 0;
    while go_on(seed) {
        let mut coin = ChaCha8Rng::seed_from_u64(seed as u64);
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one(&corpus, &mut coin)));
        assert!(tried.is_ok(), "{name}: seed {seed}");
        seed += 1;
    }
    seed
}

#[test]
fn damaged_files_are_errors() {
    for format in FORMATS {
        let few = if format.0 == "record" { FEW / 20 } else { FEW };
        tries(format, &|seed| seed < few);
    }
}

#[test]
#[ignore = "takes ten minutes a format"]
#[allow(clippy::print_stderr)]
fn fuzz() {
    #[cfg(target_os = "linux")]
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_AS, 4 << 30, 4 << 30).unwrap();
    let seconds = std::env::var("ELLWAND_FUZZ_SECONDS").map_or(600, |text| text.parse().unwrap());
    let wanted = std::env::var("ELLWAND_FUZZ").unwrap_or_default();
    for format in FORMATS.into_iter().filter(|format| format.0.contains(&wanted)) {
        let end = Instant::now() + Duration::from_secs(seconds);
        let tried = tries(format, &|_| Instant::now() < end);
        eprintln!("{}: {tried} mutations", format.0);
    }
}
