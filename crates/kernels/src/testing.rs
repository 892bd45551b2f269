//! What the tests of all workloads share.

use std::any::Any;

use ellwand_core::{Case, CpuScope, Device, DeviceKind, Implementation, Registry, Timing, Value};

/// The processor, for preparing implementations; it times nothing.
pub(crate) struct Here;

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

/// The implementations of `workload` that run on the processor.
pub(crate) fn here<'a>(registry: &'a Registry, workload: &str) -> Vec<&'a Implementation> {
    registry.implementations(workload).into_iter().filter(|row| row.needs == DeviceKind::Cpu).collect()
}

/// The first default of every axis of `workload`, but for `set`.
pub(crate) fn case(registry: &Registry, workload: &str, set: &[(&str, Value)]) -> Case {
    let axes = registry.find(workload).unwrap().axes();
    let mut case = Case::new(workload, axes.iter().map(|a| (a.name.to_owned(), a.default[0].clone())).collect());
    set.iter().for_each(|(axis, value)| case.set(axis, value.clone()));
    case
}
