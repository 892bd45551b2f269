//! `history`, as a user runs it: records of real runs, their commits, and what is refused.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::process::Command;

use common::Box;
use serde_json::Value;

/// The record of a sweep in a repository, with its commit.
fn measured(here: &Box) -> (String, String) {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(here.dir.path()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    };
    git(&["init", "-q"]);
    here.write("code", b"1");
    git(&["add", "code"]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first"]);
    assert_eq!(here.sweep(&["-i", "scalar,simd", "-o", "out"]).code, Some(0));
    (std::fs::read_to_string(here.path("out/record.jsonl")).unwrap(), git(&["rev-parse", "HEAD"]))
}

/// A record without checksums, as old ones are.
fn unsealed(text: &str) -> String {
    let plain = |line: &str| line.rsplit_once(",\"crc32\":").map_or(line.to_string(), |(body, _)| format!("{body}}}"));
    text.lines().map(|line| plain(line) + "\n").collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn runs_are_added_listed_shown_plotted_and_exported() {
    let here = Box::default();
    let (text, commit) = measured(&here);
    assert!(text.contains(&format!("\"commit\":\"{commit}\"")), "the record names the commit");
    let added = here.ok(&["history", "add", "out"]);
    assert!(added.stderr.contains("added: 4 measurements") && added.stderr.contains(&commit[..10]), "{}", added.stderr);
    assert!(here.ok(&["history", "add", "out/record.jsonl"]).stderr.contains("already"));
    // The same run again and again, on other days, once of a changed tree and once without a commit.
    let id = json(text.lines().next().unwrap())["id"].as_str().unwrap().to_string();
    let plain = unsealed(&text);
    for n in 0..6 {
        let mut copy = plain.replace(&id, &format!("again-{n}"));
        if n == 5 {
            let at = copy.find("\"revision\":{").unwrap();
            let end = at + copy[at..].find('}').unwrap() + 2;
            copy.replace_range(at..end, "");
        }
        here.write(&format!("{n}.jsonl"), copy.as_bytes());
    }
    here.ok(&["history", "add", "0.jsonl", "1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl", "5.jsonl"]);
    // From a directory below, without --store.
    std::fs::create_dir(here.path("below")).unwrap();
    let mut command = here.command(&["history", "list"]);
    let list = common::ran(command.current_dir(here.path("below")).output().unwrap());
    assert!(list.stdout.contains("again-3") && list.stdout.contains("1 without a commit"), "{}", list.stdout);
    let runs = json(&here.ok(&["history", "list", "--format", "json"]).stdout);
    assert_eq!(runs.as_array().unwrap().len(), 7);
    let show = here.ok(&["history", "show", "again-2"]).stdout;
    assert!(show.contains("ellwand report") && show.contains("batch=8") && show.contains("95 % interval"), "{show}");
    let of = ["history", "trend", "lattice-encode:simd", "--batch", "8"];
    let trend = here.ok(&[&of[..], &["-o", "trend.svg"]].concat());
    assert!(
        trend.stdout.contains("ratio to scalar")
            && trend.stdout.contains("no change points: they need some 14 runs, but this series has 7"),
        "{}",
        trend.stdout
    );
    // The heading has the axes that were given, not all.
    let pinned = here.ok(&[&of[..], &["--reference", "lattice-encode/batch=8:scalar"]].concat());
    assert!(pinned.stdout.contains("ratio to lattice-encode/batch=8:scalar "), "{}", pinned.stdout);
    let svg = std::fs::read_to_string(here.path("trend.svg")).unwrap();
    assert!(svg.contains("ratio to scalar") && svg.contains(&commit[..10]), "{svg}");
    let model = json(&here.ok(&[&of[..], &["--format", "json"]].concat()).stdout);
    let points = model["lines"][0]["points"].as_array().unwrap();
    assert_eq!((model["lines"].as_array().unwrap().len(), points.len()), (1, 7));
    assert!(points.iter().all(|point| point["ratio"]["low"].as_f64() <= point["ratio"]["value"].as_f64()));
    let bmf = json(&here.ok(&["history", "export", "again-1", "--format", "bmf"]).stdout);
    assert_eq!(bmf.as_object().unwrap().len(), 4, "{bmf}");
    assert_eq!(here.ok(&["history", "export", "--format", "jsonl"]).stdout.lines().count(), 28);
    // The records are the truth.
    std::fs::remove_file(here.path("ellwand-history/index.sqlite")).unwrap();
    assert_eq!(json(&here.ok(&["history", "list", "--format", "json"]).stdout), runs);
}

#[test]
fn files_that_are_no_history_or_record_are_refused() {
    let here = Box::default();
    here.refused(&["history", "list"], &["ellwand-history holds no history", "history add"]);
    here.write("page.jsonl", b"{\"kind\":\"page\"}\n");
    here.refused(&["history", "add", "page.jsonl"], &["page.jsonl", "not the start of a record"]);
    here.refused(&["history", "add", "nowhere"], &["nowhere"]);
    here.write("old.jsonl", include_bytes!("../../testdata/records/v1.jsonl"));
    // One bad record among good ones: none is added.
    here.refused(&["history", "add", "old.jsonl", "page.jsonl"], &["page.jsonl", "none of the 2 records was added"]);
    here.write("compared.jsonl", include_bytes!("../../testdata/records/v1-comparisons.jsonl"));
    here.refused(&["history", "add", "compared.jsonl"], &["compared.jsonl has no measurements", "a record of `run`"]);
    assert!(!here.path("ellwand-history").exists());
    let added = here.ok(&["history", "add", "old.jsonl"]);
    assert!(added.stderr.contains("no commit: it is listed by its own date"), "{}", added.stderr);
    here.refused(&["history", "show", "x"], &["no run has the id x", "history list"]);
    here.refused(&["history", "trend", "lattice-encode"], &["WORKLOAD:IMPLEMENTATION"]);
    here.refused(&["history", "trend", "lattice-encode:simt"], &["simt", "did you mean simd?"]);
    here.refused(&["history", "trend", "lattice-encode:simd", "--batch", "7"], &["--batch", "no run measured 7"]);
    here.refused(&["history", "trend", "lattice-encode:simd", "-o", "x.png"], &["-o", ".svg"]);
    let server = here.run(&["history", "add", "old.jsonl", "--store", "postgres://127.0.0.1:1/db"]);
    if cfg!(feature = "postgres") {
        assert!(server.code == Some(1) && server.stderr.contains("postgres://127.0.0.1:1/db"), "{}", server.stderr);
    } else {
        assert!(server.code == Some(2) && server.stderr.contains("without PostgreSQL"), "{}", server.stderr);
    }
    let newer = include_str!("../../testdata/records/v1.jsonl").replacen("\"version\":1", "\"version\":2", 1);
    here.write("newer.jsonl", newer.as_bytes());
    here.refused(&["history", "add", "newer.jsonl"], &["version 2", "newer Ellwand"]);
    here.write("ellwand-history/index.sqlite", &[b'x'; 5000]);
    let ran = here.ok(&["history", "list"]);
    assert!(ran.stderr.contains("rebuilt from the records"), "{}", ran.stderr);
}

#[test]
fn a_history_on_a_full_disk_loses_nothing() {
    let here = Box::default();
    let (text, _) = measured(&here);
    here.ok(&["history", "add", "out"]);
    here.write("old.jsonl", include_bytes!("../../testdata/records/v1.jsonl"));
    // In blocks of 512 bytes: room for less than the record.
    let blocks = include_bytes!("../../testdata/records/v1.jsonl").len() / 512 - 2;
    let script = format!("ulimit -f {blocks}; exec {} history add old.jsonl", env!("CARGO_BIN_EXE_ellwand"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(here.dir.path());
    shell.envs(here.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = common::ran(shell.output().unwrap());
    assert!(ran.code == Some(1) && ran.stderr.contains("ellwand-history"), "{}", ran.stderr);
    let names: Vec<String> = std::fs::read_dir(here.path("ellwand-history"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with("index.sqlite"))
        .collect();
    assert_eq!(names.len(), 1, "no part of a record is left: {names:?}");
    assert_eq!(std::fs::read_to_string(here.path("ellwand-history").join(&names[0])).unwrap(), text);
    let runs = json(&here.ok(&["history", "list", "--format", "json"]).stdout);
    assert_eq!(runs.as_array().unwrap().len(), 1);
}

#[test]
fn records_of_several_machines_are_shown_side_by_side() {
    let here = Box::default();
    // A record with ceilings, of two machines.
    let text = include_str!("../../testdata/records/v1.jsonl");
    here.write("one.jsonl", text.as_bytes());
    let other = text.replace("AMD EPYC (family 25 model 17)", "Other Processor").replace("0badcafe", "0badbeef");
    here.write("other.jsonl", other.as_bytes());
    let shown = here.ok(&["report", "one.jsonl", "other.jsonl", "--across-machines", "-o", "both"]);
    assert!(shown.stdout.contains("across machines") && shown.stdout.contains("Other Processor"), "{}", shown.stdout);
    let markdown = std::fs::read_to_string(here.path("both/report.md")).unwrap();
    assert!(markdown.contains("## Across machines") && markdown.contains("across-machines.png"), "{markdown}");
    let model = json(&std::fs::read_to_string(here.path("both/run.json")).unwrap());
    assert_eq!(model["machines"]["rows"].as_array().unwrap().len(), 12);
    here.refused(
        &["report", "one.jsonl", "--across-machines"],
        &["--across-machines", "all records are of one machine"],
    );
    assert!(!here.ok(&["report", "one.jsonl", "other.jsonl"]).stdout.contains("across machines"));
}
