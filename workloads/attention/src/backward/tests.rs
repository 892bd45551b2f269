//! The gradients compared with f64, with differences of the forward pass, and the memory of both forms.

use ellwand_core::{Case, Fit, Poison, Registry, Tensor, Tensors, Workload};
use ellwand_gpu_lab::testing::{Here, here};
use ellwand_simd::isa::Isa;

use super::NAME;
use crate::shape::set_keys;
use crate::tests::{case, registry};

fn workload(registry: &Registry) -> &dyn Workload {
    registry.find(NAME).unwrap().as_ref()
}

fn with_keys(registry: &Registry, sizes: [i64; 5], keys: usize, mask: &str) -> Case {
    let mut case = case(registry, NAME, sizes, mask);
    set_keys(&mut case, keys);
    case
}

#[test]
fn every_implementation_agrees_with_f64_on_every_instruction_set() {
    let registry = registry();
    let mut passed = 0;
    for (sizes, keys) in [
        ([1, 1, 1, 1, 0], 0),
        ([2, 17, 64, 2, 0], 0),
        ([1, 65, 32, 4, 2], 0),
        ([2, 7, 48, 4, 1], 19),
        ([1, 400, 64, 2, 0], 0),
        ([1, 200, 32, 2, 1], 3),
    ] {
        for mask in ["none", "causal", "padding"] {
            let plain = with_keys(&registry, sizes, keys, mask);
            let inputs = workload(&registry).inputs(&plain, 5).unwrap();
            let expected = workload(&registry).reference(&plain, &inputs).unwrap();
            for isa in Isa::available() {
                let mut case = plain.clone();
                case.set("isa", isa.name());
                for row in here(&registry, NAME) {
                    let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
                    ready.poison(Poison::Ones);
                    let judge = |got: &Tensors| workload(&registry).judge(&case, &inputs, &expected, got);
                    assert!(!judge(&ready.output().unwrap()).passed, "{row:?} passes poisoned");
                    for _ in 0..2 {
                        ready.run();
                        let verdict = judge(&ready.output().unwrap());
                        assert!(verdict.passed, "{row:?} {case}: {}", verdict.detail);
                        ready.poison(Poison::Ones);
                    }
                    passed += 1;
                }
            }
        }
    }
    assert!(passed >= 6 * 3 * 3, "{passed} only");
}

/// The sum of dcontext * context, by the reference.
fn loss(registry: &Registry, case: &Case, inputs: &Tensors) -> f64 {
    let made = workload(registry).reference(case, inputs).unwrap();
    let pairs = made.f32("context").unwrap().iter().zip(inputs.f32("dcontext").unwrap());
    pairs.map(|(context, upstream)| f64::from(*context) * f64::from(*upstream)).sum()
}

#[test]
fn the_reference_is_the_slope_of_the_forward_pass() {
    let registry = registry();
    for mask in ["none", "causal", "padding"] {
        let case = with_keys(&registry, [1, 4, 6, 2, 1], 5, mask);
        let inputs = workload(&registry).inputs(&case, 9).unwrap();
        let gradients = workload(&registry).reference(&case, &inputs).unwrap();
        for name in ["q", "k", "v"] {
            let want = gradients.f32(&format!("d{name}")).unwrap().to_vec();
            for at in (0..want.len()).step_by(3) {
                let moved = |step: f32| {
                    let mut array: Tensor = inputs.get(name).unwrap().clone();
                    array.f32_mut().unwrap()[at] += step;
                    loss(&registry, &case, &inputs.clone().with(name, array))
                };
                // The context is rounded to f32, hence the large step.
                let slope = (moved(1.0 / 64.0) - moved(-1.0 / 64.0)) * 32.0;
                assert!((slope - f64::from(want[at])).abs() < 2e-3, "d{name}[{at}] {mask}: {slope}, not {}", want[at]);
            }
        }
    }
}

#[test]
fn recomputing_takes_less_memory_and_gives_the_same_bits() {
    let registry = registry();
    let case = case(&registry, NAME, [2, 300, 128, 4, 2], "causal");
    let inputs = workload(&registry).inputs(&case, 1).unwrap();
    let of = |name: &str| {
        let row = registry.implementations(NAME).into_iter().find(|row| row.name == name).unwrap();
        let mut ready = (row.prepare)(&case, &inputs, &Here).unwrap();
        ready.run();
        let memory = ready.readings().iter().find(|r| r.id == "extra-memory").unwrap().value.unwrap();
        (ready.output().unwrap().digest(), memory, workload(&registry).footprint_of(&case, name))
    };
    let (stored, recomputed) = (of("stored"), of("recomputed"));
    assert_eq!(stored.0, recomputed.0);
    let weights = 4.0 * 2.0 * 4.0 * 300.0 * 300.0;
    assert_eq!(stored.1 - recomputed.1, weights);
    assert!(recomputed.1 < weights / 2.0 && stored.2 > recomputed.2 + weights as u64 / 2, "{stored:?} {recomputed:?}");
}

#[test]
fn arrays_of_the_user_make_their_case_and_wrong_ones_are_named() {
    let registry = registry();
    let made = with_keys(&registry, [2, 7, 48, 4, 2], 19, "none");
    let inputs = workload(&registry).inputs(&made, 3).unwrap();
    let other = with_keys(&registry, [1, 64, 512, 4, 0], 0, "none");
    let (adopted, kept) = workload(&registry).adopt(&other, inputs.clone(), Fit::Whole).unwrap();
    assert_eq!((adopted.int("sequence"), adopted.int("keys"), adopted.int("kv-heads")), (Some(7), Some(19), Some(2)));
    assert_eq!(kept.len(), 4);
    let refused = |given: Tensors| workload(&registry).adopt(&other, given, Fit::Whole).unwrap_err().to_string();
    let mut without = inputs.clone();
    without.take("dcontext");
    assert!(refused(without).starts_with("dcontext: this array is missing"));
    let flat = inputs.with("dcontext", Tensor::vector(&[0.0_f32; 4][..]));
    assert!(refused(flat).starts_with("dcontext: its shape is [4]; expected [2, 4, 7, 12]"));
}
