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
}
