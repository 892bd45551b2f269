//! The workloads of Ellwand and every native way of computing them: one folder a workload.
//!
//! Floor 2: nothing here knows how it is timed or reported.

use ellwand_core::Registry;

pub mod calibration;
pub mod device;
pub mod gemm;
pub mod isa;
#[allow(dead_code, unused_imports, reason = "the layer operations are its first callers")]
mod lanes;
pub mod lattice;
mod pool;

/// Adds every built-in workload and its implementations. One line a folder.
pub fn register(registry: &mut Registry) {
    calibration::register(registry);
    gemm::register(registry);
    lattice::register(registry);
}
