//! GPUs: what all GPU implementations share.
//!
//! A backend allocates, copies and launches: the CUDA driver (`cuda`) with kernels in CUDA C++, or Vulkan (`wgpu`) with
//! kernels in WGSL. Both are found at run time. Tests have a third backend, the emulator of `tools/gpu-lab`.

mod activity;
mod buffer;
mod calibration;
pub mod compile;
pub mod cublas;
mod cuda;
mod cupti;
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

use std::any::Any;
use std::sync::Arc;

use ellwand_core::device::{Activity, CpuScope, Device, DeviceKind, Timing};
use ellwand_core::record::SlotState;
use ellwand_core::{DeviceError, Implementation, InputError, PrepareError, Registry};

pub use buffer::Buffer;
pub use cublas::Series;
pub use cuda::MOST_ARGS;
use held::Memory;
pub use host::Host;
pub use job::{Job, carried_over};
pub use source::{Arg, Grid, Source, TensorMap, Tiles, whole};
pub use stream::{Clock, Stream};
#[cfg(feature = "vulkan")]
pub use wgpu::test_device as test_adapter;

/// Errors of a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// A library or function is missing; nothing can run.
    #[error("{0}")]
    Absent(String),
    /// Out of device memory.
    #[error(
        "{wanted} bytes do not fit into the device memory{}; choose a smaller size",
        .free.map(|free| format!(", {free} are free")).unwrap_or_default()
    )]
    Memory {
        /// Number of bytes requested.
        wanted: u64,
        /// Bytes that were free, if the device reports it.
        free: Option<u64>,
    },
    /// An array exceeds the device's limit for one array.
    #[error(
        "an array of {wanted} bytes is needed, but this device allows at most {limit} in one array; choose a smaller size"
    )]
    Limit {
        /// Number of bytes requested.
        wanted: u64,
        /// Largest array in bytes.
        limit: u64,
    },
    /// The device no longer answers this process.
    #[error(
        "the device no longer answers this process: an earlier kernel failed with {first}; the implementation that \
         ran then caused this; other processes (with worker processes, each implementation has its own) can still use the device"
    )]
    Lost {
        /// The first error.
        first: String,
    },
    /// A kernel's source does not compile.
    #[error("{source_name} does not compile for {arch}:\n{log}")]
    Compile {
        /// File name of the source.
        source_name: String,
        /// Architecture to compile for, such as `sm_90`.
        arch: String,
        /// Messages of the compiler with file and line.
        log: String,
    },
    /// A driver call failed.
    #[error("{call}: {problem}")]
    Call {
        /// Name of the call.
        call: &'static str,
        /// The driver's message.
        problem: String,
    },
}

impl From<GpuError> for DeviceError {
    fn from(error: GpuError) -> Self {
        DeviceError::new(error.to_string())
    }
}

impl From<GpuError> for PrepareError {
    fn from(error: GpuError) -> Self {
        match error {
            GpuError::Absent(why) => PrepareError::Unsupported(why),
            limit @ GpuError::Limit { .. } => PrepareError::Unsupported(limit.to_string()),
            other => PrepareError::Failed(other.to_string()),
        }
    }
}

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
    /// Returns cuBLAS as a kernel, to be launched with the arguments of a [`Series`].
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
