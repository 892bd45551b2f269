//! `--caches cold` as a user meets it.
#![allow(clippy::unwrap_used)]

mod common;

use common::Box;

const COPY: [&str; 10] =
    ["run", "copy", "--bytes", "65536", "-i", "system", "--effort", "quick", "--no-ceilings", "--no-plot"];

#[test]
fn cold_runs_are_marked_everywhere_and_compared_with_warm_ones_side_by_side() {
    let here = Box::default();
    let cold = here.ok(&[&COPY[..], &["--caches", "cold", "-o", "cold"]].concat());
    assert!(cold.stdout.contains("cold caches"), "{}", cold.stdout);
    let lines = common::lines(&here.path("cold/record.jsonl"));
    let parsed: Vec<serde_json::Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(parsed[0]["settings"]["caches"], "cold");
    assert_eq!(parsed[1]["caches"], "cold");
    let iterations = parsed[1]["samples"]["iterations"].as_array().unwrap();
    assert!(iterations.len() >= 3 && iterations.iter().all(|count| *count == 1), "{iterations:?}");
    assert!(here.ok(&["report", "cold", "--format", "csv"]).stdout.contains(",cold,"));

    let warm = here.ok(&[&COPY[..], &["-o", "warm"]].concat());
    assert!(!warm.stdout.contains("cold"), "{}", warm.stdout);
    assert!(!std::fs::read_to_string(here.path("warm/record.jsonl")).unwrap().contains("\"caches\":\""), "as before");
    let both = here.ok(&["report", "warm", "cold"]).stdout;
    assert!(both.contains("warm") && both.contains("cold"), "{both}");
    let suggested = here.run(&["compare", "warm", "cold"]);
    assert!(suggested.stdout.contains("suggests nothing: one was measured with warm caches"), "{}", suggested.stdout);
}

#[test]
fn flags_incompatible_with_cold_caches_are_refused_with_the_reason() {
    let here = Box::default();
    here.refused(&[&COPY[..], &["--caches", "frozen"]].concat(), &["frozen", "warm", "cold"]);
    for other in ["--spans", "--once"] {
        here.refused(&["run", "copy", "--bytes", "65536", "--caches", "cold", other], &["--caches", other]);
    }
    let sides = ["compare", "copy:system", "copy:simd", "--bytes", "65536", "--caches", "cold"];
    here.refused(&sides, &["--caches", "self-check", "run --caches cold"]);
    here.ok(&[&COPY[..], &["-o", "out"]].concat());
    here.refused(&[&COPY[..], &["-o", "out", "--resume", "--caches", "cold"]].concat(), &["--caches warm", "caches"]);
}

#[test]
fn budgets_do_not_apply_to_cold_caches() {
    let here = Box::default();
    here.write("ellwand.toml", b"[[budget]]\nworkload = \"copy\"\nimplementation = \"system\"\ntime = \"1 ns\"\n");
    let six = ["--blocks", "6"];
    assert_eq!(here.run(&[&COPY[..], &six, &["-o", "warm"]].concat()).code, Some(3), "broken");
    let cold = here.ok(&[&COPY[..], &["--caches", "cold", "-o", "cold"]].concat());
    assert!(cold.stderr.contains("budgets apply to warm caches"), "{}", cold.stderr);
}
