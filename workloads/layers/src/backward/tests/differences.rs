//! The reference compared with central differences of the operations themselves, in f64.
//!
//! With L = sum of dy y over all values of an output y, dL/dx is the gradient for that dy. (L(x + h) - L(x - h)) / 2h
//! differs from it by h^2 / 6 times a third derivative, and by rounding, 2^-53 |L| / h.

use proptest::prelude::*;

use super::*;
use crate::reference;

const STEP: f64 = 1e-4;

/// The operations by definition, for one row.
struct Row<'a> {
    op: Op,
    tanh: bool,
    gamma: &'a [f64],
    beta: &'a [f64],
    target: &'a [f64],
    label: usize,
}

impl Row<'_> {
    fn of(&self, x: &[f64]) -> Vec<f64> {
        let d = x.len() as f64;
        match self.op {
            Op::Gelu => x.iter().map(|x| reference::gelu(*x, self.tanh)).collect(),
            Op::Swish => x.iter().map(|x| reference::swish(*x)).collect(),
            Op::MseLoss => x.iter().zip(self.target).map(|(x, target)| (x - target).powi(2)).collect(),
            Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss => {
                let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let log = x.iter().map(|x| (x - most).exp()).sum::<f64>().ln() + most;
                match self.target {
                    [] => vec![log - x[self.label]],
                    target => vec![x.iter().zip(target).map(|(x, p)| p * (log - x)).sum()],
                }
            }
            Op::LayerNorm => {
                let mean = x.iter().sum::<f64>() / d;
                let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / d;
                let normal = x.iter().map(|x| (x - mean) / (variance + f64::from(1e-5_f32)).sqrt());
                normal.zip(self.gamma).zip(self.beta).map(|((x, gamma), beta)| x * gamma + beta).collect()
            }
        }
    }

    fn weighed(&self, x: &[f64], dy: &[f64]) -> f64 {
        self.of(x).iter().zip(dy).map(|(y, dy)| y * dy).sum()
    }
}

/// The slope of `f` in each of its variables.
fn slopes(at: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut moved = at.to_vec();
    (0..at.len())
        .map(|i| {
            let [above, below] = [STEP, -STEP].map(|step| {
                moved[i] = at[i] + step;
                f(&moved)
            });
            moved[i] = at[i];
            (above - below) / (2.0 * STEP)
        })
        .collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

fn close(name: &str, got: &[f32], want: &[f64], scale: f64) -> Result<(), TestCaseError> {
    prop_assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        prop_assert!((f64::from(*got) - want).abs() <= 2e-6 * scale, "{}[{}]: {} for {}", name, i, got, want);
    }
    Ok(())
}

fn row(min: usize) -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(-4.0_f32..4.0, min..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn activations_and_losses_one_by_one(x in row(1), seed in 0_u64..1000) {
        for op in [Op::Gelu, Op::Swish, Op::MseLoss, Op::CrossEntropyLoss] {
            for form in forms(op) {
                let (case, _) = on(op, std::slice::from_ref(&x), None, &form);
                let mut inputs = Backward::new(op).inputs(&case, seed).unwrap();
                inputs.insert("x", Tensor::new(&[1, 1, x.len()], &x[..]).unwrap());
                let got = Backward::new(op).reference(&case, &inputs).unwrap();
                let labels = inputs.find("labels").map_or(0, |labels| labels.i64().unwrap()[0] as usize);
                let target = inputs.find("target").map_or(Vec::new(), |target| wide(target.f32().unwrap()));
                let tanh = case.text("form") == Some("tanh");
                let forward = Row { op, tanh, gamma: &[], beta: &[], target: &target, label: labels };
                // A reduced loss: all losses have the same weight.
                let outputs = if op == Op::CrossEntropyLoss { 1 } else { x.len() };
                let upstream = wide(inputs.f32(op.upstream_name()).unwrap());
                let share = if case.text("reduction") == Some("mean") { 1.0 / outputs as f64 } else { 1.0 };
                let dy: Vec<f64> = (0..outputs).map(|i| upstream[i % upstream.len()] * share).collect();
                let want = slopes(&wide(&x), |x| forward.weighed(x, &dy));
                close("dx", got.f32("dx").unwrap(), &want, 10.0)?;
            }
        }
    }

    #[test]
    fn layer_normalisation_and_its_parameters(rows in 1_usize..4, x in row(6), seed in 0_u64..1000) {
        let d = x.len() / rows;
        prop_assume!(d >= 1);
        let x: Vec<Vec<f32>> = x.chunks_exact(d).take(rows).map(<[f32]>::to_vec).collect();
        let (case, _) = on(Op::LayerNorm, &x, None, &[]);
        let mut inputs = Backward::new(Op::LayerNorm).inputs(&case, seed).unwrap();
        inputs.insert("x", Tensor::new(&[1, rows, d], &x.concat()[..]).unwrap());
        let got = Backward::new(Op::LayerNorm).reference(&case, &inputs).unwrap();
        let (gamma, dy) = (wide(inputs.f32("gamma").unwrap()), wide(inputs.f32("dy").unwrap()));
        let beta = vec![0.5; d];
        let whole = wide(&x.concat());
        let weighed = |x: &[f64], gamma: &[f64], beta: &[f64]| -> f64 {
            let row = Row { op: Op::LayerNorm, tanh: false, gamma, beta, target: &[], label: 0 };
            x.chunks(d).zip(dy.chunks(d)).map(|(x, dy)| row.weighed(x, dy)).sum()
        };
        // The third derivative grows with the cube of 1 / deviation, which is large for rows of few or nearly equal
        // values.
        let deviation = |x: &Vec<f32>| 1.0 / reference_deviation(x);
        let spread = x.iter().map(deviation).fold(f64::INFINITY, f64::min);
        if spread > 0.3 {
            close("dx", got.f32("dx").unwrap(), &slopes(&whole, |x| weighed(x, &gamma, &beta)), 10.0)?;
        }
        close("dgamma", got.f32("dgamma").unwrap(), &slopes(&gamma, |gamma| weighed(&whole, gamma, &beta)), 10.0)?;
        close("dbeta", got.f32("dbeta").unwrap(), &slopes(&beta, |beta| weighed(&whole, &gamma, beta)), 10.0)?;
    }

    #[test]
    fn rows_of_a_gradient_keep_their_laws(x in row(2), seed in 0_u64..1000) {
        // A softmax is invariant to shifts of its logits, and a normalisation to shifts and (except for eps) scaling of
        // its row: the gradient is orthogonal to both.
        for way in ways() {
            let (case, _) = on(Op::CrossEntropyLoss, std::slice::from_ref(&x), None, &[]);
            let mut inputs = Backward::new(Op::CrossEntropyLoss).inputs(&case, seed).unwrap();
            inputs.insert("x", Tensor::new(&[1, 1, x.len()], &x[..]).unwrap());
            let dx = wide(compute(Op::CrossEntropyLoss, method(way), &case, &inputs).f32("dx").unwrap());
            prop_assert!(dx.iter().sum::<f64>().abs() < 2e-6, "{:?}: {:?}", way, dx);

            let inverse = reference_deviation(&x);
            prop_assume!(inverse < 3.0);
            let (case, mut inputs) = on(Op::LayerNorm, std::slice::from_ref(&x), None, &[]);
            inputs.insert("gamma", Tensor::vector(&vec![1.5_f32; x.len()][..]));
            let dx = wide(compute(Op::LayerNorm, method(way), &case, &inputs).f32("dx").unwrap());
            prop_assert!(dx.iter().sum::<f64>().abs() < 1e-4, "{:?}: {:?}", way, dx);
            let along: f64 = dx.iter().zip(&x).map(|(dx, x)| dx * f64::from(*x)).sum();
            prop_assert!(along.abs() < 1e-2, "{:?}: {} {:?}", way, along, dx);
        }
    }
}

/// 1 / sqrt(variance + eps) of a row.
fn reference_deviation(x: &[f32]) -> f64 {
    super::super::reference::moments(x, 1e-5).1
}
