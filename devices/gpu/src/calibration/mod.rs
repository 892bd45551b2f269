//! The limits of a GPU: rows for the workloads of `ellwand-calibration`, and the workloads that a GPU alone has.

mod cuda;
mod fma;
mod products;
mod transfer;
mod wgpu;

use ellwand_core::ceiling::{CeilingCase, CeilingKind, Role};
use ellwand_core::{Case, Registry};

use crate::Source;

/// What `fill` writes, as its workload says.
const PATTERN: u64 = 0x5a5a_0123_4567_89ab;

/// Adds what measures the limits of a GPU to a registry that has the calibration workloads.
pub(crate) fn register(registry: &mut Registry) {
    fma::register(registry);
    products::register(registry);
    cuda::register(registry);
    wgpu::register(registry);
    transfer::register(registry);
    registry.ceilings.extend([
        row(CeilingKind::ProductsBf16, "products", &[("tiles", Role::EachMultiprocessor(4)), ("steps", Role::Steps)]),
        row(CeilingKind::ToDevice, "transfer", &[BYTES, ("direction", Role::Is("host-to-device")), PINNED]),
        row(CeilingKind::FromDevice, "transfer", &[BYTES, ("direction", Role::Is("device-to-host")), PINNED]),
    ]);
}

const BYTES: (&str, Role) = ("bytes", Role::Bytes);
const PINNED: (&str, Role) = ("memory", Role::Is("pinned"));

const fn row(kind: CeilingKind, workload: &'static str, axes: &'static [(&'static str, Role)]) -> CeilingCase {
    CeilingCase { kind, workload, axes, past: None }
}

/// The sources of the kernels.
pub(crate) fn sources() -> [&'static Source; 5] {
    [&cuda::SOURCE, &fma::SOURCE, &products::SOURCE, &products::HOPPER, &wgpu::SOURCE]
}

/// An axis as a count of at least 1.
fn axis(case: &Case, name: &str) -> usize {
    case.int(name).and_then(|value| usize::try_from(value).ok()).unwrap_or(1).max(1)
}

/// Words of 8 bytes in one array of a stream task.
fn words(task: &str, case: &Case) -> usize {
    axis(case, "bytes") / 8 / if task == "copy" { 2 } else { 1 }
}
