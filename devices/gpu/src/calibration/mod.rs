//! Limits of a GPU: implementations of `ellwand-calibration`'s workloads, and workloads that exist only on GPUs.

mod cuda;
mod fma;
mod products;
mod transfer;
mod wgpu;

use ellwand_core::ceiling::{CeilingCase, CeilingKind, Role};
use ellwand_core::{Case, Registry};

use crate::Source;

/// The pattern that `fill` writes; the workload defines it.
const PATTERN: u64 = 0x5a5a_0123_4567_89ab;

/// Registers the GPU calibration. The registry must already have the calibration workloads.
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

/// The kernel sources of this module.
pub(crate) fn sources() -> [&'static Source; 5] {
    [&cuda::SOURCE, &fma::SOURCE, &products::SOURCE, &products::HOPPER, &wgpu::SOURCE]
}

/// An axis as a count, at least 1.
fn axis(case: &Case, name: &str) -> usize {
    case.count(name, 1).max(1)
}

/// 8-byte words in one array of a stream task.
fn array_words(task: &str, case: &Case) -> usize {
    axis(case, "bytes") / 8 / if task == "copy" { 2 } else { 1 }
}
