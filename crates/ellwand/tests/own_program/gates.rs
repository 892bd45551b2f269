//! What a continuous-integration job relies on: budgets, records of comparisons, and comparisons of commands.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Ran, ran, tell};

/// Runs a command in a directory and captures its output.
fn tell_in(dir: &Path, args: &[&str]) -> Ran {
    let mut command = Command::new(std::env::current_exe().unwrap());
    ran(command.args(args).current_dir(dir).env("XDG_CACHE_HOME", dir.join("cache")).output().unwrap())
}

const RUN: [&str; 7] = ["run", "double", "--effort", "quick", "--no-plot", "--no-ceilings", "-i"];

/// 2 ms per iteration of `plain`, 2.2 ms of `slower`, on a simulated clock.
pub(crate) fn budgets_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("some/where");
    std::fs::create_dir_all(&inner).unwrap();
    let budgets = |text: &str| std::fs::write(dir.path().join("ellwand.toml"), text).unwrap();
    // The nearest file above applies.
    let run = |implementation: &str, more: &[&str]| tell_in(&inner, &[&RUN[..], &[implementation], more].concat());
    budgets("[[budget]]\nworkload = \"double\"\ntime = \"2.1 ms\"\n");
    let kept = run("plain", &[]);
    assert_eq!(kept.code, Some(0), "{}", kept.stderr);
    assert!(kept.stdout.contains("1 kept, 0 broken, 0 open"), "{}", kept.stdout);
    let broken = run("slower", &[]);
    assert_eq!(broken.code, Some(3), "{}", broken.stderr);
    let line = "budget broken: double/n=3 slower: time 2.20 ms an iteration";
    assert!(broken.stdout.contains(line), "{}", broken.stdout);
    assert!(broken.stdout.contains("budget 2.10 ms: over by 4.76 % (ellwand.toml line 1)"), "{}", broken.stdout);
    assert_eq!(run("slower", &["--fail-on", "never"]).code, Some(0));
    assert_eq!(run("plain,slower", &["--n", "1,2"]).code, Some(3));
    // A wrong answer is worse than a slow one.
    assert_eq!(run("slower,wrong", &[]).code, Some(5));
    // One process shows nothing about others: the budget is neither kept nor broken.
    let single = run("slower", &["--blocks", "1"]);
    assert_eq!(single.code, Some(0), "{}", single.stderr);
    assert!(single.stdout.contains("budget open") && single.stdout.contains("--blocks 2"), "{}", single.stdout);
    // Another case has no budget.
    budgets("[[budget]]\nworkload = \"double\"\nn = 2\ntime = \"1 us\"\n");
    let other = run("plain", &["--n", "3"]);
    assert_eq!(other.code, Some(0));
    let unmatched = "budget unmatched: double: no measured case has n 2 (ellwand.toml line 1)";
    assert!(other.stdout.contains(unmatched) && other.stdout.contains("0 open, 1 unmatched"), "{}", other.stdout);
    let github = run("plain", &["--n", "3", "--format", "github"]);
    assert!(github.stdout.contains("1 of 1 measurements and budgets"), "{}", github.stdout);
    assert!(github.stdout.contains("::notice title=double::no measured case has n 2"), "{}", github.stdout);
    let junit = run("plain", &["--n", "3", "--format", "junit"]);
    assert!(junit.stdout.contains(r#"<skipped message="no measured case has n 2"#), "{}", junit.stdout);
    assert!(!run("plain", &["--n", "2,3"]).stdout.contains("unmatched"));
    // Only below a table: other formats must stay parseable.
    let json = run("plain", &["--n", "2", "--format", "json"]);
    assert!(serde_json::from_str::<Value>(&json.stdout).is_ok(), "{}", json.stdout);
    assert!(json.stderr.contains("budget broken: double/n=2 plain"), "{}", json.stderr);
    assert_eq!(run("plain", &["--n", "2"]).code, Some(3));
    let junit = run("plain,broken", &["--n", "2,3", "--format", "junit"]);
    assert_eq!(junit.code, Some(1), "{}", junit.stderr);
    assert!(junit.stdout.contains(r#"tests="5" failures="1" errors="2" skipped="0""#), "{}", junit.stdout);
    assert!(junit.stdout.contains(r#"name="budget: time, "#) && junit.stdout.contains("over by"), "{}", junit.stdout);
    let github = run("plain", &["--n", "2,3", "--format", "github"]);
    assert!(github.stdout.contains("2 of 3 measurements and budgets"), "{}", github.stdout);
    assert!(github.stdout.contains("::error title=double/n=2 plain::time 2.00 ms"), "{}", github.stdout);
    let github = run("plain,wrong", &["--n", "3", "--format", "github"]);
    assert!(github.stdout.contains("::error title=double/n=3 wrong::wrong: "), "{}", github.stdout);
    // An error in the file is reported before anything runs.
    budgets("[[budget]]\nworkload = \"duble\"\ntime = \"1 us\"\n");
    for args in [&[&RUN[..], &["plain"]].concat()[..], &["compare", "double:plain", "double:plain"]] {
        let slip = tell_in(&inner, args);
        assert_eq!(slip.code, Some(2));
        assert!(slip.stderr.contains("line 2") && slip.stderr.contains("did you mean double?"), "{}", slip.stderr);
    }
    let missing = run("plain", &["--config", "none.toml"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("--config: none.toml cannot be read"), "{}", missing.stderr);
}

pub(crate) fn budgets_of_a_comparison() {
    let dir = tempfile::tempdir().unwrap();
    let compare = |candidate: &str, text: &str, more: &[&str]| {
        std::fs::write(dir.path().join("b.toml"), text).unwrap();
        let sides = ["compare", "double:plain", candidate, "--config", "b.toml"];
        tell_in(dir.path(), &[&sides[..], more].concat())
    };
    let time = "[[budget]]\nworkload = \"double\"\nimplementation = \"twin\"\ntime = \"2.001 ms\"\n";
    let broken = compare("double:twin", time, &[]);
    assert_eq!(broken.code, Some(3), "same within 1 %, and over its budget: {}", broken.stdout);
    assert!(broken.stdout.contains("same within 1 %"), "{}", broken.stdout);
    assert!(broken.stdout.contains("budget broken: double/n=3: time 2.00 ms"), "{}", broken.stdout);
    assert_eq!(compare("double:twin", time, &["--fail-on", "never"]).code, Some(0));
    let another = compare("double:faster", time, &[]);
    assert_eq!(another.code, Some(0), "it is another implementation's budget");
    assert!(!another.stderr.contains("unmatched"), "{}", another.stderr);
    let other = compare("double:twin", &format!("{time}n = 7\n"), &["--format", "github"]);
    assert_eq!(other.code, Some(0), "{}", other.stdout);
    assert!(other.stdout.contains("::notice title=double twin::no measured case has n 7"), "{}", other.stdout);
    assert!(other.stderr.contains("budget unmatched: double twin"), "{}", other.stderr);
    // Memory is read only if a budget needs it.
    let memory = "[[budget]]\nworkload = \"double\"\npeak_memory = \"8 GB\"\n";
    let kept = compare("double:plain", memory, &["--format", "json"]);
    assert_eq!(kept.code, Some(0), "{}", kept.stdout);
    let rows: Value = serde_json::from_str(&kept.stdout).unwrap();
    let budget = &rows[0]["budgets"][0];
    assert_eq!((&budget["what"], &budget["state"]), (&"peak memory".into(), &"kept".into()));
    assert!(budget["value"].is_number() && budget["limit"] == 8e9, "{budget}");
    let size = "binary_size = \"1 kB\"\n";
    let junit = compare("double:plain", size, &["--format", "junit"]);
    assert_eq!(junit.code, Some(3));
    assert!(junit.stdout.contains(r#"tests="2" failures="1""#), "{}", junit.stdout);
    assert!(
        junit.stdout.contains("binary size") && junit.stdout.contains("budget 1.000 kB: over by"),
        "{}",
        junit.stdout
    );
    let github = compare("double:plain", size, &["--format", "github"]);
    assert_eq!(github.stdout.lines().count(), 2, "{}", github.stdout);
    let json = compare("double:plain", size, &["--format", "json"]);
    let rows: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(rows[0]["budgets"][0]["what"], "binary size");
}

pub(crate) fn every_form_says_that_only_a_part_was_judged() {
    let dir = tempfile::tempdir().unwrap();
    let phrase = "the reference judged 211 of 1000 values of the answer; the others may be wrong";
    let compare = ["compare", "double:plain", "double:twin", "--n", "77", "--format"];
    for (form, part) in [
        ("table", phrase),
        ("json", phrase),
        ("json", r#""values": 211"#),
        ("junit", &format!("CPU time judged; {phrase}</system-out>")),
        ("github", &format!("CPU time judged; {phrase}\n")),
    ] {
        let ran = tell_in(dir.path(), &[&compare[..], &[form]].concat());
        assert!(ran.code == Some(0) && ran.stdout.contains(part), "{form}: {}{}", ran.stdout, ran.stderr);
    }
    let whole = tell_in(dir.path(), &["compare", "double:plain", "double:twin", "--format", "json"]);
    assert!(
        !whole.stdout.contains("the reference judged") && whole.stdout.contains(r#""values": 1"#),
        "{}",
        whole.stdout
    );
    let kept = tell_in(dir.path(), &[&compare[..], &["table", "-o", "kept"]].concat());
    assert_eq!(kept.code, Some(0), "{}", kept.stderr);
    let run = ["run", "double", "-i", "plain,twin", "--n", "77,78", "--effort", "quick", "--no-plot", "--no-ceilings"];
    let github = tell_in(dir.path(), &[&run[..], &["-o", "ran", "--format", "github"]].concat());
    let said = "4 of 4 measurements and budgets are in order; in 2 of them the reference judged a part of the answer\n";
    assert!(github.stdout.ends_with(said), "{}{}", github.stdout, github.stderr);
    // Two records, of a run or of a comparison, only suggest, and say so.
    for record in ["kept", "ran"] {
        let pair = tell_in(dir.path(), &["compare", record, record]);
        assert_eq!(pair.stdout.matches(phrase).count(), 2, "{record}: {}", pair.stdout);
        for form in ["table", "markdown", "json"] {
            let report = tell_in(dir.path(), &["report", record, "--format", form]);
            assert!(report.stdout.contains(phrase), "{record} {form}: {}", report.stdout);
        }
    }
}

pub(crate) fn a_comparison_keeps_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let compare =
        |candidate: &str, more: &[&str]| tell_in(dir.path(), &[&["compare", "double:plain", candidate], more].concat());
    let ran = compare("double:slower", &["--n", "1,2", "-o", "kept", "--format", "json"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    let report = tell_in(dir.path(), &["report", "kept", "--format", "json"]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    let model: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(model["comparisons"].as_array().unwrap().len(), 2);
    for (row, kept) in said.as_array().unwrap().iter().zip(model["comparisons"].as_array().unwrap()) {
        for key in ["case", "baseline", "candidate", "verdict", "ratio", "low", "high", "rope", "judged_by"] {
            assert_eq!(row[key], kept[key], "{key}");
        }
        assert_eq!(row["blocks"].as_array().unwrap().len() as u64, kept["blocks"].as_u64().unwrap());
    }
    // Raw samples of all three arms, each with its process and round.
    let record = std::fs::read_to_string(dir.path().join("kept/record.jsonl")).unwrap();
    let line: Value = serde_json::from_str(record.lines().nth(1).unwrap()).unwrap();
    let looks = line["looks"].as_array().unwrap();
    assert_eq!((&line["kind"], looks.first()), (&"comparison".into(), Some(&6.into())));
    // If the time does not suffice for all of them, there are fewer.
    assert!(looks.last().and_then(Value::as_u64).is_some_and(|last| (12..=512).contains(&last)), "{looks:?}");
    for arm in line["arms"].as_array().unwrap() {
        let column = |name: &str| arm["samples"][name].as_array().unwrap().clone();
        let blocks: Vec<u64> = column("block").iter().map(|block| block.as_u64().unwrap()).collect();
        assert!(blocks.is_sorted() && blocks.last() == Some(&8), "two cases take more evidence: {blocks:?}");
        assert_eq!(column("wall_ns").len(), blocks.len());
        // All have the same shape, however many iterations each needs to fill a slot.
        let shapes = |arm: &Value| ["iterations", "parts"].map(|name| arm["samples"][name][0].clone());
        assert_eq!(shapes(arm), shapes(&line["arms"][0]));
    }
    let table = tell_in(dir.path(), &["report", "kept"]);
    assert!(table.stdout.contains("verdicts") && table.stdout.contains("1.100x"), "{}", table.stdout);
    let markdown = std::fs::read_to_string(dir.path().join("kept/report.md")).unwrap();
    assert!(markdown.contains("## Verdicts") && markdown.contains("| slower |"), "{markdown}");
    // It is never overwritten without a request.
    let again = compare("double:slower", &["-o", "kept"]);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("-o: kept already holds a record") && again.stderr.contains("--overwrite"));
    // What decides nothing replaces nothing.
    let before = std::fs::read(dir.path().join("kept/record.jsonl")).unwrap();
    let undecided = compare("double:picky", &["-o", "kept", "--overwrite"]);
    assert!(undecided.code == Some(6) && undecided.stderr.contains("the old results are unchanged"));
    assert_eq!(std::fs::read(dir.path().join("kept/record.jsonl")).unwrap(), before);
    assert_eq!(compare("double:picky", &["-o", "ended"]).code, Some(6));
    let none = tell_in(dir.path(), &["report", "ended"]);
    assert_eq!(none.code, Some(6), "{}", none.stdout);
    assert!(none.stdout.contains("the candidate unsupported: the moon is not full"), "{}", none.stdout);
    // Among many cases without a difference, one that is called by itself may be chance; the report takes that into
    // account too.
    let csv = tell_in(dir.path(), &["report", "kept", "--format", "csv"]);
    assert!(csv.stderr.contains("verdicts are in table, json, markdown and html"), "{}", csv.stderr);
    // Records are not measured again, so there is nothing to save.
    let records = tell_in(dir.path(), &["compare", "kept", "kept", "-o", "other"]);
    assert_eq!(records.code, Some(2));
    assert!(records.stderr.contains("two records"), "{}", records.stderr);
}

pub(crate) fn command_outputs_are_compared_on_request() {
    let compare = |a: &str, b: &str, more: &[&str]| {
        tell(&[&["compare", "--command", a, b, "--fail-on", "never", "--blocks", "2"], more].concat())
    };
    let unasked = compare("echo 1", "echo 2", &[]);
    assert_eq!(unasked.code, Some(0), "{}", unasked.stderr);
    assert!(
        unasked.stderr.contains("the output of the commands was not compared; --same-output"),
        "{}",
        unasked.stderr
    );
    let same = compare("echo 1", "printf '1\\n'", &["--same-output"]);
    assert_eq!(same.code, Some(0), "{}{}", same.stdout, same.stderr);
    let other = compare("echo 1", "echo 2", &["--same-output"]);
    assert_eq!(other.code, Some(5), "{}", other.stderr);
    let line =
        "the candidate answers wrong: its output differs in line 1, byte 1: '2' (length 1), the baseline's is '1'";
    assert!(other.stdout.contains(line), "{}", other.stdout);
    let removed = tempfile::NamedTempFile::new().unwrap().path().display().to_string();
    let (make, once) = (format!("echo 1 > {removed}"), format!("rm {removed}"));
    let prepared = compare(&once, &once, &["--prepare", &make, "--at-least", "50%"]);
    assert_eq!(prepared.code, Some(0), "{}{}", prepared.stdout, prepared.stderr);
    let unprepared = compare(&once, &once, &["--prepare", &make, "--prepare", "true"]);
    assert_eq!(unprepared.code, Some(1), "{}{}", unprepared.stdout, unprepared.stderr);
    assert!(unprepared.stdout.contains("the candidate failed: it exited with code 1"), "{}", unprepared.stdout);
    let budgets = compare("true", "true", &["--config", "ellwand.toml"]);
    assert!(budgets.code == Some(2) && budgets.stderr.contains("budgets are about workloads"), "{}", budgets.stderr);
    let thrice = compare("true", "true", &["--prepare", "a", "--prepare", "b", "--prepare", "c"]);
    assert!(thrice.code == Some(2) && thrice.stderr.contains("it is given 3 times"), "{}", thrice.stderr);
    // The first run, which is not timed, also has a limit.
    let endless = compare("true", "sleep 1000", &["--time-limit", "1"]);
    assert_eq!(endless.code, Some(1), "{}{}", endless.stdout, endless.stderr);
    assert!(endless.stdout.contains("the candidate failed: it did not end within 1 s"), "{}", endless.stdout);
    let silent = compare("true", "true", &["--same-output"]);
    assert_eq!(silent.code, Some(1), "{}", silent.stderr);
    assert!(silent.stdout.contains("the baseline failed: it prints nothing"), "{}", silent.stdout);
    let silent = compare("echo a", "true", &["--same-output"]);
    assert_eq!(silent.code, Some(5), "{}", silent.stderr);
    assert!(silent.stdout.contains("its output differs in line 1, byte 1: ''"), "{}", silent.stdout);
    // Right at first, and a different answer after the timed runs.
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark").display().to_string();
    let fickle =
        compare("echo 1", &format!("echo 1 >> {mark}; wc -l < {mark} | sed 's/^[2-9].*/2/'"), &["--same-output"]);
    assert_eq!(fickle.code, Some(5), "{}{}", fickle.stdout, fickle.stderr);
}

/// Verdicts and suggestions in a narrow terminal.
pub(crate) fn lines_break_where_the_terminal_ends() {
    let dir = tempfile::tempdir().unwrap();
    let out = tell_in(dir.path(), &[&RUN[..], &["plain", "-o", "a"]].concat());
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    for args in [&["compare", "double:plain", "double:slower"][..], &["compare", "a", "a"]] {
        let ran = |columns: &str| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(args).current_dir(dir.path()).env("XDG_CACHE_HOME", dir.path().join("cache"));
            String::from_utf8(command.env("COLUMNS", columns).output().unwrap().stdout).unwrap()
        };
        let (wide, narrow) = (ran("500"), ran("50"));
        assert!(wide.lines().any(|line| line.chars().count() > 50), "{wide}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 50), "{narrow}");
        let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        // Everything except the seconds that it took.
        assert_eq!(words(&wide).len(), words(&narrow).len(), "{wide}{narrow}");
    }
}

/// Tables of profiles in a narrow terminal.
#[cfg(feature = "page")]
pub(crate) fn tables_of_profiles_fit_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let event =
        |at: u64| format!(r#"{{"ph":"X","name":"{}","ts":{},"dur":9,"pid":1,"tid":1}}"#, "name".repeat(20), at * 10);
    let events: Vec<String> = (0..9).map(event).collect();
    std::fs::write(dir.path().join("a.json"), format!("[{}]", events.join(","))).unwrap();
    for args in [&["profile", "show", "a.json"][..], &["profile", "diff", "a.json", "a.json"]] {
        let ran = |columns: &str| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(args).current_dir(dir.path()).env("COLUMNS", columns);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let (wide, narrow) = (ran("500"), ran("60"));
        assert!(wide.lines().any(|line| line.chars().count() > 60) && !wide.contains("hidden"), "{wide}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(narrow.contains("hidden at this width"), "{narrow}");
    }
}

/// A program without the workload, a file that is not a program, and a program that does not speak the protocol.
pub(crate) fn programs_that_are_not_ours_are_rows() {
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, "no program").unwrap();
    let empty = dir.path().join("empty");
    std::fs::write(&empty, format!("#!/bin/sh\n{}=1 exec '{this}' \"$@\"\n", crate::EMPTY)).unwrap();
    std::fs::set_permissions(&empty, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (other, part) in [
        (empty.to_str().unwrap(), "the candidate failed: this program has no workload 'double'"),
        (text.to_str().unwrap(), "could not be started"),
        ("/bin/echo", "it wrote 'worker' to stdout where an answer was expected"),
        ("/bin/false", "it exited with code 1"),
    ] {
        let ran = tell(&["compare", this, other, "--workload", "double", "-i", "plain"]);
        assert_eq!(ran.code, Some(1), "{other}: {}", ran.stderr);
        assert!(ran.stdout.contains(part), "{other} does not say '{part}': {}", ran.stdout);
        // A message that is the same at every case is printed once.
        let many = tell(&["compare", this, other, "--workload", "double", "-i", "plain", "--n", "1,2,3,4,5"]);
        assert!(many.stdout.starts_with("double/n=1 plain and 4 more: no verdict:"), "{other}: {}", many.stdout);
        assert_eq!(many.stdout.lines().count(), 1, "{other}: {}", many.stdout);
    }
    // A workload that only the candidate has is new.
    let ran = tell(&["compare", empty.to_str().unwrap(), this, "--workload", "double", "-i", "plain"]);
    assert!(
        ran.stdout.contains("the baseline cannot run here: this program has no workload 'double'"),
        "{}",
        ran.stdout
    );
    assert_eq!(ran.code, Some(6));
}

/// Implementations that turn wrong while they are timed, or panic before, become rows of `run` without a time.
pub(crate) fn bad_implementations_are_rows_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = tell_in(dir.path(), &[&RUN[..], &["plain,fickle,broken,leaver", "-o", "out"]].concat());
    assert_eq!(run.code, Some(5), "{}", run.stderr);
    let record = std::fs::read_to_string(dir.path().join("out/record.jsonl")).unwrap();
    let rows: Vec<Value> = record.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| rows.iter().find(|row| row["implementation"] == name).unwrap();
    assert_eq!(of("plain")["outcome"]["status"], "measured");
    for (name, status, part) in [
        ("fickle", "wrong", "y"),
        ("broken", "failed", "it panicked in prepare: no luck"),
        ("leaver", "failed", "it exited with code 0 instead of answering"),
    ] {
        let row = of(name);
        assert_eq!(row["outcome"]["status"], status);
        assert!(row["outcome"].to_string().contains(part), "{row}");
        assert!(row["samples"]["wall_ns"].as_array().unwrap().is_empty(), "{name} has times");
    }
    let ran = tell(&["compare", "double:plain", "double:fickle"]);
    assert_eq!(ran.code, Some(5), "{}", ran.stdout);
    assert!(ran.stdout.contains("no verdict: the candidate answers wrong"), "{}", ran.stdout);
    let check = tell(&["check", "double:picky", "--n", "1,2,3"]);
    let lines =
        ["double/n=1 picky wrote: looking for the moon", "double:picky wrote the same at 2 more cases: looking"];
    assert!(lines.iter().all(|line| check.stderr.contains(line)), "{}", check.stderr);
    assert_eq!(check.stderr.matches("moon").count(), 2, "{}", check.stderr);
    let check = tell(&["check", "double", "-i", "plain,leaver,picky"]);
    assert_eq!(check.code, Some(1), "{}", check.stderr);
    for part in ["plain   right", "it exited with code 0 instead of answering", "the moon is not full", "1 failed"] {
        assert!(check.stdout.contains(part), "no {part}: {}", check.stdout);
    }
}
