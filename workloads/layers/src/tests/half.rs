//! Arrays in bf16: every method compared with f64 on the rounded inputs, and the check itself.

use ellwand_core::{Dtype, Fit, Prepared};

use super::*;
use crate::half::INPUTS;
use ellwand_simd::lanes::half::{narrow, widen};
use ellwand_simd::precision::{narrowed, widened};

const OPS: [Op; 6] = [Op::LayerNorm, Op::Gelu, Op::Swish, Op::Softmax, Op::MseLoss, Op::CrossEntropyLoss];

fn forms(op: Op) -> Vec<Vec<(&'static str, &'static str)>> {
    let mut forms = match op {
        Op::Gelu => vec![vec![("form", "exact")], vec![("form", "tanh")]],
        Op::MseLoss | Op::CrossEntropyLoss => ["mean", "sum", "none"].map(|word| vec![("reduction", word)]).to_vec(),
        _ => vec![vec![]],
    };
    if op == Op::CrossEntropyLoss {
        forms.extend(["mean", "none"].map(|word| vec![("targets", "probabilities"), ("reduction", word)]));
    }
    forms.iter_mut().for_each(|form| form.push(("precision", "bf16")));
    forms
}

fn run(op: Op, method: Method, case: &Case, inputs: &Tensors) -> Tensors {
    let mut job = Job::<u16>::new(op, method, case, inputs).unwrap();
    job.poison(ellwand_core::Poison::Ones);
    job.compute();
    job.outputs().unwrap()
}

fn judged(op: Op, case: &Case, inputs: &Tensors, got: &Tensors) -> Result<(), String> {
    let layer = Layer::new(op);
    let verdict = layer.judge(case, inputs, &layer.reference(case, inputs).unwrap(), got);
    if verdict.passed { Ok(()) } else { Err(verdict.detail) }
}

#[test]
fn every_way_agrees_with_f64_at_every_shape() {
    for op in OPS {
        for form in forms(op) {
            for extents in [
                [1, 1, 1],
                [1, 3, 1],
                [1, 5, 7],
                [3, 3, 15],
                [1, 9, 16],
                [2, 3, 17],
                [1, 6, 33],
                [2, 70, 768],
                [1, 2, 5000],
            ] {
                let case = case(op, extents, &form);
                let layer = Layer::new(op);
                let inputs = layer.inputs(&case, 1).unwrap();
                assert_eq!(inputs.get("x").unwrap().dtype(), Dtype::U16);
                for way in ways().into_iter().chain([Way::Reference]) {
                    let got = run(op, method(way), &case, &inputs);
                    judged(op, &case, &inputs, &got).unwrap_or_else(|detail| panic!("{case} {way:?}: {detail}"));
                    for port in layer.ports(&case).outputs {
                        assert_eq!(got.get(port.name).unwrap().dtype(), port.dtype, "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn threads_stores_and_pages_do_not_change_a_bit() {
    for op in OPS {
        for extents in [[3, 701, 64], [2, 301, 250]] {
            for form in forms(op) {
                let plain = case(op, extents, &form);
                let inputs = Layer::new(op).inputs(&plain, 2).unwrap();
                for way in ways() {
                    let expected = run(op, method(way), &plain, &inputs);
                    for policy in [
                        [("stores", "ordinary"), ("allocation", "fresh")],
                        [("stores", "non-temporal"), ("allocation", "arena")],
                    ] {
                        let case = case(op, extents, &[&policy[..], &form[..]].concat());
                        let got = run(op, Method { way, parallel: true, unfused: false }, &case, &inputs);
                        assert_eq!(got.digest(), expected.digest(), "{case} {way:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_error_of_one_bf16_step_and_a_missing_answer_are_found() {
    for op in OPS {
        let form =
            if op.is_loss() { vec![("reduction", "none"), ("precision", "bf16")] } else { vec![("precision", "bf16")] };
        let case = case(op, [1, 4, 40], &form);
        let inputs = Layer::new(op).inputs(&case, 1).unwrap();
        let mut job = Job::<u16>::new(op, method(Way::Scalar), &case, &inputs).unwrap();
        job.compute();
        assert!(job.what_ran().contains("bf16"), "{}", job.what_ran());
        let name = if op.is_loss() { "loss" } else { "y" };
        for step in [2_u16, 0_u16.wrapping_sub(2)] {
            let mut got = job.outputs().unwrap();
            let y = got.find_mut(name).unwrap().u16_mut().unwrap();
            let at = (0..y.len()).max_by(|a, b| widen(y[*a]).abs().total_cmp(&widen(y[*b]).abs())).unwrap();
            y[at] = y[at].wrapping_add(step);
            assert!(judged(op, &case, &inputs, &got).unwrap_err().contains(&format!("{name}[{at}]")), "{case}");
        }
        job.poison(ellwand_core::Poison::Ones);
        assert!(judged(op, &case, &inputs, &job.outputs().unwrap()).is_err(), "{case}");
        assert!(judged(op, &case, &inputs, &Tensors::new()).unwrap_err().contains("missing"));
        let wide = Tensors::new()
            .with(name, Tensor::zeros(Dtype::F32, job.outputs().unwrap().get(name).unwrap().shape()).unwrap());
        assert!(judged(op, &case, &inputs, &wide).unwrap_err().contains("float32"));
    }
}

#[test]
fn nan_infinity_and_the_greatest_numbers_keep_their_places() {
    for op in OPS {
        for form in forms(op) {
            let (case, inputs) = on(op, &vec![vec![0.5; 40]; 4], &form[..form.len() - 1]);
            let mut case = case;
            case.set("precision", "bf16");
            let mut inputs = narrowed(inputs, &INPUTS).unwrap();
            let x = inputs.find_mut("x").unwrap().u16_mut().unwrap();
            // The squares of a normalisation are computed in f32.
            let great = if op == Op::LayerNorm { 1e15 } else { 3.3e38 };
            for (at, value) in
                [(3, f32::NAN), (41, f32::INFINITY), (79, f32::NEG_INFINITY), (120, great), (159, -great)]
            {
                x[at] = narrow(value);
            }
            for way in ways() {
                let got = run(op, method(way), &case, &inputs);
                judged(op, &case, &inputs, &got).unwrap_or_else(|detail| panic!("{case} {way:?}: {detail}"));
            }
        }
    }
}

#[test]
fn given_arrays_hold_bits_and_a_case_is_what_it_was_without_the_axis() {
    let case = case(Op::Swish, [1, 2, 4], &[("precision", "bf16")]);
    let layer = Layer::new(Op::Swish);
    let refused = layer.adopt(&case, Tensors::new().with("x", Tensor::vector(&[1.0_f32; 8][..])), Fit::Whole);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("x") && refused.contains("float32") && refused.contains("bfloat16"), "{refused}");
    let given = Tensors::new().with("x", Tensor::new(&[3, 4], &[narrow(1.5); 12][..]).unwrap());
    let (made, inputs) = layer.adopt(&case, given, Fit::Whole).unwrap();
    assert_eq!((made.int("sequence"), inputs.get("x").unwrap().u16().unwrap()), (Some(3), &[0x3fc0; 12][..]));
    assert_eq!(widened(inputs, &INPUTS).unwrap().f32("x").unwrap(), [1.5; 12]);

    for op in Op::ALL {
        let axis = Layer::new(op).axes().iter().find(|axis| axis.name == "precision").cloned();
        assert_eq!(axis.is_some(), OPS.contains(&op), "{op:?}");
        assert!(axis.is_none_or(|axis| axis.neutral == Some("f32".into())));
    }
    // Half the bytes, and the same data except for rounding.
    let f32s = super::case(Op::Swish, [1, 2, 4], &[]);
    assert_eq!(2 * layer.work(&case).bytes_total(), layer.work(&f32s).bytes_total());
    let (narrow_x, wide_x) = (layer.inputs(&case, 3).unwrap(), layer.inputs(&f32s, 3).unwrap());
    assert_eq!(layer.data_digest(&case), layer.data_digest(&f32s));
    assert!(narrowed(wide_x, &INPUTS).unwrap().get("x").unwrap().data().same_bits(narrow_x.get("x").unwrap().data()));
}

#[test]
fn implementations_take_f32_and_bf16_and_a_gpu_declines_bf16() {
    let (plain, narrow) = (case(Op::Gelu, [1, 4, 16], &[]), case(Op::Gelu, [1, 4, 16], &[("precision", "bf16")]));
    for row in crate::job::implementations(Op::Gelu) {
        for case in [&plain, &narrow] {
            let layer = Layer::new(Op::Gelu);
            let inputs = layer.inputs(case, 1).unwrap();
            let mut ready = (row.prepare)(case, &inputs, &ellwand_gpu_lab::testing::Here).unwrap();
            ready.run();
            let output = ready.output().unwrap();
            let verdict = layer.judge(case, &inputs, &layer.reference(case, &inputs).unwrap(), &output);
            assert!(verdict.passed, "{case} {row:?}: {}", verdict.detail);
        }
    }
    for row in crate::gpu::implementations(Op::Gelu) {
        let inputs = Layer::new(Op::Gelu).inputs(&narrow, 1).unwrap();
        let Err(error) = (row.prepare)(&narrow, &inputs, &ellwand_gpu_lab::testing::Here) else {
            panic!("{row:?} took bf16")
        };
        assert!(
            matches!(&error, ellwand_core::PrepareError::Unsupported(why) if why.contains("precision=f32")),
            "{error}"
        );
    }
}
