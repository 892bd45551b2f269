//! The promised accuracy, compared with f64 before the reference is rounded.

use super::*;
use crate::reference;

/// x ~ 3 N(0,1), and the ends of all segments of the table.
fn activations() -> Vec<f32> {
    let case = case(Op::Gelu, [1, 100, 1000], &[]);
    let mut x = Layer::new(Op::Gelu).inputs(&case, 3).unwrap().f32("x").unwrap().to_vec();
    x.extend((-140..=140).flat_map(|i| {
        let edge = i as f32 * 0.05;
        [edge - 1e-6, edge, edge + 1e-6]
    }));
    x.extend([-1e30, -100.0, -20.0, 20.0, 1e30, 1e-30, -1e-30, f32::MAX, f32::MIN]);
    x
}

fn worst(x: &[f32], y: &[f32], exact: impl Fn(f64) -> f64, among: impl Fn(f32) -> bool) -> f64 {
    let errors = x.iter().zip(y).filter(|(x, _)| among(**x)).map(|(x, y)| {
        let exact = exact(f64::from(*x));
        // Above 8 the value is x itself, and half a unit in the last place of a large x is not an error of the
        // function.
        (f64::from(*y) - exact).abs() / exact.abs().max(8.0) * 8.0
    });
    errors.fold(0.0, |worst: f64, error| if error.is_nan() { f64::INFINITY } else { worst.max(error) })
}

#[test]
fn gelu_and_swish_keep_their_errors() {
    let x = activations();
    for tanh in [false, true] {
        let (case, inputs) = on(Op::Gelu, std::slice::from_ref(&x), &[("form", if tanh { "tanh" } else { "exact" })]);
        for way in ways() {
            let y = compute(Op::Gelu, method(way), &case, &inputs);
            let y = y.f32("y").unwrap();
            let all = worst(&x, y, |x| reference::gelu(x, tanh), |_| true);
            let tail = worst(&x, y, |x| reference::gelu(x, tanh), |x| x < -1.0);
            assert!(all <= 1e-6, "{way:?} tanh {tanh}: {all:e}");
            assert!(tail <= if tanh { 1.5e-7 } else { 1e-7 }, "{way:?} tanh {tanh}, negative tail: {tail:e}");
        }
    }
    let near: Vec<f32> = (-4096..=4096).map(|i| i as f32 / 4096.0).chain([1e-3, 1e-10, -1e-20]).collect();
    for (tanh, bound) in [(false, 1e-6), (true, 2e-6)] {
        let (case, inputs) =
            on(Op::Gelu, std::slice::from_ref(&near), &[("form", if tanh { "tanh" } else { "exact" })]);
        for way in ways() {
            let y = compute(Op::Gelu, method(way), &case, &inputs);
            for (x, y) in near.iter().zip(y.f32("y").unwrap()) {
                let exact = reference::gelu(f64::from(*x), tanh);
                let off = (f64::from(*y) - exact).abs();
                assert!(off <= bound * exact.abs(), "{way:?} tanh {tanh}: {y:e} at {x}, exactly {exact:e}");
            }
        }
    }
    let (case, inputs) = on(Op::Swish, std::slice::from_ref(&x), &[]);
    for way in ways() {
        let y = compute(Op::Swish, method(way), &case, &inputs);
        let all = worst(&x, y.f32("y").unwrap(), reference::swish, |_| true);
        assert!(all <= 1e-6, "{way:?}: {all:e}");
    }
}

/// Errors of GELU over every `step`-th f32, by bit pattern from 0.
fn gelu_over_all_numbers(step: usize) {
    // Numbers per batch.
    const N: usize = 1 << 18;
    for tanh in [false, true] {
        for from in (0..=u32::MAX).step_by(step * N) {
            let x: Vec<f32> = (from..=u32::MAX).step_by(step).take(N).map(f32::from_bits).collect();
            let (case, inputs) =
                on(Op::Gelu, std::slice::from_ref(&x), &[("form", if tanh { "tanh" } else { "exact" })]);
            for isa in Isa::available() {
                let y = compute(Op::Gelu, method(Way::Vector(isa)), &case, &inputs);
                let y = y.f32("y").unwrap();
                let finite = |x: f32| x.is_finite();
                let all = worst(&x, y, |x| reference::gelu(x, tanh), finite);
                let tail = worst(&x, y, |x| reference::gelu(x, tanh), |x| finite(x) && x < -1.0);
                let most = if tanh { 1.5e-7 } else { 1e-7 };
                assert!(all <= 1e-6 && tail <= most, "{} tanh {tanh} from {}: {all:e}, {tail:e}", isa.name(), x[0]);
                let ends = x.iter().zip(y).filter(|(x, _)| !finite(**x));
                ends.for_each(|(x, y)| assert!(if *x > 0.0 { y == x } else { y.is_nan() }, "{} {x} {y}", isa.name()));
            }
        }
    }
}

#[test]
fn gelu_keeps_its_errors_over_all_numbers() {
    gelu_over_all_numbers(10_007);
}

#[test]
#[ignore = "minutes in a release build"]
fn gelu_keeps_its_errors_for_every_number() {
    gelu_over_all_numbers(1);
}

/// Largest error of layer normalisation compared with f64, for rows with gamma 1 and beta 0.
fn norm_error(rows: &[Vec<f32>], way: Way) -> f64 {
    let (case, mut inputs) = on(Op::LayerNorm, rows, &[]);
    let d = rows[0].len();
    inputs.insert("gamma", Tensor::vector(&vec![1.0_f32; d][..]));
    inputs.insert("beta", Tensor::vector(&vec![0.0_f32; d][..]));
    let y = compute(Op::LayerNorm, method(way), &case, &inputs);
    let mut worst = 0.0_f64;
    for (x, y) in rows.iter().zip(y.f32("y").unwrap().chunks(d)) {
        let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let mean = x.iter().sum::<f64>() / d as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / d as f64;
        for (x, y) in x.iter().zip(y) {
            let error = ((x - mean) / (variance + 1e-5).sqrt() - f64::from(*y)).abs();
            assert!(!error.is_nan());
            worst = worst.max(error);
        }
    }
    worst
}

#[test]
fn layer_norm_is_right_at_any_mean_and_for_constant_rows() {
    let noise: Vec<f32> = activations().into_iter().filter(|x| x.abs() < 20.0).collect();
    for way in ways() {
        for d in [1, 2, 7, 64, 256, 768, 1000] {
            let rows = |shift: f32, scale: f32| -> Vec<Vec<f32>> {
                noise.chunks_exact(d).take(40).map(|row| row.iter().map(|x| x * scale + shift).collect()).collect()
            };
            for (shift, scale) in [(0.0, 1.0), (1e4, 1.0), (-1e4, 0.1), (1e6, 1.0), (0.0, 1e-3)] {
                let error = norm_error(&rows(shift, scale), way);
                assert!(error <= 2e-6, "{way:?} d {d} mean {shift} scale {scale}: {error:e}");
            }
            // A first value, or a start of the row, that is far from the mean.
            for (first, value) in [(1, 1e4), (1, -300.0), (16, 1e3), (20, 50.0)] {
                let mut rows = rows(0.0, 1.0);
                rows.iter_mut().for_each(|row| row.iter_mut().take(first).for_each(|x| *x += value));
                let error = norm_error(&rows, way);
                // The results have magnitude sqrt(d / first), with an error of a few units in the last place from the
                // sums.
                let bound = 2e-6_f64.max((d as f64 / first as f64).sqrt() * 4.8e-7);
                assert!(error <= bound, "{way:?} d {d}, {first} values {value} higher: {error:e}");
            }
            for constant in [0.0, 1.0, 1e4, -3.3e7] {
                let error = norm_error(&vec![vec![constant; d]; 5], way);
                assert!(error <= 2e-6, "{way:?} d {d} constant {constant}: {error:e}");
            }
        }
    }
}

#[test]
fn rows_of_softmax_sum_to_one() {
    let x: Vec<f32> = activations().into_iter().filter(|x| x.abs() < 200.0).collect();
    for way in ways() {
        for d in [1, 3, 64, 100, 1000] {
            let rows: Vec<Vec<f32>> = x.chunks_exact(d).take(50).map(<[f32]>::to_vec).collect();
            let (case, inputs) = on(Op::Softmax, &rows, &[]);
            let y = compute(Op::Softmax, method(way), &case, &inputs);
            for row in y.f32("y").unwrap().chunks(d) {
                let sum: f64 = row.iter().map(|y| f64::from(*y)).sum();
                assert!((sum - 1.0).abs() <= 1e-6, "{way:?} {d}: {sum}");
            }
        }
    }
}

#[test]
fn cross_entropy_is_right_for_large_logits() {
    for way in ways() {
        let loss = |row: &[f32], label: i64| {
            let (case, mut inputs) = on(Op::CrossEntropyLoss, &[row.to_vec()], &[("reduction", "none")]);
            inputs.insert("labels", Tensor::new(&[1, 1], &[label][..]).unwrap());
            compute(Op::CrossEntropyLoss, method(way), &case, &inputs).f32("loss").unwrap()[0]
        };
        // The label's logit leads by a wide margin: the loss is 0, not NaN. It trails by 2e4: the loss is 2e4.
        let mut row = vec![0.0; 100];
        row[17] = 1e4;
        row[18] = -1e4;
        assert_eq!(loss(&row, 17), 0.0, "{way:?}");
        assert_eq!(loss(&row, 18), 2e4, "{way:?}");
        assert_eq!(loss(&row, 0), 1e4, "{way:?}");
        // Two classes lead together, at any height: ln 2.
        for height in [0.0, 1e4, -1e4] {
            let mut row = vec![height - 300.0; 50];
            row[3] = height;
            row[40] = height;
            assert!((loss(&row, 40) - std::f32::consts::LN_2).abs() < 1e-7, "{way:?} {height}");
        }
        assert_eq!(loss(&[1e4], 0), 0.0, "one class");
        // Uniform: ln of the number of classes.
        assert!((loss(&[5.0; 1000], 999) - 1000_f32.ln()).abs() < 1e-6, "{way:?}");
    }
}

#[test]
fn nan_and_infinity_propagate_as_documented() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let same = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
    for way in ways() {
        let y = |op, row: &[f32], more: &[(&str, &str)]| {
            let (case, inputs) = on(op, &[row.to_vec()], more);
            compute(op, method(way), &case, &inputs).f32("y").unwrap().to_vec()
        };
        // In a whole vector and in a partial one.
        for n in [3, 40] {
            let mut row = vec![0.0; n];
            row[..3].copy_from_slice(&[nan, inf, -inf]);
            for (op, form) in [(Op::Gelu, "exact"), (Op::Gelu, "tanh"), (Op::Swish, "exact")] {
                let got = y(op, &row, &[("form", form)]);
                assert!(same(&got[..3], &[nan, inf, nan]), "{way:?} {op:?} {form}: {got:?}");
                assert!(got[3..].iter().all(|y| *y == 0.0));
            }
            for bad in [nan, inf] {
                let mut row = vec![1.0; n];
                row[n - 1] = bad;
                for op in [Op::LayerNorm, Op::Softmax] {
                    assert!(y(op, &row, &[]).iter().all(|y| y.is_nan()), "{way:?} {op:?} {bad}");
                }
            }
            let mut row = vec![1.0; n];
            row[0] = -inf;
            assert_eq!(y(Op::Softmax, &row, &[])[0], 0.0);
            assert!(y(Op::Softmax, &vec![-inf; n], &[]).iter().all(|y| y.is_nan()), "{way:?} a row of -infinity");
        }
    }
}

#[test]
fn a_long_mean_of_squares_keeps_its_digits() {
    // A million equal squares: a running f32 sum would stop growing.
    let n = 1 << 20;
    let (case, mut inputs) = on(Op::MseLoss, &vec![vec![1.1; 1024]; n / 1024], &[("reduction", "sum")]);
    inputs.insert("target", Tensor::new(&[1, n / 1024, 1024], &vec![0.0_f32; n][..]).unwrap());
    let exact = f64::from(1.1_f32).powi(2) * n as f64;
    for way in ways() {
        let got = f64::from(compute(Op::MseLoss, method(way), &case, &inputs).f32("loss").unwrap()[0]);
        assert!((got / exact - 1.0).abs() < 1e-6, "{way:?}: {got} for {exact}");
    }
}
