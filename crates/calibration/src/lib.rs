//! Calibration: tasks that each reach one limit of the machine. They are ordinary workloads, so the ceilings come from
//! the same instrument as the measurements that are compared with them.

mod chase;
mod fma;
mod null;
mod stream;
mod stream_loops;
mod touch;
mod triad;
mod wake;

use ellwand_core::Registry;
use ellwand_core::ceiling::{CeilingCase, CeilingKind, Role};

/// Adds the calibration workloads.
pub fn register(registry: &mut Registry) {
    null::register(registry);
    stream::register(registry);
    triad::register(registry);
    fma::register(registry);
    chase::register(registry);
    touch::register(registry);
    wake::register(registry);
    registry.ceilings.extend(CEILINGS);
}

const STREAM: &[(&str, Role)] = &[("bytes", Role::Bytes), ("passes", Role::Passes)];

/// Chain groups that fill a GPU: divisible by common multiprocessor counts (108, 132), so none is idle at the end.
const GROUPS: (&str, Role) = ("groups", Role::OnDevice(4752));

const fn row(kind: CeilingKind, workload: &'static str, axes: &'static [(&'static str, Role)]) -> CeilingCase {
    CeilingCase { kind, workload, axes, past: None }
}

/// The ceiling table.
#[rustfmt::skip]
const CEILINGS: [CeilingCase; 14] = [
    row(CeilingKind::Call, "null", &[]),
    row(CeilingKind::Copy, "copy", STREAM),
    row(CeilingKind::Read, "read", STREAM),
    row(CeilingKind::Fill, "fill", STREAM),
    row(CeilingKind::Triad, "triad", STREAM),
    row(CeilingKind::Fma, "fma", &[("precision", Role::Is("f32")), GROUPS]),
    row(CeilingKind::FmaF64, "fma", &[("precision", Role::Is("f64")), GROUPS]),
    row(CeilingKind::Latency, "pointer-chase", &[("bytes", Role::Bytes)]),
    row(CeilingKind::PageFault, "first-touch", &[("pages", Role::Is("small"))]),
    row(CeilingKind::HugePageFault, "first-touch", &[("pages", Role::Is("huge"))]),
    row(CeilingKind::Wake, "wake", &[("after", Role::Is("job"))]),
    row(CeilingKind::ColdWake, "wake", &[("after", Role::Is("sleep"))]),
    CeilingCase { past: Some(["simd", "non-temporal"]), ..row(CeilingKind::Streamed, "copy", STREAM) },
    CeilingCase { past: Some(["parallel", "parallel-non-temporal"]), ..row(CeilingKind::Streamed, "copy", STREAM) },
];
