//! GPUs: what all GPU implementations share.
//!
//! A backend allocates, copies and launches: the CUDA driver (`cuda`) with kernels in CUDA C++, or Vulkan (`wgpu`) with
//! kernels in WGSL. Both are found at run time. Tests have a third backend, the emulator of `tools/gpu-lab`.

mod activity;
mod backend;
mod buffer;
mod calibration;
pub mod compile;
pub mod cublas;
mod cuda;
mod cupti;
mod device;
mod error;
mod find;
mod gate;
mod held;
mod host;
mod job;
mod nvml;
pub mod products;
mod source;
mod stream;
#[cfg(feature = "vulkan")]
mod wgpu;

use std::sync::Arc;

use ellwand_core::device::{Device, DeviceKind};
use ellwand_core::{DeviceError, Registry};

pub use backend::{Backend, Gpu, Kernel, Launch};
pub use buffer::Buffer;
pub use cublas::Series;
pub use cuda::MAX_ARGS;
pub use device::{GpuDevice, gpu, on_cuda, on_wgpu};
pub use error::GpuError;
pub use host::Host;
pub use job::{Job, carried_over};
pub use source::{Arg, Grid, Source, TensorMap, Tiles, whole};
pub use stream::{Clock, Stream};
#[cfg(feature = "vulkan")]
pub use wgpu::test_device as test_adapter;

/// Registers device discovery and GPU calibration. Calibration workloads must be registered first.
pub fn register(registry: &mut Registry) {
    // Search on request only. Without a driver, the loader takes 2 ms to look for every library name, as long as the rest
    // of a worker's start; with a driver, the search initialises it.
    registry.on_request(DeviceKind::Cuda, "not searched for", find_cuda);
    // Searching for adapters loads drivers, one of which (a software renderer) brings a compiler and runs on the CPU.
    // Other measurements must not have it in their process.
    registry.on_request(DeviceKind::Wgpu, "only searched for on request (device wgpu)", find_wgpu);
    calibration::register(registry);
}

/// The kernel sources of this crate; each workload has its own.
pub fn sources() -> Vec<&'static Source> {
    let mut all = vec![&gate::SOURCE, &cuda::FLUSH, &products::CUDA, &products::WGSL];
    all.extend(calibration::sources());
    all
}

/// Finds CUDA devices.
///
/// # Errors
/// Why there is no CUDA device: no driver, no device, or one that does not respond.
pub fn find_cuda() -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    let found = cuda::find()?;
    let device = |(index, gpu): (usize, Gpu)| Arc::new(GpuDevice::new(format!("cuda:{index}"), gpu)) as Arc<dyn Device>;
    Ok(found.into_iter().map(device).collect())
}

/// Finds Vulkan adapters. The search loads their drivers.
///
/// # Errors
/// Why there is no Vulkan device: no library, no driver, no adapter, or a build without Vulkan.
pub fn find_wgpu() -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    #[cfg(feature = "vulkan")]
    {
        let device =
            |(index, gpu): (usize, Gpu)| Arc::new(GpuDevice::new(format!("wgpu:{index}"), gpu)) as Arc<dyn Device>;
        Ok(wgpu::find()?.into_iter().map(device).collect())
    }
    #[cfg(not(feature = "vulkan"))]
    Err(DeviceError::new("this program was built without Vulkan; build it with the feature `vulkan`"))
}
