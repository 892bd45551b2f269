//! Answers of small cases, computed by hand: they check the code that the reference and the implementations share (the
//! axes of a case).

use ellwand_core::Fit;

use super::*;

/// What the reference answers for a row x.
fn answer(op: Op, x: &[f32], others: &[(&str, Vec<f32>)], more: &[(&str, &str)]) -> Vec<f32> {
    let (case, mut inputs) = on(op, &[x.to_vec()], more);
    for (name, values) in others {
        let shape = if op.is_loss() { vec![1, 1, values.len()] } else { vec![values.len()] };
        inputs.insert(name, Tensor::new(&shape, &values[..]).unwrap());
    }
    let expected = Layer::new(op).reference(&case, &inputs).unwrap();
    expected.f32(if op.is_loss() { "loss" } else { "y" }).unwrap().to_vec()
}

fn close(got: &[f32], want: &[f32]) {
    let near = got.len() == want.len() && got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6);
    assert!(near, "{got:?}, not {want:?}");
}

#[test]
fn a_norm_adds_the_epsilon_of_its_case() {
    let vectors = [("gamma", vec![1.0, 2.0]), ("beta", vec![0.0, 0.5])];
    let norm = |more: &[(&str, &str)]| answer(Op::LayerNorm, &[0.01, -0.01], &vectors, more);
    // 0.01 / sqrt(1e-4 + 1e-5), and over sqrt(2e-4).
    close(&norm(&[]), &[0.953_462_6, 0.5 - 2.0 * 0.953_462_6]);
    close(&norm(&[("eps", "1e-4")]), &[0.5_f32.sqrt(), 0.5 - 2.0_f32.sqrt()]);
}

#[test]
fn each_form_of_gelu_has_its_values() {
    close(&answer(Op::Gelu, &[1.0, -1.0], &[], &[("form", "exact")]), &[0.841_344_7, -0.158_655_3]);
    close(&answer(Op::Gelu, &[1.0, -1.0], &[], &[("form", "tanh")]), &[0.841_192, -0.158_808]);
}

#[test]
fn each_reduction_has_its_values() {
    for (reduction, want) in [("none", &[1.0, 9.0][..]), ("sum", &[10.0]), ("mean", &[5.0])] {
        close(&answer(Op::MseLoss, &[1.0, 2.0], &[("target", vec![0.0, -1.0])], &[("reduction", reduction)]), want);
    }
}

#[test]
fn a_norm_without_parameters_leaves_the_normalised_row() {
    let layer = Layer::new(Op::LayerNorm);
    let given = Tensors::new().with("x", Tensor::new(&[1, 2], &[3.0_f32, 5.0][..]).unwrap());
    let (case, inputs) = layer.adopt(&case(Op::LayerNorm, [1, 1, 2], &[]), given, Fit::Whole).unwrap();
    // 1 / sqrt(1 + 1e-5).
    close(layer.reference(&case, &inputs).unwrap().f32("y").unwrap(), &[-0.999_995, 0.999_995]);
}

#[test]
fn generated_probabilities_add_up_to_one_and_differ() {
    let case = case(Op::CrossEntropyLoss, [1, 3, 5], &[("targets", "probabilities")]);
    let inputs = Layer::new(Op::CrossEntropyLoss).inputs(&case, 1).unwrap();
    for row in inputs.f32("target").unwrap().chunks(5) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6 && row[0] != row[1], "{row:?}");
    }
}
