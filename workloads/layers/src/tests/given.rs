//! Arrays given by the user, and invalid cases.

use ellwand_core::Fit;

use super::*;

fn adopt(op: Op, given: Tensors, fit: Fit) -> Result<(Case, Tensors), String> {
    Layer::new(op).adopt(&case(op, [1, 2, 4], &[]), given, fit).map_err(|error| error.to_string())
}

fn array(shape: &[usize]) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product()).map(|i| i as f32).collect();
    Tensor::new(shape, &values[..]).unwrap()
}

fn labels(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::new(shape, values).unwrap()
}

#[test]
fn any_shape_becomes_a_case_and_comes_back() {
    for (shape, extents) in
        [(vec![6], [1, 1, 6]), (vec![3, 5], [1, 3, 5]), (vec![2, 3, 5], [2, 3, 5]), (vec![2, 2, 3, 5], [4, 3, 5])]
    {
        let (made, inputs) = adopt(Op::LayerNorm, Tensors::new().with("x", array(&shape)), Fit::Whole).unwrap();
        let got = ["batch", "sequence", "dimension"].map(|axis| made.int(axis).unwrap() as usize);
        assert_eq!(got, extents);
        let layer = Layer::new(Op::LayerNorm);
        let expected = layer.reference(&made, &inputs).unwrap();
        assert_eq!(expected.get("y").unwrap().shape(), shape);
        for way in ways() {
            let verdict = layer.judge(&made, &inputs, &expected, &compute(Op::LayerNorm, method(way), &made, &inputs));
            assert!(verdict.passed, "{}", verdict.detail);
        }
    }
}

#[test]
fn a_case_takes_the_leading_part_of_larger_arrays() {
    let given = Tensors::new().with("x", array(&[3, 4, 4])).with("labels", labels(&[3, 4], &[1; 12]));
    let (made, inputs) = adopt(Op::CrossEntropyLoss, given, Fit::Case).unwrap();
    assert_eq!((made.int("batch"), made.int("sequence")), (Some(1), Some(2)));
    assert_eq!(inputs.f32("x").unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(inputs.get("labels").unwrap().shape(), [1, 2]);
    let few = adopt(Op::Gelu, Tensors::new().with("x", array(&[1, 1, 4])), Fit::Case).unwrap_err();
    assert!(
        few.contains("sequence 1, the case asks for 2") && few.contains("hint: batch=1 sequence=1 dimension=4 "),
        "{few}"
    );
    let cut = adopt(Op::Gelu, Tensors::new().with("x", array(&[1, 2, 8])), Fit::Case).unwrap_err();
    assert!(cut.contains("dimension 8, the case asks for 4"), "{cut}");
}

#[test]
fn bad_arrays_are_named_with_what_was_expected() {
    let x = || Tensors::new().with("x", array(&[2, 3]));
    let refused = |op, given, parts: &[&str]| {
        let error = adopt(op, given, Fit::Whole).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error} lacks one of {parts:?}");
    };
    refused(Op::Gelu, Tensors::new(), &["x", "missing"]);
    refused(Op::Gelu, Tensors::new().with("x", array(&[2, 0])), &["x", "[2, 0]"]);
    refused(Op::Gelu, Tensors::new().with("x", array(&[])), &["x", "at least one axis"]);
    refused(Op::Gelu, Tensors::new().with("x", Tensor::scalar(1.0)), &["x", "float64", "float32"]);
    refused(Op::MseLoss, x(), &["target", "missing"]);
    refused(Op::MseLoss, x().with("target", array(&[3, 2])), &["target", "[3, 2]", "[2, 3]"]);
    refused(Op::LayerNorm, x().with("gamma", array(&[2])), &["gamma", "[2]", "[3]"]);
    refused(Op::LayerNorm, x().with("beta", Tensor::vector(&[1_u8, 2, 3][..])), &["beta", "uint8"]);
    refused(Op::CrossEntropyLoss, x(), &["labels", "missing"]);
    refused(Op::CrossEntropyLoss, x().with("labels", labels(&[3], &[0; 3])), &["labels", "[3]", "[2]"]);
    for bad in [3, -1, -99, i64::MAX] {
        let given = x().with("labels", labels(&[2], &[0, bad]));
        refused(Op::CrossEntropyLoss, given, &["labels", "label 1", &bad.to_string(), "0 to 2"]);
    }
    refused(Op::CrossEntropyLoss, x().with("labels", array(&[2])), &["labels", "float32", "int64"]);
}

#[test]
fn axes_refuse_what_leaves_nothing_to_compute() {
    for op in Op::ALL {
        let layer = Layer::new(op);
        for axis in ["batch", "sequence", "dimension"] {
            let axis = layer.axes().iter().find(|known| known.name == axis).unwrap();
            assert!(axis.parse("0").unwrap_err().to_string().contains("too small"), "{}", axis.name);
            assert!(axis.parse("-3").is_err() && axis.parse("1").is_ok());
        }
        let huge = case(op, [1 << 24, 1 << 24, 1 << 24], &[]);
        assert!(layer.check(&huge).unwrap_err().to_string().contains("cannot be addressed"));
        assert_eq!(layer.footprint(&huge), u64::MAX);
        // A case that is addressable is left to the planner, which knows the machine's memory.
        let large = case(op, [1 << 20, 1 << 10, 1 << 10], &[]);
        assert!(layer.check(&large).is_ok() && layer.footprint(&large) > 1 << 42);
    }
}

#[test]
fn rows_with_the_ignored_label_take_no_part_in_the_loss() {
    // Row 1 is skipped although its logits are NaN. Row 0: ln(1 + e) - 1, row 2: ln 2.
    let x = Tensor::new(&[3, 2], &[0.0, 1.0, f32::NAN, 7.0, 5.0, 5.0][..]).unwrap();
    let losses = [1.0_f64.exp().ln_1p() - 1.0, 0.0, 2.0_f64.ln()];
    for (skipped, more) in [(-100, vec![]), (0, vec![("ignore-index", "0")])] {
        for (reduction, want) in [
            ("none", losses.to_vec()),
            ("sum", vec![losses.iter().sum()]),
            ("mean", vec![losses.iter().sum::<f64>() / 2.0]),
        ] {
            let more: Vec<_> = more.iter().copied().chain([("reduction", reduction)]).collect();
            let wanted = case(Op::CrossEntropyLoss, [1, 3, 2], &more);
            let given = Tensors::new().with("x", x.clone()).with("labels", labels(&[3], &[1, skipped, 1]));
            let layer = Layer::new(Op::CrossEntropyLoss);
            let (made, inputs) = layer.adopt(&wanted, given, Fit::Whole).unwrap();
            let expected = layer.reference(&made, &inputs).unwrap();
            for (want, have) in want.iter().zip(expected.f32("loss").unwrap()) {
                assert!((want - f64::from(*have)).abs() <= 1e-6, "{reduction}: {have}, not {want}");
            }
            for way in ways() {
                let got = compute(Op::CrossEntropyLoss, method(way), &made, &inputs);
                let verdict = layer.judge(&made, &inputs, &expected, &got);
                assert!(verdict.passed, "{way:?} {reduction}: {}", verdict.detail);
            }
        }
    }
}

#[test]
fn rows_that_the_loss_skips_are_no_required_work() {
    let layer = Layer::new(Op::CrossEntropyLoss);
    let made = |percent| case(Op::CrossEntropyLoss, [2, 50, 8], &[("ignored", percent)]);
    let work = |percent| layer.work(&made(percent));
    // Labels of all rows are read, and one loss is written.
    for (percent, rows) in [("0", 100), ("25", 75), ("100", 0)] {
        let work = work(percent);
        assert_eq!((work.items, work.flops), (8 * rows, 32.0 * rows as f64), "{percent} %");
        assert_eq!((work.bytes_read, work.bytes_written), (4 * 8 * rows + 800, 4), "{percent} %");
    }
    assert_eq!(layer.footprint(&made("0")), layer.footprint(&made("25")));
    // Before they are read, the labels of the user's arrays are unknown.
    let mut given = made("25");
    given.input = Some("00ff".into());
    assert_eq!(layer.work(&given).items, 800);
}

#[test]
fn rows_that_the_users_labels_skip_are_no_required_work() {
    let layer = Layer::new(Op::CrossEntropyLoss);
    let made = case(Op::CrossEntropyLoss, [1, 5, 8], &[]);
    let given = Tensors::new()
        .with("x", Tensor::new(&[5, 8], &[0.5_f32; 40][..]).unwrap())
        .with("labels", labels(&[5], &[1, -100, 7, -100, 0]));
    let (made, inputs) = layer.adopt(&made, given, Fit::Whole).unwrap();
    let work = layer.work_of(&made, &inputs);
    assert_eq!((work.items, work.flops), (24, 96.0));
    assert_eq!((work.bytes_read, work.bytes_written), (4 * 24 + 40, 4));
    // Generated labels count exactly too, not as the share that was asked for.
    let made = case(Op::CrossEntropyLoss, [2, 50, 8], &[("ignored", "25")]);
    let inputs = layer.inputs(&made, 3).unwrap();
    let kept = inputs.get("labels").unwrap().i64().unwrap().iter().filter(|label| **label != -100).count() as u64;
    assert_eq!(layer.work_of(&made, &inputs).items, 8 * kept);
}

#[test]
fn generated_labels_are_skipped_at_the_requested_rate() {
    let layer = Layer::new(Op::CrossEntropyLoss);
    for (percent, least, most) in [("0", 0, 0), ("25", 350, 650), ("100", 2000, 2000)] {
        let case = case(Op::CrossEntropyLoss, [2, 1000, 5], &[("ignored", percent), ("ignore-index", "-7")]);
        let inputs = layer.inputs(&case, 3).unwrap();
        let skipped = inputs.get("labels").unwrap().i64().unwrap().iter().filter(|label| **label == -7).count();
        assert!((least..=most).contains(&skipped), "{percent} %: {skipped} of 2000");
        let expected = layer.reference(&case, &inputs).unwrap();
        // Without any row the mean is 0 / 0, as in PyTorch.
        assert_eq!(expected.f32("loss").unwrap()[0].is_nan(), percent == "100");
        for way in ways() {
            let got = compute(Op::CrossEntropyLoss, method(way), &case, &inputs);
            let verdict = layer.judge(&case, &inputs, &expected, &got);
            assert!(verdict.passed, "{way:?} {percent} %: {}", verdict.detail);
        }
    }
}
