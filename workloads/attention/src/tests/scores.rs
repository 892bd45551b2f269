//! Scores and their weights: rows without visible keys, and large scores.

use ellwand_core::{Tensor, Tensors};

use super::{case, normal, registry, run};
use ellwand_gpu_lab::testing::{Here, here};

#[test]
fn scores_of_minus_infinity_alone_give_no_weight() {
    let registry = registry();
    let case = case(&registry, "attention-softmax", [1, 3, 1, 1, 0], "none");
    let inf = f32::NEG_INFINITY;
    let scores = [inf, inf, inf, 0.0, inf, 0.0, 1.0, f32::NAN, 2.0];
    let inputs = Tensors::new().with("scores", Tensor::new(&[1, 1, 3, 3], &scores[..]).unwrap());
    for name in ["reference", "scalar", "simd", "parallel"] {
        let got = run(&registry, &case, name, &inputs);
        let weights = got.f32("weights").unwrap();
        assert_eq!(weights[..6], [0.0, 0.0, 0.0, 0.5, 0.0, 0.5], "{name}");
        assert!(weights[6..].iter().all(|w| w.is_nan()), "{name}");
    }
}

#[test]
fn rows_of_a_softmax_add_up_to_one_for_scores_of_any_size() {
    let registry = registry();
    let workload = registry.find("attention-softmax").unwrap();
    let case = case(&registry, "attention-softmax", [1, 333, 1, 1, 0], "none");
    for spread in [1e-3, 3.0, 1e4] {
        let scores: Vec<f32> = normal(333 * 333, 2).iter().map(|x| x * spread).collect();
        let inputs = Tensors::new().with("scores", Tensor::new(&[1, 1, 333, 333], &scores[..]).unwrap());
        let expected = workload.reference(&case, &inputs).unwrap();
        for name in ["scalar", "simd", "parallel"] {
            let got = run(&registry, &case, name, &inputs);
            let verdict = workload.judge(&case, &inputs, &expected, &got);
            assert!(verdict.passed, "{name} {spread}: {}", verdict.detail);
            for row in got.f32("weights").unwrap().chunks(333) {
                let sum: f64 = row.iter().map(|w| f64::from(*w)).sum();
                assert!((sum - 1.0).abs() <= 1e-6, "{name} {spread}: {sum}");
            }
        }
    }
}

/// Multiplies the array `name` by `factor`.
fn scaled(mut inputs: Tensors, name: &str, factor: f32) -> Tensors {
    let array = inputs.take(name).unwrap();
    let values: Vec<f32> = array.f32().unwrap().iter().map(|x| x * factor).collect();
    inputs.insert(name, Tensor::new(array.shape(), &values[..]).unwrap());
    inputs
}

#[test]
fn large_scores_are_judged_by_what_f32_can_tell_of_them() {
    let registry = registry();
    for (name, array) in [("attention-core", "q"), ("attention", "w_qkv"), ("transformer-layer", "gamma_1")] {
        let workload = registry.find(name).unwrap();
        let case = case(&registry, name, [1, 200, 128, 2, 0], "none");
        for larger in [1.0_f32, 10.0, 30.0] {
            // The projected array becomes both queries and keys, so scores grow with the square.
            let factor = if array == "q" { larger } else { larger.sqrt() };
            let inputs = scaled(workload.inputs(&case, 7).unwrap(), array, factor);
            let expected = workload.reference(&case, &inputs).unwrap();
            for row in here(&registry, name) {
                let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
                ready.run();
                let verdict = workload.judge(&case, &inputs, &expected, &ready.output().unwrap());
                assert!(verdict.passed, "{row:?} {larger}: {}", verdict.detail);
            }
            // An error of a thousandth is wrong, however large the scores are.
            let (output, values) = expected.iter().next().unwrap();
            let mut values = values.f32().unwrap().to_vec();
            let largest = values.iter().fold(1.0_f32, |largest, y| largest.max(y.abs()));
            values[5] += 1e-3 * largest;
            let wrong =
                Tensors::new().with(output, Tensor::new(expected.get(output).unwrap().shape(), &values[..]).unwrap());
            assert!(!workload.judge(&case, &inputs, &expected, &wrong).passed, "{name} {larger}");
        }
    }
}
