//! Ctrl-C and kill -9: what was measured is kept.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Box, lines};

/// A sweep of many cells, each measured for long, so that it is still running when it is interrupted.
const LONG: [&str; 10] = [
    "run",
    "lattice-encode",
    "--batch",
    "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
    "--effort",
    "thorough",
    "--no-ceilings",
    "--no-plot",
    "-o",
    "out",
];

/// Starts the sweep and waits until two cells are written.
fn begun(here: &Box) -> Child {
    let mut command = here.command(&LONG);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let record = here.path("out/record.jsonl");
    // Four implementations a cell, after the line of the run.
    while !record.exists() || lines(&record).len() < 9 {
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

/// Every line but a cut last one can be read, and the cells before the interruption are whole.
fn kept(here: &Box) -> usize {
    let told = here.ok(&["report", "out", "--format", "csv"]);
    told.stdout.lines().count() - 1
}

#[test]
fn ctrl_c_keeps_the_record_and_says_how_to_go_on() {
    let here = Box::default();
    let child = begun(&here);
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("--resume"), "{stderr}");
    let rows = kept(&here);
    assert!((8..64).contains(&rows) && rows.is_multiple_of(4), "{rows}");
    assert!(here.path("out/report.md").exists(), "what was measured is reported");
}

#[test]
fn kill_loses_at_most_the_cell_being_measured() {
    let here = Box::default();
    let mut child = begun(&here);
    signal(&child, "KILL");
    child.wait().unwrap();
    let before = lines(&here.path("out/record.jsonl"));
    let rows = kept(&here);
    assert!(rows >= 8, "{rows}");
    assert!(!here.path("out/report.md").exists(), "no report pretends to be whole");
    // Going on measures what is missing and touches nothing that is there; a short effort would be another record.
    let resumed =
        here.run(&[&["run", "lattice-encode", "--batch", "1,2", "-i", "scalar"], &LONG[4..], &["--resume"]].concat());
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let after = lines(&here.path("out/record.jsonl"));
    assert_eq!(after[..before.len().min(9)], before[..before.len().min(9)]);
}
