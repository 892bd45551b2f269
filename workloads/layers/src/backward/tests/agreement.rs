//! Every implementation agrees with the reference, for every instruction set, shape and policy.

use super::*;

const SHAPES: [[usize; 3]; 13] = [
    [1, 1, 1],
    [1, 3, 1],
    [2, 2, 2],
    [1, 5, 7],
    [1, 7, 8],
    [3, 3, 15],
    [1, 9, 16],
    [2, 3, 17],
    [1, 6, 33],
    [1, 19, 100],
    [1, 67, 300],
    [2, 70, 768],
    [1, 2, 5000],
];

#[test]
fn every_way_agrees_with_the_reference_at_every_shape() {
    for op in Op::ALL {
        for form in forms(op) {
            for extents in SHAPES {
                let case = case(op, extents, &form);
                let inputs = Backward::new(op).inputs(&case, 1).unwrap();
                for way in ways() {
                    let got = compute(op, method(way), &case, &inputs);
                    judged(op, &case, &inputs, &got).unwrap_or_else(|detail| panic!("{case} {way:?}: {detail}"));
                }
            }
        }
    }
}

#[test]
fn threads_stores_and_pages_do_not_change_a_bit() {
    let policies = [
        vec![("stores", "ordinary")],
        vec![("allocation", "arena"), ("stores", "non-temporal")],
        vec![("allocation", "fresh")],
    ];
    for op in Op::ALL {
        // Several pieces with a short last one; aligned and unaligned rows; many pieces.
        for extents in [[3, 701, 64], [2, 301, 250], [33, 71, 16]] {
            for form in forms(op) {
                let plain = case(op, extents, &form);
                let inputs = Backward::new(op).inputs(&plain, 2).unwrap();
                for way in ways() {
                    // With streaming stores, layer normalisation goes row by row, with different blocks for the column
                    // sums.
                    for policy in &policies {
                        let case = case(op, extents, &[form.clone(), policy.clone()].concat());
                        let one = compute(op, method(way), &case, &inputs);
                        let many = compute(op, Method { way, parallel: true, unfused: false }, &case, &inputs);
                        assert_eq!(one.digest(), many.digest(), "{case} {way:?}");
                        judged(op, &case, &inputs, &many).unwrap_or_else(|detail| panic!("{case} {way:?}: {detail}"));
                    }
                }
            }
        }
    }
}

#[test]
fn long_sums_of_columns_keep_their_digits() {
    // Identical terms: running sums in f32 would have the same error at every step.
    let (rows, d) = (40_000, 3);
    let x: Vec<Vec<f32>> = (0..rows).map(|_| vec![0.1, 0.9, -2.3]).collect();
    let (case, inputs) = on(Op::LayerNorm, &x, Some(&vec![1.1; rows * d]), &[]);
    for way in ways() {
        let got = compute(Op::LayerNorm, method(way), &case, &inputs);
        let want = f64::from(1.1_f32) * rows as f64;
        for dbeta in got.f32("dbeta").unwrap() {
            assert!((f64::from(*dbeta) / want - 1.0).abs() < 1e-6, "{way:?}: {dbeta} for {want}");
        }
        judged(Op::LayerNorm, &case, &inputs, &got).unwrap();
    }
}

#[test]
fn a_run_that_computes_nothing_or_skips_a_row_is_found() {
    for op in Op::ALL {
        let case = case(op, [1, 40, 16], &[]);
        let inputs = Backward::new(op).inputs(&case, 1).unwrap();
        let mut job = Job::new(op, method(Way::Scalar), &case, &inputs).unwrap();
        job.compute();
        judged(op, &case, &inputs, &job.outputs().unwrap()).unwrap();
        for name in ["dx", "dgamma", "dbeta"].iter().take(if op.has_parameters() { 3 } else { 1 }) {
            let mut outputs = job.outputs().unwrap();
            let at = usize::from(*name == "dx") * 17;
            outputs.find_mut(name).unwrap().f32_mut().unwrap()[at] *= 1.001;
            assert!(judged(op, &case, &inputs, &outputs).unwrap_err().contains(&format!("{name}[{at}]")), "{case}");
        }
        job.poison(ellwand_core::Poison::Ones);
        assert!(judged(op, &case, &inputs, &job.outputs().unwrap()).is_err(), "{case}");
        assert!(judged(op, &case, &inputs, &Tensors::new()).unwrap_err().contains("missing"));
    }
}

#[test]
fn gradients_are_linear_in_what_follows_at_any_scale() {
    // A power of two changes no digit, down to gradients of 1e-30.
    for op in Op::ALL {
        for form in forms(op) {
            let case = case(op, [2, 9, 50], &form);
            let inputs = Backward::new(op).inputs(&case, 4).unwrap();
            let mut scaled = inputs.clone();
            let upstream = scaled.find_mut(op.upstream_name()).unwrap().f32_mut().unwrap();
            upstream.iter_mut().for_each(|dy| *dy *= 2.0_f32.powi(-60));
            for way in ways() {
                let (one, other) = (compute(op, method(way), &case, &inputs), compute(op, method(way), &case, &scaled));
                for (name, array) in one.iter() {
                    for (a, b) in array.f32().unwrap().iter().zip(other.f32(name).unwrap()) {
                        let want = a * 2.0_f32.powi(-60);
                        assert!((want - b).abs() <= 2e-7 * want.abs() + 1e-25, "{case} {way:?} {name}: {a} {b}");
                    }
                }
                judged(op, &case, &scaled, &other).unwrap_or_else(|detail| panic!("{case} {way:?}: {detail}"));
            }
        }
    }
}

#[test]
fn what_ran_names_instructions_stores_threads_and_pages() {
    let what_ran = |op, way, extents, more: &[(&str, &str)], parallel| {
        let case = case(op, extents, more);
        let inputs = Backward::new(op).inputs(&case, 1).unwrap();
        Job::new(op, Method { way, parallel, unfused: false }, &case, &inputs).unwrap().what_ran()
    };
    let best = Isa::best();
    let small = what_ran(Op::Gelu, Way::Vector(best), [1, 4, 20], &[], false);
    assert!(best == Isa::BASELINE || small.contains("ordinary stores: 0.0 MB <"), "{small}");
    let rows = what_ran(Op::LayerNorm, Way::Vector(best), [1, 4, 20], &[("stores", "non-temporal")], true);
    assert!(best == Isa::BASELINE || rows.contains("rows do not start on a vector"), "{rows}");
    assert!(rows.contains(&ellwand_simd::pool::about(1, "rows")), "{rows}");
    assert_eq!(
        what_ran(Op::Swish, Way::Scalar, [1, 4, 20], &[("allocation", "arena")], false),
        "f32 loops, huge pages"
    );
}

#[test]
fn inputs_are_those_of_the_way_forward() {
    use crate::{op::Op as Forward, workload::Layer};
    let back = case(Op::CrossEntropyLoss, [2, 3, 5], &[]);
    let forward = Layer::new(Forward::CrossEntropyLoss);
    assert_eq!(Backward::new(Op::CrossEntropyLoss).data_digest(&back), forward.data_digest(&back));
    let (here, there) =
        (Backward::new(Op::CrossEntropyLoss).inputs(&back, 3).unwrap(), forward.inputs(&back, 3).unwrap());
    assert_eq!(here.f32("x").unwrap(), there.f32("x").unwrap());
    assert_eq!(here.get("labels").unwrap().i64().unwrap(), there.get("labels").unwrap().i64().unwrap());
}

#[test]
fn every_workload_is_in_the_table_with_four_ways() {
    let mut registry = ellwand_core::Registry::new();
    crate::register(&mut registry);
    for op in Op::ALL {
        let task = registry.find(op.name()).unwrap();
        assert_eq!(task.groups(), ["layers-backward"]);
        let names: Vec<&str> = registry.implementations(op.name()).iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["reference", "scalar", "simd", "parallel"]);
        let case = case(op, [4, 8, 16], &[]);
        assert!(task.work(&case).bytes_read >= 4 * 512 && task.work(&case).flops > 512.0);
        let ports = task.ports(&case);
        let inputs = task.inputs(&case, 1).unwrap();
        assert!(ports.inputs.iter().all(|port| inputs.get(port.name).unwrap().dtype() == port.dtype), "{case}");
        assert_eq!(ports.inputs.len(), inputs.len(), "{case}");
    }
}
