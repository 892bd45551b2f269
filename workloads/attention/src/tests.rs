//! Every implementation of every task compared with f64, properties of attention, masks, and invalid input.
#![allow(unsafe_code)]

use ellwand_core::{Case, Fit, Registry, Tensor, Tensors, Value};
use proptest::prelude::*;

mod exact;
mod few;
mod lengths;
mod scores;

use super::fused::{self, Core, Tiling};
use super::shape::{Layout, Mask, Shape};
use ellwand_gpu_lab::testing::{Here, here, judged_on_wgpu};
use ellwand_simd::isa::Isa;

pub(super) fn registry() -> Registry {
    let mut registry = Registry::new();
    super::register(&mut registry);
    registry
}

/// A case with the sizes batch, sequence, dimension, heads, kv-heads.
pub(super) fn case(registry: &Registry, workload: &str, sizes: [i64; 5], mask: &str) -> Case {
    let axes = registry.find(workload).unwrap().axes();
    let mut case = Case::new(workload, axes.iter().map(|a| (a.name.to_owned(), a.default[0].clone())).collect());
    for (axis, size) in ["batch", "sequence", "dimension", "heads", "kv-heads"].into_iter().zip(sizes) {
        case.set(axis, Value::Int(size));
    }
    case.set("mask", mask);
    case
}

/// Runs one implementation on `inputs`.
fn run(registry: &Registry, case: &Case, name: &str, inputs: &Tensors) -> Tensors {
    let row = registry.implementations(&case.workload).into_iter().find(|row| row.name == name).unwrap();
    let mut ready = (row.prepare)(case, inputs, &Here).unwrap();
    ready.poison(ellwand_core::Poison::Ones);
    ready.run();
    ready.output().unwrap()
}

const SIZES: [[i64; 5]; 7] = [
    [1, 1, 1, 1, 0],
    [2, 17, 64, 2, 0],
    [1, 65, 32, 4, 2],
    [3, 33, 80, 1, 1],
    [1, 200, 160, 2, 1],
    [2, 7, 24, 8, 4],
    [1, 530, 128, 1, 0],
];

#[test]
fn every_implementation_passes_and_poison_fails() {
    let registry = registry();
    let mut passed = 0;
    for workload in registry.workloads() {
        for sizes in SIZES {
            for mask in ["none", "causal", "padding"] {
                let case = case(&registry, workload.name(), sizes, mask);
                workload.check(&case).unwrap();
                let inputs = workload.inputs(&case, 5).unwrap();
                let expected = workload.reference(&case, &inputs).unwrap();
                for row in here(&registry, workload.name()) {
                    let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
                    ready.poison(ellwand_core::Poison::Ones);
                    let judge = |got: &Tensors| workload.judge(&case, &inputs, &expected, got);
                    assert!(!judge(&ready.output().unwrap()).passed, "{row:?} passes poisoned");
                    for _ in 0..2 {
                        ready.run();
                        let verdict = judge(&ready.output().unwrap());
                        assert!(verdict.passed, "{row:?} {case}: {}", verdict.detail);
                        ready.poison(ellwand_core::Poison::Ones);
                    }
                    passed += 1;
                }
                assert!(workload.work(&case).flops > 0.0 && workload.footprint(&case) > 0);
            }
        }
    }
    assert!(passed > 700, "{passed} only");
}

#[test]
fn wgpu_passes_at_every_size_and_mask() {
    let registry = registry();
    let with_wgpu = |name: &str| registry.implementations(name).iter().any(|row| row.name == "wgpu");
    let judged: Vec<_> = registry.workloads().iter().filter(|workload| with_wgpu(workload.name())).collect();
    assert!(judged.len() > 4, "{} only", judged.len());
    for workload in judged {
        for sizes in SIZES {
            for mask in ["none", "causal", "padding"] {
                let case = case(&registry, workload.name(), sizes, mask);
                let inputs = workload.inputs(&case, 6).unwrap();
                judged_on_wgpu(&registry, &case, &inputs, |_, _| {});
            }
        }
    }
}

#[test]
fn wgpu_gives_nothing_for_rows_that_see_no_key_and_nan_for_those_that_see_one() {
    let registry = registry();
    for workload in ["attention-scores", "attention-softmax", "attention-core", "attention"] {
        let case = case(&registry, workload, [2, 17, 64, 2, 0], "padding");
        let mut inputs = registry.find(workload).unwrap().inputs(&case, 6).unwrap();
        inputs.insert("lengths", Tensor::vector(&[0_i64, 17][..]));
        judged_on_wgpu(&registry, &case, &inputs, |_, _| {});
    }
    let case = case(&registry, "attention-core", [1, 40, 16, 1, 0], "causal");
    let mut inputs = registry.find("attention-core").unwrap().inputs(&case, 6).unwrap();
    let mut k = inputs.take("k").unwrap();
    k.f32_mut().unwrap()[33 * 16] = f32::NAN;
    inputs.insert("k", k);
    judged_on_wgpu(&registry, &case, &inputs, |_, output| {
        let context = output.get("context").unwrap().f32().unwrap();
        assert!(context[..33 * 16].iter().all(|v| v.is_finite()) && context[33 * 16..].iter().all(|v| v.is_nan()));
    });
}

/// The core of one shape on given arrays in the layout [batch, heads, sequence, head].
fn core(isa: Isa, tiling: Tiling, shape: &Shape, lengths: &[i64], arrays: [&[f32]; 3]) -> Vec<f32> {
    let mut out = vec![f32::NAN; shape.positions() * shape.dimension];
    let (queries, keys) = (Layout::queries(shape), Layout::keys(shape));
    let core = Core {
        shape: *shape,
        lengths,
        q: (arrays[0].as_ptr(), queries),
        k: (arrays[1].as_ptr(), keys),
        v: (arrays[2].as_ptr(), keys),
        out: (out.as_mut_ptr(), queries),
    };
    let scratch = fused::scratch(1, shape, tiling);
    // SAFETY: the arrays have the shape's sizes.
    unsafe { fused::single(isa, &core, tiling, &scratch) };
    out
}

fn normal(len: usize, seed: u64) -> Vec<f32> {
    use rand::SeedableRng;
    let mut rng = rand::rngs::ChaCha8Rng::seed_from_u64(seed);
    ellwand_gemm::normal(&[len], 1.0, &mut rng).unwrap().f32().unwrap().to_vec()
}

/// Random queries, keys and values of a shape.
fn arrays(shape: &Shape, seed: u64) -> [Vec<f32>; 3] {
    let (q, kv) = (shape.positions() * shape.dimension, shape.batch * shape.keys * shape.kv_heads * shape.head());
    [normal(q, seed), normal(kv, seed + 1), normal(kv, seed + 2)]
}

fn by_ref(arrays: &[Vec<f32>; 3]) -> [&[f32]; 3] {
    [&arrays[0], &arrays[1], &arrays[2]]
}

#[test]
fn fused_forms_are_within_a_millionth_on_every_instruction_set() {
    let registry = registry();
    let workload = registry.find("attention-core").unwrap();
    for (sizes, mask) in [
        ([1, 600, 64, 1, 0], "none"),
        ([1, 1100, 64, 2, 1], "causal"),
        ([2, 90, 320, 4, 0], "padding"),
        ([1, 97, 128, 4, 1], "none"),
    ] {
        let case = case(&registry, "attention-core", sizes, mask);
        let inputs = workload.inputs(&case, 3).unwrap();
        let expected = workload.reference(&case, &inputs).unwrap();
        let shape = Shape::of(&case).unwrap();
        let lengths: Vec<i64> = inputs.find("lengths").map_or(Vec::new(), |l| l.i64().unwrap().to_vec());
        let given = ["q", "k", "v"].map(|name| inputs.f32(name).unwrap());
        for isa in Isa::available() {
            for tiling in [Tiling::FAST, Tiling::SMALL] {
                let got = core(isa, tiling, &shape, &lengths, given);
                let worst =
                    got.iter().zip(expected.f32("context").unwrap()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(worst <= 1e-6, "{} {tiling:?} {case}: {worst}", isa.name());
            }
        }
    }
}

#[test]
fn scores_that_grow_along_the_keys_correct_what_was_summed_before() {
    // Growth within tiles, between tiles and between blocks; at 30 per key the earlier sums vanish, at -1 nothing needs
    // correction.
    for step in [0.01, 0.3, 1.0, 30.0, -1.0] {
        let shape = Shape {
            batch: 1,
            sequence: 600,
            keys: 600,
            dimension: 16,
            heads: 1,
            kv_heads: 1,
            mask: Mask::Causal,
            seen: None,
        };
        let [_, _, v] = arrays(&shape, 8);
        // The score of key j is j step, to about 1e-4 in f32; a missing correction gives errors of tenths.
        let q = vec![1.0_f32; 600 * 16];
        let k: Vec<f32> = (0..600 * 16).map(|i| (i / 16) as f32 * step / 4.0).collect();
        for isa in Isa::available() {
            for tiling in [Tiling::FAST, Tiling::SMALL] {
                let got = core(isa, tiling, &shape, &[], [&q, &k, &v]);
                for row in [0, 5, 63, 64, 200, 511, 512, 599] {
                    let weights: Vec<f64> = (0..=row)
                        .map(|j| (f64::from(step) * if step > 0.0 { j as f64 - row as f64 } else { j as f64 }).exp())
                        .collect();
                    let sum: f64 = weights.iter().sum();
                    for e in 0..16 {
                        let expected: f64 = weights.iter().enumerate().map(|(j, w)| w * f64::from(v[j * 16 + e])).sum();
                        let (got, expected) = (f64::from(got[row * 16 + e]), expected / sum);
                        let error = (got - expected).abs();
                        assert!(error <= 1e-3, "{} {tiling:?} step {step} row {row}: {got} {expected}", isa.name());
                    }
                }
            }
        }
    }
}

#[test]
fn threads_and_cuts_change_no_bit() {
    let registry = registry();
    for sizes in [[1, 1000, 64, 1, 0], [2, 300, 128, 4, 2]] {
        for mask in ["none", "causal", "padding"] {
            for (workload, output, one) in [
                ("attention-core", "context", "fused"),
                ("attention", "y", "fused"),
                ("transformer-layer", "y", "simd"),
            ] {
                let case = case(&registry, workload, sizes, mask);
                let inputs = registry.find(workload).unwrap().inputs(&case, 7).unwrap();
                let one = run(&registry, &case, one, &inputs);
                let many = run(&registry, &case, "parallel", &inputs);
                let same = one.get(output).unwrap().data().same_bits(many.get(output).unwrap().data());
                assert!(same, "{case}");
            }
        }
    }
}

#[test]
fn the_threads_of_a_run_are_those_that_its_pieces_can_occupy() {
    let registry = registry();
    let threads_used = |workload: &str, sizes: [i64; 5]| {
        let case = case(&registry, workload, sizes, "none");
        let inputs = registry.find(workload).unwrap().inputs(&case, 7).unwrap();
        let row = registry.implementations(workload).into_iter().find(|row| row.name == "parallel").unwrap();
        let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
        ready.run();
        let threads = ready.threads().unwrap();
        assert!(ready.what_ran().ends_with(&ellwand_simd::pool::about(threads, "values")), "{}", ready.what_ran());
        threads
    };
    assert_eq!(threads_used("attention-softmax", [1, 8, 8, 1, 0]), 1, "64 numbers are one piece");
    assert_eq!(threads_used("attention-core", [2, 256, 128, 4, 4]), ellwand_simd::pool::threads());
}

#[test]
fn one_key_gives_its_value_and_no_key_gives_zero() {
    let shape =
        Shape { batch: 2, sequence: 9, keys: 9, dimension: 32, heads: 2, kv_heads: 2, mask: Mask::Padding, seen: None };
    let given = arrays(&shape, 11);
    for isa in Isa::available() {
        for tiling in [Tiling::FAST, Tiling::SMALL] {
            let out = core(isa, tiling, &shape, &[1, 0], by_ref(&given));
            let (first, second) = out.split_at(out.len() / 2);
            for (head, rows) in first.chunks(9 * 16).enumerate() {
                for row in rows.chunks(16) {
                    assert_eq!(row, &given[2][head * 9 * 16..][..16]);
                }
            }
            assert!(second.iter().all(|y| *y == 0.0 && y.is_sign_positive()));
        }
    }
    let registry = registry();
    for name in ["naive", "blocked", "fused", "parallel", "memory-efficient", "reference"] {
        let case = case(&registry, "attention-core", [2, 9, 32, 2, 0], "padding");
        let mut inputs = registry.find("attention-core").unwrap().inputs(&case, 1).unwrap();
        inputs.insert("lengths", Tensor::vector(&[0_i64, 9][..]));
        let got = run(&registry, &case, name, &inputs);
        assert!(got.f32("context").unwrap()[..9 * 32].iter().all(|y| *y == 0.0), "{name}");
    }
}

#[test]
fn a_key_that_is_not_a_number_reaches_the_rows_that_see_it_and_no_others() {
    let shape = Shape {
        batch: 1,
        sequence: 40,
        keys: 40,
        dimension: 16,
        heads: 1,
        kv_heads: 1,
        mask: Mask::Causal,
        seen: None,
    };
    let mut given = arrays(&shape, 4);
    given[1][20 * 16 + 3] = f32::NAN;
    for isa in Isa::available() {
        for tiling in [Tiling::FAST, Tiling::SMALL] {
            let out = core(isa, tiling, &shape, &[], by_ref(&given));
            for (row, y) in out.chunks(16).enumerate() {
                let nan = y.iter().all(|y| y.is_nan());
                let number = y.iter().all(|y| y.is_finite());
                assert!(if row >= 20 { nan } else { number }, "{} {tiling:?} row {row}", isa.name());
            }
        }
    }
}

#[test]
fn a_head_shared_by_a_group_is_a_head_repeated() {
    let grouped = Shape {
        batch: 2,
        sequence: 50,
        keys: 50,
        dimension: 64,
        heads: 4,
        kv_heads: 2,
        mask: Mask::Causal,
        seen: None,
    };
    let apart = Shape { kv_heads: 4, ..grouped };
    let given = arrays(&grouped, 9);
    let repeated = |x: &[f32]| x.chunks(50 * 16).flat_map(|head| [head, head].concat()).collect::<Vec<f32>>();
    let again = [given[0].clone(), repeated(&given[1]), repeated(&given[2])];
    for isa in Isa::available() {
        let a = core(isa, Tiling::FAST, &grouped, &[], by_ref(&given));
        let b = core(isa, Tiling::FAST, &apart, &[], by_ref(&again));
        assert_eq!(a, b, "{}", isa.name());
    }
}

#[test]
fn the_working_memory_that_is_planned_for_is_the_one_that_is_held() {
    let registry = registry();
    for workload in ["attention-core", "attention"] {
        let case = case(&registry, workload, [2, 300, 128, 2, 0], "none");
        let inputs = registry.find(workload).unwrap().inputs(&case, 1).unwrap();
        let mut held = Vec::new();
        for name in ["naive", "blocked", "fused", "memory-efficient"] {
            let row = registry.implementations(workload).into_iter().find(|row| row.name == name).unwrap();
            let readings = (row.prepare)(&case, &inputs, &Here).unwrap().readings();
            held.push(readings.iter().find(|r| r.id == "extra-memory").unwrap().value.unwrap());
        }
        assert!(held[0] >= 4.0 * 2.0 * 2.0 * 300.0 * 300.0, "{held:?}");
        assert!(held[2] < held[0] && held[3] < held[2], "{held:?}");
    }
    // A hundredth of the scores at the published length, on two threads.
    let long = Shape {
        batch: 1,
        sequence: 4096,
        keys: 4096,
        dimension: 512,
        heads: 8,
        kv_heads: 8,
        mask: Mask::None,
        seen: None,
    };
    assert!(4 * 2 * Tiling::FAST.len(&long) * 100 <= 4 * 8 * 4096 * 4096, "{}", Tiling::FAST.len(&long));
    assert!(Tiling::SMALL.len(&long) * 4 < 64 << 10);
}

#[test]
fn heads_that_do_not_divide_are_refused_with_what_would_fit() {
    let registry = registry();
    let workload = registry.find("attention").unwrap();
    let refused = |sizes| workload.check(&case(&registry, "attention", sizes, "none")).unwrap_err().to_string();
    assert_eq!(
        refused([1, 8, 512, 7, 0]),
        "heads: 7 heads do not divide the dimension 512; expected a divisor of 512\n  hint: choose 4 or 8"
    );
    assert!(refused([1, 8, 64, 100, 0]).contains("hint: choose 64"));
    assert!(refused([1, 8, 512, 8, 3]).starts_with("kv-heads: 3 heads of keys and values do not divide the 8 heads"));
}

#[test]
fn sizes_beyond_any_memory_are_estimated_not_tried() {
    let registry = registry();
    let most = 1 << 20;
    for workload in registry.workloads() {
        let case = case(&registry, workload.name(), [most, most, 4096, 4096, 0], "none");
        workload.check(&case).unwrap();
        assert!(workload.footprint(&case) > 1 << 50, "{}", workload.name());
    }
}

#[test]
fn memory_is_counted_by_implementation() {
    let registry = registry();
    let core = registry.find("attention-core").unwrap();
    let of = |sequence: i64, name: &str| {
        core.footprint_of(&case(&registry, "attention-core", [1, sequence, 64, 1, 0], "none"), name)
    };
    let length = 1 << 17;
    // All scores of one head in f32: 64 GiB.
    let scores = 4 << 34;
    for name in ["naive", "blocked"] {
        assert!(of(length, name) >= scores, "{name}");
    }
    for name in ["reference", "fused", "parallel", "memory-efficient"] {
        let (short, long) = (of(length, name), of(2 * length, name));
        assert!(long < scores / 32 && long <= 2 * short, "{name} is linear in the sequence: {short} {long}");
    }
}

#[test]
fn arrays_of_the_user_make_their_case_and_wrong_ones_are_named() {
    let registry = registry();
    for workload in registry.workloads() {
        let made = case(&registry, workload.name(), [2, 10, 48, 4, 2], "padding");
        let inputs = workload.inputs(&made, 3).unwrap();
        // Weights do not determine the number of heads, only the share of those of keys and values.
        let other = case(&registry, workload.name(), [1, 64, 512, 4, 0], "padding");
        let (adopted, kept) = workload.adopt(&other, inputs.clone(), Fit::Whole).unwrap();
        let has_kv = !matches!(workload.name(), "attention-softmax" | "attention-output");
        for axis in ["batch", "sequence", "heads"].into_iter().chain(has_kv.then_some("kv-heads")) {
            assert_eq!(adopted.int(axis), made.int(axis), "{} {axis}", workload.name());
        }
        assert_eq!(kept.len(), inputs.len(), "{}", workload.name());
        let expected = workload.reference(&adopted, &kept).unwrap();
        for row in here(&registry, workload.name()) {
            let got = run(&registry, &adopted, &row.name, &kept);
            let verdict = workload.judge(&adopted, &kept, &expected, &got);
            assert!(verdict.passed, "{row:?}: {}", verdict.detail);
        }
    }
    let core = registry.find("attention-core").unwrap();
    let made = case(&registry, "attention-core", [2, 10, 48, 4, 2], "padding");
    let inputs = core.inputs(&made, 3).unwrap();
    let with = |name: &str, tensor: Tensor| {
        core.adopt(&made, inputs.clone().with(name, tensor), Fit::Whole).unwrap_err().to_string()
    };
    let message = with("lengths", Tensor::vector(&[10_i64, 3, 4][..]));
    assert!(message.starts_with("lengths: the mask holds 3 lengths; expected 2"), "{message}");
    assert!(with("lengths", Tensor::vector(&[10_i64, 11][..])).contains("length 1 is 11; expected 0 to 10"));
    let flat = Tensor::new(&[10, 48], &[0.0_f32; 480][..]).unwrap();
    assert!(with("q", flat).starts_with("q: its shape is [10, 48]; expected [batch, heads, sequence, head]"));
    let wrong = Tensor::new(&[2, 2, 9, 12], &[0.0_f32; 2 * 2 * 9 * 12][..]).unwrap();
    assert!(with("v", wrong).starts_with("v: its shape is [2, 2, 9, 12]; expected [2, 2, 10, 12]"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_order_of_keys_does_not_matter(sequence in 2_usize..200, head in 1_usize..70, by in 1_usize..200, seed in 0_u64..1000) {
        let shape = Shape { batch: 1, sequence, keys: sequence, dimension: head, heads: 1, kv_heads: 1, mask: Mask::None, seen: None };
        let given = arrays(&shape, seed);
        let turned = |x: &[f32]| { let mut x = x.to_vec(); x.rotate_left(by % sequence * head); x };
        let again = [given[0].clone(), turned(&given[1]), turned(&given[2])];
        let a = core(Isa::best(), Tiling::SMALL, &shape, &[], by_ref(&given));
        let b = core(Isa::best(), Tiling::SMALL, &shape, &[], by_ref(&again));
        for (a, b) in a.iter().zip(&b) {
            prop_assert!((a - b).abs() <= 2e-6, "{a} {b}");
        }
    }

    #[test]
    fn results_lie_between_the_values_and_move_with_them(sequence in 1_usize..150, head in 1_usize..40, seed in 0_u64..1000) {
        let shape = Shape { batch: 1, sequence, keys: sequence, dimension: head, heads: 1, kv_heads: 1, mask: Mask::Causal, seen: None };
        let mut given = arrays(&shape, seed);
        let out = core(Isa::best(), Tiling::FAST, &shape, &[], by_ref(&given));
        for e in 0..head {
            let column = || given[2].iter().skip(e).step_by(head).copied();
            let (low, high) = (column().fold(f32::MAX, f32::min), column().fold(f32::MIN, f32::max));
            prop_assert!(out.iter().skip(e).step_by(head).all(|y| (low - 2e-6..=high + 2e-6).contains(y)));
        }
        given[2].iter_mut().for_each(|v| *v += 3.0);
        let moved = core(Isa::best(), Tiling::FAST, &shape, &[], by_ref(&given));
        for (a, b) in out.iter().zip(&moved) {
            prop_assert!((a + 3.0 - b).abs() <= 4e-6, "{a} {b}");
        }
    }
}
