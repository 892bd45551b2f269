//! The CUDA backend: the driver API, loaded at run time.
#![allow(unsafe_code)]

mod flush;
mod graph;
mod kernels;
mod library;
mod timing;
mod transfer;
mod watch;

pub(super) use flush::SOURCE as FLUSH;

use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use ellwand_core::DeviceError;
use ellwand_core::device::Activity;
use ellwand_core::record::SlotState;

use super::cublas::{self, Cublas};
use super::cupti::Cupti;
use super::gate::Gate;
use super::held::{Held, Memory};
use super::nvml::{self, Nvml};
use super::{Arg, Backend, Gpu, GpuError, Grid, Kernel, Launch, Source, TensorMap, Tiles};

/// Opens the driver's devices and returns them with their indices.
///
/// # Errors
/// Why no device can be used.
pub(super) fn find() -> Result<Vec<(usize, Gpu)>, GpuError> {
    // SAFETY: loads the driver's library, which runs only NVIDIA's initialisers.
    if !unsafe { sys::is_culib_present() } {
        return Err(GpuError::Absent("libcuda not found".into()));
    }
    // If the driver lacks a function, the binding panics at the first call of it.
    let found = catch_unwind(|| {
        result::init().map_err(|error| format!("the CUDA driver does not start: {}", describe(error)))?;
        let mut version = 0;
        // SAFETY: one out-parameter.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(describe)?;
        if version < OLDEST_DRIVER {
            return Err(format!(
                "the CUDA driver is too old: it supports CUDA {}.{}, but {}.{} is needed",
                version / 1000,
                version % 1000 / 10,
                OLDEST_DRIVER / 1000,
                OLDEST_DRIVER % 1000 / 10
            ));
        }
        let count = result::device::get_count().map_err(describe)?;
        let mut devices = Vec::new();
        let mut problems = Vec::new();
        for index in 0..usize::try_from(count).unwrap_or(0) {
            match Cuda::open(index) {
                Ok(device) => devices.push((index, Arc::new(device) as Gpu)),
                Err(error) => problems.push(format!("cuda:{index}: {error}")),
            }
        }
        match (devices.is_empty(), problems.is_empty()) {
            (false, _) => Ok(devices),
            (true, false) => Err(problems.join("; ")),
            (true, true) => Err("the CUDA driver is installed but finds no device".into()),
        }
    });
    let lacks = |_| Err("the CUDA driver lacks a required function; it is probably too old".into());
    found.unwrap_or_else(lacks).map_err(GpuError::Absent)
}

/// CUDA 12.8, the first driver with every function that Ellwand calls (`cuEventElapsedTime_v2` is the newest). A driver
/// rejects machine code of a newer compiler.
const OLDEST_DRIVER: i32 = 12_080;

/// Errors that a context returns from every call until the process ends: uncorrectable memory and link errors, other
/// contained errors, and kernels that made an illegal access, timed out or failed otherwise.
const FOR_GOOD: [u32; 12] = [214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719];

/// Bytes of shared memory that a launch may use without an attribute; a kernel that needs more must opt in.
const USUAL_SHARED: u32 = 48 << 10;

/// Maximum number of parameters of a kernel.
pub const MAX_ARGS: usize = 24;

fn describe(error: DriverError) -> String {
    let said = error.error_string().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    let name = error.error_name().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{name} ({said})")
}

fn call(call: &'static str) -> impl Fn(DriverError) -> GpuError {
    move |error| GpuError::Call { call, problem: describe(error) }
}

/// One device with its primary context and a separate stream. Handles live as long as the process, since the registry
/// never drops the device.
struct Cuda {
    name: String,
    /// Compute capability: major, minor.
    capability: (i32, i32),
    total_bytes: usize,
    l2_bytes: usize,
    multiprocessors: u32,
    context: sys::CUcontext,
    stream: sys::CUstream,
    events: [sys::CUevent; 2],
    /// Two words of pinned memory that the gate reads and writes; the next field is their address on the device.
    opened: *mut u32,
    opened_on_device: u64,
    state: Mutex<State>,
    /// Clock, power and temperature; `None` if NVML is unavailable.
    nvml: Option<Nvml>,
    /// Bytes held by buffers.
    held: Held,
    /// The first error that made the context unusable.
    lost: OnceLock<String>,
}

#[derive(Default)]
struct State {
    gate: Option<Gate>,
    gate_kernel: Option<usize>,
    ticket: u32,
    /// Modules by source name, each with its compiler.
    modules: HashMap<&'static str, (usize, String)>,
    sizes: HashMap<u64, u64>,
    /// Shared memory beyond the default limit that each kernel has opted in to.
    allowed: HashMap<usize, u32>,
    /// Flushes the caches: an array and the kernel that reads it.
    flush: Option<(u64, Kernel)>,
    library: Option<Cublas>,
    records: Option<Cupti>,
    /// CUPTI's clock when the recording began.
    watched_from: Option<u64>,
}

impl State {
    fn gate(&mut self) -> &mut Gate {
        self.gate.get_or_insert(Gate::Idle)
    }
}

// SAFETY: any thread may use the driver's handles once the context is current there, which every method ensures; the
// pinned word is written with a volatile store while the state is locked.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

impl Cuda {
    fn open(index: usize) -> Result<Self, GpuError> {
        let ordinal = i32::try_from(index).unwrap_or(i32::MAX);
        let device = result::device::get(ordinal).map_err(call("cuDeviceGet"))?;
        let attribute = |attribute| {
            // SAFETY: the driver returned this device.
            unsafe { result::device::get_attribute(device, attribute) }.map_err(call("cuDeviceGetAttribute"))
        };
        use sys::CUdevice_attribute_enum as A;
        let capability = (
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let l2_bytes = usize::try_from(attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?).unwrap_or(0);
        let multiprocessors = u32::try_from(attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?).unwrap_or(1);
        // SAFETY: the driver returned this device; the context is current from here on.
        let (context, total_bytes) = unsafe {
            let context = result::primary_ctx::retain(device).map_err(call("cuDevicePrimaryCtxRetain"))?;
            result::ctx::set_current(context).map_err(call("cuCtxSetCurrent"))?;
            (context, result::device::total_mem(device).map_err(call("cuDeviceTotalMem"))?)
        };
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(call("cuStreamCreate"))?;
        let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(call("cuEventCreate"));
        let mut opened: *mut c_void = std::ptr::null_mut();
        let mut opened_on_device = 0;
        // SAFETY: out-parameters; the second call is about the memory that the first one allocated.
        unsafe {
            sys::cuMemHostAlloc(&raw mut opened, 2 * size_of::<u32>(), sys::CU_MEMHOSTALLOC_DEVICEMAP)
                .result()
                .map_err(call("cuMemHostAlloc"))?;
            sys::cuMemHostGetDevicePointer_v2(&raw mut opened_on_device, opened, 0)
                .result()
                .map_err(call("cuMemHostGetDevicePointer"))?;
            opened.cast::<[u32; 2]>().write_volatile([0; 2]);
        }
        Ok(Self {
            name: result::device::get_name(device).map_err(call("cuDeviceGetName"))?,
            capability,
            total_bytes,
            l2_bytes,
            multiprocessors,
            context,
            stream,
            events: [event()?, event()?],
            opened: opened.cast(),
            opened_on_device,
            state: Mutex::default(),
            nvml: nvml::bus(device).and_then(|bus| Nvml::open(&bus).ok()),
            held: Held::default(),
            lost: OnceLock::new(),
        })
    }

    /// Architecture to compile for. From Hopper on, some instructions need the `a` variant.
    fn arch(&self) -> String {
        let (major, minor) = self.capability;
        format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" })
    }

    /// Converts an error of `call`. It remembers a persistent error: the driver also returns that error to later callers,
    /// whose calls did not cause it.
    fn failed(&self, call: &'static str) -> impl Fn(DriverError) -> GpuError {
        move |error| {
            if FOR_GOOD.contains(&(error.0 as u32)) {
                let _ = self.lost.set(describe(error));
            }
            self::call(call)(error)
        }
    }

    /// Makes the context current on this thread and locks the state.
    fn enter(&self) -> Result<MutexGuard<'_, State>, GpuError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = self.lost.get() {
            return Err(GpuError::Lost { first: first.clone() });
        }
        // SAFETY: the context was retained when the device was opened.
        unsafe { result::ctx::set_current(self.context) }.map_err(call("cuCtxSetCurrent"))?;
        Ok(state)
    }

    /// As [`Cuda::enter`], for calls that wait for the device or bypass the stream: opens a closed gate first.
    fn enter_disturbing(&self) -> Result<MutexGuard<'_, State>, GpuError> {
        let mut state = self.enter()?;
        if state.gate().disturbed() {
            self.open_gate(&state);
        }
        Ok(state)
    }

    fn open_gate(&self, state: &State) {
        // SAFETY: pinned memory that lives as long as the process; the kernel's reads are volatile.
        unsafe { self.opened.write_volatile(state.ticket) };
    }

    /// Enqueues one kernel launch.
    fn enqueue(&self, function: usize, grid: Grid, args: &[Arg]) -> Result<(), GpuError> {
        if args.len() > MAX_ARGS {
            let problem = format!("{} arguments, {MAX_ARGS} at most", args.len());
            return Err(GpuError::Call { call: "cuLaunchKernel", problem });
        }
        let mut words = [TensorMap([0; 16]); MAX_ARGS];
        let mut pointers = [std::ptr::null_mut::<c_void>(); MAX_ARGS];
        for ((word, pointer), arg) in words.iter_mut().zip(&mut pointers).zip(args) {
            *word = arg.aligned_bits();
            *pointer = std::ptr::from_mut(word).cast();
        }
        let [x, y, z] = grid.blocks;
        let [i, j, k] = grid.threads;
        // SAFETY: the function is loaded; the words outlive the call, which copies only the bytes of the kernel's
        // parameters.
        unsafe {
            result::launch_kernel(
                function as sys::CUfunction,
                (x, y, z),
                (i, j, k),
                grid.shared,
                self.stream,
                &mut pointers,
            )
        }
        .map_err(self.failed("cuLaunchKernel"))
    }

    /// Records the end event if work is being timed, and opens the gate.
    fn end(&self, state: &mut State) -> Result<(), GpuError> {
        if !state.gate().ended() {
            return Ok(());
        }
        // SAFETY: event and stream live as long as the process.
        let recorded = unsafe { result::event::record(self.events[1], self.stream) };
        self.open_gate(state);
        recorded.map_err(self.failed("cuEventRecord"))
    }

    fn wait(&self) -> Result<(), GpuError> {
        // SAFETY: the stream lives as long as the process.
        unsafe { result::stream::synchronize(self.stream) }.map_err(self.failed("cuStreamSynchronize"))
    }
}

impl Backend for Cuda {
    fn about(&self) -> String {
        let gib = self.total_bytes as f64 / f64::from(1 << 30);
        format!("{}, {}, {} multiprocessors, {gib:.0} GiB", self.name, self.arch(), self.multiprocessors)
    }

    fn alloc(&self, bytes: usize) -> Result<u64, GpuError> {
        let mut state = self.enter_disturbing()?;
        // SAFETY: the context is current.
        match unsafe { result::malloc_sync(bytes) } {
            Ok(address) => {
                state.sizes.insert(address, bytes as u64);
                self.held.take(bytes as u64);
                Ok(address)
            }
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                let free = result::mem_get_info().ok().map(|(free, _)| free as u64);
                Err(GpuError::Memory { wanted: bytes as u64, free })
            }
            Err(error) => Err(self.failed("cuMemAlloc")(error)),
        }
    }

    fn free(&self, address: u64) {
        let known = self.state.lock().unwrap_or_else(PoisonError::into_inner).sizes.remove(&address);
        let Some(bytes) = known else { return };
        self.held.give(bytes);
        // After a failed kernel the context and its memory are lost.
        let Ok(_state) = self.enter_disturbing() else { return };
        // Finish the work that still uses this memory.
        let _ = self.wait();
        // SAFETY: allocated by `alloc` and freed once, since its size was still known.
        let _ = unsafe { result::free_sync(address) };
    }

    fn upload(&self, to: u64, from: &[u8]) -> Result<(), GpuError> {
        let _state = self.enter_disturbing()?;
        // Copy in the stream and wait for it. A synchronous copy from pageable memory may return when the driver has
        // staged the data, before it arrives, and this non-blocking stream would not wait for it.
        // SAFETY: a buffer of at least this length (`Buffer` ensures it); `from` outlives the wait.
        unsafe { result::memcpy_htod_async(to, from, self.stream) }.map_err(self.failed("cuMemcpyHtoDAsync"))?;
        self.wait()
    }

    fn download(&self, from: u64, to: &mut [u8]) -> Result<(), GpuError> {
        let _state = self.enter_disturbing()?;
        self.wait()?;
        // SAFETY: as above; nothing else runs, and the call returns when all bytes have arrived.
        unsafe { result::memcpy_dtoh_sync(to, from) }.map_err(self.failed("cuMemcpyDtoH"))
    }

    fn fill(&self, at: u64, byte: u8, bytes: usize) -> Result<(), GpuError> {
        let _state = self.enter()?;
        // SAFETY: as above; ordered by the stream.
        unsafe { result::memset_d8_async(at, byte, bytes, self.stream) }.map_err(self.failed("cuMemsetD8Async"))
    }

    fn kernel(&self, source: &'static Source, name: &str) -> Result<Kernel, GpuError> {
        let mut state = self.enter_disturbing()?;
        let start = Instant::now();
        let handle = self.function(&mut state, source, name)?;
        let compile_ns = Some(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let origin = state.modules.get(source.name).map_or("", |(_, origin)| origin.as_str());
        let resources = self.resources(handle).unwrap_or_else(|| "resources unavailable".into());
        let resources = format!("{resources}, {origin}");
        Ok(Kernel { name: name.to_string(), handle, resources, compile_ns })
    }

    fn capability(&self) -> Option<(i32, i32)> {
        Some(self.capability)
    }

    fn tensor_map(&self, tiles: Tiles) -> Result<TensorMap, GpuError> {
        self.encode(tiles)
    }

    fn occupancy(&self, kernel: &Kernel, grid: Grid) -> Option<f64> {
        // cuBLAS does not report its kernels.
        if kernel.handle == cublas::HANDLE { None } else { self.resident(kernel.handle, grid) }
    }

    fn launch(&self, kernel: &Kernel, grid: Grid, args: &[Arg]) -> Result<(), GpuError> {
        let mut state = self.enter()?;
        if kernel.handle == cublas::HANDLE {
            Self::enqueue_products(state.library.as_ref(), args)?;
        } else {
            self.allow(&mut state, kernel.handle, grid)?;
            self.enqueue(kernel.handle, grid, args)?;
        }
        if state.gate().launched() {
            self.open_gate(&state);
        }
        Ok(())
    }

    fn pin(&self, bytes: usize) -> Result<u64, GpuError> {
        self.lock_pages(bytes)
    }

    fn unpin(&self, at: u64) {
        self.unlock_pages(at);
    }

    fn bring_in(&self, to: u64, host: u64, bytes: usize, pinned: bool) -> Result<(), GpuError> {
        self.copy(to, host, bytes, pinned, true)
    }

    fn bring_out(&self, from: u64, host: u64, bytes: usize, pinned: bool) -> Result<(), GpuError> {
        self.copy(from, host, bytes, pinned, false)
    }

    fn library(&self) -> Result<Kernel, GpuError> {
        self.open_library()
    }

    fn graph(&self, launches: &[Launch]) -> Result<usize, GpuError> {
        self.make_graph(launches)
    }

    fn replay(&self, graph: usize) -> Result<(), GpuError> {
        self.enqueue_graph(graph)
    }

    fn forget(&self, graph: usize) {
        self.drop_graph(graph);
    }

    fn sync(&self) -> Result<(), GpuError> {
        let mut state = self.enter()?;
        self.end(&mut state)?;
        self.wait()
    }

    fn stream(&self) -> Option<u64> {
        Some(self.stream as u64)
    }

    fn sync_all(&self) -> Result<(), GpuError> {
        let _state = self.enter_disturbing()?;
        result::ctx::synchronize().map_err(self.failed("cuCtxSynchronize"))
    }

    fn interrupt(&self) {
        // A lost device fails at the next call.
        drop(self.enter_disturbing());
    }

    fn start(&self) {
        // Without events, Ellwand uses the wall clock; the work itself will report what failed.
        let _ = self.try_start();
    }

    fn stop(&self) -> Option<u64> {
        self.try_stop().ok().flatten()
    }

    fn state(&self) -> SlotState {
        let free = self.enter().ok().and_then(|_| result::mem_get_info().ok());
        let state = self.nvml.as_ref().map(Nvml::state).unwrap_or_default();
        SlotState { device_bytes: free.map(|(free, total)| (total - free) as u64), ..state }
    }

    fn memory(&self) -> Option<Memory> {
        let kept = self.enter().ok()?.flush.as_ref().map_or(0, |_| self.flush_bytes() as u64);
        Some(self.held.memory(kept))
    }

    fn watch(&self) -> Result<(), DeviceError> {
        self.begin_watch()
    }

    fn watched(&self) -> Result<Vec<Activity>, DeviceError> {
        self.end_watch()
    }

    fn flush(&self) -> Result<(), GpuError> {
        self.flush_caches()
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn without_a_driver_the_reason_is_given_and_nothing_panics() {
        match super::find() {
            Ok(devices) => assert!(!devices.is_empty(), "an empty list must be an error with its reason"),
            Err(why) => {
                assert!(["CUDA", "cuda"].iter().any(|word| why.to_string().contains(word)), "{why}");
                assert_eq!(super::super::find_cuda().err().map(|error| error.to_string()), Some(why.to_string()));
            }
        }
    }
}
