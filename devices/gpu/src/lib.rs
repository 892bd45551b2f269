//! GPUs: what is common to everything that runs kernels on one.
//!
//! A backend allocates, copies and launches: the CUDA driver (`cuda`) with kernels in CUDA C++, and Vulkan (`wgpu`) with
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
pub mod occupancy;
pub mod products;
mod source;
#[cfg(feature = "vulkan")]
mod wgpu;

use std::any::Any;
use std::sync::Arc;

use ellwand_core::device::{Activity, CpuScope, Device, DeviceKind, DeviceStatus, Timing};
use ellwand_core::{Implementation, InputError, PrepareError, Registry};

pub use buffer::Buffer;
pub use cublas::Series;
pub use cuda::MOST_ARGS;
use held::Memory;
pub use host::Host;
pub use job::{Job, carried_over};
pub use source::{Arg, Grid, Source, TensorMap, Tiles, whole};
#[cfg(feature = "vulkan")]
pub use wgpu::test_device as test_adapter;

/// What went wrong on a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// A library or function is missing; nothing can run.
    #[error("{0}")]
    Absent(String),
    /// The memory of the device does not suffice.
    #[error(
        "{wanted} bytes do not fit into the memory of the device{}; choose a smaller size",
        .free.map(|free| format!(", {free} are free")).unwrap_or_default()
    )]
    Memory {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes that were free, where the device tells.
        free: Option<u64>,
    },
    /// An array is larger than the device lets any be.
    #[error(
        "an array of {wanted} bytes is needed, and this device takes at most {limit} in one; choose a smaller size"
    )]
    Limit {
        /// Bytes asked for.
        wanted: u64,
        /// Most bytes.
        limit: u64,
    },
    /// The device answers this process no longer.
    #[error(
        "the device answers this process no longer: an earlier kernel failed with {first}; whoever ran then is to blame, and \
         other processes (a run without --in-process has one for each implementation) still have the device"
    )]
    Lost {
        /// What failed first.
        first: String,
    },
    /// A kernel's source does not compile; the compiler's messages with file and line.
    #[error("{source_name} does not compile for {arch}:\n{log}")]
    Compile {
        /// File.
        source_name: String,
        /// What it was compiled for.
        arch: String,
        /// What the compiler said.
        log: String,
    },
    /// A call to the driver failed.
    #[error("{call}: {problem}")]
    Call {
        /// The call.
        call: &'static str,
        /// What the driver said.
        problem: String,
    },
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

/// A kernel that is ready to be launched.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// Its name in the source.
    pub name: String,
    /// The backend's handle.
    pub handle: usize,
    /// What it takes up on the device, for the record.
    pub resources: String,
    /// What it took to compile it for this device just now, where that is known.
    pub compile_ns: Option<u64>,
}

/// A kernel, its grid and its arguments.
pub type Launch = (Kernel, Grid, Vec<Arg>);

/// What runs kernels. Addresses are the device's own; work is done in the order in which it was asked for.
pub trait Backend: Send + Sync {
    /// What sort of device it is.
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cuda
    }
    /// Model and architecture.
    fn about(&self) -> String;
    /// Memory, aligned to 256 bytes, of unknown content.
    fn alloc(&self, bytes: usize) -> Result<u64, GpuError>;
    /// Gives memory back once the work that uses it is done.
    fn free(&self, address: u64);
    /// Copies to the device.
    fn upload(&self, to: u64, from: &[u8]) -> Result<(), GpuError>;
    /// Waits and copies from the device.
    fn download(&self, from: u64, to: &mut [u8]) -> Result<(), GpuError>;
    /// Sets bytes.
    fn fill(&self, at: u64, byte: u8, bytes: usize) -> Result<(), GpuError>;
    /// Memory of the host that the device reads and writes without the processor; its address.
    fn pin(&self, _bytes: usize) -> Result<u64, GpuError> {
        Err(GpuError::Absent("this kind of device locks no pages of the host's memory".into()))
    }
    /// Gives memory of [`Backend::pin`] back.
    fn unpin(&self, _at: u64) {}
    /// Enqueues a copy from the host's memory.
    fn bring_in(&self, _to: u64, _host: u64, _bytes: usize, _pinned: bool) -> Result<(), GpuError> {
        Err(GpuError::Absent("copies to this kind of device cannot be timed".into()))
    }
    /// Enqueues a copy to the host's memory.
    fn bring_out(&self, _from: u64, _host: u64, _bytes: usize, _pinned: bool) -> Result<(), GpuError> {
        Err(GpuError::Absent("copies from this kind of device cannot be timed".into()))
    }
    /// A kernel of a source, compiled where that has not happened yet.
    fn kernel(&self, source: &'static Source, name: &str) -> Result<Kernel, GpuError>;
    /// NVIDIA's own library of products, as what a job launches with the arguments of a [`Series`].
    fn library(&self) -> Result<Kernel, GpuError> {
        Err(GpuError::Absent("this kind of device has no library of products".into()))
    }
    /// Compute capability, major and minor, of devices that have one.
    fn capability(&self) -> Option<(i32, i32)> {
        None
    }
    /// Share of a multiprocessor's threads that blocks of a launch can hold at once, where the device tells.
    fn occupancy(&self, _kernel: &Kernel, _grid: Grid) -> Option<f64> {
        None
    }
    /// Describes an array for the copy engine, with rows of 128 bytes swizzled in shared memory (`hopper.cuh`).
    fn tensor_map(&self, _tiles: Tiles) -> Result<TensorMap, GpuError> {
        Err(GpuError::Absent("this kind of device copies no tiles".into()))
    }
    /// Enqueues a kernel.
    fn launch(&self, kernel: &Kernel, grid: Grid, args: &[Arg]) -> Result<(), GpuError>;
    /// Makes a graph of launches, which is then enqueued with one call.
    fn graph(&self, _launches: &[Launch]) -> Result<usize, GpuError> {
        Err(GpuError::Absent("this kind of device replays no graphs of launches".into()))
    }
    /// Enqueues a graph that [`Backend::graph`] made.
    fn replay(&self, _graph: usize) -> Result<(), GpuError> {
        Err(GpuError::Absent("this kind of device replays no graphs of launches".into()))
    }
    /// Gives a graph back once nothing of it is enqueued.
    fn forget(&self, _graph: usize) {}
    /// Waits for everything enqueued.
    fn sync(&self) -> Result<(), GpuError>;
    /// From here on the device's clock runs, for what is launched until [`Backend::stop`].
    fn start(&self) {}
    /// Time on the device's clock since [`Backend::start`]; `None` where it cannot be told.
    fn stop(&self) -> Option<u64> {
        None
    }
    /// State of the device.
    fn status(&self) -> DeviceStatus {
        DeviceStatus::default()
    }
    /// Memory that this process holds on the device, where it is counted.
    fn memory(&self) -> Option<Memory> {
        None
    }
    /// Begins to record what the device does.
    fn watch(&self) -> Result<(), String> {
        Err("this kind of device does not tell what it does".into())
    }
    /// Ends the recording.
    fn watched(&self) -> Result<Vec<Activity>, String> {
        Err("this kind of device does not tell what it does".into())
    }
    /// Drives the contents of its caches out.
    fn flush(&self) -> Result<(), GpuError>;
    /// Multiprocessors, by which grids of kernels that loop are sized.
    fn multiprocessors(&self) -> u32;
}

/// A backend that buffers and jobs hold on to.
pub type Gpu = Arc<dyn Backend>;

/// A GPU as a device of the registry.
pub struct GpuDevice {
    id: String,
    gpu: Gpu,
}

impl GpuDevice {
    /// A device with this id, as `cuda:0`.
    pub fn new(id: String, gpu: Gpu) -> Self {
        Self { id, gpu }
    }
}

/// The backend of the device that an implementation was given.
pub fn gpu(device: &dyn Device) -> Result<&Gpu, PrepareError> {
    device
        .as_any()
        .downcast_ref::<GpuDevice>()
        .map(|device| &device.gpu)
        .ok_or_else(|| PrepareError::Unsupported(format!("it needs a GPU, and {} is none", device.id())))
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
        // Adapters of Vulkan do not tell; theirs is a guess.
        (self.gpu.kind() == DeviceKind::Cuda).then(|| self.gpu.multiprocessors())
    }

    /// Device time lies between two marks on the device's clock, from the first launch to the last. With CUDA the host queues
    /// the launches while a gate holds the stream back (`gate.rs`), so that the gaps between launches are not in it; wall
    /// time is then the time to queue everything and after that to run it: an upper bound of what a caller waits.
    fn time(&self, _: CpuScope, body: &mut dyn FnMut()) -> Timing {
        let start = std::time::Instant::now();
        self.gpu.start();
        body();
        let device_ns = self.gpu.stop();
        let wall_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Timing { wall_ns, device_ns, ..Timing::default() }
    }

    fn status(&self) -> DeviceStatus {
        self.gpu.status()
    }

    fn watch(&self) -> Result<(), String> {
        self.gpu.watch()
    }

    fn watched(&self) -> Result<Vec<Activity>, String> {
        self.gpu.watched()
    }

    fn flush_cache(&self) -> Result<(), InputError> {
        self.gpu.flush().map_err(|error| InputError::new(&*self.id, error.to_string(), "a device that can be flushed"))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The same implementation, declared to need an adapter of Vulkan. The kind of device is called after the library.
pub fn on_wgpu(row: Implementation) -> Implementation {
    Implementation { needs: DeviceKind::Wgpu, ..row }
}

/// How devices are found, and what measures their limits. Calibration workloads come first; rows join them.
pub fn register(registry: &mut Registry) {
    // Where there is no driver, asking the loader for each of its names takes 2 ms, as long as all else that a worker begins
    // with; where there is one, it is started.
    registry.on_request(DeviceKind::Cuda, "it has not been looked for", find_cuda);
    // Looking for adapters loads drivers, one of which brings a compiler and runs on the processor: nobody who measures
    // something else should have that in the process.
    registry.on_request(DeviceKind::Wgpu, "it is only looked for when asked for (--device wgpu)", find_wgpu);
    calibration::register(registry);
}

/// The sources of the kernels here; each workload has its own beside it.
pub fn sources() -> Vec<&'static Source> {
    let mut all = vec![&gate::SOURCE, &cuda::FLUSH, &products::CUDA, &products::WGSL];
    all.extend(calibration::sources());
    all
}

/// The GPUs found here, or why there are none.
///
/// # Errors
/// Why there is no CUDA device: no driver, no device, or one that does not answer.
pub fn find_cuda() -> Result<Vec<Arc<dyn Device>>, String> {
    let found = cuda::find()?;
    let device = |(index, gpu): (usize, Gpu)| Arc::new(GpuDevice::new(format!("cuda:{index}"), gpu)) as Arc<dyn Device>;
    Ok(found.into_iter().map(device).collect())
}

/// The adapters of Vulkan found here, or why there are none. Looking loads their drivers.
///
/// # Errors
/// Why there is no Vulkan device: no library, no driver, or no adapter; or that this program was built without.
pub fn find_wgpu() -> Result<Vec<Arc<dyn Device>>, String> {
    #[cfg(feature = "vulkan")]
    {
        let device =
            |(index, gpu): (usize, Gpu)| Arc::new(GpuDevice::new(format!("wgpu:{index}"), gpu)) as Arc<dyn Device>;
        Ok(wgpu::find()?.into_iter().map(device).collect())
    }
    #[cfg(not(feature = "vulkan"))]
    Err("this program was built without Vulkan (cargo build --release --features vulkan brings it)".into())
}
