//! Everything a user can get wrong: a clear message that names the argument, exit code 2 (or 1 for the system), no panic,
//! nothing left behind that looks whole.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Read;
use std::process::Stdio;

use common::{Box, QUICK, npy, npy_f32, ran};

#[test]
fn axes_out_of_range() {
    let here = Box::default();
    let run = |more: &[&'static str]| [&["run", "lattice-encode", "-o", "out"], more].concat();
    for (flags, parts) in [
        (&["--q", "0"][..], &["--q", "too small", "2 to 256"][..]),
        (&["--q", "1"], &["--q", "2 to 256"]),
        (&["--q", "257"], &["--q", "too large", "2 to 256"]),
        (&["--q", "four"], &["--q", "not an integer"]),
        (&["--q", "256", "--levels", "3"], &["--levels", "2^20"]),
        (&["--levels", "0"], &["--levels", "too small"]),
        (&["--M", "0"], &["--levels", "too small"]),
        (&["--lattice", "D5"], &["--lattice", "did you mean D4?"]),
        (&["--batch", "0"], &["--batch", "too small"]),
        (&["--batch", "-3"], &["--batch"]),
        (&["--batch", "4000000000"], &["are free", "smaller"]),
        (&["--beta", "0"], &["--beta", "above 0"]),
        (&["--beta", "nan"], &["--beta"]),
        (&["--beta", "1e-320"], &["--beta: 1e-320 is out of range"]),
        (&["--time", "-3s"], &["'-3s'", "expected a time from 100ms to 24h"]),
        (&["--centred", "maybe"], &["--centred", "on or off"]),
        (&["--overload", "ignore"], &["--overload", "none, flag, retry"]),
        (&["--size", "gigantic"], &["--size", "tiny"]),
        (&["--implementation", "smid"], &["--implementation", "did you mean simd?"]),
        (&["--baseline", "scaler"], &["--baseline", "did you mean scalar?"]),
        (&["--device", "abacus"], &["--device", "cpu"]),
        (&["--bytes", "8"], &["--bytes", "no such axis"]),
        (&["--seed", "-1"], &["--seed"]),
    ] {
        here.refused(&run(flags), parts);
    }
    assert!(!here.path("out").exists(), "nothing was begun");
    here.refused(&["run", "latice"], &["did you mean lattice?"]);
    here.refused(&["run", "simdd"], &["It is an implementation; name its workload too: lattice-encode:simd\n"]);
    here.refused(&["list", "simd"], &["'simd' is an implementation; name its workload: lattice-encode\n"]);
    here.refused(&["run", "lattice", "--latice", "D4"], &["--latice"]);
    here.refused(&["run"], &["WORKLOAD"]);
    here.refused(&["chekc"], &["check"]);
    here.refused(&["report", "nowhere.jsonl"], &["nowhere.jsonl", "record"]);
    here.refused(&["report", "-"], &["stdin has the name /dev/stdin"]);
    here.write("empty.jsonl", b"");
    here.refused(
        &["report", "empty.jsonl"],
        &["empty.jsonl: the record is empty; expected a record as written by `run`"],
    );
    here.refused(&["run", "triad", "--device", "wgpu"], &["--device", "no selected implementation runs on wgpu"]);
    here.refused(&["check", "gelu", "--batch", "1,,2"], &["--batch", "a value is missing in '1,,2'"]);
    here.refused(&["run", "null", "--blocks", "-1"], &["--blocks", "invalid value '-1'"]);
    here.refused(&["run", "null", "--format", "junit", "-o", "x.xml"], &["-o", "x.xml", "writes to stdout"]);
    here.refused(&["run", "null", "--batch", "5"], &["--batch", "no axis"]);
    here.refused(&["run", "null", "copy", "--time-limit", "3", "--spans"], &["--time-limit", "--spans"]);
}

#[test]
fn invalid_sides_of_a_comparison() {
    let here = Box::default();
    for (sides, parts) in [
        (&["gelu:simd", "swish:simd"][..], &["CANDIDATE", "different tasks"][..]),
        (&["null:simd", "wake:team"], &["an implementation of null, such as null:"]),
        (&["gleu:simd", "gelu:simd"], &["BASE", "no workload 'gleu'", "did you mean gelu?"]),
        (&["gelu:simd", "a:b"], &["CANDIDATE", "no workload 'a'"]),
        (&["gelu:simd", "gelu:scalar", "--device", "gpu"], &["--device", "'gpu' is unknown", "cuda:0"]),
        (&["--command", "true", "true", "--device", "cuda"], &["--device", "have no cases"]),
    ] {
        here.refused(&[&["compare"], sides].concat(), parts);
    }
    // Where verdicts are read by a machine, the error is there, too.
    let ran = here.run(&["compare", "gelu:simd", "gelu:scalar", "-o", "x.xml", "--format", "junit"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("x.xml looks like a file"), "{}", ran.stderr);
    assert!(ran.stdout.contains("errors=\"1\"") && ran.stdout.contains("x.xml looks like a file"), "{}", ran.stdout);
    here.write("x.npy", &npy_f32("(4,)", &[1.0; 4]));
    let apply = ["apply", "gelu", "-i", "simd", "--input", "x=x.npy", "-o", "y", "--device", "cuda"];
    here.refused(&apply, &["--device", "simd runs only on cpu"]);
}

#[test]
fn an_axis_that_some_workloads_do_not_have_is_named_with_these() {
    let here = Box::default();
    let ran = here.ok(&["check", "gelu", "bias-gelu", "--size", "tiny", "-i", "simd", "--precision", "bf16"]);
    assert!(ran.stderr.contains("note: bias-gelu has no axis --precision"), "{}", ran.stderr);
    assert!(
        !ran.stderr.contains("note: gelu") && ran.stdout.contains(" 0 wrong, 0 failed"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn arrays_that_cannot_be_encoded() {
    let here = Box::default();
    let encode = |here: &Box, parts: &[&str]| {
        here.refused(&["apply", "lattice-encode", "--input", "x=x.npy", "-o", "codes"], parts);
        assert!(!here.path("codes").exists(), "nothing was begun");
    };
    here.write("x.npy", &npy_f32("(4,)", &[1.0, f32::NAN, 0.0, 0.0]));
    encode(&here, &["x", "NaN", "finite"]);
    here.write("x.npy", &npy_f32("(4,)", &[1.0, f32::INFINITY, 0.0, 0.0]));
    encode(&here, &["x", "inf", "finite"]);
    here.write("x.npy", &npy("<f2", false, "(4,)", &[0; 8]));
    encode(&here, &["float16", "float32"]);
    here.write("x.npy", &npy("<i4", false, "(4,)", &[0; 16]));
    encode(&here, &["x", "int32", "float32"]);
    here.write("x.npy", &npy_f32("()", &[1.0]));
    encode(&here, &["x", "shape"]);
    here.write("x.npy", &npy_f32("(0, 4)", &[]));
    encode(&here, &["x", "shape"]);
    let whole = npy_f32("(4,)", &[1.0, 2.0, 3.0, 4.0]);
    here.write("x.npy", &whole[..whole.len() - 2]);
    encode(&here, &["truncated"]);
    here.write("x.npy", b"no array at all");
    encode(&here, &["x.npy", "header"]);
    here.write("x.npy", &whole);
    here.refused(&["apply", "lattice-encode", "--input", "y=x.npy", "-o", "codes"], &["no array 'y'", "expected x"]);
    here.refused(&["apply", "lattice-encode", "--input", "x=none.npy", "-o", "codes"], &["none.npy", "No such file"]);
    here.refused(&["apply", "lattice-encode", "--input", "x=x.npy", "-o", "codes", "--q", "2,4"], &["--q", "sweep"]);
    here.refused(&["apply", "lattice", "--input", "x=x.npy", "-o", "codes"], &["several workloads"]);
    here.refused(
        &["apply", "lattice-encode", "--input", "x=x.npy", "-o", "codes", "-i", "cudda"],
        &["--implementation", "'cudda' is unknown"],
    );
    // Big-endian and Fortran order are only another way of writing the same numbers.
    let big: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_be_bytes()).collect();
    here.write("x.npy", &npy(">f4", true, "(2, 2)", &big));
    here.ok(&["apply", "lattice-encode", "--input", "x=x.npy", "-o", "codes"]);
}

#[test]
fn codes_that_cannot_be_decoded() {
    let here = Box::default();
    let decode = |parts: &[&str], more: &[&str]| {
        let usual = [["--beta", "1"], ["--overload", "flag"]];
        let usual = usual.iter().filter(|flag| !more.contains(&flag[0])).flatten().copied().collect::<Vec<_>>();
        here.refused(&[&["apply", "lattice-decode", "-o", "back"][..], &usual, more].concat(), parts);
        assert!(!here.path("back").exists());
    };
    here.write("digits.npy", &npy("|u1", false, "(1, 2, 4)", &[0, 1, 2, 3, 4, 0, 0, 0]));
    decode(&["digit", "4"], &["--input", "digits=digits.npy"]);
    here.write("digits.npy", &npy("|u1", false, "(1, 3, 4)", &[0; 12]));
    decode(&["digits", "[1, 3, 4]", "[N, 2, 4]"], &["--input", "digits=digits.npy"]);
    here.write("packed.npy", &npy("|u1", false, "(3,)", &[0; 3]));
    decode(&["packed", "not a whole number of vectors"], &["--input", "packed=packed.npy"]);
    here.write("packed.npy", &npy("|u1", false, "(4,)", &[0; 4]));
    decode(&["--beta", "auto"], &["--input", "packed=packed.npy", "--beta", "auto"]);
    decode(&["retries"], &["--input", "packed=packed.npy", "--overload", "retry"]);
}

#[test]
fn directories_that_cannot_be_written() {
    let here = Box::default();
    here.write("file", b"in the way");
    here.refused(&[&QUICK[..], &["-o", "file/out"]].concat(), &["-o", "file/out", "cannot be written"]);
    here.refused(&[&QUICK[..], &["-o", "/proc/ellwand"]].concat(), &["-o", "/proc/ellwand"]);
    here.sweep(&["-o", "record"]);
    for command in [&["view", "record"][..], &["report", "record", "--format", "html"], &["sweep", "plan", "gelu"]] {
        here.refused(&[command, &["-o", "file/a.html"]].concat(), &["-o: file cannot be written"]);
    }
    here.refused(&["history", "add", "record", "--store", "file/h"], &["store", "file/h cannot be written"]);
}

#[test]
fn a_full_disk_ends_the_run_with_its_name() {
    let here = Box::default();
    std::fs::create_dir(here.path("out")).unwrap();
    // A record that lies on a device without room (full(4)).
    std::os::unix::fs::symlink("/dev/full", here.path("out/record.jsonl")).unwrap();
    let ran = here.sweep(&["-o", "out", "--resume"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("record.jsonl") && ran.stderr.contains("No space left"), "{}", ran.stderr);
    assert!(ran.stderr.contains("make room") && ran.stderr.contains("no record was begun"), "{}", ran.stderr);
    assert!(!here.path("out/report.md").exists());
    // A report that cannot be written: the record is there.
    here.sweep(&["-o", "half"]);
    std::fs::remove_file(here.path("half/run.json")).unwrap();
    std::fs::create_dir_all(here.path("half/run.json/in the way")).unwrap();
    let ran = here.sweep(&["-o", "half", "--resume"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("record.jsonl holds the measurements"), "{}", ran.stderr);
    // Room for a part of the first line only: what nobody could read is not kept.
    let ellwand = env!("CARGO_BIN_EXE_ellwand");
    let script = format!("ulimit -f 1; exec {ellwand} {} -o small", QUICK.join(" "));
    let command = here.command(&[]);
    let shell = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(here.dir.path())
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&shell.stderr);
    assert_eq!(shell.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("small/record.jsonl") && stderr.contains("no record was begun"), "{stderr}");
    assert!(stderr.contains("File too large") && stderr.contains("ulimit -f"), "{stderr}");
    assert!(!here.path("small/record.jsonl").exists());
}

/// A file of arrays of f32, written by hand: a header in JSON after its length, then the values.
fn safetensors(arrays: &[(&str, &[f32])]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, values) in arrays {
        let begin = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let about = serde_json::json!({ "dtype": "F32", "shape": [values.len()], "data_offsets": [begin, data.len()] });
        header.insert((*name).to_string(), about);
    }
    let header = serde_json::Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

#[test]
fn unknown_arrays_are_refused_if_named_and_noted_if_in_a_file() {
    let here = Box::default();
    let (x, gamma) = ([1.0, 2.0, 3.0, 5.0], [2.0, 2.0, 2.0, 2.0]);
    here.write("x.npy", &npy_f32("(4,)", &x));
    here.write("g.npy", &npy_f32("(4,)", &gamma));
    let norm = ["apply", "layer-norm", "-o", "out", "--input", "x=x.npy", "--input"];
    let wrong = ["--input gama=g.npy", "layer-norm takes no array 'gama'", "x, gamma, beta", "did you mean gamma?"];
    here.refused(&[&norm[..], &["gama=g.npy"]].concat(), &wrong);
    here.refused(&["run", "layer-norm", "--input", "x=x.npy", "--input", "gama=g.npy"], &wrong);
    let core = ["apply", "attention-core", "-o", "out", "--mask", "causal", "--input", "lengths=x.npy"];
    here.refused(&core, &["no array 'lengths'", "q, k, v", "--mask padding takes it"]);
    here.refused(
        &["apply", "residual-layer-norm", "-o", "out", "--input", "gamma=g.npy"],
        &["x, residual missing", "given: gamma", "residual: float32 as x"],
    );
    assert!(!here.path("out").exists(), "nothing was begun");

    here.ok(&[&norm[..], &["gamma=g.npy"]].concat());
    let scaled = std::fs::read(here.path("out/y.npy")).unwrap();
    here.write("whole.safetensors", &safetensors(&[("x", &x), ("gama", &gamma), ("other", &gamma)]));
    let file = ["apply", "layer-norm", "-o", "out", "--overwrite", "--input"];
    let ran = here.ok(&[&file[..], &["whole.safetensors"]].concat());
    let note = "layer-norm does not take: gama (did you mean gamma?), other";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    assert_ne!(std::fs::read(here.path("out/y.npy")).unwrap(), scaled, "without gamma it is another result");
    here.refused(&[&file[..], &["whole.safetensors:gama"]].concat(), &["no array 'gama'"]);
    here.ok(&[&file[..], &["x=whole.safetensors:x", "--input", "gamma=whole.safetensors:gama"]].concat());
    assert_eq!(std::fs::read(here.path("out/y.npy")).unwrap(), scaled);
}

#[test]
fn records_that_are_damaged() {
    let here = Box::default();
    assert_eq!(here.sweep(&["-o", "out"]).code, Some(0));
    let whole = std::fs::read_to_string(here.path("out/record.jsonl")).unwrap();
    here.write("cut.jsonl", &whole.as_bytes()[..whole.len() - 100]);
    let ran = here.ok(&["report", "cut.jsonl"]);
    assert!(ran.stderr.contains("cut off"), "{}", ran.stderr);
    here.write("newer.jsonl", whole.replacen("\"version\":1", "\"version\":2", 1).as_bytes());
    here.refused(&["report", "newer.jsonl"], &["newer.jsonl", "version 2", "newer Ellwand"]);
    here.write("damaged.jsonl", whole.replacen("\"samples\"", "\"sample", 1).as_bytes());
    here.refused(&["report", "damaged.jsonl"], &["damaged.jsonl", "line 2"]);
    let flipped = whole.replacen("\"seed\":42", "\"seed\":43", 1);
    assert_ne!(flipped, whole);
    here.write("flipped.jsonl", flipped.as_bytes());
    let differs = ["flipped.jsonl", "line 1", "differs from its checksum", "restore it from a copy"];
    here.refused(&["report", "flipped.jsonl"], &differs);
    here.write("old.jsonl", include_bytes!("../../testdata/records/v1.jsonl"));
    let old = here.ok(&["report", "old.jsonl"]);
    assert!(old.stderr.contains("old.jsonl: this old record has no checksums"), "{}", old.stderr);
    assert!(!here.ok(&["report", "out"]).stderr.contains("checksums"));
    here.write("empty.jsonl", b"");
    here.refused(&["report", "empty.jsonl"], &["empty"]);
    here.refused(&["report", "out", "--baseline", "simt"], &["--baseline", "did you mean simd?"]);
}

#[test]
fn a_closed_stdout_is_no_error() {
    let here = Box::default();
    for args in [&["list"][..], &["run", "--help"], &[&QUICK[..], &["-o", "out"]].concat()] {
        let mut child = here.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = child.wait().unwrap();
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
        assert_eq!(status.code(), Some(0), "{args:?}: {stderr}");
    }
    assert!(here.path("out/report.md").exists(), "the files are written although nobody read the table");
    // Nor does it turn a broken budget into success.
    here.write("slow.toml", b"[[budget]]\nworkload = \"lattice-encode\"\ntime = \"1 ns\"\n");
    let line = [&QUICK[..], &["--config", "slow.toml", "-o", "over"]].concat();
    let mut child = here.command(&line).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn a_closed_or_full_stderr_is_no_error() {
    let here = Box::default();
    let mut closed = here.command(&[&QUICK[..], &["-i", "scalar", "-o", "closed"]].concat());
    let mut child = closed.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = here.command(&[&QUICK[..], &["-i", "scalar", "-o", "full"]].concat());
    assert_eq!(command.stderr(full()).output().unwrap().status.code(), Some(0));
    // An error keeps its code although its message cannot be printed.
    assert_eq!(here.command(&["list", "latice"]).stderr(full()).output().unwrap().status.code(), Some(2));
    assert!(here.path("closed/report.md").exists() && here.path("full/report.md").exists());
}

#[test]
fn a_full_stdout_is_named() {
    let here = Box::default();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = ran(here.command(&["list"]).stdout(full).output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("error: stdout cannot be written: No space left"), "{}", ran.stderr);
}

#[test]
fn memory_is_refused_by_implementation_with_the_axes_that_help() {
    let here = Box::default();
    let shape = ["--batch", "1", "--sequence", "1048576", "--dimension", "64", "--heads", "8", "--no-ceilings"];
    // 32 TiB of scores; `memory_is_counted_by_implementation` shows that the fused form is not charged for them.
    let refused = ["needs about", "naive alone", "are free", "--sequence", "--implementation"];
    here.refused(&[&["run", "attention-core", "-i", "naive,fused"], &shape[..]].concat(), &refused);
    let matmul = ["run", "matmul", "-i", "simd", "--m", "1048576", "--n", "1048576", "--k", "1048576"];
    let ran = here.run(&matmul);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("make --m or --n or --k smaller"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("fewer") && !ran.stderr.contains("batch"), "{}", ran.stderr);
}

#[test]
fn flags_that_contradict_the_arrays() {
    let here = Box::default();
    here.write("x.npy", &npy_f32("(7, 2)", &[0.5; 14]));
    let encode = ["apply", "lattice-encode", "--input", "x=x.npy", "--lattice", "Z2", "--q", "2", "--levels", "1"];
    here.refused(&[&encode[..], &["-o", "codes", "--batch", "5"]].concat(), &["--batch 5", "the arrays say 7"]);
    here.refused(&[&encode[..], &["-o", "codes", "--data", "seed"]].concat(), &["--data seed", "given"]);
    here.refused(&[&encode[..], &["-o", ""]].concat(), &["-o", "empty"]);
    here.ok(&[&encode[..], &["-o", "codes"]].concat());
    here.refused(&[&encode[..], &["-o", "codes"]].concat(), &["holds the arrays of another call", "--overwrite"]);
    here.ok(&[&encode[..], &["-o", "codes", "--overwrite", "--overload", "none"]].concat());
    assert!(!here.path("codes/overload.npy").exists(), "no array of the call before is left");

    // Seven vectors of two bits fill 14 bits of two bytes: eight would fit as well.
    let packed = [
        "apply",
        "lattice-decode",
        "-o",
        "back",
        "--beta",
        "1",
        "--overload",
        "none",
        "--lattice",
        "Z2",
        "--q",
        "2",
        "--levels",
        "1",
        "--input",
        "packed=codes/packed.npy",
    ];
    here.refused(&packed, &["packed", "5 to 8 vectors", "codes.npy"]);
    let file = ["apply", "lattice-decode", "-o", "back", "--input", "codes=codes/codes.npy"];
    here.refused(&[&file[..], &["--q", "5"]].concat(), &["--q 5", "the arrays say 2"]);
    here.ok(&file);
    let back = ellwand::arrays::read(&[format!("x={}", here.path("back/x.npy").display())]).unwrap();
    assert_eq!(back.get("x").unwrap().shape(), &[7, 2], "a code file gives the shape back");

    let mut damaged = std::fs::read(here.path("codes/codes.npy")).unwrap();
    let start = damaged.windows(4).position(|window| window == b"EWLQ").unwrap();
    for (at, byte, said) in [(start, b'X', "EWLQ"), (start + 4, 9, "version 9"), (start + 50, 7, "length")] {
        let kept = std::mem::replace(&mut damaged[at], byte);
        here.write("bad.npy", &damaged);
        here.refused(&["apply", "lattice-decode", "-o", "bad", "--input", "codes=bad.npy"], &["codes", said]);
        damaged[at] = kept;
    }
}

#[test]
fn own_arrays_are_named_as_such() {
    let here = Box::default();
    here.write("x.npy", &npy_f32("(50, 4)", &(0..200).map(|i| (i as f32 * 0.3).sin()).collect::<Vec<_>>()));
    let ran = here.run(&[
        "run",
        "lattice-encode",
        "-i",
        "scalar,simd",
        "--input",
        "x=x.npy",
        "--effort",
        "quick",
        "--no-ceilings",
        "--no-plot",
        "-o",
        "out",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("data given") && !ran.stdout.contains("matched"), "{}", ran.stdout);
    assert!(!ran.stderr.contains("skipped "), "the array is measured as a whole: {}", ran.stderr);
    let sized =
        here.ok(&["run", "lattice-encode", "-i", "simd", "--input", "x=x.npy", "--once", "--size", "tiny,small"]);
    let note = sized.stderr.lines().find(|line| line.starts_with("note: skipped lattice-encode/batch=10000,"));
    assert!(note.is_some_and(|note| note.contains(" and 2 more: it holds 50 vectors")), "{}", sized.stderr);
}

#[test]
fn one_untimed_run_keeps_nothing() {
    let here = Box::default();
    let once = ["run", "lattice-encode", "--batch", "1", "-i", "scalar", "--once"];
    here.refused(&[&once[..], &["-o", "out"]].concat(), &["--once", "--output"]);
    here.refused(&[&once[..], &["--format", "csv"]].concat(), &["--format", "csv is made from times", "table or json"]);
    let json = here.ok(&[&once[..], &["--format", "json"]].concat());
    let rows: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(rows[0]["outcome"], "right");
}

#[test]
fn layers_and_attention_that_leave_nothing_to_compute() {
    let here = Box::default();
    let most = ["--batch", "16777216", "--sequence", "16777216", "--dimension", "16777216"];
    for (flags, parts) in [
        (&["layer-norm", "--dimension", "0"][..], &["--dimension", "too small"][..]),
        (&["softmax", "--sequence", "0"], &["--sequence", "too small"]),
        (&["gelu", "--batch", "0"], &["--batch", "too small"]),
        (&["softmax", "--isa", "neon"], &["--isa", "'neon' is unknown", "avx2"]),
        (&["attention", "--sequence", "0"], &["--sequence", "too small"]),
        (&["attention", "--dimension", "0"], &["--dimension", "too small"]),
        (&["attention", "--heads", "0"], &["--heads", "too small"]),
        (&["attention", "--heads", "7"], &["7 heads do not divide the dimension 512", "choose 4 or 8"]),
        (&["attention", "--kv-heads", "3"], &["--kv-heads", "do not divide the 8 heads"]),
        (&["attention", "--mask", "window"], &["--mask", "none, causal, padding"]),
        // Estimated first, refused with the figure.
        (&["attention", "--sequence", "1048576", "-i", "naive"], &["are free", "smaller"]),
        (
            &["attention", "--batch", "1048576", "--sequence", "1048576", "--dimension", "1048576", "--heads", "1"],
            &["more than", "are free", "make --batch or --sequence or --dimension smaller"],
        ),
        (&["layer-norm", "--batch", "1048576", "--dimension", "1048576"], &["are free", "smaller"]),
        (&[&["layer-norm"][..], &most].concat(), &["--batch", "cannot be addressed"]),
    ] {
        here.refused(&[&["run"][..], flags, &["-o", "out"]].concat(), parts);
    }
    assert!(!here.path("out").exists(), "nothing was begun");
    for alone in [
        &["layer-norm", "softmax", "cross-entropy-loss", "--dimension", "1", "--sequence", "1", "--batch", "1"][..],
        &["attention", "--dimension", "1", "--sequence", "1", "--heads", "1"],
    ] {
        let ran = here.ok(&[&["run"][..], alone, &["--once", "--device", "cpu"]].concat());
        assert!(ran.stdout.contains("0 wrong, 0 failed"), "{}", ran.stdout);
    }
}

#[test]
fn labels_and_masks_that_do_not_fit() {
    let here = Box::default();
    let whole = |shape: &str, values: &[i64]| {
        npy("<i8", false, shape, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    };
    let entropy = |here: &Box, parts: &[&str]| {
        let inputs = ["--input", "x=x.npy", "--input", "labels=labels.npy"];
        here.refused(&[&["apply", "cross-entropy-loss", "-i", "simd", "-o", "loss"][..], &inputs].concat(), parts);
    };
    here.write("x.npy", &npy_f32("(2, 3)", &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    here.write("labels.npy", &whole("(2,)", &[0, 3]));
    entropy(&here, &["label 1 is 3", "a class from 0 to 2"]);
    here.write("labels.npy", &whole("(2,)", &[-1, 0]));
    entropy(&here, &["label 0 is -1", "ignore-index"]);
    here.write("labels.npy", &whole("(3,)", &[0, 0, 0]));
    entropy(&here, &["[3]", "[2]"]);

    here.write("q.npy", &npy_f32("(1, 1, 4, 2)", &[1.0; 8]));
    let attend = [
        ["apply", "attention-core", "-i", "fused", "-o", "seen", "--mask", "padding"],
        ["--input", "q=q.npy", "--input", "k=q.npy", "--input", "v=q.npy", "--input", "lengths=lengths.npy"],
    ]
    .concat();
    here.write("lengths.npy", &whole("(2,)", &[4, 4]));
    here.refused(&attend, &["the mask holds 2 lengths", "expected 1"]);
    here.write("lengths.npy", &whole("(1,)", &[5]));
    here.refused(&attend, &["length 0 is 5", "0 to 4"]);
    assert!(!here.path("seen").exists() && !here.path("loss").exists(), "nothing was begun");
    // A sequence of which no key is seen has a defined result.
    here.write("lengths.npy", &whole("(1,)", &[0]));
    here.ok(&attend);
    let context = ellwand::arrays::read(&[format!("y={}", here.path("seen/context.npy").display())]).unwrap();
    assert!(context.f32("y").unwrap().iter().all(|y| *y == 0.0));
}
