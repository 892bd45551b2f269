//! `apply`: several implementations, code files, and what it says of values that the arrays leave open.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Box, npy_f32};

fn wave(count: usize, by: f32) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * by).sin()).collect()
}

#[test]
fn several_implementations_are_compared_and_the_first_is_written() {
    let here = Box::default();
    here.write("x.npy", &npy_f32("(3, 40)", &wave(120, 0.37)));
    let ran =
        here.ok(&["apply", "layer-norm", "--input", "x=x.npy", "-i", "simd,scalar,reference", "-o", "out", "--verify"]);
    let line =
        |start: &str| ran.stdout.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{ran:?}"));
    assert!(line("scalar against simd: y ").contains("differs by at most"), "{ran:?}");
    assert!(line("reference against simd: y ").contains("differs by at most"), "{ran:?}");
    let about: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(here.path("out/apply.json")).unwrap()).unwrap();
    assert_eq!(about["implementation"], "simd");
    assert_eq!(about["compared"][0]["implementation"], "scalar");
    let most = about["compared"][0]["arrays"]["y"]["largest_difference"].as_f64().unwrap();
    assert!(most > 0.0 && most < 1e-5, "{most}");
    let both = ["apply", "lattice-encode", "--input", "x=x.npy", "-i", "scalar,simd", "-o", "codes"];
    assert!(here.ok(&both).stdout.contains("simd against scalar: codes identical"));
    here.refused(
        &["apply", "gelu", "--input", "x=x.npy", "-i", "simd,simd", "-o", "twice"],
        &["'simd' is named twice"],
    );
    here.refused(&["apply", "gelu", "--input", "x=x.npy", "-i", "simd,sclar", "-o", "no"], &["did you mean scalar"]);
}

#[test]
fn a_code_file_takes_the_bits_of_the_rate_and_is_decoded() {
    let here = Box::default();
    here.write("x.npy", &npy_f32("(2000, 8)", &wave(16_000, 0.731)));
    let ran = here.ok(&["apply", "lattice-encode", "--input", "x=x.npy", "-o", "codes", "--verify"]);
    let reading = |name: &str| -> f64 {
        let line = ran.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{ran:?}"));
        line[name.len()..].split_whitespace().next().unwrap().trim_end_matches('x').parse().unwrap()
    };
    let (rate, stored, packed) = (reading("rate "), reading("stored "), reading("packed "));
    assert!((stored - rate).abs() < 0.03 * rate && packed > stored + 0.5, "{ran:?}");
    assert!((4.0..8.5).contains(&reading("compression ")), "{ran:?}");
    // As the file says: 128 bytes hold the header of the array file.
    let bytes = std::fs::metadata(here.path("codes/codes.npy")).unwrap().len();
    assert!((bytes as f64 * 8.0 / 16_000.0) < stored + 0.2, "{bytes} bytes, {stored} bits a value");
    here.ok(&["apply", "lattice-decode", "--input", "codes=codes/codes.npy", "-o", "back", "--verify"]);
    let back = ellwand::arrays::read(&[format!("x={}", here.path("back/x.npy").display())]).unwrap();
    assert_eq!(back.get("x").unwrap().shape(), &[2000, 8]);
    let worst = wave(16_000, 0.731).iter().zip(back.f32("x").unwrap()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1.0, "{worst}");
}

#[test]
fn axes_that_the_arrays_do_not_determine_are_reported() {
    let here = Box::default();
    for (name, shape, count) in [
        ("x", "(1, 5, 16)", 80),
        ("w_qkv", "(32, 16)", 512),
        ("b_qkv", "(32,)", 32),
        ("w_out", "(16, 16)", 256),
        ("b_out", "(16,)", 16),
    ] {
        here.write(&format!("{name}.npy"), &npy_f32(shape, &wave(count, 0.21)));
    }
    let inputs = ["x", "w_qkv", "b_qkv", "w_out", "b_out"].map(|name| format!("{name}={name}.npy"));
    let bind: Vec<&str> = inputs.iter().flat_map(|input| ["--input", input]).collect();
    let ran = here.ok(&[&["apply", "attention"][..], &bind, &["-o", "out", "--verify"]].concat());
    assert!(ran.stderr.contains("computed with --heads 8, the default: the arrays do not determine it"), "{ran:?}");
    let about = std::fs::read_to_string(here.path("out/apply.json")).unwrap();
    assert!(about.contains("\"kv-heads\": 4"), "half as many heads of keys as of queries: {about}");
    let given = here.ok(&[&["apply", "attention"][..], &bind, &["--heads", "4", "-o", "four"]].concat());
    assert!(!given.stderr.contains("do not determine it"), "{given:?}");
    // 6 heads do not divide 16; a hint names each of what would fit once.
    here.refused(&[&["apply", "attention"][..], &bind, &["--heads", "6", "-o", "six"]].concat(), &["choose 4 or 8"]);
    here.refused(&["run", "attention", "--dimension", "6", "--heads", "8"], &["choose 6"]);
}

#[test]
fn arrays_give_run_the_case_too() {
    let here = Box::default();
    here.write("x.npy", &npy_f32("(4, 5, 16)", &wave(320, 0.21)));
    let given = ["--input", "x=x.npy", "-i", "scalar"];
    let quick = ["--effort", "quick", "--no-ceilings", "--no-plot", "-o", "out"];
    let ran = here.ok(&[&["run", "gelu", "--form", "exact"][..], &given, &quick].concat());
    assert!(ran.stdout.contains("batch 4") && ran.stdout.contains("dimension 16"), "{ran:?}");
    // A flag that says something else stays an error.
    here.refused(&[&["run", "gelu", "--dimension", "32"][..], &given].concat(), &["dimension 16", "32"]);
}

#[test]
fn list_has_the_arrays_of_axes_that_came_later_and_hints_name_the_python_package() {
    let here = Box::default();
    let listed = here.ok(&["list", "cross-entropy-loss"]).stdout;
    let words = listed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("target: float32 as x, only with --targets probabilities"), "{listed}");
    here.refused(&["run", "layer-norm", "-i", "simd,torch"], &["'torch' is unknown", "python -m ellwand run"]);
}
