//! The CUDA kernels compared with the f64 reference, on all devices and emulators available here.

use ellwand_core::{Registry, Tensor, Value};

use crate::cuda_small::WANTED;
use ellwand_gpu_lab::judge;
use ellwand_gpu_lab::testing::case;

/// Checks the case as one launch and as several, whatever its size.
fn both_ways(registry: &Registry, case: &ellwand_core::Case, inputs: &ellwand_core::Tensors) {
    for small in [false, true] {
        WANTED.set(Some(small));
        judge(registry, case, inputs);
    }
    WANTED.set(None);
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    crate::register(&mut registry);
    registry
}

const TASKS: [&str; 3] = ["kde-fit", "kde-predict", "kde-predict-local"];

/// Sizes that no tile divides: bins, electrodes, encoding and decoding spikes, edges.
fn judged(task: &str, data: &str, [features, dims]: [i64; 2], sizes: [i64; 5], skip: bool) {
    let registry = registry();
    let workload = registry.find(task).unwrap();
    let [bins, electrodes, encoding, decoding, edges] = sizes.map(Value::Int);
    let mut set = vec![
        ("data", data.into()),
        ("features", Value::Int(features)),
        ("dims", Value::Int(dims)),
        ("bins", bins),
        ("electrodes", electrodes),
        ("enc-spikes", encoding),
        ("samples", Value::Int(333)),
    ];
    if task != "kde-fit" {
        set.extend([("edges", edges), ("dec-spikes", decoding)]);
    }
    if task == "kde-predict" {
        set.push(("skip", Value::Flag(skip)));
    }
    let case = case(&registry, task, &set);
    let inputs = workload.inputs(&case, 5).unwrap();
    both_ways(&registry, &case, &inputs);
}

#[test]
fn every_task_is_judged_right_on_both_kinds_of_data() {
    for task in TASKS {
        judged(task, "script", [2, 1], [130, 3, 37, 70, 17], true);
        // Silent electrodes, outliers, and a two-dimensional box.
        judged(task, "structured", [4, 2], [90, 6, 50, 20, 30], true);
    }
}

#[test]
fn nothing_skipped_one_of_everything_and_three_features() {
    for task in TASKS {
        judged(task, "structured", [3, 1], [257, 2, 20, 9, 2], false);
        judged(task, "script", [1, 1], [1, 1, 1, 1, 2], false);
    }
}

#[test]
fn more_spikes_than_a_block_takes_and_more_groups_than_it_lists() {
    // Decoding spikes in several blocks per electrode; encoding spikes in more than 512 groups of 16.
    judged("kde-predict", "structured", [2, 1], [40, 2, 30, 300, 9], true);
    judged("kde-predict", "script", [1, 1], [20, 1, 8700, 3, 4], true);
    judged("kde-predict", "structured", [5, 2], [20, 1, 8700, 3, 4], false);
    judged("kde-predict-local", "structured", [4, 2], [1, 3, 400, 150, 200], true);
}

#[test]
fn far_marks_and_spikes_outside_of_time_are_where_the_reference_has_them() {
    let registry = registry();
    for task in TASKS {
        let workload = registry.find(task).unwrap();
        let set = [("bins", Value::Int(60)), ("electrodes", Value::Int(2)), ("enc-spikes", Value::Int(30))];
        let case = case(&registry, task, &set);
        let mut inputs = workload.inputs(&case, 6).unwrap();
        for (name, far) in [("enc_spike_times", 1e6), ("dec_spike_times", -1e6), ("dec_features_flat", 700.0)] {
            let Some(array) = inputs.take(name) else { continue };
            let mut values = array.data().to_f64();
            // Change only the first or last value, so that times stay sorted.
            let at = if far < 0.0 || name.starts_with("dec_f") { 0 } else { values.len() - 1 };
            values[at] = far;
            inputs.insert(name, Tensor::new(array.shape(), &values[..]).unwrap());
        }
        both_ways(&registry, &case, &inputs);
    }
}

#[test]
fn one_launch_does_what_is_little_and_several_do_the_rest() {
    let registry = registry();
    for task in TASKS {
        let launches = |set: &[(&str, Value)]| {
            let case = case(&registry, task, set);
            let inputs = registry.find(task).unwrap().inputs(&case, 3).unwrap();
            let row = registry.implementations(task).into_iter().find(|row| row.name == "cuda").unwrap();
            let devices = ellwand_gpu_lab::test_devices();
            let (_, device) = devices.iter().find(|(name, _)| name.contains("emulation"))?;
            Some((row.prepare)(&case, &inputs, device.as_ref()).unwrap().what_ran())
        };
        let few = ["samples", "electrodes", "enc-spikes", "bins"].map(|axis| (axis, Value::Int(5)));
        let Some(little) = launches(&few) else { return };
        assert!(little.contains("_small") && !little.contains(','), "{task}: {little}");
        let many = launches(&[("samples", Value::Int(5000))]).unwrap();
        assert!(task == "kde-predict" || !many.contains("_small"), "{task}: {many}");
        assert!(
            !launches(&[("bins", Value::Int(2000)), ("enc-spikes", Value::Int(500)), ("samples", Value::Int(900))])
                .unwrap()
                .contains("_small")
        );
    }
}

#[test]
fn knobs_that_a_gpu_does_not_have_are_refused_by_name() {
    let registry = registry();
    let case = case(&registry, "kde-predict", &[("tile", Value::Float(64.0))]);
    let inputs = registry.find("kde-predict").unwrap().inputs(&case, 1).unwrap();
    let row = registry.implementations("kde-predict").into_iter().find(|row| row.name == "cuda").unwrap();
    for (name, device) in ellwand_gpu_lab::test_devices() {
        let refused = (row.prepare)(&case, &inputs, device.as_ref()).err().map(|error| error.to_string());
        assert!(refused.as_ref().is_some_and(|why| why.contains("block, tile and memory")), "{name}: {refused:?}");
    }
}
