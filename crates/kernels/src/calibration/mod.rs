//! Calibration: tasks whose only purpose is to meet one limit of the machine. Ordinary workloads, so that the ceilings
//! are measured by the same instrument as everything that is held against them.

mod bound;
mod chase;
mod cuda;
mod fma;
mod null;
mod products;
mod stream;
mod stream_loops;
mod touch;
mod transfer;
mod triad;
mod wake;
mod wgpu;

use ellwand_core::Registry;
use ellwand_core::ceiling::{CeilingCase, CeilingKind, Role};

pub(crate) use cuda::SOURCE as CUDA;
pub(crate) use fma::SOURCE as CUDA_FMA;
pub(crate) use products::{HOPPER as CUDA_PRODUCTS_HOPPER, SOURCE as CUDA_PRODUCTS};
#[cfg(all(test, feature = "vulkan"))]
pub(crate) use wgpu::SOURCE as WGSL;

/// Adds the calibration workloads.
pub fn register(registry: &mut Registry) {
    null::register(registry);
    stream::register(registry);
    triad::register(registry);
    fma::register(registry);
    products::register(registry);
    cuda::register(registry);
    wgpu::register(registry);
    chase::register(registry);
    touch::register(registry);
    transfer::register(registry);
    wake::register(registry);
    bound::register(registry);
    registry.ceilings.extend(CEILINGS);
}

const STREAM: &[(&str, Role)] = &[("bytes", Role::Bytes), ("passes", Role::Passes)];

/// Groups of chains that fill a GPU: the multiprocessors of usual ones (108, 132) divide it, so that none is idle at the end.
const GROUPS: (&str, Role) = ("groups", Role::OnDevice(4752));

const PINNED: (&str, Role) = ("memory", Role::Is("pinned"));

const fn row(kind: CeilingKind, workload: &'static str, axes: &'static [(&'static str, Role)]) -> CeilingCase {
    CeilingCase { kind, workload, axes, past: None }
}

/// The table of ceilings.
#[rustfmt::skip]
const CEILINGS: [CeilingCase; 16] = [
    row(CeilingKind::Call, "null", &[]),
    row(CeilingKind::Copy, "copy", STREAM),
    row(CeilingKind::Read, "read", STREAM),
    row(CeilingKind::Fill, "fill", STREAM),
    row(CeilingKind::Triad, "triad", STREAM),
    row(CeilingKind::Fma, "fma", &[("precision", Role::Is("f32")), GROUPS]),
    row(CeilingKind::FmaF64, "fma", &[("precision", Role::Is("f64")), GROUPS]),
    row(CeilingKind::ProductsBf16, "products", &[("tiles", Role::EachMultiprocessor(4)), ("steps", Role::Steps)]),
    row(CeilingKind::Latency, "pointer-chase", &[("bytes", Role::Bytes)]),
    row(CeilingKind::PageFault, "first-touch", &[("pages", Role::Is("small"))]),
    row(CeilingKind::HugePageFault, "first-touch", &[("pages", Role::Is("huge"))]),
    row(CeilingKind::ToDevice, "transfer", &[("bytes", Role::Bytes), ("direction", Role::Is("host-to-device")), PINNED]),
    row(CeilingKind::FromDevice, "transfer", &[("bytes", Role::Bytes), ("direction", Role::Is("device-to-host")), PINNED]),
    row(CeilingKind::Wake, "wake", &[("after", Role::Is("job"))]),
    row(CeilingKind::ColdWake, "wake", &[("after", Role::Is("sleep"))]),
    CeilingCase { past: Some("parallel-non-temporal"), ..row(CeilingKind::Streamed, "copy", STREAM) },
];
