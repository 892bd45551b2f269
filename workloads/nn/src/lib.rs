//! The neural-network workloads: matrix products, layer operations, attention and the transformer layer.

use ellwand_core::Registry;
use ellwand_gpu::Source;

mod attention;
mod gemm;
mod layers;

pub use attention::{Heads, attend};
pub use layers::Layer;

/// Registers the workloads and their implementations.
pub fn register(registry: &mut Registry) {
    gemm::register(registry);
    attention::register(registry);
    layers::register(registry);
}

/// Sources of all GPU kernels, for checks that compile them all.
pub fn gpu_sources() -> Vec<&'static Source> {
    vec![
        &layers::CUDA,
        &layers::WGSL,
        &gemm::CUDA_BF16,
        &gemm::CUDA_HOPPER,
        &attention::CUDA,
        &attention::CUDA_BF16,
        &attention::CUDA_HOPPER,
        &attention::WGSL,
    ]
}
