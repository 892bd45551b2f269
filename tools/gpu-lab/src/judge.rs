//! Judges kernels against the workload's reference, on every device that tests have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use ellwand_core::{Case, Device, DeviceError, DeviceKind, PrepareError, Registry, Tensors};

use super::{TestDevice, test_devices};

/// CUDA implementations that the emulation cannot run, since their kernels are not CUDA C++.
const FOREIGN: [&str; 1] = ["cublas"];

/// The first real GPU, if any; `required` may make it mandatory.
pub(crate) fn real_devices(required: &str) -> Vec<TestDevice> {
    // Opened once: each opening creates a stream and loads every kernel again.
    static FIRST: OnceLock<Result<Arc<dyn Device>, DeviceError>> = OnceLock::new();
    let first = FIRST.get_or_init(|| Ok(ellwand_gpu::find_cuda()?.swap_remove(0)));
    match first {
        Ok(device) => vec![(device.about(), device.clone())],
        Err(why) => {
            assert!(!required.contains("cuda"), "a GPU is required: {why}");
            Vec::new()
        }
    }
}

/// True if a test device has Hopper's instructions: the emulation does, a real GPU may not.
pub fn a_hopper_is_tested() -> bool {
    test_devices()
        .iter()
        .any(|(_, device)| ellwand_gpu::gpu(device.as_ref()).is_ok_and(|gpu| gpu.capability() == Some((9, 0))))
}

/// Runs the CUDA implementations twice and judges their outputs. Poisoned output must fail, and the order of threads
/// must not change a bit. A specialised implementation may reject the case; `cuda` must not.
///
/// Returns the implementations that were judged, or `None` without a test device.
pub fn judge(registry: &Registry, case: &Case, inputs: &Tensors) -> Option<BTreeSet<String>> {
    let rows = registry.implementations(&case.workload);
    let rows = rows.iter().filter(|row| row.needs == DeviceKind::Cuda).map(|row| row.name.as_str());
    let rows: Vec<&str> = rows.filter(|name| !FOREIGN.contains(name)).collect();
    judge_on(registry, case, inputs, &rows, &test_devices(), |_, _| {})
}

/// Judges the cuBLAS implementation on the emulation's mock and on the first real GPU.
pub fn judge_cublas(registry: &Registry, case: &Case, inputs: &Tensors) {
    let judged = judge_on(registry, case, inputs, &["cublas"], &test_devices(), |_, _| {});
    assert!(judged.is_none_or(|rows| rows.len() == 1), "{case}: the row says that it cannot do it");
}

/// Judges the implementations with these names on these devices; `more` receives the expected and the actual outputs.
pub(crate) fn judge_on(
    registry: &Registry,
    case: &Case,
    inputs: &Tensors,
    names: &[&str],
    devices: &[TestDevice],
    more: impl Fn(&Tensors, &Tensors),
) -> Option<BTreeSet<String>> {
    let task = registry.find(&case.workload).unwrap();
    task.check(case).unwrap();
    let expected = task.reference(case, inputs).unwrap();
    let nan = expected.iter().any(|(_, tensor)| tensor.data().to_f64().iter().any(|value| value.is_nan()));
    let rows = registry.implementations(&case.workload);
    let rows: Vec<_> = rows.into_iter().filter(|row| names.contains(&row.name.as_str())).collect();
    assert!(!rows.is_empty(), "{case} has no implementation named {names:?}");
    // Implementations with the same kernels must agree bit for bit; a specialised one has separate bits.
    let mut first = BTreeMap::new();
    let mut judged = BTreeSet::new();
    let each = rows.iter().flat_map(|row| devices.iter().map(move |device| (row, device)));
    for (row, (device_name, device)) in each {
        let special = !["cuda", "cuda-graph", "cublas", "wgpu"].contains(&&*row.name);
        let name = format!("{} on {device_name}", row.name);
        let mut ready = match (row.prepare)(case, inputs, device.as_ref()) {
            Err(PrepareError::Unsupported(_)) if special => continue,
            ready => ready.unwrap_or_else(|e| panic!("{case}, {name}: {e}")),
        };
        judged.insert(row.name.clone());
        ready.poison(ellwand_core::Poison::Ones);
        // Poison is NaN, which is correct if the reference is all NaN.
        if let (false, Ok(spoiled)) = (nan, ready.output()) {
            assert!(!task.judge(case, inputs, &expected, &spoiled).passed, "{case}, {name} passes poisoned");
        }
        for _ in 0..2 {
            ready.poison(ellwand_core::Poison::Ones);
            ready.run();
            ready.sync().unwrap_or_else(|error| panic!("{case}, {name}: {error}"));
            let output = ready.output().unwrap_or_else(|error| panic!("{case}, {name}: {error}"));
            let verdict = task.judge(case, inputs, &expected, &output);
            assert!(verdict.passed, "{case}, {name}: {}", verdict.detail);
            more(&expected, &output);
            if name.contains("emulation") {
                // Code that calls the race detector may give NaN another sign.
                let digest = *first.entry((special, device_name.contains("Watched"))).or_insert(output.digest());
                assert_eq!(output.digest(), digest, "{case}, {name}: the order of threads must not matter");
            }
        }
    }
    (!devices.is_empty()).then_some(judged)
}
