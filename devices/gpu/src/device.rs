//! A GPU as a device of the registry.

use std::any::Any;

use ellwand_core::device::{Activity, CpuScope, Device, DeviceKind, Timing};
use ellwand_core::record::SlotState;
use ellwand_core::{DeviceError, Implementation, InputError, PrepareError};

use crate::backend::Gpu;

/// A GPU as a device of the registry.
pub struct GpuDevice {
    id: String,
    gpu: Gpu,
}

impl GpuDevice {
    /// Creates a device with this id, such as `cuda:0`.
    pub fn new(id: String, gpu: Gpu) -> Self {
        Self { id, gpu }
    }
}

/// Returns the backend of the device that an implementation was given.
pub fn gpu(device: &dyn Device) -> Result<&Gpu, PrepareError> {
    device
        .as_any()
        .downcast_ref::<GpuDevice>()
        .map(|device| &device.gpu)
        .ok_or_else(|| PrepareError::Unsupported(format!("it needs a GPU, and {} is not one", device.id())))
}

impl Device for GpuDevice {
    fn id(&self) -> &str {
        &self.id
    }

    fn kind(&self) -> DeviceKind {
        self.gpu.kind()
    }

    fn about(&self) -> String {
        self.gpu.about()
    }

    fn multiprocessors(&self) -> Option<u32> {
        // Vulkan adapters do not report it; theirs is a guess.
        (self.gpu.kind() == DeviceKind::Cuda).then(|| self.gpu.multiprocessors())
    }

    /// Device time is measured between two marks on the device's clock, from the first launch to the last. With CUDA the host
    /// queues the launches while a gate holds the stream back (`gate.rs`), so device time has no launch gaps; wall
    /// time then includes both queueing and running, which is an upper bound on a caller's wait.
    fn time(&self, _: CpuScope, body: &mut dyn FnMut()) -> Timing {
        let start = std::time::Instant::now();
        self.gpu.start();
        body();
        let device_ns = self.gpu.stop();
        let wall_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Timing { wall_ns, device_ns, ..Timing::default() }
    }

    fn state(&self) -> SlotState {
        self.gpu.state()
    }

    fn watch(&self) -> Result<(), DeviceError> {
        self.gpu.watch()
    }

    fn watched(&self) -> Result<Vec<Activity>, DeviceError> {
        self.gpu.watched()
    }

    fn flush_cache(&self) -> Result<(), InputError> {
        self.gpu.flush().map_err(|error| InputError::new(&*self.id, error.to_string(), "a device that can be flushed"))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Marks an implementation as requiring a Vulkan adapter; the device kind is named after the library, wgpu.
pub fn on_wgpu(row: Implementation) -> Implementation {
    Implementation { needs: DeviceKind::Wgpu, ..row }
}

/// Marks an implementation as requiring a CUDA device.
pub fn on_cuda(row: Implementation) -> Implementation {
    Implementation { needs: DeviceKind::Cuda, ..row }
}
