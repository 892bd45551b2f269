//! Hierarchical nested-lattice quantization (Kaplan and Ordentlich) on Z2, D4 and E8.
//!
//! A vector x is rounded to a lattice point g_0 = Q(x/beta + z); level m stores the class b_m = G^-1 g_m mod q and
//! continues with g_{m+1} = Q(g_m/q). Decoding sums q^m times the smallest member of each class. Level 0 is the finest;
//! a vector outside the codebook (g_M != 0) wraps around.
//!
//! All implementations give the same bits: the input is scaled with two f32 roundings, its residual is placed on a grid
//! of 2^-25, and everything after that is integer arithmetic. Ties depend on residuals alone, so that Q(x + lattice
//! vector) = Q(x) + lattice vector exactly.

mod bits;
mod centre;
mod codes;
mod cuda;
mod decode;
mod digits;
pub mod dot;
mod encode;
mod hard;
mod layout;
mod method;
mod parallel;
mod params;
mod quality;
mod reference;
mod scalar;
mod scalar_decode;
mod scalar_rival;
mod simd;
mod storage;
mod tables;
#[cfg(test)]
mod tests;
mod views;
mod wgpu;
mod workload;
mod workload_code;
mod workload_dot;
mod workload_given;
mod workload_readings;
mod workload_reference;
mod workload_run;

use ellwand_core::Registry;
use ellwand_gpu::Source;

pub use codes::Codes;
pub use ellwand_simd::isa::Isa;
pub use encode::CodesMut;
pub use layout::Layout;
pub use method::Method;
pub use params::{Codec, Lattice, MAX_DIMENSION, MAX_SIDE, Overload, Params};
pub use quality::{Quality, choose_beta, smallest_scale};
pub use scalar_rival::scalar_rival;

/// Sources of all GPU kernels, for checks that compile them all.
pub fn gpu_sources() -> Vec<&'static Source> {
    std::iter::once(&cuda::SOURCE).chain(wgpu::SOURCES).collect()
}

/// Registers the lattice workloads and their implementations.
pub fn register(registry: &mut Registry) {
    workload_code::register(registry);
    workload_dot::register(registry);
    cuda::register(registry);
    wgpu::register(registry);
    registry.views.extend(views::views());
}
