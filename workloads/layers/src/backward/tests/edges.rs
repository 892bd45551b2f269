//! Accuracy over all values, constant rows and rows far from 0, first and last labels, NaN and infinity.

use super::super::reference::{gelu_slope, swish_slope};
use super::*;

#[test]
fn slopes_of_activations_keep_their_errors_everywhere() {
    let mut x: Vec<f32> = (-240_000..240_000).map(|i| i as f32 * 1e-4).collect();
    x.extend([-1e30, -100.0, 100.0, 1e30, 1e-30, -1e-30, 0.0, -0.0, f32::MAX, f32::MIN]);
    let ones = vec![1.0; x.len()];
    for (op, form) in [(Op::Gelu, "exact"), (Op::Gelu, "tanh"), (Op::Swish, "exact")] {
        let (case, inputs) = on(op, std::slice::from_ref(&x), Some(&ones), &[("form", form)]);
        let exact = |x: f32| match op {
            Op::Swish => swish_slope(f64::from(x)),
            _ => gelu_slope(f64::from(x), form == "tanh"),
        };
        for way in ways() {
            let got = compute(op, method(way), &case, &inputs);
            for (x, dx) in x.iter().zip(got.f32("dx").unwrap()) {
                let error = (f64::from(*dx) - exact(*x)).abs();
                assert!(error <= 1e-6, "{way:?} {op:?} {form} at {x}: {dx}, off by {error:e}");
            }
        }
    }
}

#[test]
fn layer_normalisation_is_right_at_any_mean_and_for_constant_rows() {
    let noise = Backward::new(Op::LayerNorm).inputs(&case(Op::LayerNorm, [1, 40, 1000], &[]), 3).unwrap();
    for d in [1, 2, 7, 64, 256, 768, 1000] {
        let rows: Vec<Vec<f32>> = noise.f32("x").unwrap().chunks_exact(d).take(40).map(<[f32]>::to_vec).collect();
        let dy = &noise.f32("dy").unwrap()[..rows.len() * d];
        let with = |change: &dyn Fn(usize, f32) -> f32| -> Vec<Vec<f32>> {
            rows.iter().map(|row| row.iter().enumerate().map(|(i, x)| change(i, *x)).collect()).collect()
        };
        let mut all = vec![with(&|_, x| x + 1e4), with(&|_, x| 0.1 * x - 1e4), with(&|_, x| 1e-3 * x)];
        all.extend([0.0, 1.0, 1e4, -3.3e7].map(|constant| with(&|_, _| constant)));
        // A first value, or a start of the row, that is far from the mean.
        all.push(with(&|i, x| if i == 0 { x + 1e4 } else { x }));
        all.push(with(&|i, x| if i < 20 { x - 300.0 } else { x }));
        for x in all {
            let (case, inputs) = on(Op::LayerNorm, &x, Some(dy), &[]);
            for way in ways() {
                let got = compute(Op::LayerNorm, method(way), &case, &inputs);
                judged(Op::LayerNorm, &case, &inputs, &got)
                    .unwrap_or_else(|detail| panic!("{way:?} d {d} from {}: {detail}", x[0][0]));
            }
        }
    }
}

#[test]
fn a_row_of_one_value_has_no_gradient() {
    let (case, inputs) = on(Op::LayerNorm, &[vec![3.0], vec![-1e4]], Some(&[0.7, -2.0]), &[]);
    for way in ways() {
        let got = compute(Op::LayerNorm, method(way), &case, &inputs);
        assert_eq!(got.f32("dx").unwrap(), [0.0, 0.0], "{way:?}");
        assert_eq!(got.f32("dgamma").unwrap(), [0.0], "{way:?}");
        assert!((got.f32("dbeta").unwrap()[0] + 1.3).abs() < 1e-6, "{way:?}");
        let (case, inputs) = on(Op::CrossEntropyLoss, &[vec![3.0], vec![-1e4]], None, &[]);
        assert_eq!(compute(Op::CrossEntropyLoss, method(way), &case, &inputs).f32("dx").unwrap(), [0.0, 0.0]);
    }
}

#[test]
fn cross_entropy_at_the_ends_of_its_labels_and_for_large_logits() {
    for way in ways() {
        for d in [2, 16, 17, 100, 1000] {
            for label in [0, d - 1] {
                let gradient = |row: Vec<f32>| {
                    let (case, mut inputs) = on(Op::CrossEntropyLoss, &[row], None, &[("reduction", "sum")]);
                    inputs.insert("labels", Tensor::new(&[1, 1], &[label as i64][..]).unwrap());
                    inputs.insert("dloss", Tensor::new(&[], &[2.0_f32][..]).unwrap());
                    compute(Op::CrossEntropyLoss, method(way), &case, &inputs).f32("dx").unwrap().to_vec()
                };
                // Uniform logits: 2 / d for every class, minus 2 for the label.
                let dx = gradient(vec![5.0; d]);
                for (c, dx) in dx.iter().enumerate() {
                    let want = 2.0 / d as f32 - if c == label { 2.0 } else { 0.0 };
                    assert!((dx - want).abs() < 1e-6, "{way:?} d {d} label {label}: {dx} for {want}");
                }
                // The label leads by a wide margin, then trails by one.
                let mut row = vec![0.0; d];
                row[label] = 1e4;
                assert!(gradient(row.clone()).iter().all(|dx| *dx == 0.0), "{way:?}");
                row[label] = -1e4;
                assert_eq!(gradient(row)[label], -2.0, "{way:?}");
            }
        }
    }
}

#[test]
fn nan_and_infinity_propagate_as_documented() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for way in ways() {
        // In a whole vector and in a partial one.
        for n in [5, 40] {
            for (op, form) in [(Op::Gelu, "exact"), (Op::Gelu, "tanh"), (Op::Swish, "exact")] {
                let mut x = vec![0.0; n];
                x[..3].copy_from_slice(&[nan, inf, -inf]);
                let mut dy = vec![1.0; n];
                dy[3] = nan;
                let (case, inputs) = on(op, &[x], Some(&dy), &[("form", form)]);
                let dx = compute(op, method(way), &case, &inputs);
                let dx = dx.f32("dx").unwrap();
                assert!(dx[..4].iter().all(|dx| dx.is_nan()), "{way:?} {op:?} {form}: {dx:?}");
                assert!(dx[4..].iter().all(|dx| (dx - 0.5).abs() < 1e-6), "{way:?} {op:?} {form}: {dx:?}");
            }
            let rows = |bad: f32| {
                let mut rows = vec![(0..n).map(|i| i as f32).collect::<Vec<f32>>(); 3];
                rows[1][n - 1] = bad;
                rows
            };
            for bad in [nan, inf, -inf] {
                let (case, inputs) = on(Op::LayerNorm, &rows(bad), None, &[]);
                let got = compute(Op::LayerNorm, method(way), &case, &inputs);
                let is_nan = |name: &str| got.f32(name).unwrap().iter().map(|v| v.is_nan()).collect::<Vec<_>>();
                let of_row: Vec<bool> = (0..3 * n).map(|i| i / n == 1).collect();
                assert_eq!(is_nan("dx"), of_row, "{way:?} {bad}");
                assert!(
                    is_nan("dgamma").iter().all(|nan| *nan) && is_nan("dbeta").iter().all(|nan| !nan),
                    "{way:?} {bad}"
                );
                judged(Op::LayerNorm, &case, &inputs, &got).unwrap();

                let (case, inputs) = on(Op::CrossEntropyLoss, &rows(bad), None, &[]);
                let got = compute(Op::CrossEntropyLoss, method(way), &case, &inputs);
                let nans: Vec<bool> = got.f32("dx").unwrap().iter().map(|v| v.is_nan()).collect();
                assert_eq!(nans, if bad == -inf { vec![false; 3 * n] } else { of_row }, "{way:?} {bad}");
                judged(Op::CrossEntropyLoss, &case, &inputs, &got).unwrap();
            }
            let mut dy = vec![1.0; 3 * n];
            dy[n + 2] = nan;
            let (case, inputs) = on(Op::LayerNorm, &rows(0.0), Some(&dy), &[]);
            let got = compute(Op::LayerNorm, method(way), &case, &inputs);
            for name in ["dgamma", "dbeta"] {
                let nans: Vec<usize> = (0..n).filter(|c| got.f32(name).unwrap()[*c].is_nan()).collect();
                assert_eq!(nans, [2], "{way:?} {name}");
            }
            judged(Op::LayerNorm, &case, &inputs, &got).unwrap();
        }
    }
}
