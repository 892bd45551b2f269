//! Answers of small cases, computed by hand: they check what the reference and the implementations share (scale, masks,
//! layouts, the epsilon of a layer norm).

use ellwand_core::Tensor;

use super::*;

#[test]
fn scores_are_products_over_the_root_of_the_head_where_the_mask_lets_them() {
    const HIDDEN: f32 = f32::NEG_INFINITY;
    let registry = registry();
    let array = |values: &[f32]| Tensor::new(&[1, 2, 2, 4], values).unwrap();
    let q = array(&[2.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0]);
    let k = array(&[3.0, 0.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let inputs = Tensors::new().with("q", q).with("k", k).with("lengths", Tensor::vector(&[1_i64][..]));
    // Four values per head: half of the products 6, 0; 0, 10 and 4, 0; 0, 4.
    for (mask, want) in [
        ("none", [3.0, 0.0, 0.0, 5.0, 2.0, 0.0, 0.0, 2.0]),
        ("causal", [3.0, HIDDEN, 0.0, 5.0, 2.0, HIDDEN, 0.0, 2.0]),
        ("padding", [3.0, HIDDEN, 0.0, HIDDEN, 2.0, HIDDEN, 0.0, HIDDEN]),
    ] {
        let case = case(&registry, "attention-scores", [1, 2, 8, 2, 0], mask);
        let expected = registry.find("attention-scores").unwrap().reference(&case, &inputs).unwrap();
        assert_eq!(expected.f32("scores").unwrap(), want, "{mask}");
    }
}

#[test]
fn a_layer_adds_what_its_norm_leaves_of_small_values() {
    let registry = registry();
    let zeros = |shape: &[usize]| Tensor::zeros(ellwand_core::Dtype::F32, shape).unwrap();
    let of = |shape: &[usize], values: &[f32]| Tensor::new(shape, values).unwrap();
    let mut inputs = Tensors::new().with("x", of(&[1, 1, 2], &[0.01, -0.01]));
    for (gamma, beta) in [("gamma_1", "beta_1"), ("gamma_2", "beta_2")] {
        inputs = inputs.with(gamma, of(&[2], &[1.0, 1.0])).with(beta, zeros(&[2]));
    }
    // The value of the only key is the norm of x; the hidden layer adds nothing.
    let inputs = inputs
        .with("w_qkv", of(&[6, 2], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]))
        .with("w_out", of(&[2, 2], &[1.0, 0.0, 0.0, 1.0]))
        .with("w_up", zeros(&[8, 2]))
        .with("w_down", zeros(&[2, 8]));
    let biases = [("b_qkv", 6), ("b_out", 2), ("b_up", 8), ("b_down", 2)];
    let inputs = biases.into_iter().fold(inputs, |inputs, (name, len)| inputs.with(name, zeros(&[len])));
    let case = case(&registry, "transformer-layer", [1, 1, 2, 1, 0], "none");
    let expected = registry.find("transformer-layer").unwrap().reference(&case, &inputs).unwrap();
    // 0.01 + 0.01 / sqrt(1e-4 + 1e-5).
    let [up, down] = *expected.f32("y").unwrap() else { panic!("two values") };
    assert!((up - 0.963_462_6).abs() < 1e-6 && up == -down, "{up} {down}");
}

#[test]
fn generated_arrays_have_different_values() {
    let registry = registry();
    for workload in registry.workloads() {
        let case = case(&registry, workload.name(), [2, 5, 8, 2, 0], "none");
        let inputs = workload.inputs(&case, 1).unwrap();
        for port in workload.ports(&case).inputs {
            let values = inputs.f32(port.name).unwrap();
            assert!(values.windows(2).any(|pair| pair[0] != pair[1]), "{} {}", workload.name(), port.name);
        }
    }
}
