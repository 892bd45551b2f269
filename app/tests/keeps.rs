//! Nothing of the user's is replaced or removed by `apply`, and no file that it is given hangs it.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::Box;

const GELU: [&str; 6] = ["apply", "gelu", "--input", "x=x.npy", "-o", "out"];

/// A .npy file with this header text and these bytes after it.
fn npy(text: &str, data: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x02\x00".to_vec();
    file.extend((text.len() as u32).to_le_bytes());
    file.extend(text.as_bytes());
    file.extend(data);
    file
}

fn numbers(values: [f32; 4]) -> Vec<u8> {
    let data: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 4), }\n", &data)
}

fn here() -> Box {
    let here = Box::default();
    here.write("x.npy", &numbers([1.0, 2.0, 3.0, 4.0]));
    here
}

#[test]
fn an_input_and_files_of_the_user_are_never_replaced() {
    let here = here();
    std::fs::create_dir(here.path("mine")).unwrap();
    here.write("mine/y.npy", &numbers([5.0; 4]));
    let own = std::fs::read(here.path("mine/y.npy")).unwrap();
    let into_its_input = ["apply", "gelu", "--input", "x=mine/y.npy", "-o", "mine"];
    here.refused(&into_its_input, &["mine/y.npy", "is an input of this call"]);
    here.refused(&[&into_its_input[..], &["--overwrite"]].concat(), &["is an input of this call"]);
    let beside = ["apply", "gelu", "--input", "x=x.npy", "-o", "mine"];
    here.refused(&beside, &["mine/y.npy", "was not written by `apply`", "--overwrite"]);
    assert_eq!(std::fs::read(here.path("mine/y.npy")).unwrap(), own);
    here.ok(&[&beside[..], &["--overwrite"]].concat());
    assert_ne!(std::fs::read(here.path("mine/y.npy")).unwrap(), own);
}

#[test]
fn results_stay_until_new_ones_are_there() {
    let here = here();
    here.ok(&GELU);
    let before = std::fs::read(here.path("out/y.npy")).unwrap();
    let unsupported = [&GELU[..], &["--overwrite", "--allocation", "fresh", "-i", "wgpu"]].concat();
    assert_ne!(here.run(&unsupported).code, Some(0));
    here.write("bad.npy", b"no array");
    let damaged = ["apply", "gelu", "--input", "x=bad.npy", "-o", "out", "--overwrite"];
    assert_eq!(here.run(&damaged).code, Some(2));
    assert_eq!(std::fs::read(here.path("out/y.npy")).unwrap(), before);
    assert!(here.path("out/apply.json").exists());
    // Another workload's results replace them, and what it does not write goes.
    here.ok(&["apply", "mse-loss", "--input", "x=x.npy", "--input", "target=x.npy", "-o", "out", "--overwrite"]);
    assert!(here.path("out/loss.npy").exists() && !here.path("out/y.npy").exists());
    let left: Vec<_> = std::fs::read_dir(here.path("out")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn an_input_among_the_old_results_stays() {
    let here = here();
    let encode = ["apply", "lattice-encode", "--lattice", "D4", "--input", "x=v.npy", "-o", "cd"];
    let data: Vec<u8> = (0..8).flat_map(|i| (i as f32 / 8.0).to_le_bytes()).collect();
    here.write("v.npy", &npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }\n", &data));
    here.ok(&encode);
    let codes = std::fs::read(here.path("cd/codes.npy")).unwrap();
    here.ok(&["apply", "lattice-decode", "--input", "codes=cd/codes.npy", "-o", "cd", "--overwrite"]);
    assert_eq!(std::fs::read(here.path("cd/codes.npy")).unwrap(), codes);
    assert!(!here.path("cd/digits.npy").exists());
}

#[test]
fn hostile_array_headers_are_refused() {
    let here = here();
    let nested = (0..40).fold("'<f4'".to_string(), |inner, _| format!("[('a', {inner})]"));
    let axes = "1, ".repeat(100_000);
    let drawing = "{'descr': '\u{1b}[2J', 'fortran_order': False, 'shape': (1,), }\n";
    for (text, part) in [
        (format!("{{'descr': {nested}, 'fortran_order': False, 'shape': (1,), }}\n"), "structured type"),
        (format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({axes}), }}\n"), "its header has"),
        (drawing.to_string(), "x=x.npy"),
    ] {
        here.write("x.npy", &npy(&text, &[0; 4]));
        let ran = here.run(&GELU);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(part) && !ran.stderr.contains('\u{1b}'), "{:?}", ran.stderr);
        assert!(ran.stderr.len() < 10_000 && !ran.stderr.contains("panicked"), "{}", ran.stderr.len());
    }
}

#[test]
fn places_that_cannot_hold_results_are_refused_at_once() {
    let here = here();
    std::os::unix::fs::symlink("nowhere", here.path("link")).unwrap();
    let into = |dir| ["apply", "gelu", "--input", "x=x.npy", "-o", dir];
    here.refused(&into("link"), &["link", "is missing"]);
    std::fs::create_dir(here.path("piped")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(here.path("piped/record.jsonl")).status().unwrap().success());
    let run =
        ["run", "lattice-encode", "--batch", "1", "--effort", "quick", "--no-ceilings", "--no-plot", "-o", "piped"];
    here.refused(&run, &["piped/record.jsonl", "not a regular file"]);
    here.refused(&[&run[..], &["--overwrite"]].concat(), &["not a regular file"]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let help = here.command(&["--help"]).stdout(full).status().unwrap();
    assert_eq!(help.code(), Some(1), "help that nobody can read is no success");
}

/// Every file below a directory with what it holds.
fn files(dir: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut all = std::collections::BTreeMap::new();
    for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    all
}

/// Runs the program with at most this many blocks of 512 bytes a file.
fn with_room(here: &Box, blocks: usize, args: &[&str]) -> common::Ran {
    let ellwand = env!("CARGO_BIN_EXE_ellwand");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("ulimit -f {blocks}; exec {ellwand} \"$@\""), "sh"]).args(args);
    shell.current_dir(here.dir.path());
    shell.envs(here.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    common::ran(shell.output().unwrap())
}

#[test]
fn old_results_stay_until_new_ones_are_complete() {
    let here = here();
    assert_eq!(here.sweep(&["-o", "run", "-i", "scalar"]).code, Some(0));
    here.ok(&["apply", "gelu", "--input", "x=x.npy", "-o", "apply"]);
    let compare = ["compare", "--command", "true", "true", "--blocks", "8", "--fail-on", "never"];
    here.ok(&[&compare[..], &["-o", "compare"]].concat());
    here.ok(&["report", "run", "-o", "report", "--no-plot"]);
    // Cells that were finished wait in a directory that is not part of the results.
    let results = |dir: &str| {
        let mut files = files(&here.path(dir));
        files.retain(|path, _| !path.starts_with(here.path(dir).join("ellwand-unfinished")));
        files
    };
    let run = [&common::QUICK[..], &["-i", "simd"]].concat();
    let commands = [
        ("run", &run[..]),
        ("apply", &["apply", "gelu", "--input", "x=x.npy"]),
        ("compare", &compare),
        ("report", &["report", "compare", "--no-plot"]),
    ];
    for (dir, args) in commands {
        let args = [args, &["-o", dir, "--overwrite"]].concat();
        let mut refused = 0;
        // A limit at the first line of a record, a later one, or a report: an error, and no death without a word.
        for blocks in [0, 1, 4, 8, 12, 16, 20, 24, 1000] {
            let before = results(dir);
            let ran = with_room(&here, blocks, &args);
            if ran.code != Some(0) {
                refused += 1;
                // 2 where not even the directory can be written to.
                assert!(matches!(ran.code, Some(1 | 2)), "{blocks} {args:?} {:?} {}", ran.code, ran.stderr);
                assert!(ran.stderr.contains("File too large"), "{blocks} {args:?} {}", ran.stderr);
                assert_eq!(results(dir), before, "{blocks} {args:?}");
            }
        }
        assert!((1..9).contains(&refused), "{args:?} was refused {refused} times");
    }
    let before = results("run");
    // Nothing can be measured, and nothing is.
    for more in [&["-i", "cuda"][..], &["--lattice", "E8", "--M", "0"]] {
        let ran = here.run(&[&common::QUICK[..], more, &["-o", "run", "--overwrite"]].concat());
        assert_ne!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(files(&here.path("run")), before, "{more:?} {}", ran.stderr);
    }
    let before = results("compare");
    let ran = here.run(&["compare", "--command", "true", "false", "-o", "compare", "--overwrite"]);
    assert!(ran.stderr.contains("the old results are unchanged"), "{}", ran.stderr);
    assert_eq!(results("compare"), before);
}

#[test]
fn a_stopped_run_that_replaces_another_resumes_from_its_own_cells() {
    // Before its first cell was finished, and after its second.
    for lines in [1, 3] {
        stopped("KILL", lines);
        let interrupted = stopped("INT", lines);
        assert!(interrupted.contains("the old results are unchanged"), "{interrupted}");
        assert!(interrupted.contains("--resume instead of --overwrite continues from here"), "{interrupted}");
    }
}

#[test]
fn a_replacing_run_killed_before_its_first_cell_resumes_without_the_old_results() {
    let here = here();
    assert_eq!(here.sweep(&["-o", "out", "-i", "scalar"]).code, Some(0));
    let run = ["run", "lattice-encode", "--batch", "1", "-i", "simd", "--effort", "quick", "--no-plot", "-o", "out"];
    let mut command = here.command(&[&run[..], &["--overwrite"]].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.starts_with("measuring the ceilings")));
    child.kill().unwrap();
    child.wait().unwrap();
    let record = || std::fs::read_to_string(here.path("out/record.jsonl")).unwrap();
    assert!(record().contains("\"implementation\":\"scalar\""), "the old results stay");
    here.ok(&[&run[..], &["--no-ceilings", "--resume"]].concat());
    assert!(record().contains("\"implementation\":\"simd\""));
    assert!(!record().contains("\"implementation\":\"scalar\""), "nothing of the old record");
}

#[test]
fn a_killed_comparison_that_replaces_another_cannot_be_resumed() {
    let here = here();
    assert_eq!(here.sweep(&["-o", "out", "-i", "scalar"]).code, Some(0));
    let compare = ["compare", "--command", "true", "sleep 5", "-o", "out", "--overwrite"];
    let mut child = here.command(&compare).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let unfinished = here.path("out/ellwand-unfinished/record.jsonl");
    while !std::fs::read_to_string(&unfinished).is_ok_and(|text| text.ends_with('\n')) {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = here.ok(&["report", "out"]);
    let note = "an unfinished comparison is in out/ellwand-unfinished; `compare --overwrite` restarts it";
    assert!(ran.stderr.contains(note) && !ran.stderr.contains("--resume"), "{}", ran.stderr);
    // The run below it can still be continued.
    let more = here.ok(&[&common::QUICK[..], &["-i", "scalar,simd", "-o", "out", "--resume"]].concat());
    assert!(more.stdout.contains("scalar") && more.stdout.contains("simd"), "{}", more.stdout);
}

/// Returns what the run said when it was stopped by the signal as soon as its record had this number of lines.
fn stopped(signal: &str, lines: usize) -> String {
    let here = here();
    assert_eq!(here.sweep(&["-o", "out", "-i", "scalar"]).code, Some(0));
    let before = files(&here.path("out"));
    let batch: String = (1..=12).map(|n| format!("{n},")).collect();
    let quick = ["run", "lattice-encode", "--batch", batch.trim_end_matches(','), "-i", "simd", "--no-ceilings"];
    let run = [&quick[..], &["--effort", "quick", "--no-plot", "-o", "out"]].concat();
    let mut command = here.command(&[&run[..], &["--overwrite"]].concat());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let unfinished = here.path("out/ellwand-unfinished/record.jsonl");
    let finished = || std::fs::read_to_string(&unfinished).map_or(0, |text| text.lines().count());
    while finished() < lines {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    here.refused(&[&run[..], &["--overwrite"]].concat(), &["another process is writing to out"]);
    let id = child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    let kept = std::fs::read_to_string(&unfinished).unwrap();
    let mut left = files(&here.path("out"));
    left.retain(|path, _| *path != unfinished);
    assert_eq!(left, before);
    let ran = here.ok(&["report", "out"]);
    assert!(ran.stderr.contains("unfinished run") && ran.stdout.contains("scalar"), "{}", ran.stderr);
    let resumed = here.ok(&[&run[..], &["--resume"]].concat());
    assert!(resumed.stderr.contains("continuing the results in out/ellwand-unfinished"), "{}", resumed.stderr);
    let record = std::fs::read_to_string(here.path("out/record.jsonl")).unwrap();
    let whole: String = kept.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
    assert!(record.starts_with(&whole), "finished cells are kept");
    assert!(!here.path("out/ellwand-unfinished").exists());
    assert!(!record.contains("\"implementation\":\"scalar\""), "nothing of the old record");
    said
}

#[test]
fn a_record_that_another_process_writes_is_refused_in_one_way() {
    let here = here();
    assert_eq!(here.sweep(&["-o", "out", "-i", "scalar"]).code, Some(0));
    let record = std::fs::File::open(here.path("out/record.jsonl")).unwrap();
    record.lock().unwrap();
    for how in ["--resume", "--overwrite"] {
        let run = [&common::QUICK[..], &["-i", "scalar", "-o", "out", how]].concat();
        here.refused(&run, &["-o: another process is writing to out/record.jsonl"]);
    }
}

#[test]
fn a_directory_that_vanishes_loses_no_finished_cell() {
    let here = here();
    std::fs::create_dir(here.path("tmp")).unwrap();
    let batch: String = (1..=8).map(|n| format!("{n},")).collect();
    let quick = ["run", "lattice-encode", "--batch", batch.trim_end_matches(','), "-i", "simd", "--no-ceilings"];
    let mut command = here.command(&[&quick[..], &["--effort", "quick", "--no-plot", "-o", "out"]].concat());
    command.env("TMPDIR", here.path("tmp")).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    while std::fs::read_to_string(here.path("out/record.jsonl")).map_or(0, |text| text.lines().count()) < 3 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    std::fs::remove_dir_all(here.path("out")).unwrap();
    let ran = common::ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    for part in ["out/record.jsonl has vanished", "ellwand-rescued-", "out vanished while it was written to"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    let rescued = std::fs::read_dir(here.path("tmp")).unwrap().next().unwrap().unwrap().path();
    let record = std::fs::read_to_string(rescued.join("record.jsonl")).unwrap();
    assert_eq!(record.lines().count(), 9, "every cell");
    assert!(rescued.join("report.md").exists() && !here.path("out").exists());
}
