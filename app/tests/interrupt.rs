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

/// Command lines of the processes with this mark in their environment.
fn marked(mark: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let has = |path: &std::path::PathBuf| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).split('\0').any(|value| value == format!("ELLWAND_TEST={mark}"))
    };
    let line = |path: std::path::PathBuf| std::fs::read(path.join("cmdline")).unwrap_or_default();
    processes.filter(has).map(|path| String::from_utf8_lossy(&line(path)).replace('\0', " ")).collect()
}

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
fn recorded_rows(here: &Box) -> usize {
    let ran = here.ok(&["report", "out", "--format", "csv"]);
    ran.stdout.lines().count() - 1
}

#[test]
fn ctrl_c_keeps_the_record_and_prints_the_command_that_resumes() {
    let here = Box::default();
    let child = begun(&here);
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("stopping after the current step; finished cells are saved"), "{stderr}");
    assert!(stderr.contains("interrupted; the same command with --resume continues from here"), "{stderr}");
    let rows = recorded_rows(&here);
    assert!((8..64).contains(&rows) && rows.is_multiple_of(4), "{rows}");
    assert!(here.path("out/report.md").exists(), "what was measured is reported");
}

#[test]
fn a_request_to_end_keeps_the_record_as_ctrl_c_does() {
    for name in ["TERM", "HUP"] {
        let here = Box::default();
        let child = begun(&here);
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let rows = recorded_rows(&here);
        assert!((8..64).contains(&rows) && rows.is_multiple_of(4), "{name}: {rows}");
    }
}

#[test]
fn kill_loses_at_most_the_cell_being_measured() {
    let here = Box::default();
    let mut child = begun(&here);
    signal(&child, "KILL");
    child.wait().unwrap();
    let before = lines(&here.path("out/record.jsonl"));
    let rows = recorded_rows(&here);
    assert!(rows >= 8, "{rows}");
    assert!(!here.path("out/report.md").exists(), "no report pretends to be whole");
    let blocks =
        [&["run", "lattice-encode", "--batch", "1,2", "-i", "scalar"], &LONG[4..], &["--resume", "--blocks", "9"]];
    here.refused(&blocks.concat(), &["--blocks"]);
    // Going on measures what is missing and touches nothing that is there; a short effort would be another record.
    let resumed =
        here.run(&[&["run", "lattice-encode", "--batch", "1,2", "-i", "scalar"], &LONG[4..], &["--resume"]].concat());
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let after = lines(&here.path("out/record.jsonl"));
    assert_eq!(after[..before.len().min(9)], before[..before.len().min(9)]);
}

/// Process ids of the workers that a process has started.
fn workers(parent: u32) -> Vec<u32> {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(children).unwrap_or_default();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// Waits until workers are at work, interrupts their parent, and returns what it said and whom it had started.
fn interrupted(child: Child) -> (std::process::Output, Vec<u32>) {
    let mut seen = workers(child.id());
    while seen.is_empty() {
        std::thread::sleep(Duration::from_millis(1));
        seen = workers(child.id());
    }
    signal(&child, "INT");
    seen.extend(workers(child.id()));
    (child.wait_with_output().unwrap(), seen)
}

fn all_gone(ids: &[u32]) {
    for id in ids {
        // A process of another program may have the number by now; ours would show our name.
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains("worker"), "worker {id} was left behind");
    }
}

#[test]
fn ctrl_c_in_a_round_of_run_reaps_the_workers() {
    let here = Box::default();
    let (output, ids) = interrupted(begun(&here));
    assert_eq!(output.status.code(), Some(130));
    all_gone(&ids);
}

#[test]
fn ctrl_c_in_a_round_of_compare_keeps_what_was_decided() {
    let here = Box::default();
    let args = [
        &["compare", "lattice-encode:scalar", "lattice-encode:scalar", "--batch"][..],
        &["1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20", "--blocks", "64", "-o", "out"],
    ];
    let child = here.command(&args.concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let record = here.path("out/record.jsonl");
    while !record.exists() || lines(&record).len() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (output, ids) = interrupted(child);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    all_gone(&ids);
    // What was decided is printed, and the record holds exactly that.
    let kept = lines(&record).len() - 1;
    assert!((1..20).contains(&kept), "{kept}");
    // The case that was under way says what its blocks exclude.
    let cut = stdout.matches("it was interrupted").count();
    assert!(
        cut <= 1 && stderr.contains(&format!("{} of 20 cases were compared completely", kept - cut)),
        "{stdout}{stderr}"
    );
    let ran = stdout.lines().filter(|line| line.contains(" blocks, ")).count();
    assert_eq!(ran, kept, "{stdout}");
    let report = here.run(&["report", "out", "--format", "json"]);
    let model: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(model["comparisons"].as_array().unwrap().len(), kept);
}

#[test]
fn ctrl_c_in_a_long_comparison_keeps_the_blocks_so_far() {
    let here = Box::default();
    let args = ["compare", "--command", "sleep 0.01", "sleep 0.01", "--rope", "0.001", "--time", "10m", "-o", "out"];
    let count = "echo run >> runs; sleep 0.01";
    let args: Vec<&str> = args.iter().map(|arg| if *arg == "sleep 0.01" { count } else { arg }).collect();
    let child = here.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A block has 15 runs at most.
    let runs = || std::fs::read_to_string(here.path("runs")).unwrap_or_default().lines().count();
    while runs() < 80 {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130));
    assert!(stdout.starts_with("undecided") && stdout.contains("it was interrupted"), "{stdout}");
    let record = here.path("out/record.jsonl");
    assert!(lines(&record).iter().any(|line| line.contains("\"wall_ns\"")), "{:?}", lines(&record));
}

/// Whether a process is still there and still the one that slept.
fn sleeps(id: &str) -> bool {
    let line = std::fs::read(format!("/proc/{}/cmdline", id.trim())).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("sleep")
}

#[test]
fn ctrl_c_in_the_first_run_of_a_command_ends_it_with_all_that_it_started() {
    // Once, and twice in a row: the second one ends the program at once. Other requests to end do the same.
    for (name, times) in [("INT", 1), ("INT", 2), ("TERM", 1), ("HUP", 1)] {
        let here = Box::default();
        let command = "sleep 1000 & echo $! > begun; mv begun id; wait";
        let mut child = here
            .command(&["compare", "--command", command, "true"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while !here.path("id").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let id = std::fs::read_to_string(here.path("id")).unwrap();
        for _ in 0..times {
            signal(&child, name);
        }
        assert_eq!(child.wait().unwrap().code(), Some(130));
        // It was killed; that the kernel takes it away is a matter of moments.
        let gone = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            !sleeps(&id)
        });
        assert!(gone, "what the command started was left behind");
    }
}

/// Commands that start processes, and a word in the command line of one that is at work then.
const STARTERS: [(&[&str], &str); 4] = [
    (&LONG, "worker"),
    (&["compare", "lattice-encode:scalar", "lattice-encode:scalar", "--batch", "1,2,3", "--blocks", "64"], "worker"),
    // A pipe, a child in the background, and one that has left its parent.
    (&["compare", "--command", "(sleep 1000 &) ; sleep 1000 & sleep 1000 | cat", "true"], "sleep"),
    (&["selfcheck", "--only", "chain equal", "--decisions", "100000"], "worker"),
];

#[test]
fn no_process_is_left_however_the_program_ends() {
    for (args, word) in STARTERS {
        for name in ["KILL", "TERM", "HUP"] {
            let here = Box::default();
            let mark = here.dir.path().to_string_lossy().into_owned();
            let mut command = here.command(args);
            // What processes start inherits it.
            let mut child =
                command.env("ELLWAND_TEST", &mark).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            while !marked(&mark).iter().any(|line| line.contains(word)) {
                std::thread::sleep(Duration::from_millis(1));
            }
            signal(&child, name);
            child.wait().unwrap();
            let left = (0..1000).find(|_| {
                std::thread::sleep(Duration::from_millis(5));
                marked(&mark).is_empty()
            });
            assert!(left.is_some(), "{name} of {args:?} left {:?}", marked(&mark));
        }
    }
}

#[test]
fn ctrl_c_before_the_first_cell_leaves_no_empty_directory() {
    let here = Box::default();
    // Ceilings take a while, and none are kept here.
    let child = here
        .command(&["run", "lattice-encode", "--no-plot"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !here.path("ellwand-out").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(!here.path("ellwand-out").exists(), "an empty directory is left");
    assert!(stderr.contains("nothing measured so far is saved") && !stderr.contains("--resume"), "{stderr}");
}

#[test]
fn ctrl_c_in_the_first_cell_names_the_directory_that_was_chosen() {
    let here = Box::default();
    let child = here.command(&LONG[..8]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let record = || {
        let dir = std::fs::read_dir(here.path("ellwand-out")).ok()?.next()?.unwrap().path();
        let begun = std::fs::read(dir.join("record.jsonl")).is_ok_and(|bytes| bytes.contains(&b'\n'));
        begun.then(|| dir.file_name().unwrap().to_string_lossy().into_owned())
    };
    let name = loop {
        if let Some(name) = record() {
            break name;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    // Until the words of the ceilings are no longer those that are said.
    while workers(child.id()).is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    let way = format!("the same command with -o ellwand-out/{name} --resume continues from here");
    assert!(stderr.contains(&way), "{stderr}");
}

/// Waits until a process catches Ctrl-C: before that it ends by it.
fn catches(child: &Child) {
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & 0b10 != 0
    };
    while !caught() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn ctrl_c_promises_to_keep_only_what_is_kept() {
    let batches: Vec<String> = (1..=5000).map(|batch| batch.to_string()).collect();
    let once = ["run", "lattice-encode", "-i", "scalar,simd", "--batch", &batches.join(","), "--once"];
    for (args, words) in [
        (&["machine"][..], "nothing measured so far is saved"),
        (&once[..], "finished rows are printed, and nothing is saved"),
    ] {
        let here = Box::default();
        let child = here.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        catches(&child);
        signal(&child, "INT");
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{args:?} {stderr}");
        assert!(stderr.contains(&format!("stopping after the current step; {words} (")), "{args:?} {stderr}");
        assert!(!here.path("cache/ellwand").exists() && !here.path("ellwand-out").exists());
    }
}

#[test]
fn ctrl_c_in_a_check_keeps_the_printed_rows_and_counts_the_missing_ones() {
    use std::io::{BufRead, BufReader, Read};
    let here = Box::default();
    let batches: Vec<String> = (1..=5000).map(|batch| batch.to_string()).collect();
    let mut child = here
        .command(&["check", "lattice-encode", "-i", "scalar,simd", "--batch", &batches.join(",")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut ran = String::new();
    // The case, and its first row.
    for _ in 0..2 {
        assert!(stdout.read_line(&mut ran).unwrap() > 0, "it ended by itself");
    }
    signal(&child, "INT");
    stdout.read_to_string(&mut ran).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{ran}");
    let rows = ran.lines().filter(|line| line.starts_with("  s")).count();
    let last = format!("{rows} right, 0 wrong, 0 failed, 0 unsupported; {} of 10000 not judged", 10_000 - rows);
    assert_eq!(ran.lines().last(), Some(&*last));
    assert!(ran.lines().nth(1).unwrap().starts_with("  scalar  right "), "{ran}");
}

#[test]
fn ctrl_c_in_a_self_check_reports_its_decisions_and_stores_no_certificate() {
    use std::io::{BufRead, BufReader, Read};
    let here = Box::default();
    let mut child = here
        .command(&["selfcheck", "--only", "chain equal", "--decisions", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("decisions, ") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended by itself");
    }
    assert!(line.contains(" of 100000 decisions") && line.contains("to go"), "{line}");
    signal(&child, "INT");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{rest}");
    assert!(stdout.contains("selfcheck-chain") && stdout.contains("of 100000 planned decisions were made"), "{stdout}");
    assert!(rest.contains("not saved"), "{rest}");
    assert!(!here.path("cache/ellwand").exists(), "a partial certificate is saved");
}

#[test]
fn a_self_check_ends_with_its_budget() {
    let here = Box::default();
    let ran =
        here.run(&["selfcheck", "--only", "chain equal", "--decisions", "100000", "--budget", "1", "--format", "json"]);
    let certificate: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let rows = certificate["rows"].as_array().unwrap();
    // A slow machine has taken none when the time is up.
    let taken = rows[0]["decisions"].as_u64().unwrap();
    assert!(rows.len() == 1 && taken < 100_000 && certificate["planned"] == 100_000, "{}", ran.stdout);
    assert_eq!(rows[0]["cpu_s"].as_f64().is_some_and(|cpu| cpu > 0.0), taken > 0, "{}", ran.stdout);
    assert_eq!(ran.code, Some(if taken > 0 { 0 } else { 6 }), "{}", ran.stderr);
    assert!(ran.stderr.contains("not saved") && !here.path("cache/ellwand").exists(), "{}", ran.stderr);
    here.refused(&["selfcheck", "--budget", "0"], &["--budget"]);
}
