//! The GPU kernels compared with the reference bit by bit, on all devices and emulators available here.

use ellwand_core::{Case, Fit, Prepared, Registry, Tensor, Tensors, Value};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::super::workload_code::Task;
use super::super::{Lattice, cuda};
use ellwand_gpu_lab::test_devices;
use ellwand_gpu_lab::testing::{self, judged_on_wgpu};

/// All combinations of lattice, overload mode and centring; q a power of two and not, few and many levels.
const CODES: [(i64, i64); 9] = [(2, 1), (2, 20), (3, 12), (4, 2), (5, 3), (16, 2), (100, 3), (255, 2), (256, 2)];

fn judge(registry: &Registry, workload: &str, case: &Case, inputs: &Tensors) {
    let task = registry.find(workload).unwrap();
    task.check(case).unwrap();
    let expected = task.reference(case, inputs).unwrap();
    let rows = registry.implementations(workload);
    let rows: Vec<_> = rows.iter().filter(|row| row.name.starts_with("cuda")).collect();
    // Only the dot product has no implementation that includes the transfers.
    assert_eq!(rows.len(), if workload == "lattice-dot" { 1 } else { 2 }, "{workload}");
    let devices = test_devices();
    for (row, (name, device)) in rows.iter().flat_map(|row| devices.iter().map(move |device| (row, device))) {
        let name = format!("{} on {name}", row.name);
        let mut ready =
            (row.prepare)(case, inputs, device.as_ref()).unwrap_or_else(|error| panic!("{case} on {name}: {error}"));
        ready.poison(ellwand_core::Poison::Ones);
        ready.run();
        ready.sync().unwrap_or_else(|error| panic!("{case} on {name}: {error}"));
        let output = ready.output().unwrap_or_else(|error| panic!("{case} on {name}: {error}"));
        let verdict = task.judge(case, inputs, &expected, &output);
        assert!(verdict.passed, "{case} on {name}: {}", verdict.detail);
        assert_eq!(output.digest(), expected.digest(), "{case} on {name}: the same bits");
    }
}

/// The WGSL kernels: codes and decoded values match the reference bit by bit.
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
    crate::register(&mut registry);
    registry
}

/// Tests every kind of code.
fn each_kind(judge: impl Fn(&Registry, &str, &Case, &Tensors)) {
    let registry = registry();
    // The last warp lacks some vectors, or all but one.
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

/// Runs a case with at most `part` vectors per launch, compares every bit with the reference and returns what ran.
fn in_parts(task: Task, case: &Case, inputs: &Tensors, part: usize) -> String {
    let expected = registry().find(task.name()).unwrap().reference(case, inputs).unwrap();
    let mut ran = String::new();
    for (name, device) in test_devices() {
        let mut ready = cuda::prepare(task, false, part, case, inputs, device.as_ref()).unwrap();
        ready.poison(ellwand_core::Poison::Ones);
        ready.run();
        let output = ready.output().unwrap_or_else(|error| panic!("{case} on {name}: {error}"));
        assert_eq!(output.digest(), expected.digest(), "{case} on {name}");
        ran = ready.what_ran();
    }
    ran
}

/// A case with the given values instead of the workload's own; for decoding, with their codes.
fn given(task: Task, params: &[(&str, Value)], d: usize, values: Vec<f32>) -> (Case, Tensors) {
    let registry = registry();
    let n = values.len() / d;
    let x = Tensor::new(&[n, d], &values[..]).unwrap();
    let forth = registry.find("lattice-quantize").unwrap();
    let asked = case("lattice-quantize", &[params, &[("batch", (n as i64).into())]].concat());
    let (mut asked, coded) = forth.adopt(&asked, Tensors::new().with("x", x), Fit::Whole).unwrap();
    if task != Task::Decode {
        return (Case::new(task.name(), asked.params.clone()), coded);
    }
    let mut codes = forth.reference(&asked, &coded).unwrap();
    let mut inputs = Tensors::new().with("packed", codes.take("packed").unwrap());
    inputs.insert("beta", coded.get("beta").unwrap().clone());
    if let Some(retries) = codes.take("retries") {
        inputs.insert("retries", retries);
    }
    asked.workload = task.name().into();
    (asked, inputs)
}

fn kind(lattice: &str, q: i64, levels: i64, overload: &str) -> Vec<(&'static str, Value)> {
    let (q, levels) = (Value::Int(q), Value::Int(levels));
    vec![("lattice", lattice.into()), ("q", q), ("levels", levels), ("overload", overload.into())]
}

fn dimension(lattice: &str) -> usize {
    lattice.parse::<Lattice>().unwrap().dimension()
}

/// Codes, and the kernels that encode and decode them, for every stored width: one byte, two, a word, two words, other
/// widths below that (through shared memory), and larger ones.
const WIDTHS: [(&str, i64, i64, &str, &str); 15] = [
    ("Z2", 4, 2, "q4_m2", "q4_m2"),
    ("Z2", 16, 2, "shifts", "shifts"),
    ("Z2", 256, 2, "shifts", "shifts"),
    ("Z2", 3, 12, "divisions", "divisions"),
    ("D4", 4, 2, "q4_m2", "q4_m2"),
    ("D4", 2, 2, "lookups", "lookups"),
    ("D4", 3, 3, "divisions", "lookups"),
    ("D4", 16, 4, "shifts", "shifts"),
    ("D4", 2, 20, "lookups", "lookups"),
    ("E8", 4, 2, "q4_m2", "q4_m2"),
    ("E8", 4, 3, "shifts", "q4"),
    ("E8", 2, 2, "lookups", "lookups"),
    ("E8", 16, 2, "shifts", "shifts"),
    ("E8", 5, 3, "divisions", "divisions"),
    ("E8", 100, 3, "divisions", "divisions"),
];

#[test]
fn threads_go_over_more_vectors_than_the_grid_has_and_launches_follow_each_other() {
    for (lattice, q, levels, encoding, decoding) in WIDTHS {
        for task in [Task::Encode, Task::Decode, Task::Quantize] {
            // The emulator has at most 12288 threads per grid; the last warp is not full.
            let case =
                case(task.name(), &[&kind(lattice, q, levels, "flag")[..], &[("batch", 12_501.into())]].concat());
            let inputs = registry().find(task.name()).unwrap().inputs(&case, 1).unwrap();
            let ran = in_parts(task, &case, &inputs, 1 << 30);
            let way = if task == Task::Decode { decoding } else { encoding };
            assert!(ran.contains(&format!("{}_{way} ", lattice.to_lowercase())), "{case}: {ran}");
            let case =
                self::case(task.name(), &[&kind(lattice, q, levels, "retry")[..], &[("batch", 200.into())]].concat());
            let inputs = registry().find(task.name()).unwrap().inputs(&case, 1).unwrap();
            in_parts(task, &case, &inputs, 64);
        }
    }
}

#[test]
fn vectors_outside_the_codebook_are_marked_or_tried_again_like_the_reference() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for (lattice, q, levels, ..) in WIDTHS {
        for overload in ["none", "flag", "retry"] {
            // Half of the vectors are far outside the codebook, some beyond every retry.
            let side = (q as f32).powi(levels as i32);
            let values = (0..70 * dimension(lattice)).map(|k| {
                let far = [0.2f32, 1.0, 30.0, 1e6][k / dimension(lattice) % 4];
                side * far * rng.random_range(-0.5f32..0.5)
            });
            let values: Vec<f32> = values.collect();
            for task in [Task::Encode, Task::Decode, Task::Quantize] {
                let (case, inputs) =
                    given(task, &kind(lattice, q, levels, overload), dimension(lattice), values.clone());
                in_parts(task, &case, &inputs, 1 << 30);
            }
        }
    }
}

#[test]
fn every_q_divides_exactly() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for q in 2..=256i64 {
        let most = (1u64 << 20).ilog(q as u64) as i64;
        let (lattice, levels) = [("Z2", most), ("D4", most), ("E8", most), ("E8", 1), ("D4", 1)][q as usize % 5];
        // Up to the largest values that are not clipped, where quotients are largest.
        let values = (0..33 * dimension(lattice)).map(|k| {
            let size = [1.0f32, 300.0, 4_194_000.0][k / dimension(lattice) % 3];
            size * rng.random_range(-1.0f32..1.0)
        });
        let values: Vec<f32> = values.collect();
        for task in [Task::Decode, Task::Quantize] {
            let (case, inputs) = given(task, &kind(lattice, q, levels, "flag"), dimension(lattice), values.clone());
            in_parts(task, &case, &inputs, 1 << 30);
        }
    }
}

#[test]
fn residuals_that_differ_by_less_than_the_grid_are_ties_like_those_of_the_reference() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for lattice in ["D4", "E8"] {
        for q in [3, 4] {
            // Equal residuals apart from fractions of a grid step (2^-25), where floats are that fine, and their mirror
            // images.
            let values = (0..700).flat_map(|_| {
                let near = [0.0f32, 0.124, 0.2499, 0.25, 0.5, 0.375][rng.random_range(0..6)];
                (0..dimension(lattice))
                    .map(|_| {
                        let part = rng.random_range(-6i32..=6) as f32 / (1u32 << 27) as f32;
                        let whole = [0.0, 0.0, 0.0, 1.0, -1.0, 6.0][rng.random_range(0..6)];
                        whole + (near + part) * if rng.random_range(0..2) == 0 { 1.0 } else { -1.0 }
                    })
                    .collect::<Vec<f32>>()
            });
            let values: Vec<f32> = values.collect();
            let (case, inputs) = given(Task::Quantize, &kind(lattice, q, 2, "flag"), dimension(lattice), values);
            in_parts(Task::Quantize, &case, &inputs, 1 << 30);
        }
    }
}

#[test]
fn floats_of_every_size_code_like_the_reference() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    for lattice in ["Z2", "D4", "E8"] {
        let mut finite = || loop {
            let x = f32::from_bits(rng.random());
            if x.is_finite() {
                return x;
            }
        };
        let values: Vec<f32> = (0..1000 * dimension(lattice)).map(|_| finite()).collect();
        for q in [4, 5] {
            let (case, inputs) =
                given(Task::Quantize, &kind(lattice, q, 2, "retry"), dimension(lattice), values.clone());
            in_parts(Task::Quantize, &case, &inputs, 1 << 30);
        }
    }
}

#[test]
fn ties_zeros_extremes_and_row_tails_code_like_the_reference() {
    let registry = registry();
    // Halves and quarters are on cell boundaries; the rest are values that saturate, subnormals and signed zeros.
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
            // Rows of 13 values, each of which ends in a padded vector.
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
        for (q, levels) in [(3, 2), (4, 2), (16, 2), (5, 3), (100, 3)] {
            for (rows, dimension) in [(1, 8), (5, 40), (9, 300), (200, 16)] {
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
                // The integers are exact, and the final product is in f32.
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
fn dot_products_by_bytes_are_exact_and_others_are_made_otherwise() {
    let registry = registry();
    let task = registry.find("lattice-dot").unwrap();
    let by_bytes = [("D4", 4, 1), ("D4", 4, 2), ("E8", 2, 1), ("E8", 2, 2), ("E8", 2, 4)];
    // Integers that do not fit into a byte, and vectors that do not fill words.
    let otherwise = [("D4", 4, 4), ("D4", 4, 3), ("D4", 2, 2)];
    for (lattice, q, levels) in by_bytes.into_iter().chain(otherwise) {
        // Whole pieces of 16 bytes; more pieces than lanes; more rows than the emulator's grid takes at once.
        for (rows, dimension) in [(1, 128), (5, 256), (6, 8320), (801, 128), (3, 136)] {
            let params = [("rows", Value::Int(rows)), ("dimension", Value::Int(dimension))];
            let case = case("lattice-dot", &[&kind(lattice, q, levels, "none")[..3], &params].concat());
            let inputs = task.inputs(&case, 4).unwrap();
            judge(&registry, "lattice-dot", &case, &inputs);
            let rows = registry.implementations("lattice-dot");
            let row = rows.iter().find(|row| row.name == "cuda").unwrap();
            for (name, device) in test_devices() {
                let ran = (row.prepare)(&case, &inputs, device.as_ref()).unwrap().what_ran();
                let expected = by_bytes.contains(&(lattice, q, levels)) && dimension != 136;
                assert_eq!(ran.contains("_bytes "), expected, "{case} on {name}: {ran}");
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
    // Vector 33 of 7 bits starts at bit 231; q^d = 81, so 127 is not a valid index.
    packed.u8_mut().unwrap()[28] |= 0x80;
    packed.u8_mut().unwrap()[29] |= 0x3f;
    inputs.insert("packed", packed);
    let rows = registry.implementations("lattice-decode");
    let row = rows.iter().find(|row| row.name == "cuda").unwrap();
    for (name, device) in test_devices() {
        damaged(&name, (row.prepare)(&case, &inputs, device.as_ref()).unwrap());
        // The same in several launches.
        damaged(&name, cuda::prepare(Task::Decode, false, 32, &case, &inputs, device.as_ref()).unwrap());
    }
    #[cfg(feature = "vulkan")]
    if let Some(device) = ellwand_gpu::test_adapter() {
        let row = rows.iter().find(|row| row.name == "wgpu").unwrap();
        damaged("wgpu:0", (row.prepare)(&case, &inputs, &device).unwrap());
    }
}

fn damaged(name: &str, mut ready: Box<dyn Prepared>) {
    ready.poison(ellwand_core::Poison::Ones);
    ready.run();
    let error = ready.output().unwrap_err().to_string();
    assert!(error.contains("vector 33"), "{name}: {error}");
}

#[test]
fn retries_that_no_scale_belongs_to_are_refused_before_anything_looks_one_up() {
    let registry = registry();
    let params = [&kind("E8", 4, 2, "retry")[..], &[("batch", 40.into())]].concat();
    let case = case("lattice-decode", &params);
    let task = registry.find("lattice-decode").unwrap();
    let mut inputs = task.inputs(&case, 3).unwrap();
    let mut retries = inputs.take("retries").unwrap();
    retries.u8_mut().unwrap()[33] = 200;
    inputs.insert("retries", retries);
    let refused = |name: &str, problem: String| {
        assert!(problem.contains("vector 33 has 200, above the cap"), "{name}: {problem}");
    };
    refused("the reference", task.reference(&case, &inputs).unwrap_err().to_string());
    for row in testing::here(&registry, "lattice-decode") {
        refused(&row.name, (row.prepare)(&case, &inputs, &testing::Here).err().unwrap().to_string());
    }
    let rows = registry.implementations("lattice-decode");
    for (name, device) in test_devices() {
        for row in rows.iter().filter(|row| row.name.starts_with("cuda")) {
            refused(
                &format!("{}, {name}", row.name),
                (row.prepare)(&case, &inputs, device.as_ref()).err().unwrap().to_string(),
            );
        }
    }
}
