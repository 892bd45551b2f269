//! The kernels for GPUs against the reference, bit by bit, on everything that runs them here.

use ellwand_core::{Case, Fit, Prepared, Registry, Tensor, Tensors, Value};

use crate::device::test_devices;
use crate::testing::judged_on_wgpu;

/// Every combination of lattice, overload mode and centring; q a power of two and not, few levels and many.
const CODES: [(i64, i64); 9] = [(2, 1), (2, 20), (3, 12), (4, 2), (5, 3), (16, 2), (100, 3), (255, 2), (256, 2)];

fn judge(registry: &Registry, workload: &str, case: &Case, inputs: &Tensors) {
    let task = registry.find(workload).unwrap();
    task.check(case).unwrap();
    let expected = task.reference(case, inputs).unwrap();
    let rows = registry.implementations(workload);
    let rows: Vec<_> = rows.iter().filter(|row| row.name.starts_with("cuda")).collect();
    // The dot product alone has no row that carries its arrays over.
    assert_eq!(rows.len(), if workload == "lattice-dot" { 1 } else { 2 }, "{workload}");
    let devices = test_devices();
    for (row, (name, device)) in rows.iter().flat_map(|row| devices.iter().map(move |device| (row, device))) {
        let name = format!("{} on {name}", row.name);
        let mut ready = (row.prepare)(case, inputs, device).unwrap_or_else(|error| panic!("{case} on {name}: {error}"));
        ready.poison();
        ready.run();
        ready.sync().unwrap_or_else(|error| panic!("{case} on {name}: {error}"));
        let output = ready.output().unwrap_or_else(|error| panic!("{case} on {name}: {error}"));
        let verdict = task.judge(case, inputs, &expected, &output);
        assert!(verdict.passed, "{case} on {name}: {}", verdict.detail);
        assert_eq!(output.digest(), expected.digest(), "{case} on {name}: the same bits");
    }
}

/// The kernels in WGSL: codes and decoded values have the bits of the reference.
fn judge_wgpu(registry: &Registry, case: &Case, inputs: &Tensors) {
    judged_on_wgpu(registry, case, inputs, |expected, output| {
        assert_eq!(output.digest(), expected.digest(), "{case}: the same bits");
    });
}

fn case(workload: &str, params: &[(&str, Value)]) -> Case {
    Case::new(workload, params.iter().map(|(name, value)| (name.to_string(), value.clone())).collect())
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    crate::lattice::register(&mut registry);
    registry
}

/// Every kind of code.
fn each_kind(judge: impl Fn(&Registry, &str, &Case, &Tensors)) {
    let registry = registry();
    // Vectors of the last warp are missing, or all but one.
    let batches = [1, 31, 33, 129];
    let mut turn = 0;
    for lattice in ["Z2", "D4", "E8"] {
        for (q, levels) in CODES {
            for (overload, centred) in [("none", false), ("flag", true), ("retry", false)] {
                turn += 1;
                for workload in ["lattice-encode", "lattice-decode", "lattice-quantize"] {
                    let case = case(
                        workload,
                        &[
                            ("lattice", lattice.into()),
                            ("q", Value::Int(q)),
                            ("levels", Value::Int(levels)),
                            ("overload", overload.into()),
                            // Centring a large codebook takes long and is the same for all implementations.
                            ("centred", Value::Flag(centred && q.pow(levels as u32) < 100)),
                            ("batch", Value::Int(batches[turn % batches.len()])),
                        ],
                    );
                    let inputs = registry.find(workload).unwrap().inputs(&case, turn as u64).unwrap();
                    judge(&registry, workload, &case, &inputs);
                }
            }
        }
    }
}

#[test]
fn codes_and_values_are_those_of_the_reference_for_every_kind_of_code() {
    each_kind(judge);
}

#[test]
fn wgpu_codes_and_values_are_those_of_the_reference_for_every_kind_of_code() {
    each_kind(|registry, _, case, inputs| judge_wgpu(registry, case, inputs));
}

#[test]
fn ties_zeros_extremes_and_row_tails_code_like_the_reference() {
    let registry = registry();
    // Halves and quarters lie on the borders of cells; the rest is where scaling saturates, denormal or signed zero.
    let mut values: Vec<f32> = (-40..40).map(|k| k as f32 * 0.25).collect();
    values.extend([
        0.0,
        -0.0,
        1e-40,
        -1e-40,
        1e30,
        -1e30,
        4_194_303.8,
        -4_194_304.0,
        0.499_999_97,
        8_388_607.5,
        f32::MAX,
    ]);
    let length = values.len() as i64;
    for lattice in ["Z2", "D4", "E8"] {
        for overload in ["flag", "retry"] {
            let asked = case("lattice-quantize", &[("lattice", lattice.into()), ("overload", overload.into())]);
            // Rows of 13 values: each ends in a padded vector.
            let x = Tensor::new(&[7, 13], &values[..]).unwrap();
            assert_eq!(length, 7 * 13);
            let task = registry.find("lattice-quantize").unwrap();
            let (case, inputs) = task.adopt(&asked, Tensors::new().with("x", x), Fit::Whole).unwrap();
            judge(&registry, "lattice-quantize", &case, &inputs);
            judge_wgpu(&registry, &case, &inputs);
        }
    }
}

#[test]
fn dot_products_are_exact_for_rows_that_begin_inside_a_word() {
    let registry = registry();
    for lattice in ["Z2", "D4", "E8"] {
        for (q, levels) in [(3, 2), (4, 2), (16, 2), (5, 3)] {
            for (rows, dimension) in [(1, 8), (5, 40), (9, 300)] {
                let case = case(
                    "lattice-dot",
                    &[
                        ("lattice", lattice.into()),
                        ("q", Value::Int(q)),
                        ("levels", Value::Int(levels)),
                        ("rows", Value::Int(rows)),
                        ("dimension", Value::Int(dimension)),
                    ],
                );
                let inputs = registry.find("lattice-dot").unwrap().inputs(&case, 11).unwrap();
                judge(&registry, "lattice-dot", &case, &inputs);
                // The integers are exact and the one product after them is in f32.
                judged_on_wgpu(&registry, &case, &inputs, |expected, output| {
                    let pair = |arrays: &Tensors| arrays.get("scores").unwrap().f32().unwrap().to_vec();
                    for (a, b) in pair(expected).iter().zip(pair(output)) {
                        assert!((a - b).abs() <= 3.0 * f32::EPSILON * a.abs(), "{case}: {a} {b}");
                    }
                });
            }
        }
    }
}

#[test]
fn damaged_codes_are_an_error_that_names_the_vector() {
    let registry = registry();
    let params = [("lattice", "D4".into()), ("q", Value::Int(3)), ("levels", Value::Int(1)), ("batch", Value::Int(40))];
    let case = case("lattice-decode", &params);
    let task = registry.find("lattice-decode").unwrap();
    let mut inputs = task.inputs(&case, 3).unwrap();
    let mut packed = inputs.take("packed").unwrap();
    // Vector 33 of 7 bits begins at bit 231; q^d = 81, and 127 is no index.
    packed.u8_mut().unwrap()[28] |= 0x80;
    packed.u8_mut().unwrap()[29] |= 0x3f;
    inputs.insert("packed", packed);
    let rows = registry.implementations("lattice-decode");
    let row = rows.iter().find(|row| row.name == "cuda").unwrap();
    for (name, device) in test_devices() {
        damaged(&name, (row.prepare)(&case, &inputs, &device).unwrap());
    }
    #[cfg(feature = "vulkan")]
    if let Some(device) = crate::device::test_adapter() {
        let row = rows.iter().find(|row| row.name == "wgpu").unwrap();
        damaged("wgpu:0", (row.prepare)(&case, &inputs, &device).unwrap());
    }
}

fn damaged(name: &str, mut ready: Box<dyn Prepared>) {
    ready.poison();
    ready.run();
    let error = ready.output().unwrap_err();
    assert!(error.contains("vector 33"), "{name}: {error}");
}
