//! Change points of histories drawn from recorded noise: how often equal code has one, and how soon a step of 3 % is
//! found.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use ellwand_core::stats::{change_points, median, proportion_upper_bound};
use flate2::read::GzDecoder;

/// Least change that counts.
const ROPE: f64 = 0.01;
/// Processes of a run.
const PROCESSES: usize = 3;

/// For each recorded series, the log ratios of two arms of equal code, one per pair of processes.
fn recorded() -> Vec<(String, Vec<f64>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/noise");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<(String, Vec<f64>)> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "gz"))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), ratios(&path)))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn ratios(path: &Path) -> Vec<f64> {
    let mut table = csv::Reader::from_reader(GzDecoder::new(File::open(path).unwrap()));
    let mut blocks: BTreeMap<u32, [Vec<f64>; 3]> = BTreeMap::new();
    for row in table.deserialize::<(u32, u32, u32, usize, u64, f64, f64)>() {
        let (block, _, _, arm, _, median_ns, _) = row.unwrap();
        blocks.entry(block).or_default()[arm].push(median_ns);
    }
    let log = |values: &Vec<f64>| median(values).unwrap().ln();
    blocks.values().flat_map(|[a, b, c]| [log(b) - log(a), log(c) - log(b), log(a) - log(c)]).collect()
}

/// Pseudo-random indices with a fixed seed (SplitMix64).
struct Stream(u64);

impl Stream {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % count as u64) as usize
    }

    /// A run: the mean log ratio of some processes.
    fn run(&mut self, ratios: &[f64]) -> f64 {
        (0..PROCESSES).map(|_| ratios[self.below(ratios.len())]).sum::<f64>() / PROCESSES as f64
    }
}

fn found(values: &[f64]) -> Vec<usize> {
    change_points(values, ROPE.ln_1p()).unwrap().points.iter().map(|change| change.index).collect()
}

/// Number of histories with a change, among `histories` of 200 runs.
fn false_alarms(ratios: &[f64], histories: u64) -> u64 {
    let alarm = |seed: u64| {
        let mut stream = Stream(seed * 1000);
        let values: Vec<f64> = (0..200).map(|_| stream.run(ratios)).collect();
        !found(&values).is_empty()
    };
    (0..histories).filter(|seed| alarm(*seed)).count() as u64
}

/// Number of runs after a step of 3 % at run 60 until it is found within two runs of its place; `None` after 30.
fn delay(ratios: &[f64], seed: u64) -> Option<usize> {
    let mut stream = Stream(seed * 1000 + 7);
    let mut values: Vec<f64> = (0..60).map(|_| stream.run(ratios)).collect();
    (1..=30).find(|_| {
        values.push(stream.run(ratios) + 0.03_f64.ln_1p());
        found(&values).iter().any(|place| place.abs_diff(60) <= 2)
    })
}

#[test]
fn equal_code_rarely_has_a_step() {
    for (name, ratios) in recorded() {
        let alarms = false_alarms(&ratios, 60);
        assert!(alarms <= 3, "{name}: {alarms} of 60 histories of equal code have a step");
    }
}

#[test]
fn a_step_of_three_percent_is_found_within_ten_runs() {
    for name in ["zen4-settled-chain-equal.csv", "zen4-settled-parse-equal.csv"] {
        let (_, ratios) = recorded().into_iter().find(|(known, _)| known == name).unwrap();
        for seed in 0..20 {
            let delay = delay(&ratios, seed);
            assert!(delay.is_some_and(|delay| delay <= 10), "{name}, seed {seed}: {delay:?}");
        }
    }
}

/// The table in `docs/decisions`: `cargo test --release -p ellwand-history --test noise -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table, asserts nothing that the other tests do not"]
fn table() {
    println!("series, sd of a run %, histories with a false step (95 % bound), found within 10 runs, median delay");
    for (name, ratios) in recorded() {
        let mut stream = Stream(1);
        let runs: Vec<f64> = (0..4000).map(|_| stream.run(&ratios)).collect();
        let mean = runs.iter().sum::<f64>() / runs.len() as f64;
        let sd = (runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / runs.len() as f64).sqrt();
        let alarms = false_alarms(&ratios, 1000);
        let delays: Vec<Option<usize>> = (0..200).map(|seed| delay(&ratios, seed)).collect();
        let soon = delays.iter().flatten().filter(|delay| **delay <= 10).count();
        let middle = median(&delays.iter().map(|delay| delay.unwrap_or(31) as f64).collect::<Vec<_>>()).unwrap();
        println!(
            "{name:36} {:6.2} {alarms:4} of 1000 ({:.2} %) {soon:4} of 200 {middle:5}",
            100.0 * sd,
            100.0 * proportion_upper_bound(alarms, 1000, 0.95).unwrap()
        );
    }
}
