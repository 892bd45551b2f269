//! How the tests judge kernels: against the workload's own reference, on every device that tests have.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use ellwand_core::{Case, Device, DeviceKind, PrepareError, Registry, Tensors};

use super::{TestDevice, test_devices};

/// Rows for CUDA devices that the emulation cannot run: their kernels are no CUDA C++.
const FOREIGN: [&str; 1] = ["cublas"];

/// The first real GPU; `required` says whether there must be one.
pub(crate) fn real_devices(required: &str) -> Vec<TestDevice> {
    // Opened once: each opening makes a stream and loads every kernel anew.
    static FIRST: OnceLock<Result<Arc<dyn Device>, String>> = OnceLock::new();
    let first = FIRST.get_or_init(|| Ok(ellwand_gpu::find_cuda()?.swap_remove(0)));
    match first {
        Ok(device) => vec![(device.about(), device.clone())],
        Err(why) => {
            assert!(!required.contains("cuda"), "a GPU is required: {why}");
            Vec::new()
        }
    }
}

/// Whether a device of the tests runs what Hopper alone has: the emulation does, a real device may be another.
pub fn a_hopper_is_tested() -> bool {
    test_devices()
        .iter()
        .any(|(_, device)| ellwand_gpu::gpu(device.as_ref()).is_ok_and(|gpu| gpu.capability() == Some((9, 0))))
}

/// Runs the CUDA implementations on inputs and judges what they make, twice. What was never computed must not pass, and the
/// order in which threads take their turns must not change a bit. A row for special cases may say that it cannot do this one;
/// the row `cuda` may not.
///
/// Gives the rows that were judged, where tests have a device at all.
pub fn judge(registry: &Registry, case: &Case, inputs: &Tensors) -> Option<BTreeSet<String>> {
    let rows = registry.implementations(&case.workload);
    let rows = rows.iter().filter(|row| row.needs == DeviceKind::Cuda).map(|row| row.name.as_str());
    let rows: Vec<&str> = rows.filter(|name| !FOREIGN.contains(name)).collect();
    judge_on(registry, case, inputs, &rows, &test_devices())
}

/// The rows by NVIDIA's library: on what stands in for it in the emulation, and on the first real GPU.
pub fn judge_cublas(registry: &Registry, case: &Case, inputs: &Tensors) {
    let judged = judge_on(registry, case, inputs, &["cublas"], &test_devices());
    assert!(judged.is_none_or(|rows| rows.len() == 1), "{case}: the row says that it cannot do it");
}

/// Runs the rows of these names on these devices.
pub fn judge_on(
    registry: &Registry,
    case: &Case,
    inputs: &Tensors,
    names: &[&str],
    devices: &[TestDevice],
) -> Option<BTreeSet<String>> {
    let task = registry.find(&case.workload).unwrap();
    task.check(case).unwrap();
    let expected = task.reference(case, inputs).unwrap();
    let nan = expected.iter().any(|(_, tensor)| tensor.data().to_f64().iter().any(|value| value.is_nan()));
    let rows = registry.implementations(&case.workload);
    let rows: Vec<_> = rows.into_iter().filter(|row| names.contains(&row.name.as_str())).collect();
    assert!(!rows.is_empty(), "{case} has no implementation for CUDA devices named {names:?}");
    // Rows of the same kernels give the same bits; a row for special cases has its own.
    let mut first = [None; 2];
    let mut judged = BTreeSet::new();
    let each = rows.iter().flat_map(|row| devices.iter().map(move |device| (row, device)));
    for (row, (device_name, device)) in each {
        let special = !["cuda", "cuda-graph", "cublas"].contains(&&*row.name);
        let name = format!("{} on {device_name}", row.name);
        let mut ready = match (row.prepare)(case, inputs, device.as_ref()) {
            Err(PrepareError::Unsupported(_)) if special => continue,
            ready => ready.unwrap_or_else(|e| panic!("{case}, {name}: {e}")),
        };
        judged.insert(row.name.clone());
        ready.poison();
        // Poison is NaN, which is right where the reference has nothing else.
        if let (false, Ok(spoiled)) = (nan, ready.output()) {
            assert!(!task.judge(case, inputs, &expected, &spoiled).passed, "{case}, {name} passes poisoned");
        }
        for _ in 0..2 {
            ready.poison();
            ready.run();
            ready.sync().unwrap_or_else(|error| panic!("{case}, {name}: {error}"));
            let output = ready.output().unwrap_or_else(|error| panic!("{case}, {name}: {error}"));
            let verdict = task.judge(case, inputs, &expected, &output);
            assert!(verdict.passed, "{case}, {name}: {}", verdict.detail);
            if name.contains("emulation") {
                let digest = *first[usize::from(special)].get_or_insert(output.digest());
                assert_eq!(output.digest(), digest, "{case}, {name}: the order of threads must not matter");
            }
        }
    }
    (!devices.is_empty()).then_some(judged)
}
