//! Nothing of the user's is replaced or removed by `apply`, and no file that it is given hangs it.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

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
fn headers_that_would_hang_exhaust_or_draw_are_refused() {
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
        let told = here.run(&GELU);
        assert_eq!(told.code, Some(2), "{}", told.stderr);
        assert!(told.stderr.contains(part) && !told.stderr.contains('\u{1b}'), "{:?}", told.stderr);
        assert!(told.stderr.len() < 10_000 && !told.stderr.contains("panicked"), "{}", told.stderr.len());
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
