//! Helpers for the tests of all workloads.

use std::any::Any;

use ellwand_core::{
    Case, CpuScope, Device, DeviceKind, Implementation, PrepareError, Prepared, Registry, Tensors, Timing, Value,
};

/// The CPU as a device on which implementations are prepared; it measures no times.
pub struct Here;

impl Device for Here {
    fn id(&self) -> &str {
        "cpu"
    }
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }
    fn about(&self) -> String {
        String::new()
    }
    fn time(&self, _: CpuScope, body: &mut dyn FnMut()) -> Timing {
        body();
        Timing::default()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The CPU implementations of `workload`.
pub fn here<'a>(registry: &'a Registry, workload: &str) -> Vec<&'a Implementation> {
    registry.implementations(workload).into_iter().filter(|row| row.needs == DeviceKind::Cpu).collect()
}

/// Prepares `row` on the processor; `None` if it rejects a precision other than f32 and names the one it supports.
pub fn prepared(row: &Implementation, case: &Case, inputs: &Tensors) -> Option<Box<dyn Prepared>> {
    match (row.prepare)(case, inputs, &Here) {
        Err(PrepareError::Unsupported(why)) if case.text("precision") != Some("f32") => {
            assert!(why.contains("precision=f32"), "{row:?} does not say which precision it has: {why}");
            None
        }
        ready => Some(ready.unwrap_or_else(|error| panic!("{row:?} {case}: {error}"))),
    }
}

/// Runs the WGSL implementations twice, with poisoned outputs in between, and judges them. Without an adapter it only
/// prints that it was skipped. `more` receives the expected and the actual outputs.
#[cfg(feature = "vulkan")]
pub fn judged_on_wgpu(registry: &Registry, case: &Case, inputs: &Tensors, more: impl Fn(&Tensors, &Tensors)) {
    let Some(device) = ellwand_gpu::test_adapter() else { return };
    let adapter: crate::TestDevice = ("wgpu:0".into(), std::sync::Arc::new(device));
    crate::judge::judge_on(registry, case, inputs, &["wgpu"], &[adapter], more);
}

/// Without the `vulkan` feature there is nothing to judge.
#[cfg(not(feature = "vulkan"))]
pub fn judged_on_wgpu(_: &Registry, _: &Case, _: &Tensors, _: impl Fn(&Tensors, &Tensors)) {
    eprintln!("skipped: WGSL kernels do not run: built without the feature vulkan");
}

/// A case with the first default of every axis of `workload`, except those in `set`.
pub fn case(registry: &Registry, workload: &str, set: &[(&str, Value)]) -> Case {
    let axes = registry.find(workload).unwrap().axes();
    let mut case = Case::new(workload, axes.iter().map(|a| (a.name.to_owned(), a.default[0].clone())).collect());
    set.iter().for_each(|(axis, value)| case.set(axis, value.clone()));
    case
}
