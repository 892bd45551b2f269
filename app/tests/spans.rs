//! `run --spans` as a user sees it.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Box, QUICK, lines};
use serde_json::Value;

const SPANS: &[&str] =
    &["run", "lattice-quantize", "--lattice", "D4", "--batch", "20000", "--effort", "quick", "--spans"];

fn spans(record: &std::path::Path) -> Vec<Value> {
    let lines = lines(record).into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
    lines.filter(|line| line["kind"] == "spans").collect()
}

#[test]
fn the_components_of_every_implementation_are_shown_and_kept() {
    let here = Box::default();
    let ran = here.ok(&[SPANS, &["-o", "out"]].concat());
    for part in ["encode", "decode", "(in no span)", "not a benchmark", "reference", "scalar", "simd", "parallel"] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
    assert!(ran.stderr.contains("4 traces"), "{}", ran.stderr);
    let lines = spans(&here.path("out/record.jsonl"));
    assert_eq!(lines.len(), 4);
    for line in &lines {
        let paths: Vec<&str> =
            line["nodes"].as_array().unwrap().iter().map(|n| n["path"][0].as_str().unwrap()).collect();
        assert!(paths.iter().all(|path| ["encode", "decode"].contains(path)), "{paths:?}");
        assert_eq!((line["dropped"].as_u64(), line["open"].as_u64()), (Some(0), Some(0)));
        let iterations = line["iteration_ns"].as_array().unwrap().len();
        assert!((3..=2000).contains(&iterations), "{iterations}");
        let trace = std::fs::read(here.path("out").join(line["trace"].as_str().unwrap())).unwrap();
        let trace: Value = serde_json::from_slice(&trace).unwrap();
        let named =
            |name: &str| trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == name).count();
        assert_eq!(named("(iteration)"), iterations);
        assert_eq!((named("(warm-up)"), named("encode")), (1, iterations + 1), "the threads join in a warm-up");
    }
    assert_eq!(here.ok(&["report", "out"]).stdout, ran.stdout);
    assert_eq!(
        here.ok(&["report", "out", "--format", "json"]).stdout,
        std::fs::read_to_string(here.path("out/run.json")).unwrap()
    );
    assert_eq!(
        here.ok(&["report", "out", "--format", "csv"]).stdout,
        std::fs::read_to_string(here.path("out/spans.csv")).unwrap()
    );
    let report = std::fs::read_to_string(here.path("out/report.md")).unwrap();
    assert!(report.contains("## Components") && report.contains(".trace.json"), "{report}");
    assert!(!here.path("out/summary.csv").exists(), "there are no measurements");
}

#[test]
fn spans_join_a_record_of_measurements_without_touching_them() {
    let here = Box::default();
    assert_eq!(here.sweep(&["-o", "out"]).code, Some(0));
    let before = std::fs::read(here.path("out/record.jsonl")).unwrap();
    let measured = here.ok(&["report", "out", "--format", "csv"]).stdout;
    let again = [&QUICK[..], &["-o", "out", "--resume", "--spans", "--implementation", "simd"]].concat();
    let ran = here.run(&again);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("speed-up") && ran.stdout.contains("components"), "{}", ran.stdout);
    let after = std::fs::read(here.path("out/record.jsonl")).unwrap();
    assert_eq!(&after[..before.len()], &before[..]);
    assert_eq!(spans(&here.path("out/record.jsonl")).len(), 2, "one for each case");
    assert_eq!(here.ok(&["report", "out", "--format", "csv"]).stdout, measured);
    assert_eq!(here.run(&again).code, Some(0));
    assert_eq!(std::fs::read(here.path("out/record.jsonl")).unwrap(), after, "nothing is recorded twice");
}

#[test]
fn an_implementation_without_spans_says_what_to_do() {
    let here = Box::default();
    let ran = here.ok(&["run", "null", "--spans", "-o", "out"]);
    assert!(ran.stdout.contains("no spans inside: put `let _span"), "{}", ran.stdout);
    assert!(spans(&here.path("out/record.jsonl")).iter().all(|line| line.get("trace").is_none()));
}

#[test]
fn flags_that_contradict_are_refused() {
    let here = Box::default();
    for (flags, named) in
        [(&["--once"][..], "--once"), (&["--blocks", "2"], "--blocks"), (&["--baseline", "scalar"], "--baseline")]
    {
        here.refused(&[SPANS, flags].concat(), &["--spans", named, "cannot be used with"]);
    }
    here.refused(&["run", "null", "--span"], &["--spans"]);
}
