//! The commands end to end.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Box, QUICK, lines, npy_f32};

#[test]
fn run_writes_record_and_reports_and_report_repeats_what_run_wrote() {
    let here = Box::default();
    let ran = here.sweep(&["-o", "out"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for name in ["scalar", "simd", "parallel", "reference", "lattice-encode"] {
        assert!(ran.stdout.contains(name), "{}", ran.stdout);
    }
    // 1 run line, and 2 cases with 4 implementations each.
    assert_eq!(lines(&here.path("out/record.jsonl")).len(), 9);
    for file in ["run.json", "summary.csv", "report.md"] {
        assert!(here.path("out").join(file).metadata().unwrap().len() > 0, "{file}");
    }
    for (format, file) in [("json", "run.json"), ("csv", "summary.csv")] {
        let again = here.ok(&["report", "out", "--format", format]);
        assert_eq!(again.stdout, std::fs::read_to_string(here.path("out").join(file)).unwrap(), "{format}");
    }
    let rows = here.ok(&["report", "out", "--format", "seed-json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&rows.stdout).unwrap().is_array(), "{}", rows.stdout);
    let again = here.ok(&["report", "out/record.jsonl"]);
    assert_eq!(again.stdout, ran.stdout, "the table of the record is the table of the run");
    let based = here.sweep(&["-o", "based", "--baseline", "reference"]);
    let again = here.ok(&["report", "based"]);
    assert!(again.stdout.contains("speed-up over reference") && again.stdout == based.stdout, "{}", again.stdout);
}

#[test]
fn seed_flags_of_the_profiling_scripts_are_understood() {
    let here = Box::default();
    let ran = here.ok(&[
        "run",
        "lattice",
        "--lattice",
        "D4",
        "--q",
        "4",
        "--M",
        "2",
        "--batch-sizes",
        "1,10",
        "--output-dir",
        "results",
        "--no-plot",
        "--effort",
        "quick",
        "--no-ceilings",
        "--data",
        "seed",
        "--beta",
        "1",
        "--overload",
        "flag",
    ]);
    assert!(ran.stdout.contains("lattice-decode") && ran.stdout.contains("lattice-quantize"));
    let report = std::fs::read_to_string(here.path("results/report.md")).unwrap();
    assert!(report.contains("leaves level 1 and above unused"), "the warning about the seed's data is in the report");
}

#[test]
fn a_record_is_overwritten_only_on_request_and_resumed_without_measuring_again() {
    let here = Box::default();
    assert_eq!(here.sweep(&["-o", "out"]).code, Some(0));
    let record = here.path("out/record.jsonl");
    let whole = std::fs::read(&record).unwrap();
    here.refused(&[&QUICK[..], &["-o", "out"]].concat(), &["already holds a record", "--resume", "--overwrite"]);
    assert_eq!(std::fs::read(&record).unwrap(), whole);
    assert_eq!(here.sweep(&["-o", "out", "--resume"]).code, Some(0));
    assert_eq!(std::fs::read(&record).unwrap(), whole, "no finished cell was measured again");

    // Killed in the middle of a line: everything before it is kept to the byte, the rest is measured.
    let kept: usize = whole.split_inclusive(|byte| *byte == b'\n').take(6).map(<[u8]>::len).sum();
    std::fs::write(&record, &whole[..kept + 40]).unwrap();
    assert_eq!(here.sweep(&["-o", "out", "--resume"]).code, Some(0));
    let resumed = std::fs::read(&record).unwrap();
    assert_eq!(&resumed[..kept], &whole[..kept]);
    // The line of the run that went on stands before what it added.
    assert_eq!(lines(&record).len(), 10);
    assert!(lines(&record)[6].starts_with("{\"kind\":\"run\""), "{}", lines(&record)[6]);

    here.refused(&[&QUICK[..], &["--resume"]].concat(), &["--resume", "-o with the directory of the record"]);
    assert!(!here.path("ellwand-out").exists(), "no new record is begun in its place");
    let other = here.ok(&["run", "null", "--effort", "quick", "--no-ceilings", "--no-plot", "-o", "out", "--resume"]);
    let note = "note: the record to resume also holds lattice-encode, which this command does not measure";
    assert!(other.stderr.contains(note), "{}", other.stderr);
    here.refused(
        &[&QUICK[..], &["-o", "out", "--resume", "--seed", "7"]].concat(),
        &["the record was made with --seed 42, this command has --seed 7", "--seed 42, or a new directory"],
    );
    // A changed digit: as refused as by the commands that only read records.
    let text = String::from_utf8(resumed).unwrap().replacen("\"seed\":42", "\"seed\":43", 1);
    std::fs::write(&record, &text).unwrap();
    let damaged = "line 1: it differs from its checksum";
    here.refused(&[&QUICK[..], &["-o", "out", "--resume"]].concat(), &["error: --resume: ", damaged]);
    here.refused(&["report", "out"], &[damaged]);
    assert_eq!(std::fs::read_to_string(&record).unwrap(), text);
    assert_eq!(here.sweep(&["-o", "out", "--overwrite"]).code, Some(0));
}

#[test]
fn check_judges_every_implementation_and_times_nothing() {
    let here = Box::default();
    let ran = here.ok(&["check", "lattice", "--batch", "33", "--lattice", "Z2,D4,E8", "--overload", "retry"]);
    assert!(ran.stdout.contains("36 right, 0 wrong, 0 failed, 0 unsupported"), "{}", ran.stdout);
    let json = here.ok(&["check", "null", "--format", "json"]);
    let rows: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(rows[0]["outcome"], "right");
    let once = here.ok(&["run", "lattice-encode", "--batch", "5", "--once"]);
    assert!(once.stdout.contains("4 right"), "{}", once.stdout);
    assert!(!here.path("ellwand-out").exists(), "--once writes nothing");
}

#[test]
fn overwriting_a_record_removes_what_was_made_from_it_and_nothing_else() {
    let here = Box::default();
    here.ok(&["run", "gelu", "--size", "tiny", "-i", "simd", "--effort", "quick", "--no-ceilings", "-o", "out"]);
    assert!(here.path("out/plots/gelu-time.png").exists());
    let old = ["plots/gelu-time.png", "plots/gelu-speedup-2.svg", "spans.csv", "gelu-1f3a90bc-simd.trace.json"];
    // Pictures of the user's, one of them under a name that another workload's plot would have.
    let own = ["notes.txt", "my.trace.json", "plots/notes.txt", "plots/mine.png", "plots/my-gelu-time.png"];
    for name in old.iter().chain(&own) {
        here.write(&format!("out/{name}"), b"old");
    }
    let old_report = std::fs::read_to_string(here.path("out/report.md")).unwrap() + "![](plots/gelu-speedup-2.png)\n";
    here.write("out/report.md", old_report.as_bytes());
    assert_eq!(here.sweep(&["-o", "out", "--overwrite", "-i", "scalar"]).code, Some(0));
    for name in old {
        assert!(!here.path("out").join(name).exists(), "{name} is of the record before");
    }
    for name in own {
        assert!(here.path("out").join(name).exists(), "{name} is not ours");
    }
    assert_ne!(std::fs::read_to_string(here.path("out/report.md")).unwrap(), old_report);
    here.refused(&[&QUICK[..], &["-o", "out", "--resume", "--overwrite"]].concat(), &["--resume", "--overwrite"]);
}

#[test]
fn user_files_with_the_names_of_results_are_not_replaced_without_overwrite() {
    let here = Box::default();
    std::fs::create_dir_all(here.path("own/plots")).unwrap();
    let compare = ["compare", "null:empty", "null:empty", "--blocks", "8", "-o", "own"];
    let once = [&QUICK[..], &["-i", "scalar", "-o", "own"]].concat();
    let plotting: Vec<&str> = once.iter().copied().filter(|flag| *flag != "--no-plot").collect();
    here.write("record.jsonl", include_bytes!("../../testdata/records/v1.jsonl"));
    for name in ["report.md", "summary.csv", "plots/lattice-encode-time.png"] {
        here.write(&format!("own/{name}"), b"mine");
        if name.starts_with("plots") {
            here.refused(&plotting, &["-o", name, "not written by Ellwand", "--overwrite"]);
        } else {
            here.refused(&once, &["-o", name, "not written by Ellwand", "--overwrite"]);
            here.refused(&[&once[..], &["--resume"]].concat(), &[name]);
            here.refused(&compare, &[name, "--overwrite"]);
            here.refused(&["report", "record.jsonl", "-o", "own", "--no-plot"], &[name, "--overwrite"]);
        }
        assert_eq!(std::fs::read(here.path("own").join(name)).unwrap(), b"mine");
        assert!(!here.path("own/record.jsonl").exists());
        if !name.starts_with("plots") {
            std::fs::remove_file(here.path("own").join(name)).unwrap();
        }
    }
    let mine = b"mine ![](plots/lattice-encode-time.png)";
    here.write("own/report.md", mine);
    here.ok(&[&once[..], &["--overwrite"]].concat());
    assert_ne!(std::fs::read(here.path("own/report.md")).unwrap(), mine, "it was asked for");
    assert!(here.path("own/plots/lattice-encode-time.png").exists(), "it is not of a report of ours");
}

#[test]
fn a_report_replaces_none_next_to_the_record_of_another_run() {
    let here = Box::default();
    here.write("other.jsonl", include_bytes!("../../testdata/records/v1.jsonl"));
    assert_eq!(here.sweep(&["-o", "own", "-i", "scalar"]).code, Some(0));
    let before = std::fs::read(here.path("own/report.md")).unwrap();
    let other = ["report", "other.jsonl", "-o", "own", "--no-plot"];
    here.refused(&other, &["own/record.jsonl", "another run", "--overwrite"]);
    assert_eq!(std::fs::read(here.path("own/report.md")).unwrap(), before);
    here.ok(&["report", "own", "-o", "own", "--no-plot"]);
    here.ok(&["report", "other.jsonl", "own", "-o", "own", "--no-plot"]);
    let ran = here.ok(&[&other[..], &["--overwrite"]].concat());
    assert!(ran.stderr.contains("own/record.jsonl is from another run"), "{}", ran.stderr);
    // Where only reports stand, they are made again as often as one likes.
    for _ in 0..2 {
        here.ok(&["report", "other.jsonl", "-o", "reports"]);
    }
    assert!(here.path("reports/plots/lattice-encode-time.png").exists());
    let replaced = ["report", "own", "-o", "reports", "--no-plot"];
    here.refused(&replaced, &["reports/run.json", "another run", "--overwrite"]);
    here.ok(&[&replaced[..], &["--overwrite"]].concat());
    assert!(!here.path("reports/plots/lattice-encode-time.png").exists(), "it is of the report before");
}

#[test]
fn list_shows_what_there_is() {
    let here = Box::default();
    let ran = here.ok(&["list"]).stdout;
    let at = |start: &str| ran.lines().position(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{ran}"));
    assert!(at("lattice") < at("calibration") && at("calibration") < at("devices"), "{ran}");
    assert!(at("  lattice-encode ") < at("calibration") && at("  null ") > at("calibration"), "{ran}");
    assert!(at("  cpu ") > at("devices") && ran.lines().count() <= 80, "{ran}");
    let detail = here.ok(&["list", "lattice-encode"]).stdout;
    for text in ["--batch", "--M", "--size", "tiny", "simd", "devices", "unavailable: no CUDA device"] {
        assert!(!(text.starts_with("--") && ran.contains(text)), "{text}\n{ran}");
        assert!(detail.contains(text), "{text}\n{detail}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&here.ok(&["list", "lattice", "--format", "json"]).stdout).unwrap();
    assert_eq!(json["workloads"].as_array().unwrap().len(), 3);
    let decode = json["workloads"].as_array().unwrap().iter().find(|w| w["name"] == "lattice-decode").unwrap();
    let port = |list: &str, name: &str| {
        let ports = decode[list].as_array().unwrap().iter().find(|port| port["name"] == name);
        ports.unwrap().clone()
    };
    assert_eq!(
        (&port("inputs", "retries")["dtype"], &port("inputs", "retries")["required"]),
        (&"uint8".into(), &false.into())
    );
    assert_eq!(decode["outputs"][0]["name"], "x");
    let kde = here.ok(&["list", "kde-predict"]).stdout;
    for line in ["enc_spike_times: float64 [spikes];", "position_std: float64 scalar or [D], optional;", "outputs"] {
        assert!(kde.contains(line), "{line}\n{kde}");
    }
    // What a size means, and what it takes, without running it.
    let tiny = kde.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "--size tiny: samples 100, electrodes 4, enc-spikes 20, bins 100, edges 50, dec-spikes 10;",
        "of memory (encoding spikes and model",
    ] {
        assert!(tiny.contains(part), "{part}\n{kde}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&here.ok(&["list", "kde-predict", "--format", "json"]).stdout).unwrap();
    let sizes = json["workloads"][0]["sizes"].as_array().unwrap();
    let bytes = |at: usize| sizes[at]["memory_bytes"].as_u64().unwrap();
    assert!(sizes.len() == 6 && bytes(0) < bytes(4) && sizes[0]["memory_parts"]["output"].is_u64(), "{json}");
    here.refused(&["list", "latice"], &["did you mean lattice?"]);
}

#[test]
fn apply_encodes_and_decodes_the_users_arrays() {
    let here = Box::default();
    let values: Vec<f32> = (0..30).map(|i| (f32::from(i as i8) * 0.37).sin() * 3.0).collect();
    here.write("x.npy", &npy_f32("(5, 6)", &values));
    here.ok(&[
        "apply",
        "lattice-encode",
        "--input",
        "x=x.npy",
        "-o",
        "codes",
        "--lattice",
        "D4",
        "--q",
        "8",
        "--overload",
        "retry",
        "--beta",
        "1",
        "--verify",
    ]);
    let about: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(here.path("codes/apply.json")).unwrap()).unwrap();
    assert_eq!(about["implementation"], "simd");
    // Five rows of six are cut into two blocks of four each, the second padded.
    assert_eq!(about["arrays"]["digits"]["shape"], serde_json::json!([10, 2, 4]));
    for array in ["digits", "packed", "overload", "retries"] {
        assert!(here.path(&format!("codes/{array}.npy")).exists(), "{array}");
    }
    for codes in ["digits=codes/digits.npy", "packed=codes/packed.npy"] {
        let flags = ["--lattice", "D4", "--q", "8", "--beta", "1", "--verify", "--overwrite", "-o", "back"];
        here.ok(&[&["apply", "lattice-decode", "--input", codes, "--input", "retries=codes/retries.npy"], &flags[..]]
            .concat());
        let back = ellwand::arrays::read(&[format!("x={}", here.path("back/x.npy").display())]).unwrap();
        let back = back.get("x").unwrap();
        assert_eq!(back.shape(), &[10, 4]);
        let restored: Vec<f32> = back.f32().unwrap().chunks(8).flat_map(|row| row[..6].to_vec()).collect();
        // Covering radius of D4 is 1; values up to 3 never overload at q = 8, M = 2, so each is within beta = 1.
        let worst = values.iter().zip(&restored).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 1.0 && worst > 0.0, "{worst}");
    }
}

#[test]
fn the_same_input_binds_by_name_from_an_archive_and_runs() {
    let here = Box::default();
    let values: Vec<f32> = (0..400).map(|i| (i as f32 * 0.11).cos()).collect();
    here.write("x.npy", &npy_f32("(100, 4)", &values));
    let ran = here.run(&[
        "run",
        "lattice-encode",
        "--input",
        "x=x.npy",
        "--batch",
        "1,100",
        "--effort",
        "quick",
        "--no-ceilings",
        "--no-plot",
        "-o",
        "out",
        "-i",
        "scalar,simd",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        lines(&here.path("out/record.jsonl"))[1].contains("input#"),
        "the case says that its data are not the workload's own"
    );
    here.refused(&["run", "lattice-encode", "--input", "x=x.npy", "--batch", "101"], &["100 vectors", "smaller batch"]);
    // Without a batch: all vectors, and not the usual sweep over the first of them.
    let once = ["run", "lattice-encode", "--input", "x=x.npy", "-i", "simd", "--once", "--format", "json"];
    let json: serde_json::Value = serde_json::from_str(&here.ok(&once).stdout).unwrap();
    let cases: Vec<&str> = json.as_array().unwrap().iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert!(cases.len() == 1 && cases[0].contains("batch=100,"), "{cases:?}");
}

#[test]
fn help_and_version_exit_with_0() {
    let here = Box::default();
    assert!(here.ok(&["--help"]).stdout.contains("Exit codes"));
    let [run, gelu] = [&["run", "--help"][..], &["run", "gelu", "--help"]].map(|args| here.ok(args).stdout);
    let narrow = here.command(&["run", "--help"]).env("COLUMNS", "80").output().unwrap().stdout;
    for text in [&run, &String::from_utf8(narrow).unwrap()] {
        assert!(text.lines().count() <= 60, "{} lines\n{text}", text.lines().count());
    }
    assert!(!run.contains("--dimension") && run.contains("--help` after the name of a workload"), "{run}");
    for text in ["Axes of gelu:", "--dimension <V,..>", "an integer from 1 to", "[default: "] {
        assert!(gelu.contains(text), "{text}\n{gelu}");
    }
    assert!(!gelu.contains("--lattice"), "{gelu}");
    assert!(here.ok(&["--version"]).stdout.starts_with("ellwand "));
}

#[test]
fn the_same_run_twice_counts_once() {
    let here = Box::default();
    assert_eq!(here.sweep(&["-o", "out"]).code, Some(0));
    let once = here.ok(&["report", "out", "--format", "json"]);
    let twice = here.ok(&["report", "out", "out/record.jsonl", "--format", "json"]);
    assert_eq!(once.stdout, twice.stdout);
    assert!(twice.stderr.contains("note: skipped "), "{}", twice.stderr);
    // Of a copy that was made earlier and the record itself, the record holds, in whichever order they come.
    let whole = std::fs::read_to_string(here.path("out/record.jsonl")).unwrap();
    let cut: String = whole.lines().take(3).map(|line| format!("{line}\n")).collect();
    here.write("early.jsonl", cut.as_bytes());
    for order in [["early.jsonl", "out"], ["out", "early.jsonl"]] {
        assert_eq!(here.ok(&[&["report"], &order[..], &["--format", "json"]].concat()).stdout, once.stdout);
    }
}

#[test]
fn a_resumed_run_names_both_commands_in_its_report() {
    let here = Box::default();
    assert_eq!(here.sweep(&["-o", "out", "-i", "scalar"]).code, Some(0));
    assert_eq!(here.sweep(&["-o", "out", "-i", "scalar,simd", "--resume"]).code, Some(0));
    let report = std::fs::read_to_string(here.path("out/report.md")).unwrap();
    let commands: Vec<&str> = report.lines().filter(|line| line.contains(" run lattice-encode ")).collect();
    assert_eq!(commands.len(), 2, "{report}");
    assert!(commands[1].ends_with("--resume"), "{commands:?}");
}

#[test]
fn a_run_embeds_the_last_self_check_of_the_machine() {
    let here = Box::default();
    let without = here.sweep(&["-o", "without", "-i", "scalar"]);
    assert!(without.stdout.contains("no self-check on the machine of this run"), "{}", without.stdout);
    // As `selfcheck` keeps it: under the machine's fingerprint and the program's version.
    let model: serde_json::Value =
        serde_json::from_str(&here.ok(&["report", "without", "--format", "json"]).stdout).unwrap();
    let machine = model["runs"][0]["machine"].as_str().unwrap();
    let row = |candidate: &str, percent: i64, decisions: u64, slower: u64| {
        serde_json::json!({"workload": "w", "candidate": candidate, "found_by": {}, "percent": percent, "passes": 1, "decisions": decisions, "slower": slower, "faster": 0,
            "same": 0, "undecided": 0, "withheld": 0, "failed": 0, "covered": 0, "bias": 0.0, "seconds": [0.1, 0.2], "blocks": [8.0, 8.0]})
    };
    let certificate = serde_json::json!({"ellwand": "0.1.0", "machine": machine, "started_unix_ms": 1_000_000_000_000_u64,
        "load": [2.5, 3.5], "slot_cost_ns": null, "rope": 0.01, "alpha": 0.01, "rows": [row("plain", 0, 40, 1), row("slowed", 2, 12, 11)]});
    let folder = here.path("cache/ellwand");
    std::fs::create_dir_all(&folder).unwrap();
    let name = format!("selfcheck-{machine}-{}.json", env!("CARGO_PKG_VERSION"));
    std::fs::write(folder.join(&name), certificate.to_string()).unwrap();
    let with = here.sweep(&["-o", "with", "-i", "scalar"]);
    let line =
        "self-check of this machine: 1 false positives in 40 decisions (at most 11.3 %), detected +2 % in 11 of 12";
    let table = with.stdout.replace("\n  ", " ");
    assert!(table.contains(line) && table.contains("at load 2.50 to 3.50") && table.contains("old:"), "{table}");
    let report = std::fs::read_to_string(here.path("with/report.md")).unwrap();
    assert!(report.contains("1 false positives in 40 decisions"), "{report}");
    // The report is a function of the record: it needs no cache.
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(here.ok(&["report", "with"]).stdout.contains("1 false positives in 40 decisions"));
    // Damage is no certificate.
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), "{").unwrap();
    assert!(here.sweep(&["-o", "damaged", "-i", "scalar"]).stdout.contains("no self-check"));
}

#[test]
fn list_breaks_its_lines_where_the_terminal_ends() {
    let here = Box::default();
    let list = |width: Option<&str>| {
        let mut command = here.command(&["list"]);
        width.map(|width| command.env("COLUMNS", width));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let (free, narrow) = (list(None), list(Some("72")));
    assert!(free.lines().any(|line| line.chars().count() > 72));
    for line in narrow.lines() {
        // A word that is longer than the line stands alone.
        assert!(line.chars().count() <= 72 || line.split_whitespace().count() <= 2, "{line}");
    }
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert_eq!(words(&free), words(&narrow));
}
