//! A GPU API that runs kernels: what CUDA, Vulkan and the emulator of the tests implement.

use std::sync::Arc;

use ellwand_core::DeviceError;
use ellwand_core::device::{Activity, DeviceKind};
use ellwand_core::record::SlotState;

use crate::error::GpuError;
use crate::held::Memory;
use crate::source::{Arg, Grid, Source, TensorMap, Tiles};

/// A kernel that is ready to launch.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// Name in the source.
    pub name: String,
    /// Handle of the backend.
    pub handle: usize,
    /// Registers, memory and compiler, for the record.
    pub resources: String,
    /// Nanoseconds to compile and load it just now, if known.
    pub compile_ns: Option<u64>,
}

/// A kernel, its grid and its arguments.
pub type Launch = (Kernel, Grid, Vec<Arg>);

/// A GPU API that runs kernels. Addresses are the device's; work runs in the order in which it is enqueued.
pub trait Backend: Send + Sync {
    /// Kind of device.
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cuda
    }
    /// Model and architecture.
    fn about(&self) -> String;
    /// Allocates memory, aligned to 256 bytes and uninitialised.
    fn alloc(&self, bytes: usize) -> Result<u64, GpuError>;
    /// Frees memory once the work that uses it is done.
    fn free(&self, address: u64);
    /// Copies to the device and waits.
    fn upload(&self, to: u64, from: &[u8]) -> Result<(), GpuError>;
    /// Waits, then copies from the device.
    fn download(&self, from: u64, to: &mut [u8]) -> Result<(), GpuError>;
    /// Sets `bytes` bytes to `byte`.
    fn fill(&self, at: u64, byte: u8, bytes: usize) -> Result<(), GpuError>;
    /// Allocates page-locked host memory and returns its address.
    fn pin(&self, _bytes: usize) -> Result<u64, GpuError> {
        Err(GpuError::Absent("this kind of device cannot page-lock host memory".into()))
    }
    /// Frees memory of [`Backend::pin`].
    fn unpin(&self, _at: u64) {}
    /// Enqueues a copy from host memory.
    fn bring_in(&self, _to: u64, _host: u64, _bytes: usize, _pinned: bool) -> Result<(), GpuError> {
        Err(GpuError::Absent("copies to this kind of device cannot be timed".into()))
    }
    /// Enqueues a copy to host memory.
    fn bring_out(&self, _from: u64, _host: u64, _bytes: usize, _pinned: bool) -> Result<(), GpuError> {
        Err(GpuError::Absent("copies from this kind of device cannot be timed".into()))
    }
    /// Returns a kernel of a source; compiles the source on first use.
    fn kernel(&self, source: &'static Source, name: &str) -> Result<Kernel, GpuError>;
    /// Returns cuBLAS as a kernel, to be launched with the arguments of a [`Series`](crate::Series).
    fn library(&self) -> Result<Kernel, GpuError> {
        Err(GpuError::Absent("this kind of device has no matrix library".into()))
    }
    /// Compute capability (major, minor) of CUDA devices.
    fn capability(&self) -> Option<(i32, i32)> {
        None
    }
    /// Theoretical occupancy: the share of a multiprocessor's threads that resident blocks of a launch fill, if known.
    fn occupancy(&self, _kernel: &Kernel, _grid: Grid) -> Option<f64> {
        None
    }
    /// Encodes a tensor map for the copy engine, with rows of 128 bytes swizzled in shared memory (`hopper.cuh`).
    fn tensor_map(&self, _tiles: Tiles) -> Result<TensorMap, GpuError> {
        Err(GpuError::Absent("this kind of device has no copy engine for tiles".into()))
    }
    /// Enqueues a kernel.
    fn launch(&self, kernel: &Kernel, grid: Grid, args: &[Arg]) -> Result<(), GpuError>;
    /// Creates a graph of launches that [`Backend::replay`] enqueues with one call.
    fn graph(&self, _launches: &[Launch]) -> Result<usize, GpuError> {
        Err(GpuError::Absent("this kind of device cannot replay launches as a graph".into()))
    }
    /// Enqueues a graph that [`Backend::graph`] created.
    fn replay(&self, _graph: usize) -> Result<(), GpuError> {
        Err(GpuError::Absent("this kind of device cannot replay launches as a graph".into()))
    }
    /// Destroys a graph once it no longer runs.
    fn forget(&self, _graph: usize) {}
    /// Waits for everything enqueued.
    fn sync(&self) -> Result<(), GpuError>;
    /// The handle of the stream, if other libraries can enqueue work on it.
    fn stream(&self) -> Option<u64> {
        None
    }
    /// Waits for everything that this process enqueued on the device, by other libraries too.
    fn sync_all(&self) -> Result<(), GpuError> {
        self.sync()
    }
    /// Opens a closed gate; the slot then has no device time.
    fn interrupt(&self) {}
    /// Starts the device's clock for all launches until [`Backend::stop`].
    fn start(&self) {}
    /// Nanoseconds on the device's clock since [`Backend::start`]; `None` if they are not valid.
    fn stop(&self) -> Option<u64> {
        None
    }
    /// Clock, power, throttling and memory.
    fn state(&self) -> SlotState {
        SlotState::default()
    }
    /// Device memory held by this process, if the backend counts it.
    fn memory(&self) -> Option<Memory> {
        None
    }
    /// Starts to record device activity.
    fn watch(&self) -> Result<(), DeviceError> {
        Err(DeviceError::new("this kind of device does not record its activity"))
    }
    /// Ends the recording and returns it.
    fn watched(&self) -> Result<Vec<Activity>, DeviceError> {
        Err(DeviceError::new("this kind of device does not record its activity"))
    }
    /// Evicts earlier data from the device's caches.
    fn flush(&self) -> Result<(), GpuError>;
    /// Number of multiprocessors, which sizes the grids of looping kernels.
    fn multiprocessors(&self) -> u32;
}

/// A backend, shared by buffers and jobs.
pub type Gpu = Arc<dyn Backend>;
