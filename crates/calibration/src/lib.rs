//! Calibration: tasks whose only purpose is to meet one limit of the machine. Ordinary workloads, so that the ceilings
//! are measured by the same instrument as everything that is held against them.

mod bound;
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
    bound::register(registry);
    registry.ceilings.extend(CEILINGS);
}

const STREAM: &[(&str, Role)] = &[("bytes", Role::Bytes), ("passes", Role::Passes)];

/// Groups of chains that fill a GPU: the multiprocessors of usual ones (108, 132) divide it, so that none is idle at the end.
const GROUPS: (&str, Role) = ("groups", Role::OnDevice(4752));

const fn row(kind: CeilingKind, workload: &'static str, axes: &'static [(&'static str, Role)]) -> CeilingCase {
    CeilingCase { kind, workload, axes, past: None }
}

/// The table of ceilings.
#[rustfmt::skip]
const CEILINGS: [CeilingCase; 13] = [
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
    CeilingCase { past: Some("parallel-non-temporal"), ..row(CeilingKind::Streamed, "copy", STREAM) },
];
