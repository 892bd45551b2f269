//! Properties that hold for any rows.

use proptest::prelude::*;

use super::*;

fn rows() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(-30.0_f32..30.0, 1..90)
}

fn y(op: Op, way: Way, row: &[f32]) -> Vec<f32> {
    let (case, mut inputs) = on(op, &[row.to_vec()], &[]);
    if op == Op::LayerNorm {
        inputs.insert("gamma", Tensor::vector(&vec![1.0_f32; row.len()][..]));
        inputs.insert("beta", Tensor::vector(&vec![0.0_f32; row.len()][..]));
    }
    compute(op, method(way), &case, &inputs).f32("y").unwrap().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn softmax_forgets_a_shift_and_keeps_the_order(row in rows(), shift in -64_i32..64) {
        // On a grid where the shift is exact.
        let row: Vec<f32> = row.iter().map(|x| (x * 1024.0).round() / 1024.0).collect();
        let moved: Vec<f32> = row.iter().map(|x| x + shift as f32).collect();
        for way in ways() {
            let (a, b) = (y(Op::Softmax, way, &row), y(Op::Softmax, way, &moved));
            prop_assert_eq!(&a, &b);
            for (i, j) in (0..row.len()).zip(1..row.len()) {
                prop_assert!(row[i] > row[j] || a[i] <= a[j]);
            }
        }
    }

    #[test]
    fn layer_norm_forgets_shift_and_scale(row in rows(), shift in -64_i32..64) {
        let row: Vec<f32> = row.iter().map(|x| (x * 1024.0).round() / 1024.0).collect();
        let spread = row.iter().fold(0.0_f32, |most, x| most.max((x - row[0]).abs()));
        prop_assume!(spread > 5.0);
        let moved: Vec<f32> = row.iter().map(|x| 4.0 * (x + shift as f32)).collect();
        for way in ways() {
            for (a, b) in y(Op::LayerNorm, way, &row).iter().zip(y(Op::LayerNorm, way, &moved)) {
                // eps matters less for the larger variance.
                prop_assert!((a - b).abs() <= 2e-4, "{a} {b}");
            }
        }
    }

    #[test]
    fn gelu_and_swish_differ_from_their_mirror_by_x(row in rows()) {
        // f(x) - f(-x) = x for both, since Phi(x) + Phi(-x) = 1 and the sigmoid has the same property.
        let mirror: Vec<f32> = row.iter().map(|x| -x).collect();
        for op in [Op::Gelu, Op::Swish] {
            for way in ways() {
                for ((x, a), b) in row.iter().zip(y(op, way, &row)).zip(y(op, way, &mirror)) {
                    prop_assert!((a - b - x).abs() <= 4e-6, "{op:?} {way:?} {x}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn losses_are_not_negative_and_vanish_at_the_target(row in rows()) {
        for way in ways() {
            let (case, mut inputs) = on(Op::MseLoss, std::slice::from_ref(&row), &[]);
            let target = inputs.get("x").unwrap().clone();
            let loss = |inputs: &Tensors| compute(Op::MseLoss, method(way), &case, inputs).f32("loss").unwrap()[0];
            prop_assert!(loss(&inputs) >= 0.0);
            inputs.insert("target", target);
            prop_assert_eq!(loss(&inputs), 0.0);
        }
    }

    #[test]
    fn permuting_the_rows_permutes_the_losses(seed in 0_u64..1000, rows in 1_usize..40, d in 1_usize..70) {
        let case = case(Op::CrossEntropyLoss, [1, rows, d], &[("reduction", "none")]);
        let inputs = Layer::new(Op::CrossEntropyLoss).inputs(&case, seed).unwrap();
        let back: Vec<f32> = inputs.f32("x").unwrap().chunks(d).rev().flatten().copied().collect();
        let labels: Vec<i64> = inputs.get("labels").unwrap().i64().unwrap().iter().rev().copied().collect();
        let turned = Tensors::new()
            .with("x", Tensor::new(&[1, rows, d], &back[..]).unwrap())
            .with("labels", Tensor::new(&[1, rows], &labels[..]).unwrap());
        for way in ways() {
            let loss = |inputs: &Tensors| compute(Op::CrossEntropyLoss, method(way), &case, inputs).f32("loss").unwrap().to_vec();
            let (there, mut back) = (loss(&inputs), loss(&turned));
            back.reverse();
            for (a, b) in there.iter().zip(&back) {
                prop_assert!((a - b).abs() <= 1e-6 * a.abs().max(1.0), "{way:?} {a} {b}");
            }
        }
    }
}
