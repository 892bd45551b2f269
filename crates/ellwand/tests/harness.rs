//! `bench_main` as started by cargo and nextest. This test starts itself again as a benchmark target.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::process::{Command, Output};

use ellwand::Registry;
use ellwand::{Axis, suite};

const TARGET: &str = "ELLWAND_TEST_AS_TARGET";

fn registry() -> Registry {
    let mut registry = ellwand::devices();
    suite("sum")
        .axis(Axis::int("n", "numbers", 1, 1000, 10))
        .input(|case, _| vec![1_u32; case.usize("n")])
        .implementation("sum", |v| v.iter().sum::<u32>())
        .implementation("count", |v| v.len() as u32)
        .register(&mut registry);
    suite("wrong")
        .axis(Axis::int("n", "numbers", 1, 1000, 10))
        .input(|case, _| case.usize("n"))
        .implementation("right", |n| *n)
        .implementation("more", |n| *n + 1)
        .register(&mut registry);
    registry
}

fn target(line: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(line.split_whitespace()).env(TARGET, "1").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn lists() {
    for (line, expected) in [
        (
            "--list --format terse",
            "sum:sum: benchmark\nsum:count: benchmark\nwrong:right: benchmark\nwrong:more: benchmark\n",
        ),
        ("--list --bench count", "sum:count: benchmark\n"),
        ("--list --exact sum", ""),
        ("--list --format terse --ignored", ""),
    ] {
        let output = target(line);
        assert!(output.status.success(), "{line}: {output:?}");
        assert_eq!(stdout(&output), expected, "{line}");
    }
}

fn checks_without_timing() {
    let output = target("sum");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("count") && !stdout(&output).contains("wrong/"), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("written to"), "{output:?}");
    assert_eq!(target("--bench --test wrong:more").status.code(), Some(5));
    assert_eq!(target("--exact wrong:right --nocapture").status.code(), Some(0));
    assert_eq!(target("--bench nothing-like-it").status.code(), Some(0));
    let refused = target("--frobnicate");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--frobnicate"), "{refused:?}");
}

fn measures_in_worker_processes() {
    let output = target("--bench sum:count");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let dir =
        stderr.lines().find_map(|line| line.strip_prefix("written to ")).expect("it says where it wrote").to_string();
    let record = ellwand::internals::bench::writer::read(&std::path::Path::new(&dir).join("record.jsonl")).unwrap();
    assert_eq!(record.measurements.len(), 1);
    let measurement = &record.measurements[0];
    assert_eq!(measurement.implementation, "count");
    assert!(measurement.outcome.is_measured() && !measurement.samples.is_empty(), "{measurement:?}");
    assert!(dir.contains("harness-"), "{dir}");
    std::fs::remove_dir_all(std::path::Path::new(&dir).parent().unwrap()).unwrap();
}

fn main() {
    if std::env::var_os(TARGET).is_some() {
        ellwand::bench_main(registry());
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        if !words.iter().any(|word| word == "--ignored") {
            println!("bench_main: test");
        }
        return;
    }
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    if !filters.is_empty() && !filters.iter().any(|filter| "bench_main".contains(filter.as_str())) {
        return;
    }
    lists();
    checks_without_timing();
    measures_in_worker_processes();
    println!("bench_main ... ok");
}
