//! Arrays given by the user, and invalid cases.

use ellwand_core::Fit;

use super::*;

fn adopt(op: Op, reduction: &str, given: Tensors, fit: Fit) -> Result<(Case, Tensors), String> {
    let more = [("reduction", reduction)];
    Backward::new(op).adopt(&case(op, [1, 2, 4], &more), given, fit).map_err(|error| error.to_string())
}

fn array(shape: &[usize]) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product()).map(|i| i as f32).collect();
    Tensor::new(shape, &values[..]).unwrap()
}

fn logits() -> Tensors {
    Tensors::new().with("x", array(&[3, 4, 4])).with("labels", Tensor::new(&[3, 4], &[1_i64; 12][..]).unwrap())
}

#[test]
fn any_shape_becomes_a_case_and_comes_back() {
    for shape in [vec![6], vec![3, 5], vec![2, 3, 5], vec![2, 2, 3, 5]] {
        for op in Op::ALL {
            for form in forms(op) {
                let reduction = form.iter().find(|(axis, _)| *axis == "reduction").map_or("mean", |(_, word)| *word);
                let mut given = Tensors::new().with("x", array(&shape));
                match op {
                    Op::MseLoss => given.insert("target", array(&shape)),
                    Op::CrossEntropyLoss => {
                        let rows = &shape[..shape.len() - 1];
                        given.insert("labels", Tensor::new(rows, &vec![2_i64; rows.iter().product()][..]).unwrap());
                    }
                    _ => given.insert("dy", array(&shape)),
                }
                let (made, inputs) = adopt(op, reduction, given, Fit::Whole).unwrap();
                for way in ways() {
                    let got = compute(op, method(way), &made, &inputs);
                    assert_eq!(got.get("dx").unwrap().shape(), shape);
                    judged(op, &made, &inputs, &got).unwrap_or_else(|detail| panic!("{made} {way:?}: {detail}"));
                }
            }
        }
    }
}

#[test]
fn a_case_takes_the_leading_part_of_larger_arrays() {
    let (made, inputs) =
        adopt(Op::CrossEntropyLoss, "none", logits().with("dloss", array(&[3, 4])), Fit::Case).unwrap();
    assert_eq!((made.int("batch"), made.int("sequence")), (Some(1), Some(2)));
    assert_eq!((inputs.get("dloss").unwrap().shape(), inputs.f32("dloss").unwrap()), (&[1, 2][..], &[0.0, 1.0][..]));
    let given = Tensors::new().with("x", array(&[3, 4, 4])).with("dy", array(&[3, 4, 4]));
    let (_, inputs) = adopt(Op::LayerNorm, "mean", given, Fit::Case).unwrap();
    assert_eq!(inputs.f32("dy").unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(inputs.f32("gamma").unwrap(), [1.0; 4]);
    // The upstream gradient of a loss is optional and defaults to 1.
    let (_, inputs) = adopt(Op::CrossEntropyLoss, "none", logits(), Fit::Whole).unwrap();
    assert_eq!(inputs.f32("dloss").unwrap(), [1.0; 12]);
    let (_, inputs) = adopt(Op::CrossEntropyLoss, "mean", logits(), Fit::Whole).unwrap();
    assert_eq!((inputs.get("dloss").unwrap().shape(), inputs.f32("dloss").unwrap()), (&[][..], &[1.0][..]));
    let one = logits().with("dloss", Tensor::vector(&[3.0_f32][..]));
    let (_, inputs) = adopt(Op::CrossEntropyLoss, "sum", one, Fit::Whole).unwrap();
    assert_eq!(inputs.f32("dloss").unwrap(), [3.0]);
}

#[test]
fn bad_arrays_are_named_with_what_was_expected() {
    let refused = |op, reduction, given, parts: &[&str]| {
        let error = adopt(op, reduction, given, Fit::Whole).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error} lacks one of {parts:?}");
    };
    let x = || Tensors::new().with("x", array(&[2, 3]));
    refused(Op::Gelu, "mean", Tensors::new().with("dy", array(&[2, 3])), &["x", "missing"]);
    refused(Op::Gelu, "mean", x(), &["dy", "missing", "[2, 3]"]);
    refused(Op::Swish, "mean", x().with("dy", array(&[3, 2])), &["dy", "[3, 2]", "[2, 3]"]);
    refused(Op::LayerNorm, "mean", x().with("dy", Tensor::vector(&[1_u8, 2][..])), &["dy", "uint8", "float32"]);
    refused(Op::LayerNorm, "mean", x().with("dy", array(&[2, 3])).with("gamma", array(&[2])), &["gamma", "[2]", "[3]"]);
    refused(
        Op::MseLoss,
        "mean",
        x().with("target", array(&[2, 3])).with("dloss", array(&[2, 3])),
        &["dloss", "one value"],
    );
    refused(Op::CrossEntropyLoss, "none", logits().with("dloss", array(&[3])), &["dloss", "[3]", "[3, 4]"]);
    refused(Op::CrossEntropyLoss, "none", x(), &["labels", "missing"]);
}

#[test]
fn shapes_that_cannot_be_are_refused_with_their_figure() {
    for op in Op::ALL {
        let task = Backward::new(op);
        let huge = case(op, [1 << 24, 1 << 24, 1 << 24], &[]);
        assert!(task.check(&huge).unwrap_err().to_string().contains("cannot be addressed"));
        assert_eq!(task.footprint(&huge), u64::MAX);
        let large = case(op, [1 << 20, 1 << 10, 1 << 10], &[]);
        assert!(task.check(&large).is_ok() && task.footprint(&large) > 1 << 42);
        // Inputs of another case.
        let small = task.inputs(&case(op, [1, 2, 3], &[]), 1).unwrap();
        assert!(Job::new(op, method(Way::Scalar), &case(op, [1, 2, 4], &[]), &small).is_err());
    }
}

#[test]
fn rows_that_the_loss_skips_get_no_gradient() {
    let op = Op::CrossEntropyLoss;
    for reduction in ["mean", "sum", "none"] {
        let (case, mut inputs) =
            on(op, &vec![vec![1.0, -2.0, 0.5]; 40], None, &[("ignored", "50"), ("reduction", reduction)]);
        let labels = inputs.get("labels").unwrap().i64().unwrap().to_vec();
        let skipped = labels.iter().position(|label| *label == -100).unwrap();
        // Logits of the other half and all labels are read, all gradients written.
        let work = Backward::new(op).work(&case);
        assert_eq!((work.flops, work.bytes_written), (6.0 * 60.0, 4 * 120));
        let upstream = if reduction == "none" { 4 * 20 } else { 4 };
        assert_eq!(work.bytes_read, 4 * 60 + 8 * 40 + upstream);
        let kept = labels.iter().filter(|label| **label != -100).count();
        let required = Backward::new(op).work_of(&case, &inputs);
        assert_eq!(required.flops, 6.0 * (3 * kept) as f64, "of the labels in the data");
        // Not even from logits that are NaN.
        let mut x = inputs.f32("x").unwrap().to_vec();
        x[3 * skipped] = f32::NAN;
        inputs.insert("x", Tensor::new(&[1, 40, 3], &x[..]).unwrap());
        for way in ways() {
            let got = compute(op, method(way), &case, &inputs);
            judged(op, &case, &inputs, &got).unwrap_or_else(|detail| panic!("{way:?} {reduction}: {detail}"));
            let dx = got.f32("dx").unwrap();
            for (label, dx) in labels.iter().zip(dx.chunks(3)) {
                assert_eq!(*label == -100, dx == [0.0; 3], "{way:?} {reduction}: label {label}, gradient {dx:?}");
            }
        }
    }
}
