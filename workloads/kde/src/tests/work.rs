//! Required and counted operations are those of the data.

use ellwand_core::{Case, Fit, Registry, Tensor, Tensors, Value};

use ellwand_gpu_lab::testing::{Here, case, here};

fn registry() -> Registry {
    let mut registry = Registry::new();
    crate::register(&mut registry);
    registry
}

/// The case of the published script's smallest size.
fn tiny(registry: &Registry, workload: &str, more: &[(&str, Value)]) -> Case {
    let workload = registry.find(workload).unwrap();
    let size = workload.sizes().iter().find(|size| size.name == "tiny").unwrap();
    let set = size.values.iter().map(|(axis, values)| (*axis, values[0].clone()));
    case(registry, workload.name(), &set.chain(more.iter().cloned()).collect::<Vec<_>>())
}

/// The operations that a row counts in one run.
fn counted(registry: &Registry, workload: &str, row: &str, case: &Case, inputs: &Tensors) -> f64 {
    let row = here(registry, workload).into_iter().find(|known| known.name == row).unwrap();
    let mut ready = (row.prepare)(case, inputs, &Here).unwrap();
    ready.run();
    ready.readings().iter().find(|reading| reading.id == "operations").and_then(|reading| reading.value).unwrap()
}

#[test]
fn required_work_is_that_of_the_spikes_in_the_data() {
    let registry = registry();
    // The script draws 77 encoding and 37 decoding spikes for means of 80 and 40, with 752 pairs on the same electrode.
    let (fit, sums) = ((100.0 + 77.0) * 100.0 * 4.0, 2.0 * 752.0 * 100.0);
    for (name, nominal, items, flops) in [
        ("kde-fit", 18_000, 17_700, fit),
        ("kde-predict", 40, 37, sums),
        ("kde-fit-predict", 40, 37, fit + sums),
        ("kde-predict-local", 40, 37, 752.0 * 10.0 + (50.0 * 177.0 + 37.0 * 100.0) * 4.0),
    ] {
        let workload = registry.find(name).unwrap();
        let made = tiny(&registry, name, &[]);
        assert_eq!(workload.work(&made).items, nominal, "{name}: before there are data");
        let inputs = workload.inputs(&made, 1).unwrap();
        let work = workload.work_of(&made, &inputs);
        assert_eq!((work.items, work.flops), (items, flops), "{name}");
        // The same arrays as the user's.
        let (given, inputs) = workload.adopt(&made, inputs, Fit::Whole).unwrap();
        assert_eq!(workload.work_of(&given, &inputs), work, "{name}");
    }
}

#[test]
fn spikes_outside_of_the_time_bins_are_no_work() {
    let registry = registry();
    let workload = registry.find("kde-predict").unwrap();
    let made = tiny(&registry, "kde-predict", &[]);
    let mut inputs = workload.inputs(&made, 1).unwrap();
    let edges: Vec<f64> = (0..50).map(|i| f64::from(i) * 0.2).collect();
    let times = inputs.get("dec_spike_times").unwrap().data().to_f64();
    let inside = times.iter().filter(|time| **time <= edges[49]).count() as u64;
    assert!(0 < inside && inside < 37);
    inputs.insert("time_edges", Tensor::vector(&edges[..]));
    assert_eq!(workload.work_of(&made, &inputs).items, inside);
}

#[test]
fn a_fit_with_prediction_counts_the_operations_of_both() {
    let registry = registry();
    let [predict, both] = ["kde-predict", "kde-fit-predict"].map(|name| {
        let made = tiny(&registry, name, &[("skip", Value::Flag(false))]);
        let inputs = registry.find(name).unwrap().inputs(&made, 1).unwrap();
        ["scalar", "gemm", "simd", "parallel"].map(|row| counted(&registry, name, row, &made, &inputs))
    });
    for (predict, both) in predict.into_iter().zip(both) {
        assert_eq!(both - predict, (100.0 + 77.0) * 100.0 * 4.0);
    }
}

#[test]
fn a_stream_counts_its_operations_whichever_kernels_decode() {
    let registry = registry();
    let workload = registry.find("kde-stream").unwrap();
    // One dimension, for the recurrence if encoding spikes are near every bin; two, for the kernels of `predict`.
    for dims in [1, 2] {
        let spikes = ("enc-spikes", Value::Int(20));
        let made = tiny(&registry, "kde-stream", &[("dims", Value::Int(dims)), ("edges", Value::Int(21)), spikes]);
        let inputs = workload.inputs(&made, 5).unwrap();
        let required = workload.work_of(&made, &inputs).flops;
        let [batch, simd] = ["batch", "simd"].map(|row| counted(&registry, "kde-stream", row, &made, &inputs));
        assert!(batch > 0.0 && batch <= required, "{dims}: {batch} of {required}");
        // The recurrence sums whole vectors of spikes.
        assert!(simd > 0.0 && simd <= 3.0 * required, "{dims}: {simd} of {required}");
        assert!(dims == 1 || simd == batch, "the same kernels: {simd}, {batch}");
    }
}
