//! A slice of a real model's weights through `apply`: each vector comes back within the covering radius of its lattice.
//! The weights are fetched by `cargo xtask weights`; without them the test says that it did not run.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::path::Path;

use common::{Box, npy_f32};

const ROWS: usize = 64;
const COLUMNS: usize = 384;

/// The first rows of the word embeddings; `None` where the weights are not at hand.
fn slice() -> Option<Vec<f32>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/weights/model.safetensors");
    if !path.exists() {
        eprintln!("skipped: {} is not there; `cargo xtask weights` fetches it", path.display());
        return None;
    }
    let arrays = ellwand::arrays::read(&[format!("x={}:embeddings.word_embeddings.weight", path.display())]).unwrap();
    let x = arrays.get("x").unwrap();
    assert_eq!(x.shape(), &[30522, COLUMNS]);
    Some(x.f32().unwrap()[..ROWS * COLUMNS].to_vec())
}

#[test]
fn real_weights_come_back_within_the_covering_radius() {
    let Some(values) = slice() else { return };
    let here = Box::default();
    here.write("x.npy", &npy_f32(&format!("({ROWS}, {COLUMNS})"), &values));
    for (lattice, d) in [("Z2", 2), ("D4", 4), ("E8", 8)] {
        let flags =
            ["--lattice", lattice, "--q", "4", "--overload", "retry", "--centred", "on", "--verify", "--overwrite"];
        here.ok(
            &[&["apply", "lattice-encode", "--input", "x=x.npy", "-o", "codes", "--beta", "auto"], &flags[..]].concat()
        );
        let about: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(here.path("codes/apply.json")).unwrap()).unwrap();
        let beta = about["readings"].as_array().unwrap().iter().find(|r| r["id"] == "beta").unwrap()["value"]
            .as_f64()
            .unwrap();
        let decode = [
            "apply",
            "lattice-decode",
            "--input",
            "packed=codes/packed.npy",
            "--input",
            "retries=codes/retries.npy",
            "-o",
            "back",
        ];
        here.ok(&[&decode[..], &["--beta", &beta.to_string()], &flags[..]].concat());
        let back = ellwand::arrays::read(&[format!("x={}", here.path("back/x.npy").display())]).unwrap();
        let codes = ellwand::arrays::read(
            &["overload", "retries"]
                .map(|name| format!("{name}={}", here.path(&format!("codes/{name}.npy")).display())),
        )
        .unwrap();
        let (decoded, overload, retries) =
            (back.f32("x").unwrap(), codes.u8("overload").unwrap(), codes.u8("retries").unwrap());
        assert_eq!(decoded.len(), values.len());
        assert!(overload.iter().all(|flag| *flag == 0), "{lattice}: every vector fits after retries");
        // Covering radii of spec table 3.1: Z2 sqrt(1/2), D4 1, E8 1, times the scale that the vector ended with.
        let radius = if lattice == "Z2" { 0.5_f64.sqrt() } else { 1.0 };
        for (index, (x, y)) in values.chunks(d).zip(decoded.chunks(d)).enumerate() {
            let error: f64 = x.iter().zip(y).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum::<f64>().sqrt();
            let bound = radius * beta * 2_f64.powf(f64::from(retries[index]) / 3.0);
            assert!(error <= bound * (1.0 + 1e-5), "{lattice} vector {index}: {error} > {bound}");
        }
    }
}
