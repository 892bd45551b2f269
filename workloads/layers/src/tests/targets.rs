//! Cross-entropy against probabilities of classes has the meaning that PyTorch gives it.

use ellwand_core::Fit;

use super::*;

const SOFT: Op = Op::CrossEntropyLoss;

/// The losses of rows of `d` logits against probabilities, from every method and the reference.
fn losses(x: &[f32], target: &[f32], d: usize, reduction: &str) -> Vec<Vec<f32>> {
    let extents = [x.len() / d, d];
    let wanted = case(SOFT, [1, extents[0], d], &[("targets", "probabilities"), ("reduction", reduction)]);
    let given = Tensors::new()
        .with("x", Tensor::new(&extents, x).unwrap())
        .with("target", Tensor::new(&extents, target).unwrap());
    let layer = Layer::new(SOFT);
    let (made, inputs) = layer.adopt(&wanted, given, Fit::Whole).unwrap();
    let expected = layer.reference(&made, &inputs).unwrap();
    let mut all = vec![expected.f32("loss").unwrap().to_vec()];
    all.extend(ways().into_iter().map(|way| {
        let got = compute(SOFT, method(way), &made, &inputs);
        let verdict = layer.judge(&made, &inputs, &expected, &got);
        assert!(verdict.passed, "{way:?} {reduction}: {}", verdict.detail);
        got.f32("loss").unwrap().to_vec()
    }));
    all
}

#[test]
fn a_loss_is_the_weighed_sum_of_the_logarithms_and_a_mean_is_over_rows() {
    // Row 0 has the softmax [1/4, 3/4], row 1 [1/2, 1/2]; its probabilities sum to 2.
    let (x, target) = ([0.0, 3.0_f32.ln(), 7.0, 7.0], [0.5, 0.25, 0.5, 1.5]);
    let rows = [0.5 * 4.0_f64.ln() + 0.25 * (4.0_f64 / 3.0).ln(), 2.0 * 2.0_f64.ln()];
    for (reduction, want) in
        [("none", rows.to_vec()), ("sum", vec![rows.iter().sum()]), ("mean", vec![rows.iter().sum::<f64>() / 2.0])]
    {
        for got in losses(&x, &target, 2, reduction) {
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                assert!((f64::from(*got) - want).abs() < 1e-6, "{reduction}: {got}, not {want}");
            }
        }
    }
}

#[test]
fn a_probability_of_1_is_a_label() {
    let d = 37;
    let labels = case(SOFT, [3, 5, d], &[("reduction", "none")]);
    let inputs = Layer::new(SOFT).inputs(&labels, 4).unwrap();
    let classes = inputs.get("labels").unwrap().i64().unwrap();
    let mut target = vec![0.0_f32; 15 * d];
    classes.iter().enumerate().for_each(|(row, class)| target[row * d + *class as usize] = 1.0);
    let want = Layer::new(SOFT).reference(&labels, &inputs).unwrap();
    for got in losses(inputs.f32("x").unwrap(), &target, d, "none") {
        for (got, want) in got.iter().zip(want.f32("loss").unwrap()) {
            assert!((got - want).abs() <= 2e-6 * want.abs().max(1.0), "{got}, not {want}");
        }
    }
}

#[test]
fn an_excluded_class_costs_infinity_and_nan_without_any_probability() {
    for got in losses(&[0.0, f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY], &[0.5, 0.5, 1.0, 0.0], 2, "none") {
        assert!(got[0] == f32::INFINITY && got[1].is_nan(), "{got:?}");
    }
}

#[test]
fn probabilities_go_with_their_own_array_and_skip_no_row() {
    let layer = Layer::new(SOFT);
    let soft = case(SOFT, [1, 2, 3], &[("targets", "probabilities"), ("ignored", "10")]);
    let error = layer.check(&soft).unwrap_err().to_string();
    assert!(error.starts_with("ignored: ") && error.contains("targets=labels"), "{error}");
    let names = |case: &Case| layer.ports(case).inputs.iter().map(|port| port.name).collect::<Vec<_>>();
    assert_eq!(names(&soft), ["x", "target"]);
    assert_eq!(names(&case(SOFT, [1, 2, 3], &[])), ["x", "labels"]);
    let x = Tensor::new(&[2, 3], &[0.0_f32; 6][..]).unwrap();
    let short = Tensors::new().with("x", x).with("target", Tensor::new(&[3], &[0.0_f32; 3][..]).unwrap());
    let error = layer.adopt(&soft, short, Fit::Whole).unwrap_err().to_string();
    assert!(error.contains("target") && error.contains("[3]") && error.contains("[2, 3]"), "{error}");
    // The axis was added later: its default leaves case ids unchanged.
    let axis = layer.axes().iter().find(|axis| axis.name == "targets").unwrap();
    assert_eq!(axis.neutral, Some("labels".into()));
}
