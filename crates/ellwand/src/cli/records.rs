//! `compare RECORD RECORD`: what two runs suggest. Never a verdict: they were not measured in turns, so that whatever changed
//! on the machine between them looks like a change of the code.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use ellwand_bench::writer;
use ellwand_core::InputError;
use ellwand_core::record::{Measurement, Record, Sample};
use ellwand_core::stats::median;
use serde_json::{Value, json};

use super::command::{is_set, text};
use super::exit::{Exit, Failure};
use super::verdict::{digits, percent};
use super::{Outcome, output};

/// The record that a side names: a file, or a directory as `run` writes it.
pub(super) fn record_at(side: &str) -> Option<PathBuf> {
    let path = Path::new(side);
    let inside = path.join("record.jsonl");
    let is_record = path.extension().is_some_and(|extension| extension == "jsonl") && path.is_file();
    if is_record { Some(path.to_path_buf()) } else { inside.is_file().then_some(inside) }
}

/// A cell that both records hold.
struct Pair {
    cell: String,
    /// Fastest and slowest process over process, and the ratio of the middles.
    ratio: Option<[f64; 3]>,
    why_not: &'static str,
}

pub(super) fn compare(matches: &ArgMatches, paths: [&Path; 2], rope: f64) -> Outcome {
    let [baseline, candidate] = [read("BASE", paths[0])?, read("CANDIDATE", paths[1])?];
    let machines = [&baseline, &candidate].map(|record| record.run.environment.fingerprint());
    if machines[0] != machines[1] && !is_set(matches, "across-machines") {
        let [one, other] = [&baseline, &candidate].map(|record| record.run.environment.cpu.clone());
        return Err(InputError::new(
            "CANDIDATE",
            format!("the records were made on different machines ({one}; {other})"),
            "two records of one machine",
        )
        .help("--across-machines compares them all the same: then the machines differ, and perhaps the code")
        .into());
    }
    let pairs = pairs(&baseline, &candidate);
    output::result(|out| match text(matches, "format") {
        Some("table") | None => write_lines(&pairs, rope, out),
        _ => write_json(&pairs, rope, out),
    })?;
    Ok(if pairs.iter().any(|pair| pair.ratio.is_some()) { Exit::Ok } else { Exit::Nothing })
}

fn read(argument: &str, path: &Path) -> Result<Record, Failure> {
    Ok(writer::read(path)
        .map_err(|error| InputError::new(argument, error.to_string(), "a record as `run` writes it"))?)
}

fn pairs(baseline: &Record, candidate: &Record) -> Vec<Pair> {
    let before: BTreeMap<String, &Measurement> = baseline.measurements.iter().map(|m| (m.cell(), m)).collect();
    let both = candidate.measurements.iter().filter_map(|m| Some((*before.get(&m.cell())?, m)));
    both.map(|(before, after)| {
        let (ratio, why_not) = match (processes(before), processes(after)) {
            (Some(before), Some(after)) if before.len() > 1 && after.len() > 1 => {
                (ratios(&before, &after), "a time is zero")
            }
            (Some(_), Some(_)) => (None, "one process each shows nothing about others; run with --blocks"),
            _ => (None, "it was not measured in both"),
        };
        Pair { cell: after.cell(), ratio, why_not }
    })
    .collect()
}

/// What each process took: the median of its slots' fastest parts.
fn processes(measurement: &Measurement) -> Option<Vec<f64>> {
    if !measurement.outcome.is_measured() {
        return None;
    }
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in &measurement.samples {
        blocks
            .entry(sample.block)
            .or_default()
            .push(sample.fastest_seconds().unwrap_or_else(|| Sample::seconds(sample)));
    }
    blocks.values().map(|seconds| median(seconds)).collect()
}

fn ratios(before: &[f64], after: &[f64]) -> Option<[f64; 3]> {
    let ends = |values: &[f64]| values.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
    let ((fast, slow), (after_fast, after_slow)) = (ends(before), ends(after));
    let ratios = [after_fast / slow, median(after)? / median(before)?, after_slow / fast];
    ratios.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0).then_some(ratios)
}

/// Slower or faster when all processes of one record are, by more than the region of equivalence.
fn suggestion([low, _, high]: [f64; 3], rope: f64) -> &'static str {
    if low > 1.0 + rope {
        "slower"
    } else if high < 1.0 / (1.0 + rope) {
        "faster"
    } else {
        "nothing"
    }
}

fn write_lines(pairs: &[Pair], rope: f64, out: &mut dyn Write) -> io::Result<()> {
    for Pair { cell, ratio, why_not } in pairs {
        match ratio {
            None => writeln!(out, "{cell}: suggests nothing: {why_not}")?,
            Some(ratios) => {
                let range = |low: f64, high: f64| format!("processes {} to {}", digits(low), digits(high));
                let [low, middle, high] = *ratios;
                match suggestion(*ratios, rope) {
                    "slower" => writeln!(out, "{cell}: suggests {}x slower ({})", digits(middle), range(low, high))?,
                    "faster" => writeln!(
                        out,
                        "{cell}: suggests {}x faster ({})",
                        digits(1.0 / middle),
                        range(1.0 / high, 1.0 / low)
                    )?,
                    _ => writeln!(
                        out,
                        "{cell}: suggests no difference beyond {}: {}x the time ({})",
                        percent(rope),
                        digits(middle),
                        range(low, high)
                    )?,
                }
            }
        }
    }
    match pairs {
        [] => writeln!(out, "the records have no case and implementation in common"),
        _ => writeln!(
            out,
            "no verdict: the two were not measured in turns; `compare WORKLOAD:A WORKLOAD:B` or --baseline is"
        ),
    }
}

fn write_json(pairs: &[Pair], rope: f64, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<Value> = pairs
        .iter()
        .map(|pair| match pair.ratio {
            Some(ratios) => json!({ "cell": pair.cell, "suggests": suggestion(ratios, rope), "ratio": ratios[1], "low": ratios[0], "high": ratios[2] }),
            None => json!({ "cell": pair.cell, "suggests": "nothing", "reason": pair.why_not }),
        })
        .collect();
    writeln!(out, "{:#}", Value::Array(rows))
}
