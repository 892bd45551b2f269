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
}

#[test]
fn a_report_writes_one_format_to_a_file() {
    let here = Box::default();
    assert_eq!(here.sweep(&["-o", "out"]).code, Some(0));
    let printed = here.ok(&["report", "out", "--format", "csv"]).stdout;
    here.ok(&["report", "out", "--format", "csv", "-o", "rows.csv"]);
    assert_eq!(std::fs::read_to_string(here.path("rows.csv")).unwrap(), printed);
    here.refused(&["report", "out", "--format", "csv", "-o", "rows.csv"], &["rows.csv exists"]);
    here.refused(&["report", "out", "--format", "json", "-o", "r.csv"], &["r.csv", "--format is json", "--format csv"]);
    here.refused(&["run", "gelu", "-o", "r.json"], &["r.json", "--format is table", "--format json"]);
}

#[test]
fn a_flag_of_another_tool_gets_what_does_the_same_here() {
    let here = Box::default();
    here.refused(&["run", "gelu", "--iterations", "5"], &["--iterations", "--effort and --time"]);
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
