//! Kernels of the GPU calibration, judged by their workloads on every device that the tests have.

#![allow(clippy::unwrap_used, missing_docs)]

use ellwand_core::{Case, Registry, Value};
use ellwand_gpu_lab::testing::{case, judged_on_wgpu};
use ellwand_gpu_lab::{a_hopper_is_tested, judge};

fn registry() -> Registry {
    let mut registry = Registry::new();
    ellwand_calibration::register(&mut registry);
    ellwand_gpu::register(&mut registry);
    registry
}

/// Judges the CUDA implementations, and the WGSL ones if they support these axes.
fn judged(workload: &str, axes: &[(&str, Value)]) {
    let registry = registry();
    let case = case(&registry, workload, axes);
    let inputs = registry.find(workload).unwrap().inputs(&case, 5).unwrap();
    judge(&registry, &case, &inputs);
    judged_on_wgpu(&registry, &case, &inputs, |_, _| {});
}

#[test]
fn an_empty_kernel_is_called() {
    judged("null", &[]);
}

#[test]
fn streams_touch_every_word_at_odd_lengths_and_over_several_rounds() {
    for task in ["copy", "read", "fill"] {
        for words in [1, 2, 3, 255, 256, 1023, 4097, 24_576, 100_001] {
            let arrays = if task == "copy" { 2 } else { 1 };
            judged(task, &[("bytes", Value::Int(words * 8 * arrays)), ("passes", Value::Int(1))]);
        }
        judged(task, &[("bytes", Value::Int(8000)), ("passes", Value::Int(3))]);
    }
}

#[test]
fn chains_are_right_whatever_their_number() {
    let registry = registry();
    for (precision, groups, steps) in [("f32", 1, 1), ("f32", 16, 33), ("f64", 3, 100), ("f32", 5, 4096)] {
        let set = [("steps", Value::Int(steps)), ("precision", precision.into()), ("groups", Value::Int(groups))];
        let case = case(&registry, "fma", &set);
        let inputs = registry.find("fma").unwrap().inputs(&case, 1).unwrap();
        judge(&registry, &case, &inputs);
    }
}

#[test]
fn transfers_give_every_byte_both_ways_from_both_kinds_of_memory() {
    let registry = registry();
    let ways = ["host-to-device", "device-to-host"];
    for (direction, memory) in ways.into_iter().flat_map(|way| ["pinned", "pageable"].map(|memory| (way, memory))) {
        for bytes in [8_i64, 4096, 99_992] {
            let mut case = Case::new("transfer", vec![("bytes".into(), bytes.into())]);
            case.set("direction", direction);
            case.set("memory", memory);
            let inputs = registry.find("transfer").unwrap().inputs(&case, 5).unwrap();
            judge(&registry, &case, &inputs);
        }
    }
}

#[test]
fn tiles_of_products_are_right_whatever_their_number_and_that_of_steps() {
    let registry = registry();
    // Less than a period, whole periods, and every remainder.
    for (tiles, steps) in [(1, 1), (2, 2), (1, 3), (5, 4), (2, 9), (1, 34), (3, 7)] {
        let case = case(&registry, "products", &[("tiles", Value::Int(tiles)), ("steps", Value::Int(steps))]);
        let inputs = registry.find("products").unwrap().inputs(&case, 3).unwrap();
        let Some(rows) = judge(&registry, &case, &inputs) else { return };
        assert!(rows.contains("cuda"), "{case}: {rows:?}");
        assert!(!a_hopper_is_tested() || rows.contains("cuda-hopper"), "{case}: {rows:?}");
    }
}
