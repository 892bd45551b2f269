//! What the program makes of drivers of CUDA that are too old, broken or short of memory: each is a small library in the
//! place of the real one, which holds memory and copies (`driver/driver.c`).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Box, Ran, ran};

/// The driver, compiled into the folder of a test; nothing where no compiler for it is installed.
fn driver(here: &Box, defines: &[&str]) -> Option<PathBuf> {
    library(here, "driver.c", "libcuda.so", defines)
}

fn library(here: &Box, source: &str, name: &str, defines: &[&str]) -> Option<PathBuf> {
    let folder = here.path("driver");
    std::fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver").join(source);
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-w", "-O1", "-o"]).arg(folder.join(name)).arg(source).args(defines);
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(folder)
        }
        Err(error) => {
            assert!(!std::env::var("CI").is_ok_and(|ci| ci == "true"), "a C compiler is required: {error}");
            eprintln!("skipped: no C compiler is here: {error}");
            None
        }
    }
}

fn with(here: &Box, folder: &Path, settings: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = here.command(args);
    command.env("LD_LIBRARY_PATH", folder).envs(settings.iter().copied());
    // No compiler for kernels, wherever the tests run: what is said about memory needs none.
    command.env("CUDA_HOME", "/nowhere").env_remove("ELLWAND_CUDA_LIBS");
    ran(command.output().unwrap())
}

#[test]
fn an_unusable_driver_gives_a_reason_and_never_a_panic() {
    let here = Box::default();
    let Some(folder) = driver(&here, &[]) else { return };
    for (settings, parts) in [
        (&[("DRIVER_VERSION", "11040")][..], &["too old", "CUDA 11.4", "12.8 is needed"][..]),
        (&[("DRIVER_INIT", "803")], &["does not start", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"]),
        (&[("DRIVER_DEVICES", "0")], &["finds no device"]),
        (&[("DRIVER_RETAIN", "46")], &["cuda:0", "CUDA_ERROR_DEVICE_UNAVAILABLE", "busy"]),
        (&[("DRIVER_RETAIN", "2"), ("DRIVER_DEVICES", "2")], &["cuda:0", "cuda:1", "CUDA_ERROR_OUT_OF_MEMORY"]),
    ] {
        let list = with(&here, &folder, settings, &["list", "transfer"]);
        assert_eq!(list.code, Some(0), "{}", list.stderr);
        let row = list.stdout.lines().rfind(|line| line.trim_start().starts_with("cuda ")).unwrap_or("");
        assert!(parts.iter().all(|part| row.contains(part)), "{settings:?}: {}", list.stdout);
        assert!(!list.stderr.contains("panicked"), "{}", list.stderr);
        // Asked for, it is a row with the same reason.
        let run = [
            "run",
            "transfer",
            "-i",
            "cuda",
            "--bytes",
            "65536",
            "--no-ceilings",
            "--no-plot",
            "-o",
            "out",
            "--overwrite",
        ];
        let ran = with(&here, &folder, settings, &run);
        assert_eq!(ran.code, Some(6), "measured nothing: {}\n{}", ran.stdout, ran.stderr);
        let said = ran.stdout.replace('\n', " ");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(parts.iter().all(|part| said.contains(part)), "{settings:?}: {}", ran.stdout);
    }
    let Some(folder) = driver(&here, &["-DLACKS_A_FUNCTION"]) else { return };
    let list = with(&here, &folder, &[], &["list", "transfer"]);
    assert!(
        list.code == Some(0) && list.stdout.contains("lacks a required function"),
        "{}\n{}",
        list.stdout,
        list.stderr
    );
}

#[test]
fn a_device_is_found_by_index_and_a_wrong_index_is_refused_with_the_valid_ones() {
    let here = Box::default();
    let Some(folder) = driver(&here, &[]) else { return };
    let two = [("DRIVER_DEVICES", "2")];
    let args = |device| {
        let how = [
            "--effort",
            "quick",
            "--in-process",
            "--no-ceilings",
            "--no-plot",
            "-o",
            "out",
            "--overwrite",
            "--device",
            device,
        ];
        [&["run", "transfer", "-i", "cuda", "--bytes", "65536"][..], &how].concat()
    };
    let second = with(&here, &folder, &two, &args("cuda:1"));
    assert_eq!(second.code, Some(0), "{}\n{}", second.stdout, second.stderr);
    let record = std::fs::read_to_string(here.path("out/record.jsonl")).unwrap();
    let rows = record.lines().skip(1);
    assert!(rows.clone().count() > 0);
    rows.for_each(|row| assert!(row.contains("\"device\":\"cuda:1\"") && row.contains("Stub 1"), "{row}"));
    let wrong = with(&here, &folder, &two, &args("cuda:7"));
    assert_eq!(wrong.code, Some(2), "{}", wrong.stdout);
    assert!(wrong.stderr.contains("cuda:7") && wrong.stderr.contains("cuda:0, cuda:1"), "{}", wrong.stderr);
}

/// Three sizes, of which the device holds the middle one in no way: it fails alone, with what was wanted and what was free, and
/// the last one finds all memory free again.
#[test]
fn a_case_too_large_for_device_memory_fails_alone_and_frees_it() {
    let here = Box::default();
    let Some(folder) = driver(&here, &[]) else { return };
    let memory = ("DRIVER_MEMORY", "4194304");
    for process in [&["--in-process"][..], &["--blocks", "1"]] {
        let sizes = ["--bytes", "3145728,8388608,4194304", "--direction", "host-to-device", "--memory", "pinned"];
        let run = [
            "run",
            "transfer",
            "-i",
            "cuda",
            "--effort",
            "quick",
            "--no-ceilings",
            "--no-plot",
            "-o",
            "out",
            "--overwrite",
        ];
        let ran = with(&here, &folder, &[memory], &[&run[..], &sizes, process].concat());
        assert_eq!(ran.code, Some(1), "something failed: {}\n{}", ran.stdout, ran.stderr);
        let record = std::fs::read_to_string(here.path("out/record.jsonl")).unwrap();
        let rows: Vec<serde_json::Value> =
            record.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        let outcome = |index: usize| rows[index]["outcome"]["status"].as_str().unwrap().to_string();
        let fates: Vec<String> = (0..rows.len()).map(outcome).collect();
        let mut sorted = fates.clone();
        sorted.sort();
        assert_eq!(sorted, ["failed", "measured", "measured"], "{record}");
        let failed = rows.iter().find(|row| row["outcome"]["status"] == "failed").unwrap();
        let error = failed["outcome"]["error"].as_str().unwrap();
        assert!(error.contains("8388608 bytes do not fit") && error.contains("4194304 are free"), "{error}");
    }
}

/// Caches are flushed by a kernel: where none can be made, the row says why, and nothing is measured out of other caches.
#[test]
fn cold_caches_without_a_compiler_of_kernels_are_refused_with_the_reason() {
    let here = Box::default();
    let Some(folder) = driver(&here, &[]) else { return };
    let what =
        ["run", "transfer", "-i", "cuda", "--bytes", "65536", "--direction", "host-to-device", "--memory", "pinned"];
    let how = ["--effort", "quick", "--in-process", "--no-ceilings", "--no-plot", "-o", "out", "--caches", "cold"];
    let ran = with(&here, &folder, &[], &[&what[..], &how].concat());
    assert_eq!(ran.code, Some(6), "{}\n{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("cuda unsupported: ") && ran.stdout.contains("(libnvrtc)"),
        "{}\n{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn without_permission_for_device_activity_there_are_components_and_the_reason() {
    let here = Box::default();
    let Some(folder) = driver(&here, &[]) else { return };
    library(&here, "cupti.c", "libcupti.so.13", &[]).unwrap();
    let args =
        ["run", "transfer", "-i", "cuda", "--bytes", "65536", "--direction", "host-to-device", "--memory", "pinned"];
    let ran = with(&here, &folder, &[], &[&args[..], &["--spans", "--no-plot", "-o", "out"]].concat());
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let record = std::fs::read_to_string(here.path("out/record.jsonl")).unwrap();
    assert!(record.contains("kernels and copies are neither in the table nor in the timeline"), "{record}");
    assert!(record.contains("NVreg_RestrictProfilingToAdminUsers"), "{record}");
}
