//! The workloads of Ellwand and every native way of computing them: one folder a workload.
//!
//! Floor 2: nothing here knows how it is timed or reported.

use ellwand_core::Registry;
use ellwand_core::view::{Implementations, View};

pub mod attention;
mod buffer;
pub mod calibration;
pub mod device;
pub mod gemm;
pub mod isa;
pub mod kde;
mod lanes;
pub mod lattice;
pub mod layers;
mod pool;
mod precision;
pub mod stores;
#[cfg(test)]
mod testing;

/// Adds every built-in workload and its implementations. One line a folder.
pub fn register(registry: &mut Registry) {
    calibration::register(registry);
    gemm::register(registry);
    kde::register(registry);
    attention::register(registry);
    lattice::register(registry);
    layers::register(registry);
    registry.views.push(implementations());
}

/// Implementations that look the same in every plot, and the one that does the work of `parallel` on one thread.
fn implementations() -> View {
    let looks = "reference scalar simd parallel cuda fused blocked naive wgpu memory-efficient,,unfused unfused-parallel \
                 non-temporal,,,,,gemm matrixmultiply";
    View::Implementations(Implementations {
        looks: looks.split([' ', ',']).map(String::from).collect(),
        threaded: vec![("parallel".into(), "simd".into())],
    })
}
