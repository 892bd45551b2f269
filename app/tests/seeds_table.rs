//! Every native row of the table for users of other tools runs and shows what the row promises.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Box, npy_f32};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/kde/golden.npz");

/// Rows with the same first command: their section, the command, and the words in italics that they promise.
struct Row {
    section: String,
    command: String,
    promised: Vec<String>,
}

/// Sections whose rows are commands of this program on its own workloads.
const SECTIONS: [&str; 4] = [
    "Profiling of the lattice quantizer",
    "Benchmark of layer operations",
    "Profiling of attention",
    "Profiling of the clusterless decoder",
];

/// The parts of `text` between pairs of `mark`.
fn between(text: &str, mark: char) -> Vec<String> {
    text.split(mark).skip(1).step_by(2).map(String::from).collect()
}

fn rows() -> Vec<Row> {
    let text = include_str!("../../docs/seeds.md");
    let mut rows: Vec<Row> = Vec::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.to_string();
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        let (true, [_, command, output]) = (SECTIONS.contains(&section.as_str()), cells.as_slice()) else { continue };
        let command = between(command, '`').into_iter().next();
        let Some(command) = command.filter(|_| !line.contains("| `operation`")) else { continue };
        let promised = between(output, '*');
        match rows.iter_mut().find(|row| row.section == section && row.command == command) {
            Some(same) => same.promised.extend(promised),
            None => rows.push(Row { section: section.clone(), command, promised }),
        }
    }
    rows
}

/// The command at a small size: flags that it lacks, and files instead of placeholders.
fn small(row: &Row, here: &Box, out: &str) -> Vec<String> {
    let text = row.command.replace("FILE.npy", "x.npy").replace("FILE.npz", GOLDEN).replace("r.json", out);
    let mut words: Vec<String> = text.split_whitespace().map(|word| word.trim_matches('\'').to_string()).collect();
    let has = |words: &[String], flags: &[&str]| words.iter().any(|word| flags.contains(&word.as_str()));
    let mut add = |flags: &[&str], more: &[&str]| {
        if !has(&words, flags) {
            words.extend(more.iter().map(ToString::to_string));
        }
    };
    let verb = text.split_whitespace().next().unwrap();
    if verb == "run" {
        if !text.contains("--spans") && !text.contains("--once") {
            add(&["--effort"], &["--effort", "quick", "--blocks", "1"]);
        }
        // Ceilings take half a minute; the rows on limits need them.
        if !row.section.ends_with("attention") && !text.contains("--once") {
            add(&["--no-ceilings"], &["--no-ceilings"]);
        }
        match row.section.split(' ').nth_back(0).unwrap() {
            "quantizer" => {
                add(&["--batch", "--batch-sizes"], &["--batch", "100,1000"]);
                add(&["-i"], &["-i", "scalar,simd"]);
            }
            "operations" => {
                add(&["--batch-sizes", "--batch"], &["--batch-sizes", "2"]);
                add(&["--sequence-lengths", "--sequence"], &["--sequence-lengths", "16"]);
                add(&["--tensor-dimensions", "--dimension"], &["--tensor-dimensions", "64"]);
            }
            "attention" => {
                add(&["--sequence"], &["--sequence", "16"]);
                add(&["--dimension"], &["--dimension", "32", "--heads", "2"]);
            }
            _ => add(&["-i"], &["-i", "scalar,simd"]),
        }
        if !text.contains("--once") {
            add(&["-o", "--output-dir"], &["-o", out]);
        }
    }
    if verb == "compare" {
        add(&["--sequence"], &["--sequence", "16", "--dimension", "32", "--heads", "2", "--time", "5s"]);
    }
    if verb == "apply" {
        add(&["-o"], &["-o", out]);
        here.write("x.npy", &npy_f32("(64, 4)", &[0.5; 256]));
    }
    words.iter().map(|word| word.replace("DIR", out)).collect()
}

/// Everything that a command wrote: names of files, and their text.
fn written(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        into.push_str(&path.display().to_string());
        if path.is_dir() {
            written(&path, into);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            into.push_str(&text);
        }
    }
}

/// Runs a command under `perf record`, where perf exists and may count.
#[allow(clippy::print_stderr)]
fn under_perf(here: &Box, row: &Row) {
    let perf = |args: &[&str]| Command::new("perf").args(args).current_dir(here.dir.path()).output();
    if !perf(&["record", "-q", "-o", "probe.data", "true"]).is_ok_and(|ran| ran.status.success()) {
        return eprintln!("skipped: perf does not exist or may not record here");
    }
    let mut args = vec!["record", "-q", "-o", "perf.data", env!("CARGO_BIN_EXE_ellwand")];
    let command = small(row, here, "unused");
    args.extend(command.iter().map(String::as_str));
    let ran = perf(&args).unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let seen = perf(&["report", "-i", "perf.data", "--stdio", "--sort", "dso"]).unwrap();
    let seen = String::from_utf8_lossy(&seen.stdout);
    assert!(seen.lines().any(|line| !line.starts_with('#') && line.contains("ellwand")), "{seen}");
}

fn hold(section: &str) {
    let here = Box::default();
    here.write("ellwand.toml", b"[[budget]]\nworkload = \"lattice-encode\"\nimplementation = \"simd\"\nthroughput = \"1 /s\"\nat_least = { compression = 1 }\n");
    let mine: Vec<Row> = rows().into_iter().filter(|row| row.section == section).collect();
    assert!(mine.len() >= 5, "{section} has {} rows", mine.len());
    for (index, row) in mine.iter().enumerate() {
        if row.command.contains("--once") {
            under_perf(&here, row);
            continue;
        }
        let out = format!("out{index}");
        let command = small(row, &here, &out);
        let ran = here.ok(&command.iter().map(String::as_str).collect::<Vec<_>>());
        let mut all = ran.stdout + &ran.stderr;
        if let Ok(text) = std::fs::read_to_string(here.path(&out)) {
            all.push_str(&text);
        }
        written(&here.path(&out), &mut all);
        for word in &row.promised {
            assert!(all.contains(word.as_str()), "`{}` does not show {word}:\n{all}", row.command);
        }
    }
}

#[test]
fn rows_of_the_quantizer() {
    hold(SECTIONS[0]);
}

#[test]
fn rows_of_layer_operations() {
    hold(SECTIONS[1]);
}

#[test]
fn rows_of_attention() {
    hold(SECTIONS[2]);
}

#[test]
fn rows_of_the_decoder() {
    hold(SECTIONS[3]);
}
