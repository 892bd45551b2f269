//! A number of keys that differs from that of queries, in the core.

use ellwand_core::{Fit, PrepareError, Tensor, Workload};

use super::super::shape::set_keys;
use super::{Case, Registry, case, registry, run};
use ellwand_gpu_lab::test_devices;
use ellwand_gpu_lab::testing::here;

/// A case of the core: batch, sequence, dimension, heads, kv-heads; keys.
fn with_keys(registry: &Registry, sizes: [i64; 5], keys: usize, mask: &str) -> Case {
    let mut case = case(registry, "attention-core", sizes, mask);
    set_keys(&mut case, keys);
    case
}

fn core(registry: &Registry) -> &dyn Workload {
    registry.find("attention-core").unwrap().as_ref()
}

#[test]
fn every_implementation_takes_any_number_of_keys() {
    let registry = registry();
    let workload = core(&registry);
    let mut passed = 0;
    for (sizes, keys) in [
        ([1, 1, 64, 2, 0], 300),
        ([2, 7, 48, 4, 2], 19),
        ([1, 200, 32, 2, 0], 1),
        ([2, 3, 16, 1, 0], 513),
        ([1, 600, 64, 4, 1], 70),
    ] {
        for mask in ["none", "causal", "padding"] {
            for precision in ["f32", "bf16"] {
                let mut case = with_keys(&registry, sizes, keys, mask);
                case.set("precision", precision);
                let inputs = workload.inputs(&case, 5).unwrap();
                assert_eq!(inputs.get("k").unwrap().shape()[2], keys);
                let expected = workload.reference(&case, &inputs).unwrap();
                for row in here(&registry, "attention-core") {
                    let got = run(&registry, &case, &row.name, &inputs);
                    let verdict = workload.judge(&case, &inputs, &expected, &got);
                    assert!(verdict.passed, "{row:?} {case}: {}", verdict.detail);
                    passed += 1;
                }
            }
        }
    }
    assert!(passed >= 5 * 3 * 2 * 6, "{passed} only");
}

/// A query depends only on its own row, so a subset of the queries gives that subset of the answer; a causal query sees
/// the keys up to its own position, counted from the first.
#[test]
fn the_first_queries_of_a_case_are_a_case_with_more_keys() {
    let registry = registry();
    for mask in ["none", "causal"] {
        let whole = case(&registry, "attention-core", [1, 40, 16, 1, 0], mask);
        let inputs = core(&registry).inputs(&whole, 3).unwrap();
        let part = with_keys(&registry, [1, 9, 16, 1, 0], 40, mask);
        let q = Tensor::new(&[1, 1, 9, 16], &inputs.f32("q").unwrap()[..9 * 16]).unwrap();
        let few = inputs.clone().with("q", q);
        for name in ["reference", "naive", "blocked"] {
            let all = run(&registry, &whole, name, &inputs);
            let got = run(&registry, &part, name, &few);
            for (got, want) in got.f32("context").unwrap().iter().zip(all.f32("context").unwrap()) {
                assert!((got - want).abs() <= 1e-6, "{name} {mask}: {got}, not {want}");
            }
        }
    }
}

#[test]
fn arrays_make_the_number_of_keys_and_the_work_counts_it() {
    let registry = registry();
    let workload = core(&registry);
    let made = with_keys(&registry, [2, 7, 48, 4, 2], 19, "padding");
    let inputs = workload.inputs(&made, 3).unwrap();
    // A case made by the plan leaves out axes at their neutral value.
    let mut other = case(&registry, "attention-core", [1, 64, 512, 4, 0], "padding");
    set_keys(&mut other, 0);
    let (adopted, kept) = workload.adopt(&other, inputs.clone(), Fit::Whole).unwrap();
    assert_eq!((adopted.int("sequence"), adopted.int("keys")), (Some(7), Some(19)));
    let expected = workload.reference(&adopted, &kept).unwrap();
    assert!(workload.judge(&adopted, &kept, &expected, &run(&registry, &adopted, "fused", &kept)).passed);
    let error = workload.adopt(&other, inputs.clone(), Fit::Case).unwrap_err().to_string();
    assert!(error.starts_with("batch: "), "{error}");
    let mut fewer = made.clone();
    set_keys(&mut fewer, 18);
    let error = workload.adopt(&fewer, inputs, Fit::Case).unwrap_err().to_string();
    assert!(error.starts_with("keys: ") && error.contains("19"), "{error}");
    // As many keys as queries: the case that older versions had.
    let square = workload.inputs(&case(&registry, "attention-core", [1, 5, 16, 1, 0], "none"), 1).unwrap();
    let plain = with_keys(&registry, [1, 64, 512, 4, 0], 0, "none");
    let (adopted, _) = workload.adopt(&plain, square, Fit::Whole).unwrap();
    assert_eq!(adopted.int("keys"), None);
    let flops = |keys| workload.work(&with_keys(&registry, [1, 10, 16, 1, 0], keys, "none")).flops;
    assert_eq!(flops(30), 3.0 * flops(0));
    let pairs = |keys| workload.work(&with_keys(&registry, [1, 4, 1, 1, 0], keys, "causal")).flops / 4.0;
    assert_eq!([pairs(0), pairs(2), pairs(9)], [10.0, 7.0, 10.0]);
}

#[test]
fn keys_that_no_query_sees_are_no_required_traffic() {
    let registry = registry();
    let read = |name: &str, keys, mask| {
        let mut case = case(&registry, name, [2, 4, 16, 2, 1], mask);
        set_keys(&mut case, keys);
        registry.find(name).unwrap().work(&case).bytes_read
    };
    // q, and k and v of one head of 8 values.
    let bytes = |keys: u64| 4 * (2 * 4 * 16 + 2 * keys * 8);
    assert_eq!(read("attention-core", 9, "none"), bytes(2 * 9));
    assert_eq!([3, 9].map(|keys| read("attention-core", keys, "causal")), [bytes(2 * 3), bytes(2 * 4)]);
    // The generated lengths of 9 keys are 9 - 1 and 9 - 3.
    assert_eq!(read("attention-core", 9, "padding"), bytes(8 + 6));
    let mut own = case(&registry, "attention-core", [2, 4, 16, 2, 1], "padding");
    set_keys(&mut own, 9);
    let workload = registry.find("attention-core").unwrap();
    let mut inputs = workload.inputs(&own, 1).unwrap();
    assert_eq!(workload.work_of(&own, &inputs), workload.work(&own), "the generated lengths");
    inputs.insert("lengths", Tensor::vector(&[0_i64, 5][..]));
    let work = workload.work_of(&own, &inputs);
    assert_eq!((work.bytes_read, work.flops), (bytes(5), 4.0 * (4 * 5) as f64 * 16.0));
    let upstream = 4 * 2 * 4 * 16;
    assert_eq!(read("attention-core-backward", 9, "causal"), bytes(2 * 4) + upstream);
    // Ten of the sixteen scores of a head are visible.
    assert_eq!(read("attention-softmax", 0, "causal"), 4 * 2 * 2 * 10);
    // The whole arrays are held.
    let footprint = |mask| {
        let case = with_keys(&registry, [2, 4, 16, 2, 1], 900, mask);
        core(&registry).footprint_of(&case, "fused")
    };
    assert!(footprint("causal") >= 3 * bytes(2 * 900), "{}", footprint("causal"));
}

#[test]
fn kernels_for_gpus_decline_another_number_of_keys() {
    let registry = registry();
    let case = with_keys(&registry, [1, 8, 64, 1, 0], 9, "none");
    let inputs = core(&registry).inputs(&case, 3).unwrap();
    let row = registry.implementations("attention-core").into_iter().find(|row| row.name == "cuda").unwrap();
    for (_, device) in test_devices() {
        let refused = (row.prepare)(&case, &inputs, device.as_ref()).err();
        assert!(matches!(refused, Some(PrepareError::Unsupported(why)) if why.contains("keys=0")));
    }
}
