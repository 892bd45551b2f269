//! The program from end to end on a driver of CUDA that executes on the processor
//! (`tools/gpu-lab/src/emulation/driver/driver.h`): kernels compiled for Hopper are loaded, their sources run, and everything on
//! the host's side is what a GPU will see. Without a C++ compiler or NVRTC the tests say that they were skipped;
//! `ELLWAND_REQUIRE=emulation` makes that an error.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;
#[path = "../../tools/gpu-lab/tests/sources/mod.rs"]
mod sources;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use common::{Box, Ran, ran};
use ellwand_gpu::compile;
use ellwand_gpu_lab::emulation::library;
use serde_json::Value;

/// The program beside a driver.
struct Rehearsal {
    here: Box,
    folder: PathBuf,
}

impl Rehearsal {
    /// Nothing where something is missing that it is made from.
    fn new() -> Option<Self> {
        let here = Box::default();
        let folder = here.path("driver");
        // The gate reads the device's clock and is the driver's own.
        let all = sources::all().into_iter().filter(|source| source.name != "gate.cu");
        let all: Vec<_> = all.map(|source| (source.name, source.whole(), source.kernels())).collect();
        let made = library::rehearsal(&folder, &all);
        let why = match (made, compile::version()) {
            (Ok(()), Ok(_)) => return Some(Self { here, folder }),
            (Err(why), _) => why.to_string(),
            (_, Err(why)) => why.to_string(),
        };
        let required = std::env::var("ELLWAND_REQUIRE").is_ok_and(|what| what.contains("emulation"));
        assert!(!required, "the rehearsal is required: {why}");
        eprintln!("skipped: nothing is rehearsed: {why}");
        None
    }

    fn command(&self, line: &str) -> Command {
        let args: Vec<&str> = line.split_whitespace().collect();
        let mut command = self.here.command(&args);
        // Machine code is kept from one test to the next.
        let cubins = self.here.path("cubins");
        let kept = option_env!("CARGO_TARGET_TMPDIR").map_or(cubins, |folder| PathBuf::from(folder).join("cubins"));
        command.env_remove("CUDA_VISIBLE_DEVICES").env("LD_LIBRARY_PATH", &self.folder);
        command.env("ELLWAND_CUBINS", kept).env("REHEARSAL_LOG", self.here.path("log"));
        command
    }

    fn run(&self, line: &str, knobs: &[(&str, &str)]) -> Ran {
        let ran = ran(self.command(line).envs(knobs.iter().copied()).output().unwrap());
        // What no driver promises is never relied upon, whatever else happens.
        let log = self.log();
        assert!(!log.contains("misuse"), "{line}: {log}");
        ran
    }

    /// Removes the results so far: those of a run that fails or is killed would wait beside them.
    fn forget(&self) {
        std::fs::remove_dir_all(self.here.path("out")).unwrap();
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.here.path("log")).unwrap_or_default()
    }

    /// Measurements of the record in `out`.
    fn rows(&self) -> Vec<Value> {
        let record = std::fs::read_to_string(self.here.path("out/record.jsonl")).unwrap();
        let lines = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line.get("outcome").is_some()).collect()
    }
}

fn status(row: &Value) -> &str {
    row["outcome"]["status"].as_str().unwrap()
}

const RUN: &str = "--device cuda:0 --effort quick --no-ceilings --no-plot --overwrite -o out";

#[test]
fn every_workload_is_right_on_the_device() {
    let Some(rehearsal) = Rehearsal::new() else { return };
    let attention = "--sequence 40 --dimension 128 --heads 2";
    let kde = "--samples 60 --electrodes 2 --enc-spikes 20 --bins 40";
    let mut failed = Vec::new();
    for (line, rows) in [
        ("lattice-encode lattice-decode lattice-quantize --batch 37", 6),
        ("lattice-dot --rows 20 --dimension 64", 1),
        ("layer-norm gelu softmax cross-entropy-loss swiglu --batch 2 --sequence 5 --dimension 72", 6),
        ("matmul --m 40 --n 24 --k 20", 1),
        ("matmul --precision bf16 --m 300 --n 24 --k 40", 2),
        (&format!("attention transformer-layer {attention}"), 4),
        (&format!("attention-core {attention} --mask none,causal"), 2),
        (&format!("attention-core {attention} --precision bf16 --mask none,causal"), 4),
        (&format!("kde-fit {kde}"), 2),
        (&format!("kde-predict kde-predict-local {kde} --edges 12 --dec-spikes 5"), 6),
        ("transfer --bytes 4096", 4),
        ("null copy read fill --bytes 65536", 5),
        ("fma --groups 2 --steps 33", 2),
        ("products --tiles 2 --steps 33", 2),
    ] {
        let ran = rehearsal.run(&format!("check {line} -i cuda* --device cuda:0 --format json"), &[]);
        let judged: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
        let (right, others): (Vec<&Value>, Vec<&Value>) = judged.iter().partition(|row| row["outcome"] == "right");
        if ran.code != Some(0) || right.len() != rows {
            failed.push(format!("{line}: {} right, {rows} expected: {others:#?} {}", right.len(), ran.stderr));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Launches and the same as a graph: device time is there, wall time holds it, and reports say on what they ran.
#[test]
fn a_run_has_device_times_and_is_marked_as_a_rehearsal() {
    let Some(rehearsal) = Rehearsal::new() else { return };
    let line = format!(
        "run kde-fit -i cuda,cuda-graph --samples 60 --electrodes 2 --enc-spikes 20 --bins 40 --in-process --baseline cuda {RUN}"
    );
    let ran = rehearsal.run(&line, &[("REHEARSAL_SLOWED", "0x20")]);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("cuda-graph") && ran.stdout.contains("cuda:0: REHEARSAL ON"), "{}", ran.stdout);
    let rows = rehearsal.rows();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(status(row), "measured", "{row}");
        assert_eq!(row["device"], "cuda:0");
        assert!(row.to_string().contains("REHEARSAL ON THE PROCESSOR"), "{row}");
        let samples = &row["samples"];
        let times = |name: &str| -> Vec<u64> {
            samples[name].as_array().unwrap().iter().map(|ns| ns.as_u64().unwrap()).collect()
        };
        let (wall, device) = (times("wall_ns"), times("device_ns"));
        assert!(!wall.is_empty() && wall.len() == device.len(), "{samples}");
        assert!(wall.iter().zip(&device).all(|(wall, device)| *device > 0 && device <= wall), "{samples}");
    }
    let log = rehearsal.log();
    assert!(log.contains("queue: launch of gate") && log.contains("queue: graph of "), "{log}");
    let report = std::fs::read_to_string(rehearsal.here.path("out/report.md")).unwrap();
    assert!(report.contains("REHEARSAL ON THE PROCESSOR"), "{report}");
}

/// The middle one of three cases breaks. In processes of their own the others are measured; in one process the device is lost
/// from there on, and later cases say that another one lost it.
#[test]
fn a_kernel_that_fails_in_the_middle_of_a_sweep_fails_its_own_row() {
    let Some(rehearsal) = Rehearsal::new() else { return };
    let cases = "run gelu -i cuda --form exact --batch 1 --sequence 3,5,7 --dimension 1024";
    // Launches differ by their blocks.
    let middle = [("REHEARSAL_FAIL", "gelu:700:0:5")];
    let ran = rehearsal.run(&format!("{cases} --blocks 1 {RUN}"), &middle);
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.stdout, ran.stderr);
    let rows = rehearsal.rows();
    let fates: Vec<&str> = rows.iter().map(status).collect();
    assert_eq!(fates, ["measured", "failed", "measured"], "{rows:?}");
    assert!(rows[1].to_string().contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{}", rows[1]);
    let ran = rehearsal.run(&format!("{cases} --in-process {RUN}"), &middle);
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.stdout, ran.stderr);
    let rows = rehearsal.rows();
    let fates: Vec<&str> = rows.iter().map(status).collect();
    assert_eq!(fates, ["measured", "failed", "failed"], "{rows:?}");
    assert!(rows[1].to_string().contains("cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"), "{}", rows[1]);
    assert!(rows[2].to_string().contains("an earlier kernel failed with CUDA_ERROR_ILLEGAL_ADDRESS"), "{}", rows[2]);
}

/// A kernel that never ends: its process is killed after the time limit, and what comes next is measured.
#[test]
fn a_kernel_that_hangs_is_a_failed_row_and_the_sweep_goes_on() {
    let Some(rehearsal) = Rehearsal::new() else { return };
    let cases = "run gelu -i cuda --form exact --batch 1 --sequence 3,5,7 --dimension 1024";
    let middle = ("REHEARSAL_HANG", "gelu:0:5");
    // In one process nobody is left to end it but who started it; what was measured before is kept. First, since it has no limit:
    // the compilation of the kernel, which is kept, would take half of that below.
    let mut child = rehearsal.command(&format!("{cases} --in-process {RUN}")).env(middle.0, middle.1).spawn().unwrap();
    while !rehearsal.log().contains("hang: gelu") {
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let rows = rehearsal.rows();
    assert_eq!(rows.iter().map(status).collect::<Vec<_>>(), ["measured"]);
    rehearsal.forget();
    let ran = rehearsal.run(&format!("{cases} --blocks 1 --time-limit 12 {RUN}"), &[middle]);
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.stdout, ran.stderr);
    let rows = rehearsal.rows();
    let fates: Vec<&str> = rows.iter().map(status).collect();
    assert_eq!(fates, ["measured", "failed", "measured"], "{rows:?}");
}

/// What else the commands do with a device: caches driven out, arrays of one's own, spans, memory that does not suffice.
#[test]
fn the_other_commands_reach_the_device() {
    let Some(rehearsal) = Rehearsal::new() else { return };
    let gelu = "gelu -i cuda --form exact --batch 1 --sequence 4 --dimension 64";
    let cold = rehearsal.run(&format!("run {gelu} --caches cold --in-process {RUN}"), &[]);
    assert_eq!(cold.code, Some(0), "{}\n{}", cold.stdout, cold.stderr);
    // An array twice as large as the cache is written once, and read before every slot of one iteration, which waits for that.
    let log = rehearsal.log();
    assert_eq!(log.matches("cuMemsetD8Async of 2097168").count(), 1, "{log}");
    let counts = rehearsal.rows()[0]["samples"]["iterations"].as_array().unwrap().clone();
    assert!(counts.iter().all(|count| *count == 1), "{counts:?}");
    let flushes: Vec<&str> = log.split("launch of flush").skip(1).collect();
    assert!(flushes.len() > counts.len(), "{} flushes, {} slots", flushes.len(), counts.len());
    for after in &flushes {
        let [wait, work] = ["cuStreamSynchronize", "launch of gelu"].map(|what| after.find(what));
        assert!(work.is_none_or(|work| wait.is_some_and(|wait| wait < work)), "nobody waits for a flush: {after}");
    }
    let spans = rehearsal.run(&format!("run {gelu} --spans --device cuda:0 --no-plot --overwrite -o out"), &[]);
    assert_eq!(spans.code, Some(0), "{}\n{}", spans.stdout, spans.stderr);
    rehearsal.forget();
    let short = rehearsal.run(&format!("run {gelu} --in-process {RUN}"), &[("REHEARSAL_MEMORY", "600")]);
    assert_eq!(short.code, Some(1), "{}\n{}", short.stdout, short.stderr);
    assert!(rehearsal.rows()[0].to_string().contains("do not fit into the device memory"));
    rehearsal.here.write("x.npy", &common::npy_f32("(2, 2)", &[0.0, 1.0, -1.0, 2.0]));
    let applied = rehearsal.run("apply gelu -i cuda --form exact --input x=x.npy -o applied", &[]);
    assert_eq!(applied.code, Some(0), "{}\n{}", applied.stdout, applied.stderr);
    let same = "compare gelu:cuda gelu:cuda --form exact --batch 1 --sequence 4 --dimension 64 --blocks 2";
    let same = rehearsal.run(same, &[]);
    assert!(
        same.stdout.contains("cuda") && ![Some(1), Some(2)].contains(&same.code),
        "{}\n{}",
        same.stdout,
        same.stderr
    );
}
