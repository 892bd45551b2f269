//! `--rtol` and `--atol`: what they accept and refuse, in this process and in workers, and where they are recorded.
#![allow(clippy::unwrap_used)]

mod common;

use common::Box;

const CASE: [&str; 6] = ["--batch", "2", "--sequence", "16", "--dimension", "64"];

const BRIEF: [&str; 4] = ["--effort", "quick", "--no-ceilings", "--no-plot"];

fn line<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

#[test]
fn a_check_uses_the_tolerance_of_the_user() {
    let here = Box::default();
    let check = |more: &[&'static str]| here.run(&line(&[&["check", "swish:simd"], &CASE, more]));
    let strict = check(&["--rtol", "1e-15"]);
    assert_eq!(strict.code, Some(5), "{}", strict.stdout);
    assert!(strict.stdout.contains("allowed 0e0 + 1e-15 |reference|"), "{}", strict.stdout);
    for (loose, right) in [(&["--rtol", "1e-4", "--atol", "1e-5"], true), (&["--rtol", "0", "--atol", "1e-30"], false)]
    {
        let ran = check(loose);
        assert_eq!(ran.code, Some(if right { 0 } else { 5 }), "{}", ran.stdout);
    }
    // In bf16 half a step of rounding is allowed besides.
    let half = here.ok(&line(&[&["check", "swish:simd", "--precision", "bf16", "--rtol", "1e-5"], &CASE]));
    assert!(half.stdout.contains("1 right"), "{}", half.stdout);
    // The decoder compares some rows, and only bins where the animal was.
    let strict = here.run(&["check", "kde-predict:simd", "--size", "tiny", "--rtol", "1e-15"]);
    assert_eq!(strict.code, Some(5), "{}", strict.stdout);
    here.ok(&["check", "kde-predict:simd", "--size", "tiny", "--rtol", "1e-4", "--atol", "1e-5"]);
}

#[test]
fn workers_judge_by_it_and_the_record_holds_it() {
    let here = Box::default();
    let strict = ["--rtol", "1e-15"];
    let run = here.run(&line(&[&["run", "swish:simd", "-o", "strict"], &CASE, &BRIEF, &strict]));
    assert_eq!(run.code, Some(5), "{}\n{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("wrong"), "{}", run.stdout);
    let loose = ["--rtol", "1e-4", "--atol", "1e-5"];
    here.ok(&line(&[&["run", "swish:simd", "-o", "loose"], &CASE, &BRIEF, &loose]));
    let record = std::fs::read_to_string(here.path("loose").join("record.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(record.lines().next().unwrap()).unwrap();
    assert_eq!(first["settings"]["allowed"], serde_json::json!({ "absolute": 1e-5, "relative": 1e-4 }));
    let resumed = line(&[&["run", "swish:simd", "-o", "loose", "--resume"], &CASE, &BRIEF, &["--rtol", "1e-3"]]);
    here.refused(&resumed, &["--atol 1e-5, --rtol 1e-4", "--atol 0e0, --rtol 1e-3"]);
    let sides = ["compare", "swish:scalar", "swish:simd", "--fail-on", "never", "--time", "2s"];
    let compared = here.run(&line(&[&sides, &CASE, &strict]));
    assert_eq!(compared.code, Some(5), "{}\n{}", compared.stdout, compared.stderr);
}

#[test]
fn exact_workloads_and_impossible_tolerances_are_refused() {
    let here = Box::default();
    let exact = |flag| [flag, "lattice-encode has no tolerance to choose", "bit by bit", "command without a tolerance"];
    here.refused(&["check", "lattice-encode", "--rtol", "1e-4"], &exact("--rtol:"));
    here.refused(&["run", "lattice-encode", "--atol", "1e-4"], &exact("--atol:"));
    here.refused(&["compare", "lattice-encode:scalar", "lattice-encode:simd", "--atol", "1"], &exact("--atol:"));
    here.refused(&["check", "attention-core", "--precision", "bf16", "--rtol", "1e-4"], &["spread"]);
    here.refused(&["check", "swish", "--rtol=-1"], &["--rtol", "at least 0"]);
    here.refused(&["compare", "--command", "true", "true", "--rtol", "1e-4"], &["--rtol"]);
}
