//! `sweep`, on this machine and through commands that answer like Slurm's. The real ones are in `slurm.rs`.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "sweep/machines.rs"]
mod machines;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use common::{Box, Ran, lines, npy_f32, ran};
use ellwand::internals::core::record::{Record, parse};
use serde_json::Value;

/// What is measured: quickly, in this process.
const CASES: [&str; 9] =
    ["lattice-encode", "-i", "scalar", "--effort", "quick", "--in-process", "--no-ceilings", "--batch", "1,2,3,4"];

/// A box with the plan of these cases in two shards.
fn planned() -> Box {
    let here = Box::default();
    here.ok(&[&["sweep", "plan"], &CASES[..], &["--shards", "2", "-o", "plan.json"]].concat());
    here
}

/// As [`planned`], with all results.
fn finished() -> Box {
    let here = planned();
    here.ok(&["sweep", "submit", "plan.json"]);
    here
}

fn record(path: &Path) -> Record {
    parse(&fs::read_to_string(path).unwrap()).unwrap()
}

fn cells(record: &Record) -> Vec<String> {
    record.measurements.iter().map(|measurement| measurement.cell()).collect()
}

#[test]
fn a_shard_with_wrong_rows_names_them() {
    let here = Box::default();
    let exact = ["softmax", "-i", "simd", "--batch", "1", "--rtol", "0", "--atol", "0", "--no-ceilings"];
    let plan = ["sweep", "plan", "--effort", "quick", "--in-process", "--shards", "1", "-o", "plan.json"];
    here.ok(&[&plan[..], &exact].concat());
    // The second command measures nothing and says the same of what is there.
    let slurm = Slurm::of(here);
    for engine in ["local", "local", "slurm"] {
        let ran = slurm.sweep(&["submit", "plan.json", "--engine", engine]);
        assert_eq!(ran.code, Some(5), "{}", ran.stderr);
        assert!(ran.stderr.contains("shard 0: softmax/") && ran.stderr.contains(" simd: wrong: "), "{}", ran.stderr);
        assert_eq!(ran.stderr.matches(" simd: wrong: ").count(), 3, "the first ones: {}", ran.stderr);
    }
}

#[test]
fn a_sweep_on_one_machine_is_one_record_with_the_cells_of_a_run() {
    let here = finished();
    let status: Value =
        serde_json::from_str(&here.ok(&["sweep", "status", "plan.json", "--format", "json"]).stdout).unwrap();
    assert_eq!(
        (&status["classes"][0]["finished"], &status["classes"][0]["missing"]),
        (&2.into(), &Value::Array(vec![]))
    );
    let merged = here.ok(&["sweep", "merge", "plan.json", "--no-plot"]);
    assert!(merged.stdout.contains("plan.merged/default/record.jsonl: 2 of 2 shards, 4 rows"), "{}", merged.stdout);
    let path = here.path("plan.merged/default/record.jsonl");
    let bytes = fs::read(&path).unwrap();
    here.ok(&[&["run"], &CASES[..], &["--no-plot", "-o", "run"]].concat());
    let [swept, run] = [record(&path), record(&here.path("run/record.jsonl"))];
    assert_eq!(cells(&swept), cells(&run), "in the order of the plan");
    assert_eq!((swept.measurements.len(), &swept.warnings), (4, &vec![]));
    assert!(swept.checked);
    let rows = swept.measurements.iter().map(|row| format!("{} {}", row.case.id, row.implementation));
    let listed = swept.run.shard.iter().flat_map(|shard| &shard.rows).cloned();
    assert_eq!(listed.collect::<BTreeSet<_>>(), rows.collect(), "those of all shards");
    // A copy that was cut at the end of a line.
    let text = String::from_utf8(bytes.clone()).unwrap();
    let cut = text.trim_end().rfind('\n').unwrap() + 1;
    here.write("cut.jsonl", &text.as_bytes()[..cut]);
    let report = here.ok(&["report", "cut.jsonl"]).stdout;
    let lacks = "the record lacks 1 of the 4 rows that its first line lists: lattice-encode";
    assert!(report.split_whitespace().collect::<Vec<_>>().join(" ").contains(lacks), "{report}");
    here.refused(&["sweep", "merge", "plan.json"], &["already holds a record", "--overwrite replaces it"]);
    here.ok(&["sweep", "merge", "plan.json", "--no-plot", "--overwrite", "--full"]);
    assert_eq!(fs::read(&path).unwrap(), bytes, "the same results give the same record");
    let again = here.ok(&["sweep", "submit", "plan.json"]);
    assert!(again.stderr.contains("every shard has a result"), "{}", again.stderr);
}

#[test]
fn a_plan_that_was_changed_after_submission_is_noticed_everywhere() {
    let here = finished();
    let text = fs::read_to_string(here.path("plan.json")).unwrap();
    here.write("plan.json", text.replace("batch=4", "batch=5").as_bytes());
    for command in ["submit", "status", "merge"] {
        here.refused(&["sweep", command, "plan.json"], &["plan.json was changed by hand"]);
    }
    let others = [&["sweep", "plan"], &CASES[..], &["--seed", "7", "--shards", "2", "-o", "plan.json"]].concat();
    here.refused(&others, &["exists and is another plan"]);
    here.ok(&[&others[..], &["--overwrite"]].concat());
    let results = "0000.jsonl was measured for the plan";
    for command in ["submit", "status", "merge"] {
        here.refused(&["sweep", command, "plan.json"], &[results, "changed after it was submitted"]);
    }
    let hash = serde_json::from_str::<Value>(&text).unwrap()["hash"].as_str().unwrap().to_string();
    let task = ["sweep", "run", "plan.json", "--results", "new", "--hash", &hash, "--shard", "0"];
    here.refused(&task, &["changed after it was submitted", &format!("expected the plan {hash}")]);
    assert!(!here.path("new").exists());
}

#[test]
fn arrays_that_changed_after_the_plan_are_named() {
    let here = Box::default();
    here.write("x.npy", &npy_f32("(4,)", &[1.0; 4]));
    let plan = ["sweep", "plan", "gelu", "-i", "scalar", "--input", "x=x.npy", "-o", "plan.json"];
    here.ok(&[&plan[..], &["--batch", "1", "--sequence", "1", "--dimension", "4"]].concat());
    here.write("x.npy", &npy_f32("(4,)", &[2.0; 4]));
    let task = ["sweep", "run", "plan.json", "--shard", "0"];
    here.refused(&task, &["shard 0 measures gelu", "x=x.npy now hold other arrays", "or a new plan"]);
}

#[test]
fn a_shard_that_is_run_twice_counts_once() {
    let here = finished();
    let path = here.path("plan.shards/default/0001.jsonl");
    let first = fs::read(&path).unwrap();
    here.refused(&["sweep", "run", "plan.json", "--shard", "1"], &["--shard 1", "has a result", "move the file away"]);
    // What a scheduler does when it takes a finished task for a lost one.
    let requeued =
        here.command(&["sweep", "run", "plan.json", "--shard-from-env"]).env("PBS_ARRAY_INDEX", "1").output();
    let requeued = ran(requeued.unwrap());
    assert!(requeued.code == Some(0) && requeued.stderr.contains("nothing is left to do"), "{}", requeued.stderr);
    assert_eq!(fs::read(&path).unwrap(), first);
    fs::copy(&path, here.path("plan.shards/default/0001-of-another-disk.jsonl")).unwrap();
    let twice = ["shard 1 of class default was run twice", "0001-of-another-disk.jsonl", "remove all but one"];
    for command in ["merge", "submit"] {
        here.refused(&["sweep", command, "plan.json"], &twice);
    }
    let status = here.run(&["sweep", "status", "plan.json"]);
    assert_eq!(status.code, Some(1));
    twice.iter().for_each(|part| assert!(status.stdout.contains(part), "{part}: {}", status.stdout));
    assert!(!here.path("plan.merged").exists());
}

#[test]
fn a_copy_of_results_in_another_class_is_refused() {
    let here = finished();
    fs::create_dir(here.path("plan.shards/other")).unwrap();
    let copy = here.path("plan.shards/other/0000.jsonl");
    fs::copy(here.path("plan.shards/default/0000.jsonl"), &copy).unwrap();
    let parts = ["other/0000.jsonl was measured for the class default", "results of the class other alone", "remove"];
    for command in [&["sweep", "status", "plan.json"][..], &["sweep", "merge", "plan.json"]] {
        here.refused(command, &parts);
    }
    here.refused(&["sweep", "run", "plan.json", "--shard", "0", "--class", "other"], &parts);
    fs::write(&copy, "no record\n").unwrap();
    fs::rename(&copy, here.path("plan.shards/other/own.jsonl")).unwrap();
    for command in [&["sweep", "status", "plan.json"][..], &["sweep", "merge", "plan.json"]] {
        here.refused(command, &["own.jsonl cannot be read", "restore it from a copy, or remove it"]);
    }
}

#[test]
fn only_the_missing_shard_is_named_and_submitted_again() {
    let here = finished();
    fs::remove_file(here.path("plan.shards/default/0001.jsonl")).unwrap();
    let kept = fs::read(here.path("plan.shards/default/0000.jsonl")).unwrap();
    here.refused(&["sweep", "merge", "plan.json"], &["class default has no result of shard 1;", "--partial"]);
    let status = here.ok(&["sweep", "status", "plan.json"]);
    assert!(status.stdout.contains("missing of default: 1;"), "{}", status.stdout);
    assert_eq!(here.run(&["sweep", "status", "plan.json", "--wait"]).code, Some(1));
    let partial = here.ok(&["sweep", "merge", "plan.json", "--partial", "--no-plot"]);
    assert!(partial.stdout.contains("1 of 2 shards, 2 rows"), "{}", partial.stdout);
    let merged = record(&here.path("plan.merged/default/record.jsonl"));
    let plan: Value = serde_json::from_slice(&fs::read(here.path("plan.json")).unwrap()).unwrap();
    let id = merged.run.id;
    assert_eq!(Value::from(merged.run.shard.unwrap().missing), plan["plan"]["shards"][1]);
    let lacks = "the record is a part of a sweep and lacks 2 cases of the plan: lattice-encode/";
    for format in ["table", "markdown", "json"] {
        let report = here.ok(&["report", "plan.merged/default", "--format", format]).stdout;
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains(lacks), "{format}: {report}");
    }
    let again = here.ok(&["sweep", "submit", "plan.json"]);
    assert!(again.stderr.contains("shard 1: written") && !again.stderr.contains("shard 0"), "{}", again.stderr);
    assert_eq!(fs::read(here.path("plan.shards/default/0000.jsonl")).unwrap(), kept);
    here.ok(&["sweep", "merge", "plan.json", "--overwrite", "--no-plot"]);
    let merged = record(&here.path("plan.merged/default/record.jsonl")).run;
    assert_eq!((merged.shard.unwrap().missing.len(), merged.id), (0, id), "the longer record of the run");
}

#[test]
fn a_killed_task_leaves_no_result() {
    let here = Box::default();
    let long = ["lattice-encode", "-i", "scalar", "--effort", "thorough", "--in-process", "--no-ceilings"];
    here.ok(&[&["sweep", "plan"], &long[..], &["--batch", "1,2,3,4", "--shards", "1", "-o", "plan.json"]].concat());
    let mut task = here.command(&["sweep", "run", "plan.json", "--shard", "0"]);
    let mut task = task.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = || {
        let inside = fs::read_dir(here.path("plan.shards/default")).into_iter().flatten().flatten();
        inside.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|ending| ending == "partial"))
    };
    // One case is in the file that is not whole yet.
    while begun().is_none_or(|path| lines(&path).len() < 2) {
        assert!(task.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    task.kill().unwrap();
    task.wait().unwrap();
    here.refused(&["sweep", "merge", "plan.json"], &["holds no result of this plan", "`sweep submit`"]);
    let status = here.ok(&["sweep", "status", "plan.json"]);
    assert!(status.stdout.contains("missing of default: 0;"), "{}", status.stdout);
}

#[test]
fn results_that_lack_a_case_and_numbers_out_of_range_are_named() {
    let here = finished();
    let path = here.path("plan.shards/default/0001.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let cut: String = text.lines().take(2).map(|line| format!("{line}\n")).collect();
    fs::write(&path, cut).unwrap();
    here.refused(
        &["sweep", "merge", "plan.json"],
        &["0001.jsonl has no measurement of lattice-encode", "`sweep submit` measures them; --partial"],
    );
    fs::write(&path, &text[..text.len() - 20]).unwrap();
    here.refused(&["sweep", "merge", "plan.json"], &["0001.jsonl is damaged: line", "was cut off"]);
    let partial = here.ok(&["sweep", "merge", "plan.json", "--partial", "--no-plot"]);
    assert!(partial.stdout.contains("1 of 2 shards, 2 rows"), "{}", partial.stdout);
    assert!(partial.stderr.contains("warning: ") && partial.stderr.contains("0001.jsonl is damaged"), "{partial:?}");
    fs::write(&path, &text[..40]).unwrap();
    here.refused(&["sweep", "merge", "plan.json"], &["0001.jsonl", "a complete result of every shard"]);
    let status = here.ok(&["sweep", "status", "plan.json"]);
    assert!(status.stdout.contains("missing of default: 1;"), "{}", status.stdout);
    let again = here.ok(&["sweep", "run", "plan.json", "--shard", "1"]);
    assert!(again.stderr.contains("incomplete; it is now plan.shards/default/0001.incomplete"), "{}", again.stderr);
    here.refused(&["sweep", "run", "plan.json", "--shard", "2"], &["--shard: 2 is out of range", "from 0 to 1"]);
    here.refused(&["sweep", "run", "plan.json", "--shard-from-env"], &["SLURM_ARRAY_TASK_ID", "--shard N"]);
    here.refused(&["sweep", "status", "other.json"], &["other.json cannot be read"]);
    here.refused(&["sweep", "status", "plan.json", "--results", "plan.json"], &["--results: plan.json is a file"]);
}

#[test]
fn a_class_is_measured_again_by_what_made_it() {
    let here = planned();
    here.ok(&["sweep", "run", "plan.json", "--shard", "1", "--class", "gpu"]);
    let status = here.ok(&["sweep", "status", "plan.json"]).stdout;
    assert!(status.contains("missing of gpu: 0; `sweep run --shard N --class gpu` measures one"), "{status}");
    here.refused(
        &["sweep", "merge", "plan.json"],
        &["class gpu has no result of shard 0", "--class gpu` measures one"],
    );
}

#[test]
fn an_axis_that_a_workload_lacks_is_noted_with_the_plan_and_not_with_each_shard() {
    let here = Box::default();
    let cases = ["gelu", "--dimension", "4", "--sequence", "1", "-o", "plan.json"];
    let plan = here.ok(&[&["sweep", "plan"], &CASES[..7], &["--batch", "1"], &cases].concat());
    assert_eq!(plan.stderr.matches("lattice-encode has no axis").count(), 2, "{}", plan.stderr);
    let ran = here.ok(&["sweep", "submit", "plan.json"]);
    assert!(ran.stderr.contains("shard 1: written") && !ran.stderr.contains("has no axis"), "{}", ran.stderr);
}

#[test]
fn a_shard_that_lost_an_implementation_is_incomplete() {
    let here = Box::default();
    let cases = CASES.map(|word| if word == "scalar" { "scalar,reference" } else { word });
    here.ok(&[&["sweep", "plan"], &cases[..], &["--shards", "2", "-o", "plan.json"]].concat());
    here.ok(&["sweep", "submit", "plan.json"]);
    let path = here.path("plan.shards/default/0001.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // The rows of the last case lose the last one.
    let cut = lines[..lines.len() - 1].join("\n") + "\n";
    fs::write(&path, &cut).unwrap();
    let lost = "0001.jsonl has no measurement of lattice-encode";
    here.refused(&["sweep", "merge", "plan.json"], &[lost]);
    let status = here.ok(&["sweep", "status", "plan.json"]);
    let parts = ["missing of default: 1;", "incomplete: ", lost];
    assert!(parts.iter().all(|part| status.stdout.contains(part)), "{}", status.stdout);
    let again = here.ok(&["sweep", "submit", "plan.json"]);
    let parts = ["shard 1 is measured again", lost, "0001.incomplete", "shard 1: written"];
    assert!(parts.iter().all(|part| again.stderr.contains(part)), "{}", again.stderr);
    assert_eq!(fs::read_to_string(here.path("plan.shards/default/0001.incomplete")).unwrap(), cut);
    here.ok(&["sweep", "merge", "plan.json", "--no-plot"]);
}

#[test]
fn an_indexed_job_runs_every_shard() {
    let here = planned();
    let args = ["sweep", "emit", "k8s", "plan.json", "--image", "registry/ellwand:1", "--claim", "sweep"];
    let emitted = here.ok(&[&args[..], &["--node-selector", "gpu=a100", "--class", "a100"]].concat());
    assert!(emitted.stderr.contains("not checked against a cluster"), "{}", emitted.stderr);
    let job: Value = serde_json::from_str(&emitted.stdout).unwrap();
    assert_eq!(
        (&job["kind"], &job["spec"]["completionMode"], &job["spec"]["completions"]),
        (&"Job".into(), &"Indexed".into(), &2.into())
    );
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"]["gpu"], "a100");
    // The command of the container, as a pod runs it.
    let words: Vec<&str> =
        pod["containers"][0]["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    for index in ["0", "1"] {
        let ran = ran(here.command(&words[1..]).env("JOB_COMPLETION_INDEX", index).output().unwrap());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    assert!(here.ok(&["sweep", "merge", "plan.json", "--no-plot"]).stdout.contains("a100/record.jsonl: 2 of 2"));
    here.refused(&[&args[..], &["--node-selector", "gpu"]].concat(), &["--node-selector", "KEY=VALUE"]);
}

/// Commands in a directory that answer like Slurm's and keep what they were asked in `asked`.
struct Slurm {
    here: Box,
}

impl Slurm {
    /// A cluster with features `a` and `b`, and arrays of at most 10 tasks.
    fn new(cases: &str) -> Self {
        let here = Box::default();
        let cases = [&["sweep", "plan"], &CASES[..8], &[cases, "-o", "plan.json"]].concat();
        here.ok(&cases);
        Self::of(here)
    }

    /// Such a cluster beside a plan.
    fn of(here: Box) -> Self {
        fs::create_dir(here.path("bin")).unwrap();
        let slurm = Self { here };
        slurm.command("scontrol", "echo 'MaxArraySize            = 10'");
        slurm.command("squeue", "cat $DIR/queue 2> /dev/null || true");
        slurm.command("scancel", ":");
        let refuse = "case \"$*\" in *constraint=c*) echo 'sbatch: error: Batch job submission failed: Invalid feature specification' >&2; exit 1;; esac";
        slurm.command(
            "sbatch",
            &format!("{refuse}; n=$(ls $DIR | grep -c script); cat > $DIR/script$n; echo $((40 + n))"),
        );
        slurm
    }

    fn command(&self, name: &str, body: &str) {
        let dir = self.here.dir.path().display();
        let text = format!("#!/bin/sh\nDIR={dir}\necho \"{name} $*\" >> $DIR/asked\n{body}\n");
        let path = self.here.write(&format!("bin/{name}"), text.as_bytes());
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn sweep(&self, args: &[&str]) -> Ran {
        let path = format!("{}:/usr/bin:/bin", self.here.path("bin").display());
        let mut command = self.here.command(&[&["sweep"], args].concat());
        ran(command.env("PATH", path).output().unwrap())
    }

    /// Submits to Slurm with these flags.
    fn submit(&self, flags: &[&str]) -> Ran {
        self.sweep(&[&["submit", "plan.json", "--engine", "slurm"], flags].concat())
    }

    fn refused(&self, flags: &[&str], parts: &[&str]) {
        let ran = self.submit(flags);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        parts.iter().for_each(|part| assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr));
    }

    /// The calls of `command`, without the words that differ between machines.
    fn requests(&self, command: &str) -> Vec<String> {
        let all = fs::read_to_string(self.here.path("asked")).unwrap_or_default();
        let own = all.lines().filter(|line| line.starts_with(command));
        let word = |word: &&str| !(word.starts_with("--output=") || word.starts_with("--job-name=ellwand-"));
        own.map(|line| line.split(' ').filter(word).collect::<Vec<_>>().join(" ")).collect()
    }
}

const SIXTEEN: &str = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16";

#[test]
fn a_plan_beyond_the_largest_array_becomes_several_for_each_class() {
    let slurm = Slurm::new(SIXTEEN);
    let ran = slurm.submit(&["--constraint", "a", "--constraint", "b", "--exclusive", "--requeue"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected: Vec<String> = ["a", "b"]
        .iter()
        .flat_map(|class| ["0-9", "0-5"].map(|tasks| (tasks, class)))
        .map(|(tasks, class)| format!("sbatch --parsable --array={tasks} --constraint={class} --exclusive --requeue"))
        .collect();
    assert_eq!(slurm.requests("sbatch"), expected);
    assert!(ran.stdout.contains("class a: shards 10-15 as job 41\nclass b: shards 0-9 as job 42"), "{}", ran.stdout);
    // The last task of the second array is the last shard.
    let mut task = std::process::Command::new("sh");
    task.arg(slurm.here.path("script1")).env("SLURM_ARRAY_JOB_ID", "41").env("SLURM_ARRAY_TASK_ID", "5");
    assert!(task.current_dir("/").output().unwrap().status.success());
    let shard = record(&slurm.here.path("plan.shards/a/0015.jsonl")).run.shard.unwrap();
    assert_eq!((shard.number, shard.class.as_str(), shard.task.as_deref()), (15, "a", Some("41_5")));
    // The same again asks for all but that one.
    assert_eq!(slurm.submit(&["--constraint", "a"]).code, Some(0));
    assert_eq!(slurm.requests("sbatch")[5], "sbatch --parsable --array=0-4 --constraint=a");
}

#[test]
fn status_queries_the_queue_and_trusts_the_results() {
    let slurm = Slurm::new(SIXTEEN);
    slurm.submit(&[]);
    slurm
        .here
        .write("queue", b"40_0|RUNNING|None\n40_1|PENDING|Resources\n41_5|PENDING|BeginTime\n77_3|RUNNING|None\n");
    slurm.here.ok(&["sweep", "run", "plan.json", "--shard", "1"]);
    let status = slurm.sweep(&["status", "plan.json", "--format", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let class = &status["classes"][0];
    assert_eq!((&class["finished"], &class["running"], &class["pending"]), (&1.into(), &[0].into(), &[15].into()));
    assert_eq!(class["reasons"], Value::from(vec!["BeginTime"]));
    assert_eq!(class["missing"], Value::from((2..15).collect::<Vec<_>>()));
    assert_eq!(slurm.requests("squeue").last().unwrap(), "squeue -h -r -o %i|%T|%r -j 40,41");
    // Their shards would be measured a second time.
    slurm.refused(&[], &["job 40 has 3 tasks of class default in the queue", "scancel 40"]);
    assert_eq!(slurm.requests("sbatch").len(), 2);
}

#[test]
fn a_refused_class_cancels_those_before_it() {
    let slurm = Slurm::new("1,2");
    let words = "Invalid feature specification";
    slurm.refused(
        &["--constraint", "a", "--constraint", "c"],
        &["--constraint=c", words, "sinfo", "cancelled", "job 40"],
    );
    assert_eq!(slurm.requests("scancel"), ["scancel 40"]);
    assert!(!slurm.here.path("plan.shards/submitted.jsonl").exists());
    let status = slurm.here.ok(&["sweep", "status", "plan.json"]);
    assert!(status.stdout.contains("nothing was submitted"), "{}", status.stdout);
    slurm.here.refused(&["sweep", "submit", "plan.json", "--exclusive"], &["--exclusive", "--engine slurm"]);
}

#[test]
fn a_scheduler_that_is_down_or_absent_is_named_and_loses_nothing() {
    let slurm = Slurm::new("1,2");
    slurm.submit(&[]);
    slurm.here.ok(&["sweep", "run", "plan.json", "--shard", "1"]);
    let words = "Unable to contact slurm controller (connect failure)";
    for command in ["scontrol", "squeue", "sbatch"] {
        slurm.command(command, &format!("echo '{command}: error: {words}' >&2; exit 1"));
    }
    slurm.refused(&[], &["--engine slurm", words]);
    let status = slurm.sweep(&["status", "plan.json"]);
    assert!(status.code == Some(1) && status.stderr.contains(words), "{}", status.stderr);
    assert!(status.stdout.contains("default         1"), "{}", status.stdout);
    for command in ["scontrol", "squeue", "sbatch"] {
        fs::remove_file(slurm.here.path("bin").join(command)).unwrap();
    }
    let mut absent = slurm.here.command(&["sweep", "submit", "plan.json", "--engine", "slurm"]);
    let absent = ran(absent.env("PATH", slurm.here.path("bin")).output().unwrap());
    assert_eq!(absent.code, Some(2));
    assert!(
        absent.stderr.contains("`squeue` cannot be started") && absent.stderr.contains("--engine local"),
        "{}",
        absent.stderr
    );
}
