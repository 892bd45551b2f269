//! Comparisons that end without a verdict, or after a long time.

use std::io::Write;
use std::path::Path;

use ellwand::internals::core::{Case, DeviceError, Poison, Prepared, Tensors};
use serde_json::Value;

use super::{Ran, Toy, ran, tell, this_program};

/// Directory in which the processes of a toy that misbehaves late are counted, case by case.
const COUNT: &str = "OWN_PROGRAM_COUNT";

/// A toy that behaves in its first processes of a case. A comparison starts one in each block.
pub(crate) struct Late {
    toy: Toy,
    dies: bool,
    turns: bool,
    hangs: bool,
}

impl Late {
    /// `mortal` ends its seventh process at n = 2; `turncoat` gives another answer in its ninth. `hanging` hangs once
    /// its answer has been judged.
    pub(crate) fn new(how: &str, case: &Case, toy: Toy) -> Self {
        let mut process = 0;
        if let Some(dir) = std::env::var_os(COUNT).filter(|_| case.float("n") == Some(2.0)) {
            let file = Path::new(&dir).join(how);
            let mut open = std::fs::OpenOptions::new().create(true).append(true).open(&file).unwrap();
            open.write_all(b"x").unwrap();
            process = std::fs::metadata(&file).unwrap().len();
        }
        let [dies, turns] = [("mortal", 7), ("turncoat", 9)].map(|(name, nth)| how == name && process == nth);
        Self { toy, dies, turns, hangs: how == "hanging" }
    }
}

impl Prepared for Late {
    fn run(&mut self) {
        self.toy.run();
        // Not before the answer has been judged.
        if self.toy.runs > 4 {
            if self.dies {
                std::process::abort();
            }
            if self.hangs {
                std::thread::sleep(std::time::Duration::from_secs(1000));
            }
            self.toy.y += f64::from(u8::from(self.turns));
        }
    }
    fn poison(&mut self, poison: Poison) {
        self.toy.poison(poison);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.toy.output()
    }
}

pub(crate) fn an_arm_that_ends_badly_late_has_no_verdict() {
    for (candidate, code, part) in [
        ("mortal", 1, "no verdict: the candidate failed: it was killed by signal 6 (SIGABRT)"),
        ("turncoat", 5, "no verdict: the candidate answers wrong: "),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let side = format!("double:{candidate}");
        let mut line = this_program(&["compare", "double:plain", &side, "--n", "1,2,3", "--format", "json", "-o"]);
        let late = ran(line.arg(&out).env(COUNT, dir.path()).output().unwrap());
        assert_eq!(late.code, Some(code), "{candidate}: {}{}", late.stdout, late.stderr);
        // The processes before behaved, but they give no verdict either.
        let counted = std::fs::read(dir.path().join(candidate)).unwrap().len();
        assert_eq!(counted, if candidate == "mortal" { 7 } else { 9 });
        let rows: Value = serde_json::from_str(&late.stdout).unwrap();
        let verdicts: Vec<&str> = (0..3).map(|row| rows[row]["verdict"].as_str().unwrap()).collect();
        assert_eq!(verdicts, ["slower", "none", "slower"], "{candidate}");
        // The record contains the cases around it, and why this one ended.
        let record = std::fs::read_to_string(out.join("record.jsonl")).unwrap();
        let lines: Vec<Value> = record.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        let kept: Vec<bool> = lines.iter().map(|line| line["arms"][1]["samples"]["wall_ns"].is_array()).collect();
        assert_eq!(kept, [true, false, true], "{candidate}");
        assert!(lines[1]["ended"].is_object(), "{}", lines[1]);
        let report = tell(&["report", out.to_str().unwrap()]);
        assert!(report.stdout.contains("1.100x"), "{}", report.stdout);
        let again = tempfile::tempdir().unwrap();
        let mut line = this_program(&["compare", "double:plain", &side, "--n", "1,2,3"]);
        let table = ran(line.env(COUNT, again.path()).output().unwrap());
        assert_eq!(table.code, Some(code), "{candidate}: {}{}", table.stdout, table.stderr);
        assert!(table.stdout.contains(&format!("double/n=2: {part}")), "{candidate}: {}", table.stdout);
    }
}

pub(crate) fn a_slot_that_hangs_ends_with_the_time() {
    let hung = super::compare("hanging", &["--time", "4s"]);
    assert_eq!(hung.code, Some(1), "{}{}", hung.stdout, hung.stderr);
    let (_, limit) = hung.stdout.split_once("no verdict: the candidate failed: it did not answer within ").unwrap();
    let seconds: f64 = limit.split_once(" s ").unwrap().0.parse().unwrap();
    assert!(seconds < 5.0, "without a time limit a slot has 30 s: {}", hung.stdout);
}

pub(crate) fn a_thousand_times_slower_is_measured_or_out_of_time() {
    let fake = super::compare("sluggish", &[]);
    assert_eq!(fake.code, Some(3), "{}{}", fake.stdout, fake.stderr);
    assert!(fake.stdout.contains("slower: sluggish takes 1000.0x the time of plain"), "{}", fake.stdout);
    assert!(fake.stdout.contains("2.00 s against 2.00 ms"), "{}", fake.stdout);
    // Without the limit of the remaining time, the sleeper would fail.
    let command = |sides: [&str; 2], more: &[&str]| -> Ran {
        tell(&[&["compare", "--command"], &sides[..], &["--time", "1s"], more].concat())
    };
    for sides in [["true", "sleep 5; exit 7"], ["sleep 5; exit 7", "true"], ["sleep 5; exit 7", "sleep 5; exit 7"]] {
        let late = command(sides, &[]);
        assert_eq!(late.code, Some(6), "{}{}", late.stdout, late.stderr);
        let side = if sides[0] == "true" { "candidate" } else { "baseline" };
        let why = format!("no verdict: out of time after 1 s: a run of the {side} had not ended by then");
        assert!(late.stdout.starts_with(&why), "{}", late.stdout);
    }
    let json: Value =
        serde_json::from_str(&command(["true", "sleep 5; exit 7"], &["--format", "json"]).stdout).unwrap();
    assert_eq!((&json[0]["verdict"], &json[0]["outcome"]), (&"none".into(), &"unsupported".into()));
}

pub(crate) fn finished_cases_are_reported_at_once() {
    // In the table, a line that no later case can change goes to stdout, and stderr does not mention it.
    let table = super::compare("slower", &["--n", "1,2"]);
    assert!(!table.stderr.contains("of 2 cases)"), "{}", table.stderr);
    // Other formats are whole documents, so stderr follows the cases.
    let json = super::compare("slower", &["--n", "1,2", "--format", "json"]);
    for part in ["double/n=1: slower (1 of 2 cases)", "double/n=2: slower (2 of 2 cases)"] {
        assert!(json.stderr.contains(part), "{}", json.stderr);
    }
    assert!(serde_json::from_str::<Value>(&json.stdout).is_ok());
    // Failures share a line, which therefore comes last.
    let broken = super::compare("broken", &["--n", "1,2,3,4"]);
    assert_eq!(broken.stdout.lines().count(), 1, "{}", broken.stdout);
    assert!(broken.stdout.starts_with("double/n=1 and 3 more: no verdict"), "{}", broken.stdout);
    assert!(broken.stderr.contains("double/n=3: no verdict (3 of 4 cases)"), "{}", broken.stderr);
}

pub(crate) fn what_is_not_ready_in_a_given_time_is_named_and_not_measured() {
    let dir = tempfile::tempdir().unwrap();
    let quick = ["run", "double", "-i", "stuck", "--time", "1s", "--effort", "quick", "--no-plot", "--no-ceilings"];
    let late = tell(&[&quick[..], &["--format", "json", "-o", dir.path().to_str().unwrap(), "--overwrite"]].concat());
    assert_eq!(late.code, Some(6), "{}{}", late.stdout, late.stderr);
    assert!(late.stderr.contains("double stuck: preparing and running for the first time ("), "{}", late.stderr);
    let why = "(a shorter time counts as 6 s) its process was still preparing and running for the \
               first time; try --time 20s";
    assert!(late.stdout.contains(why), "{}", late.stdout);
}

/// `--warm-up` and `--iterations` reach the workers, the record and the table.
pub(crate) fn fixed_counts_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let run = |more: &[&str]| {
        let fixed = ["run", "double", "-i", "plain,slower", "--effort", "quick", "--no-plot", "--no-ceilings"];
        tell(&[&fixed[..], &["-o", out.to_str().unwrap()], more].concat())
    };
    let ran = run(&["--warm-up", "2", "--iterations", "3"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let note = "fixed counts: 3 timed iterations per slot, after 2 untimed ones";
    assert!(ran.stdout.contains(note), "{}", ran.stdout);
    let record = std::fs::read_to_string(out.join("record.jsonl")).unwrap();
    let lines: Vec<Value> = record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["settings"]["counts"], serde_json::json!({ "warm_up": 2, "iterations": 3 }));
    for row in &lines[1..] {
        let column = |name: &str| row["samples"][name].as_array().unwrap().clone();
        assert!(column("iterations").iter().all(|count| *count == 3), "{row}");
        assert!(column("block").iter().any(|block| *block == 2), "every process has them: {row}");
    }
    let other = run(&["--iterations", "4", "--resume"]);
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(
        other.stderr.contains(
            "the record was made with --warm-up 2, --iterations 3, this command has --warm-up 10, --iterations 4"
        ),
        "{}",
        other.stderr
    );
    for (args, part) in [
        (&["--warm-up", "2"][..], "--iterations"),
        (&["--iterations", "0"], "--iterations"),
        (&["--iterations", "4", "--caches", "cold"], "a slot from cold caches holds one iteration"),
        (&["--iterations", "4", "--once"], "--once"),
    ] {
        let ran = run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
    }
}

/// Results are printed even if the disk has room only for the first line of the record.
pub(crate) fn what_cannot_be_kept_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let run = ["run", "double", "-i", "plain,slower", "--effort", "quick", "--no-plot", "--no-ceilings", "-o"];
    let compare = ["compare", "double:plain", "double:slower", "-o"];
    for (name, args, part) in
        [("run", &run[..], "2.20 ms"), ("compare", &compare, "slower: slower takes 1.100x the time of plain")]
    {
        let [whole, small] = ["whole", "small"].map(|kind| dir.path().join(format!("{name}-{kind}")));
        let kept = ran(this_program(args).arg(&whole).output().unwrap());
        assert!(kept.stdout.contains(part), "{name}: {}{}", kept.stdout, kept.stderr);
        let record = std::fs::read_to_string(whole.join("record.jsonl")).unwrap();
        // In units of 512 bytes; the first line of another record is not exactly as long.
        let blocks = record.lines().next().unwrap().len() / 512 + 2;
        let mut line = this_program(args);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$@\""), "sh"]);
        shell.arg(line.get_program()).args(line.arg(&small).get_args());
        shell.envs(line.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let lost = ran(shell.output().unwrap());
        assert_eq!(lost.code, Some(1), "{name}: {}{}", lost.stdout, lost.stderr);
        assert!(lost.stdout.contains(part), "{name}: {}", lost.stdout);
        assert!(lost.stderr.contains("record.jsonl: File too large"), "{name}: {}", lost.stderr);
        // No room at all ends with the same code, before anything is measured.
        let mut none = std::process::Command::new("sh");
        none.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]).arg(line.get_program());
        let none = ran(none.args(args).arg(dir.path().join("none")).output().unwrap());
        let hint = "none cannot be written: File too large (os error 27)\n  hint: raise";
        assert_eq!(none.code, Some(1), "{name}: {}{}", none.stdout, none.stderr);
        assert!(none.stdout.is_empty() && none.stderr.contains(hint), "{name}: {}", none.stderr);
        if name == "run" {
            assert!(lost.stderr.contains("the same command with --resume continues from here"), "{}", lost.stderr);
            let resumed = ran(this_program(args).arg(&small).arg("--resume").output().unwrap());
            assert!(resumed.code == Some(0) && !resumed.stderr.contains("no record to resume"), "{}", resumed.stderr);
            let fresh = ran(this_program(args).arg(dir.path().join("smal")).arg("--resume").output().unwrap());
            assert!(fresh.stderr.contains("smal holds no record to resume; this starts a new run"), "{}", fresh.stderr);
        }
    }
}
