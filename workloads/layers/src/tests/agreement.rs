//! Every implementation agrees with the reference, for every instruction set, shape and policy.

use super::*;

const SHAPES: [[usize; 3]; 12] = [
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
    [2, 70, 768],
    [1, 2, 5000],
];

fn forms(op: Op) -> Vec<Vec<(&'static str, &'static str)>> {
    if op.has_form() {
        vec![vec![("form", "exact")], vec![("form", "tanh")]]
    } else if op.is_loss() {
        let reductions = ["mean", "sum", "none"].map(|word| ("reduction", word));
        let targets: &[&str] = if op.has_labels() { &["labels", "probabilities"] } else { &["labels"] };
        targets.iter().flat_map(|word| reductions.map(|reduction| vec![("targets", *word), reduction])).collect()
    } else {
        vec![vec![]]
    }
}

#[test]
fn every_way_agrees_with_the_reference_at_every_shape() {
    for op in Op::ALL {
        for form in forms(op) {
            for extents in SHAPES {
                let case = case(op, extents, &form);
                let layer = Layer::new(op);
                let inputs = layer.inputs(&case, 1).unwrap();
                let expected = layer.reference(&case, &inputs).unwrap();
                for way in ways() {
                    for unfused in [false, true] {
                        let method = Method { way, parallel: false, unfused };
                        let verdict = layer.judge(&case, &inputs, &expected, &compute(op, method, &case, &inputs));
                        assert!(verdict.passed, "{case} {way:?} unfused {unfused}: {}", verdict.detail);
                    }
                }
            }
        }
    }
}

/// Otherwise a run that computes nothing could find the last answer in the memory that the allocator hands out again.
#[test]
fn a_run_after_the_poison_writes_to_the_memory_that_holds_it() {
    let case = case(Op::Gelu, [3, 701, 64], &[("allocation", "fresh")]);
    let inputs = Layer::new(Op::Gelu).inputs(&case, 2).unwrap();
    let mut job = Job::<f32>::new(Op::Gelu, method(Way::Scalar), &case, &inputs).unwrap();
    job.compute();
    ellwand_core::Prepared::poison(&mut job, ellwand_core::Poison::Mixed);
    let poisoned = job.y.as_ptr();
    job.compute();
    assert_eq!(job.y.as_ptr(), poisoned);
}

#[test]
fn threads_stores_and_pages_do_not_change_a_bit() {
    let policies = [
        vec![("stores", "ordinary")],
        vec![("stores", "non-temporal")],
        vec![("allocation", "arena"), ("stores", "non-temporal")],
        vec![("allocation", "fresh")],
    ];
    for op in Op::ALL {
        // Several pieces with a short last one; aligned and unaligned rows.
        for extents in [[3, 701, 64], [2, 301, 250]] {
            for form in forms(op) {
                let layer = Layer::new(op);
                let plain = case(op, extents, &form);
                let inputs = layer.inputs(&plain, 2).unwrap();
                for way in ways() {
                    let expected = compute(op, method(way), &plain, &inputs);
                    for policy in &policies {
                        let case = case(op, extents, &[form.clone(), policy.clone()].concat());
                        let got = compute(op, Method { way, parallel: true, unfused: false }, &case, &inputs);
                        assert_eq!(got.digest(), expected.digest(), "{case} {way:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_run_that_computes_nothing_is_found() {
    for op in Op::ALL {
        let case = case(op, [1, 2, 16], &[]);
        let layer = Layer::new(op);
        let inputs = layer.inputs(&case, 1).unwrap();
        let mut job = Job::<f32>::new(op, method(Way::Scalar), &case, &inputs).unwrap();
        job.compute();
        ellwand_core::Prepared::poison(&mut job, ellwand_core::Poison::Ones);
        let expected = layer.reference(&case, &inputs).unwrap();
        assert!(!layer.judge(&case, &inputs, &expected, &job.outputs().unwrap()).passed, "{case}");
    }
}

#[test]
fn what_ran_names_instructions_stores_and_pages() {
    let what_ran = |op, isa, more: &[(&str, &str)]| {
        let case = case(op, [1, 4, 20], more);
        let inputs = Layer::new(op).inputs(&case, 1).unwrap();
        ellwand_core::Prepared::what_ran(&Job::<f32>::new(op, method(Way::Vector(isa)), &case, &inputs).unwrap())
    };
    let best = Isa::best();
    let small = what_ran(Op::Gelu, best, &[]);
    assert!(best == Isa::BASELINE || small.contains("ordinary stores: 0.0 MB <"), "{small}");
    let rows = what_ran(Op::LayerNorm, best, &[("stores", "non-temporal")]);
    assert!(best == Isa::BASELINE || rows.contains("rows do not start on a vector"), "{rows}");
    assert_eq!(what_ran(Op::Swish, Isa::BASELINE, &[]), "baseline, ordinary stores: the baseline has no others");
    assert_eq!(what_ran(Op::MseLoss, best, &[]), best.name());
    assert!(
        what_ran(Op::Swish, best, &[("allocation", "arena"), ("stores", "ordinary")])
            .ends_with("ordinary stores, huge pages")
    );
}

#[test]
fn arrays_too_small_for_several_threads_report_one_thread() {
    use ellwand_core::Prepared;
    let all = ellwand_simd::pool::threads();
    for (shape, threads) in [([1, 4, 20], 1), ([8, 64, 1024], all.min(8))] {
        let case = case(Op::LayerNorm, shape, &[]);
        let inputs = Layer::new(Op::LayerNorm).inputs(&case, 1).unwrap();
        let with = |parallel| {
            let method = Method { parallel, ..method(Way::Vector(Isa::best())) };
            Job::<f32>::new(Op::LayerNorm, method, &case, &inputs).unwrap()
        };
        assert_eq!(with(true).threads(), Some(threads), "{shape:?}");
        assert_eq!(with(true).what_ran().contains("1 thread:"), threads == 1, "{}", with(true).what_ran());
        assert_eq!(with(false).threads(), None);
    }
}

#[test]
fn cases_that_differ_in_treatment_share_their_data() {
    let digest = |op, more: &[(&str, &str)]| Layer::new(op).data_digest(&case(op, [2, 3, 4], more));
    assert_eq!(digest(Op::Gelu, &[("form", "tanh")]), digest(Op::Swish, &[("allocation", "fresh")]));
    assert_ne!(digest(Op::Gelu, &[]), Layer::new(Op::Gelu).data_digest(&case(Op::Gelu, [2, 3, 5], &[])));
}

#[test]
fn a_case_chooses_its_instructions() {
    let with = |isa: &str| case(Op::Swish, [1, 4, 16], &[("isa", isa)]);
    let rows = crate::job::implementations(Op::Swish);
    for isa in Isa::available() {
        let case = with(isa.name());
        let inputs = Layer::new(Op::Swish).inputs(&case, 1).unwrap();
        for row in rows.iter().filter(|row| ["simd", "parallel"].contains(&row.name.as_str())) {
            let ready = (row.prepare)(&case, &inputs, &ellwand_gpu_lab::testing::Here).unwrap();
            assert!(ready.what_ran().starts_with(isa.name()), "{row:?}: {}", ready.what_ran());
        }
    }
    for absent in ["avx512", "avx2"].into_iter().filter(|name| Isa::available().iter().all(|isa| isa.name() != *name)) {
        let error = Layer::new(Op::Swish).check(&with(absent)).unwrap_err().to_string();
        assert!(error.contains("does not support") && error.contains("baseline"), "{error}");
    }
    // It was added later: its default leaves case ids unchanged.
    let axis = Layer::new(Op::Swish).axes().iter().find(|axis| axis.name == "isa").unwrap().clone();
    assert_eq!(axis.neutral, Some("best".into()));
}
