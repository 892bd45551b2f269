//! The decoder as a tool: arrays of an .npz in, arrays out, against numbers that NumPy made.
#![allow(clippy::unwrap_used)]

mod common;

use common::Box;
use ellwand::arrays::read;
use ellwand::internals::core::DeviceKind;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/kde/golden.npz");

#[test]
fn golden_arrays_are_decoded_by_every_implementation() {
    let (here, registry) = (Box::default(), ellwand_cli::registry());
    let golden = read(&[GOLDEN.to_string()]).unwrap();
    let mut compared = 0;
    for (workload, outputs) in [
        ("kde-fit", &["occupancy", "ground_process_intensity", "mean_rates"][..]),
        ("kde-predict", &["log_likelihood"]),
        ("kde-predict-local", &["local_log_likelihood"]),
    ] {
        let rows = registry.implementations(workload).into_iter().filter(|row| row.needs == DeviceKind::Cpu);
        for (implementation, precision) in rows.flat_map(|row| [(row.name.as_str(), "f32"), (&row.name, "f64")]) {
            let out = format!("{workload}-{implementation}-{precision}");
            let how = ["-i", implementation, "--precision", precision, "--verify"];
            let ran = here.run(&[&["apply", workload, "--input", GOLDEN, "-o", &out][..], &how].concat());
            if precision == "f64" && ran.stderr.contains("precision=f32") {
                continue;
            }
            assert_eq!(ran.code, Some(0), "{out}\n{}", ran.stderr);
            for name in outputs {
                let file = here.path(&out).join(format!("{name}.npy"));
                let got = read(&[format!("{name}={}", file.display())]).unwrap();
                let (got, want) = (got.get(name).unwrap(), golden.get(&format!("expected_{name}")).unwrap());
                assert_eq!(got.shape(), want.shape(), "{out} {name}");
                let (absolute, relative) = match (implementation, workload) {
                    _ if precision == "f64" => (1e-11, 1e-11),
                    ("reference", _) => (1e-11, 1e-11),
                    (_, "kde-fit") => (0.0, 2e-6),
                    _ => (1e-4, 1e-6),
                };
                for (i, (got, want)) in got.data().to_f64().iter().zip(want.data().to_f64()).enumerate() {
                    assert!(
                        (got - want).abs() <= absolute + relative * want.abs(),
                        "{out} {name}[{i}]: {got}, NumPy {want}"
                    );
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 5 * 40 * 74, "{compared}");
}

#[test]
fn bad_arrays_and_knobs_are_refused_by_name() {
    let here = Box::default();
    let apply = |more: &[&'static str]| [&["apply", "kde-predict", "-o", "out"], more].concat();
    here.refused(&apply(&["--input", "grid=grid.npy"]), &["grid.npy"]);
    here.write("grid.npy", &common::npy_f32("(2, 2)", &[0.0, 1.0, f32::NAN, 3.0]));
    here.refused(&apply(&["--input", "grid=grid.npy"]), &["position", "missing"]);
    here.refused(&apply(&["--input", GOLDEN, "--memory", "0.001"]), &["--memory", "do not hold one tile", "hint"]);
    here.refused(&apply(&["--input", GOLDEN, "--block", "2.5"]), &["--block", "whole number"]);
    here.refused(&apply(&["--input", GOLDEN, "--bins", "12"]), &["--bins 12", "the arrays say 74"]);
    here.refused(&apply(&["--input", GOLDEN, "-i", "smid"]), &["did you mean simd"]);
}
