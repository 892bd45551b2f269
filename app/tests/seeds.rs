//! What users of other tools look for: the components of attention at once, targets as lines, several sizes in a run.
#![allow(clippy::unwrap_used)]

mod common;

use common::Box;

const QUICK: [&str; 4] = ["--effort", "quick", "--no-ceilings", "--no-plot"];

#[test]
fn attention_shows_where_its_time_goes() {
    let here = Box::default();
    let small = ["--sequence", "16,32", "--dimension", "32", "--heads", "2"];
    let ran = here.ok(&[&["run", "attention"][..], &small, &QUICK, &["-o", "out"]].concat());
    let count = |text: &str| ran.stdout.matches(text).count();
    assert_eq!(count("attention by component · "), 2, "one table a case: {}", ran.stdout);
    assert_eq!(count("bottleneck: "), 2, "{}", ran.stdout);
    assert!(count("QKV projection") >= 2 && count("total") >= 2, "{}", ran.stdout);
    // Its rows may still be named by a finding.
    assert_eq!(count("attention-qkv ·"), 0, "the table of components suffices: {}", ran.stdout);
    let full = here.ok(&["report", "out", "--full"]);
    assert!(full.stdout.contains("attention-qkv ·"), "{}", full.stdout);
    // Named implementations are the user's choice.
    let named = here.ok(&[&["run", "attention", "-i", "fused"][..], &small, &QUICK, &["-o", "named"]].concat());
    assert!(!named.stdout.contains("by component"), "{}", named.stdout);
}

#[test]
fn the_targets_of_the_scripts_are_met_missed_or_open() {
    let here = Box::default();
    let sweep = ["run", "lattice-encode", "lattice-decode", "-i", "scalar,simd", "--batch", "100,1000"];
    let ran = here.ok(&[&sweep[..], &QUICK, &["-o", "out"]].concat());
    let targets: Vec<&str> = ran.stdout.lines().skip_while(|line| !line.starts_with("targets of")).collect();
    let line = |about: &str| {
        targets.iter().find(|line| line.contains(about)).unwrap_or_else(|| panic!("no {about}: {}", ran.stdout))
    };
    for about in ["at least 100 k vectors/s", "at least 200 k vectors/s", "speed-up of at least 2", "10 %"] {
        let words = [" met", " missed", " open"];
        assert!(words.iter().any(|word| line(about).contains(word)), "{}", line(about));
    }
    // The size does not depend on the machine.
    assert!(line("stored codes at least 4 times smaller").contains(" met"), "{}", ran.stdout);
    let other = here.ok(&[
        &["run", "lattice-encode", "-i", "simd", "--batch", "100", "--q", "8"][..],
        &QUICK,
        &["-o", "other"],
    ]
    .concat());
    assert!(!other.stdout.contains("targets of"), "they are for q = 4: {}", other.stdout);
}

#[test]
fn several_sizes_and_both_steps_of_the_decoder_are_one_run() {
    let here = Box::default();
    let sizes = ["run", "kde-fit-predict", "-i", "scalar,simd", "--size", "tiny,small", "--skip", "on"];
    here.ok(&[&sizes[..], &QUICK, &["-o", "out"]].concat());
    let csv = std::fs::read_to_string(here.path("out/summary.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 4, "{csv}");
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    for column in ["tied", "held_up", "limit", "limit_share", "compute_utilisation", "bandwidth_utilisation"] {
        assert!(head.contains(&column), "{column}: {head:?}");
    }
    here.refused(&["run", "kde-fit", "--size", "tiny,tyny"], &["'tyny'", "did you mean tiny?"]);
}
