//! The rows that scripts for layer benchmarks read, with the analyses that such scripts make.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::Box;
use serde_json::Value;

const RUN: [&str; 16] = [
    "run",
    "layer-norm",
    "gelu",
    "-i",
    "scalar,simd",
    "--batch-sizes",
    "2,4",
    "--sequence-lengths",
    "8",
    "--tensor-dimensions",
    "16,32",
    "--effort",
    "quick",
    "--no-ceilings",
    "--format",
    "seed-json",
];

fn rows(here: &Box, file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(here.path(file)).unwrap();
    serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().clone()
}

#[test]
fn a_file_of_rows_answers_the_questions_of_the_scripts() {
    let here = Box::default();
    let ran = here.ok(&[&RUN[..], &["--no-plot", "-o", "r.json"]].concat());
    assert!(ran.stdout.is_empty() && ran.stderr.contains("written to r.json"), "{}", ran.stderr);
    let rows = rows(&here, "r.json");
    // Four shapes, two implementations; GELU in two forms.
    assert_eq!(rows.len(), 8 + 16);
    const MEASURED: [&str; 5] = ["time_ms", "memory_mb", "inference_speed", "gpu_efficiency", "throughput_gbps"];
    let keys: BTreeSet<String> = rows
        .iter()
        .map(|row| {
            let mut keys = row.as_object().unwrap().clone();
            MEASURED.iter().for_each(|name| drop(keys.remove(*name)));
            Value::Object(keys).to_string()
        })
        .collect();
    assert_eq!(keys.len(), rows.len(), "every axis that varies is a key, so that no two rows are alike");
    // Mean time of an operation by implementation, and by each axis.
    let norm: Vec<&Value> = rows.iter().filter(|row| row["operation"] == "LayerNorm").collect();
    assert_eq!(norm.len(), 8);
    for key in ["implementation", "batch_size", "tensor_dimension"] {
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for row in &norm {
            groups.entry(row[key].to_string()).or_default().push(row["time_ms"].as_f64().unwrap());
        }
        assert_eq!(groups.values().map(Vec::len).collect::<Vec<_>>(), [4, 4], "{key}");
    }
    assert!(norm.iter().all(|row| row["sequence_length"] == 8));
    // The fastest row, and calls a second.
    let time = |row: &Value| row["time_ms"].as_f64().unwrap();
    let fastest = norm.iter().min_by(|a, b| time(a).total_cmp(&time(b))).unwrap();
    assert!((fastest["inference_speed"].as_f64().unwrap() * time(fastest) - 1000.0).abs() < 1e-6);
    // A file is not replaced unasked.
    here.refused(&[&RUN[..], &["-o", "r.json"]].concat(), &["r.json exists", "--overwrite"]);
    // Before anything is measured.
    here.refused(&[&RUN[..], &["-o", "r.json/r.json"]].concat(), &["-o: r.json cannot be written"]);
}

/// What the scripts ask of their file, in the language that they ask it in: mean time by operation and implementation, the
/// best implementation of each operation, and the speed-up by size.
const ANALYSIS: &str = r#"
import json, sys

with open(sys.argv[1]) as file:
    rows = json.load(file)

def mean(rows):
    times = [row["time_ms"] for row in rows]
    return sum(times) / len(times)

def values(key, rows):
    return sorted({row[key] for row in rows})

answers = {}
for operation in values("operation", rows):
    of = [row for row in rows if row["operation"] == operation]
    means = {one: mean([row for row in of if row["implementation"] == one]) for one in values("implementation", of)}
    speedups = {}
    for size in values("tensor_dimension", of):
        here = [row for row in of if row["tensor_dimension"] == size]
        scalar, simd = (mean([row for row in here if row["implementation"] == one]) for one in ("scalar", "simd"))
        speedups[size] = scalar / simd
    by_batch = {size: mean([row for row in of if row["batch_size"] == size]) for size in values("batch_size", of)}
    by_length = {size: mean([row for row in of if row["sequence_length"] == size]) for size in values("sequence_length", of)}
    answers[operation] = {
        "means": means,
        "best": min(means, key=means.get),
        "speedups": speedups,
        "by_batch": by_batch,
        "by_length": by_length,
    }
json.dump({"answers": answers, "keys": sorted({key for row in rows for key in row})}, sys.stdout)
"#;

#[test]
fn python_scripts_read_the_file_as_documented() {
    let here = Box::default();
    let script = here.write("analysis.py", ANALYSIS.as_bytes());
    let Ok(version) = std::process::Command::new("python3").arg("--version").output() else {
        println!("skipped: python3 is not installed");
        return;
    };
    assert!(version.status.success());
    here.ok(&[&RUN[..], &["--no-plot", "-o", "r.json"]].concat());
    let output = std::process::Command::new("python3").arg(script).arg(here.path("r.json")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The script sees what the file says, computed here again for one operation.
    let rows = rows(&here, "r.json");
    let mean = |key: &str, value: &Value, more: &dyn Fn(&Value) -> bool| {
        let of = rows.iter().filter(|row| row["operation"] == "LayerNorm" && row[key] == *value && more(row));
        let times: Vec<f64> = of.map(|row| row["time_ms"].as_f64().unwrap()).collect();
        times.iter().sum::<f64>() / times.len() as f64
    };
    let near = |found: &Value, expected: f64| {
        let found = found.as_f64().unwrap();
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} and not {expected}");
    };
    let norm = &found["answers"]["LayerNorm"];
    let means = ["scalar", "simd"].map(|name| mean("implementation", &name.into(), &|_| true));
    near(&norm["means"]["scalar"], means[0]);
    near(&norm["means"]["simd"], means[1]);
    assert_eq!(norm["best"], if means[0] <= means[1] { "scalar" } else { "simd" });
    for size in [16, 32] {
        let of = |name: &str| mean("implementation", &name.into(), &|row| row["tensor_dimension"] == size);
        near(&norm["speedups"][size.to_string()], of("scalar") / of("simd"));
    }
    near(&norm["by_batch"]["4"], mean("batch_size", &4.into(), &|_| true));
    near(&norm["by_length"]["8"], mean("sequence_length", &8.into(), &|_| true));
    assert!(found["answers"].as_object().unwrap().keys().eq(["GELU", "LayerNorm"]), "{found}");
    // Every key of the file is documented, by its name or as that of an axis that varies.
    let documented = include_str!("../../docs/seeds.md");
    for key in found["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()) {
        assert!(documented.contains(&format!("`{key}`")), "docs/seeds.md does not name {key}");
    }
}

#[test]
fn a_report_writes_one_format_to_a_file() {
    let here = Box::default();
    assert_eq!(here.sweep(&["-o", "out"]).code, Some(0));
    let printed = here.ok(&["report", "out", "--format", "csv"]).stdout;
    here.ok(&["report", "out", "--format", "csv", "-o", "rows.csv"]);
    assert_eq!(std::fs::read_to_string(here.path("rows.csv")).unwrap(), printed);
    here.refused(&["report", "out", "--format", "csv", "-o", "rows.csv"], &["rows.csv exists"]);
    here.ok(&["report", "out", "--format", "csv", "-o", "new/folder/rows.csv"]);
    assert!(here.path("new/folder/rows.csv").exists());
    here.refused(&["report", "out", "--format", "json", "-o", "r.csv"], &["r.csv", "--format is json", "--format csv"]);
    here.refused(&["run", "gelu", "-o", "r.json"], &["r.json", "--format is table", "--format json"]);
}

#[test]
fn a_flag_of_another_tool_gets_a_hint_to_the_matching_one() {
    let here = Box::default();
    here.refused(&["run", "gelu", "--repeat", "5"], &["--repeat", "--effort and --time", "--iterations N"]);
    here.refused(&["check", "gelu", "--iterations", "5"], &["--iterations is an option of `run`"]);
    here.refused(&["run", "gelu", "--from", "exact"], &["did you mean --form?"]);
}

#[test]
fn tables_fit_a_page_and_show_all_on_request() {
    let here = Box::default();
    let short = here.sweep(&["-o", "out"]).stdout;
    assert!(short.lines().all(|line| line.chars().count() <= 120), "{short}");
    let full = here.ok(&["report", "out", "--full"]).stdout;
    assert!(full.lines().count() > short.lines().count(), "{full}");
    assert!(short.contains("--full") && !full.contains("--full"), "{short}\n{full}");
}
