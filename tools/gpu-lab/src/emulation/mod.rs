//! The test backend: kernels compiled for the CPU, each CUDA thread a fiber (`emulate.h`).
//!
//! It verifies indices, bounds, tails, barriers, collectives, arithmetic and the Rust code around launches. Under the
//! race detector (`watch/watch.h`) it also verifies that memory accesses are in bounds, initialised, and ordered by the
//! PTX memory model. It cannot verify times, or how the device's compiler rounds a division or an exponential.
#![allow(unsafe_code)]

#[cfg(test)]
mod driver_tests;
pub mod library;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tile_tests;
mod watched;
#[cfg(test)]
mod watched_tests;

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ellwand_core::Device;
use libloading::Library;
use library::{Unmade, compiler};
use watched::Watch;

use ellwand_gpu::cublas::{self, Cublas};
use ellwand_gpu::{Arg, Backend, Gpu, GpuDevice, GpuError, Grid, Kernel, Launch, Source, TensorMap, Tiles};

use super::TestDevice;

/// Guard bytes before and after every buffer; no kernel may change them.
const GUARD: usize = 4096;
const GUARD_BYTE: u8 = 0xff;

/// The order in which threads of a block, and blocks, run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// First to last.
    Forward,
    /// Last to first.
    Backward,
    /// A random order per block, from this seed.
    Drawn(u32),
    /// As `Forward`, under the race detector.
    Watched,
}

type Entry = unsafe extern "C" fn(*mut *mut c_void, *const u32, *const u32, u32, u32) -> *const c_char;

type Takes = unsafe extern "C" fn() -> *const c_char;

/// The CPU as a machine of CUDA threads.
pub struct Emulation {
    seed: u32,
    libraries: Mutex<HashMap<&'static str, Arc<Library>>>,
    /// Parameter types of each kernel.
    takes: Mutex<HashMap<usize, String>>,
    buffers: Mutex<HashMap<u64, usize>>,
    graphs: Mutex<Vec<Vec<Launch>>>,
    products: OnceLock<Cublas>,
    watch: Option<Watch>,
}

impl Emulation {
    /// Creates an emulator that runs threads in this order.
    pub fn new(order: Order) -> Self {
        let seed = match order {
            Order::Forward | Order::Watched => 0,
            Order::Backward => 1,
            Order::Drawn(seed) => seed.max(2),
        };
        Self {
            seed,
            libraries: Mutex::default(),
            takes: Mutex::default(),
            buffers: Mutex::default(),
            graphs: Mutex::default(),
            products: OnceLock::new(),
            watch: (order == Order::Watched).then(|| Watch::open().expect("the race detector is made")),
        }
    }

    fn library(&self, source: &'static Source) -> Result<Arc<Library>, GpuError> {
        let mut libraries = self.libraries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = libraries.get(source.name) {
            return Ok(library.clone());
        }
        let path = match self.watch {
            None => build(source)?,
            Some(_) => watched::build(source).map_err(|error| unmade(source.name, error))?,
        };
        // SAFETY: the library was built from this repository's sources and has no initialisers.
        let library =
            unsafe { Library::new(&path) }.map_err(|error| GpuError::Absent(format!("{}: {error}", path.display())))?;
        let library = Arc::new(library);
        libraries.insert(source.name, library.clone());
        Ok(library)
    }

    /// Checks arguments against the kernel's parameters. A driver copies the number of bytes that the kernel declares,
    /// whatever was passed.
    fn fits(&self, kernel: &Kernel, args: &[Arg]) -> Result<(), GpuError> {
        let takes = self.takes.lock().unwrap_or_else(PoisonError::into_inner);
        let takes = takes.get(&kernel.handle).map_or("", String::as_str);
        let given: String = args.iter().map(|arg| arg.letter()).collect();
        if given == takes && args.len() <= ellwand_gpu::MAX_ARGS {
            return Ok(());
        }
        let problem = format!("{} takes {takes}, but {given} is given", kernel.name);
        Err(GpuError::Call { call: "emulated launch", problem })
    }

    /// Returns an error if a guard was overwritten.
    fn guards(&self) -> Result<(), GpuError> {
        let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        for (&address, &bytes) in buffers.iter() {
            for (side, from) in [("before", address as usize - GUARD), ("after", address as usize + bytes)] {
                // SAFETY: guards are inside the allocation that `alloc` made.
                let guard = unsafe { std::slice::from_raw_parts(from as *const u8, GUARD) };
                if let Some(at) = guard.iter().position(|byte| *byte != GUARD_BYTE) {
                    let problem = format!("a kernel wrote {side} a buffer of {bytes} bytes, at byte {at} of its guard");
                    return Err(GpuError::Call { call: "emulated launch", problem });
                }
            }
        }
        Ok(())
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes + 2 * GUARD, 256).expect("sizes of tests are small")
}

/// Compiles a source for the CPU unless it is already built.
fn build(source: &Source) -> Result<PathBuf, GpuError> {
    library::kernels(source.name, &source.whole(), &source.kernels()).map_err(|error| unmade(source.name, error))
}

fn unmade(name: &str, error: Unmade) -> GpuError {
    match error {
        Unmade::Absent(why) => GpuError::Absent(why),
        Unmade::Refused(log) => GpuError::Compile { source_name: name.into(), arch: "the processor".into(), log },
    }
}

impl Backend for Emulation {
    fn about(&self) -> String {
        "emulated on the processor".into()
    }

    fn alloc(&self, bytes: usize) -> Result<u64, GpuError> {
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc(layout(bytes)) };
        assert!(!start.is_null(), "no memory for a buffer of {bytes} bytes");
        // SAFETY: the whole allocation.
        unsafe { std::slice::from_raw_parts_mut(start, bytes + 2 * GUARD) }.fill(GUARD_BYTE);
        let address = start as u64 + GUARD as u64;
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).insert(address, bytes);
        Ok(address)
    }

    fn free(&self, address: u64) {
        if let Some(bytes) = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).remove(&address) {
            // SAFETY: allocated above with this layout, and freed once.
            unsafe { dealloc((address as usize - GUARD) as *mut u8, layout(bytes)) };
        }
    }

    fn upload(&self, to: u64, from: &[u8]) -> Result<(), GpuError> {
        // SAFETY: `Buffer` passes no more bytes than it allocated.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to as *mut u8, from.len()) };
        Ok(())
    }

    fn download(&self, from: u64, to: &mut [u8]) -> Result<(), GpuError> {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    fn fill(&self, at: u64, byte: u8, bytes: usize) -> Result<(), GpuError> {
        // SAFETY: as above.
        unsafe { std::ptr::write_bytes(at as *mut u8, byte, bytes) };
        Ok(())
    }

    fn kernel(&self, source: &'static Source, name: &str) -> Result<Kernel, GpuError> {
        let library = self.library(source)?;
        let symbol = CString::new(format!("emulate_{name}")).expect("names of kernels hold no zero byte");
        // SAFETY: the header defines every such function with this signature.
        let entry = unsafe { library.get::<Entry>(symbol.as_bytes_with_nul()) };
        let broken = |error: libloading::Error| GpuError::Call { call: "emulated kernel", problem: error.to_string() };
        let handle = *entry.map_err(broken)? as usize;
        let symbol = CString::new(format!("emulate_takes_{name}")).expect("names of kernels hold no zero byte");
        // SAFETY: the header defines every such function with this signature; its text lives as long as the library.
        let takes = unsafe {
            let signature = library.get::<Takes>(symbol.as_bytes_with_nul()).map_err(broken)?;
            CStr::from_ptr(signature()).to_string_lossy().into_owned()
        };
        self.takes.lock().unwrap_or_else(PoisonError::into_inner).insert(handle, takes);
        Ok(Kernel { name: name.into(), handle, ..Kernel::default() })
    }

    fn pin(&self, bytes: usize) -> Result<u64, GpuError> {
        self.alloc(bytes)
    }

    fn unpin(&self, at: u64) {
        self.free(at);
    }

    fn bring_in(&self, to: u64, host: u64, bytes: usize, _: bool) -> Result<(), GpuError> {
        // SAFETY: both sides have at least `bytes` bytes (`Host`, `Buffer`) of host memory.
        unsafe { std::ptr::copy_nonoverlapping(host as *const u8, to as *mut u8, bytes) };
        self.guards()
    }

    fn bring_out(&self, from: u64, host: u64, bytes: usize, pinned: bool) -> Result<(), GpuError> {
        self.bring_in(host, from, bytes, pinned)
    }

    fn library(&self) -> Result<Kernel, GpuError> {
        let products = match self.products.get() {
            Some(products) => products,
            None => {
                let opened = library::plain("cublas", include_str!("cublas.cpp"));
                let opened = Cublas::open(&opened.map_err(|error| unmade("cublas.cpp", error))?)?;
                opened.enqueue_on(std::ptr::null_mut(), 0)?;
                self.products.get_or_init(|| opened)
            }
        };
        Ok(products.kernel())
    }

    /// Hopper, whose instructions the headers emulate.
    fn capability(&self) -> Option<(i32, i32)> {
        Some((9, 0))
    }

    /// The layout of `Map` in `hopper.h`: address, sizes, strides in bytes, box.
    fn tensor_map(&self, tiles: Tiles) -> Result<TensorMap, GpuError> {
        let [matrices, rows, values] = tiles.shape.map(|size| size as u64);
        let mut words = [0; 16];
        let map = [tiles.address, values, rows, matrices, 2 * values, 2 * values * rows, 64, u64::from(tiles.rows), 1];
        words[..9].copy_from_slice(&map);
        Ok(TensorMap(words))
    }

    fn launch(&self, kernel: &Kernel, grid: Grid, args: &[Arg]) -> Result<(), GpuError> {
        if kernel.handle == cublas::HANDLE {
            let absent = || GpuError::Absent("cuBLAS was never opened".into());
            self.products.get().ok_or_else(absent)?.launch(args)?;
            return self.guards();
        }
        self.fits(kernel, args)?;
        let mut words: Vec<TensorMap> = args.iter().map(|arg| arg.aligned_bits()).collect();
        let mut pointers: Vec<*mut c_void> = words.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        if let Some(watch) = &self.watch {
            let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
            watch.add_buffers(buffers.iter().map(|(&address, &bytes)| (address, bytes)));
        }
        // SAFETY: `kernel` made the handle from a function of this signature, whose library `self` holds.
        let entry: Entry = unsafe { std::mem::transmute(kernel.handle) };
        // SAFETY: `fits` checked the number and types of the arguments.
        let said = unsafe {
            let said =
                entry(pointers.as_mut_ptr(), grid.blocks.as_ptr(), grid.threads.as_ptr(), grid.shared, self.seed);
            CStr::from_ptr(said).to_string_lossy().into_owned()
        };
        if !said.is_empty() {
            let said = if self.watch.is_some() { watched::with_lines(&said) } else { said };
            let problem = format!("{}: {said}", kernel.name);
            return Err(GpuError::Call { call: "emulated launch", problem });
        }
        self.guards()
    }

    fn graph(&self, launches: &[Launch]) -> Result<usize, GpuError> {
        let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        graphs.push(launches.to_vec());
        Ok(graphs.len() - 1)
    }

    fn replay(&self, graph: usize) -> Result<(), GpuError> {
        let launches = self.graphs.lock().unwrap_or_else(PoisonError::into_inner)[graph].clone();
        launches.iter().try_for_each(|(kernel, grid, args)| self.launch(kernel, *grid, args))
    }

    fn forget(&self, graph: usize) {
        self.graphs.lock().unwrap_or_else(PoisonError::into_inner)[graph].clear();
    }

    fn sync(&self) -> Result<(), GpuError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), GpuError> {
        Ok(())
    }

    fn multiprocessors(&self) -> u32 {
        3
    }
}

/// Builds a mock of an NVIDIA library from its text; `None` without a C++ compiler.
pub fn stand_in(name: &str, text: &str) -> Option<PathBuf> {
    compiler()?;
    Some(library::plain(name, text).expect("it compiles"))
}

/// Devices for kernel tests: the emulation in three orders if there is a C++ compiler, and the first real GPU.
/// `ELLWAND_REQUIRE=emulation` makes a missing compiler an error; `=cuda` selects only the GPU, and `=races` only the
/// emulation under the race detector. `=emulation,races` selects both emulations.
pub fn test_devices() -> Vec<TestDevice> {
    let required = std::env::var("ELLWAND_REQUIRE").unwrap_or_default();
    // Under a GPU sanitizer, emulation would only cost time.
    if required == "cuda" {
        eprintln!("only the GPU was requested: nothing is emulated");
        return super::judge::real_devices(&required);
    }
    if compiler().is_none() {
        let asked = required.contains("emulation") || required.contains("races");
        assert!(!asked, "the emulation is required and there is no C++ compiler");
        eprintln!("skipped: kernels are not emulated, because no C++ compiler (g++, c++ or clang++) was found");
        return super::judge::real_devices(&required);
    }
    let emulated = |order| {
        let gpu: Gpu = Arc::new(Emulation::new(order));
        let device: Arc<dyn Device> = Arc::new(GpuDevice::new("emulation".into(), gpu));
        (format!("emulation, {order:?}"), device)
    };
    let watched = required.contains("races").then(|| emulated(Order::Watched));
    if watched.is_some() && !required.contains("emulation") {
        return watched.into_iter().collect();
    }
    let orders = [Order::Forward, Order::Backward, Order::Drawn(7)].map(emulated);
    // The detector first: tests of one device take the first.
    let mut devices: Vec<_> = watched.into_iter().chain(orders).collect();
    devices.extend(super::judge::real_devices(&required));
    devices
}
