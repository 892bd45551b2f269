//! Modules, kernels and their attributes, and tensor maps for Hopper's copy engine.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};

use cudarc::driver::{result, sys};

use super::super::{GpuError, Grid, Source, TensorMap, Tiles, compile};
use super::{Cuda, State, USUAL_SHARED};

impl Cuda {
    /// Returns the module of a source; compiles and loads it on first use.
    fn load(&self, state: &mut State, source: &'static Source) -> Result<usize, GpuError> {
        if let Some((module, _)) = state.modules.get(source.name) {
            return Ok(*module);
        }
        let (image, origin) = compile::cached(source, &self.arch())?;
        // SAFETY: a complete image that the compiler made for this architecture.
        let module =
            unsafe { result::module::load_data(image.as_ptr().cast()) }.map_err(self.failed("cuModuleLoadData"))?;
        state.modules.insert(source.name, (module as usize, origin));
        Ok(module as usize)
    }

    /// Returns a kernel of a source.
    pub(super) fn function(&self, state: &mut State, source: &'static Source, name: &str) -> Result<usize, GpuError> {
        let module = self.load(state, source)? as sys::CUmodule;
        self.entry(module, CString::new(name).unwrap_or_default())
    }

    /// Returns a kernel of a module and loads it now: with lazy loading, the first launch may wait for the device,
    /// which a closed gate may be holding back.
    pub(super) fn entry(&self, module: sys::CUmodule, name: CString) -> Result<usize, GpuError> {
        // SAFETY: the module is never unloaded.
        let function =
            unsafe { result::module::get_function(module, name) }.map_err(self.failed("cuModuleGetFunction"))?;
        // SAFETY: as above.
        unsafe { sys::cuFuncLoad(function) }.result().map_err(self.failed("cuFuncLoad"))?;
        Ok(function as usize)
    }

    /// Registers, local memory and shared memory of a kernel, as text.
    pub(super) fn resources(&self, function: usize) -> Option<String> {
        use sys::CUfunction_attribute_enum as A;
        let function = function as sys::CUfunction;
        let of = |attribute| {
            // SAFETY: the function belongs to a module that is never unloaded.
            unsafe { result::function::get_function_attribute(function, attribute) }.ok()
        };
        let (registers, local) = (of(A::CU_FUNC_ATTRIBUTE_NUM_REGS)?, of(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?);
        let shared = of(A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        Some(format!("{registers} registers, {local} B local, {shared} B shared"))
    }

    /// Opts a kernel in to the shared memory that `grid` needs.
    pub(super) fn allow(&self, state: &mut State, kernel: usize, grid: Grid) -> Result<(), GpuError> {
        if grid.shared <= USUAL_SHARED || state.allowed.get(&kernel).is_some_and(|most| *most >= grid.shared) {
            return Ok(());
        }
        let bytes = i32::try_from(grid.shared).unwrap_or(i32::MAX);
        let which = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to a module that is never unloaded.
        unsafe { result::function::set_function_attribute(kernel as sys::CUfunction, which, bytes) }
            .map_err(self.failed("cuFuncSetAttribute"))?;
        state.allowed.insert(kernel, grid.shared);
        Ok(())
    }

    /// Occupancy: the share of a multiprocessor's threads that resident blocks of this launch fill.
    pub(super) fn resident(&self, kernel: usize, grid: Grid) -> Option<f64> {
        let mut state = self.enter().ok()?;
        self.allow(&mut state, kernel, grid).ok()?;
        let threads = grid.threads.iter().product::<u32>();
        let mut blocks = 0;
        // SAFETY: one out-parameter; the function belongs to a module that is never unloaded.
        unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                kernel as sys::CUfunction,
                i32::try_from(threads).ok()?,
                grid.shared as usize,
            )
        }
        .result()
        .ok()?;
        let mut most = 0;
        let which = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
        let mut device = 0;
        // SAFETY: out-parameters; the context is current.
        unsafe {
            sys::cuCtxGetDevice(&raw mut device).result().ok()?;
            sys::cuDeviceGetAttribute(&raw mut most, which, device).result().ok()?;
        }
        (most > 0).then(|| f64::from(blocks) * f64::from(threads) / f64::from(most))
    }

    /// Encodes a tensor map of a bf16 array: swizzled boxes with rows of 128 bytes, and zeros out of bounds.
    pub(super) fn encode(&self, tiles: Tiles) -> Result<TensorMap, GpuError> {
        let _state = self.enter()?;
        let [matrices, rows, values] = tiles.shape.map(|size| size as u64);
        let size = [values, rows, matrices];
        let step = [2 * values, 2 * values * rows];
        let (cut, one) = ([64, tiles.rows, 1], [1_u32; 3]);
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        // SAFETY: three sizes, two strides, three box sizes; the call only stores the address.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                3,
                tiles.address as *mut c_void,
                size.as_ptr(),
                step.as_ptr(),
                cut.as_ptr(),
                one.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        }
        .result()
        .map_err(self.failed("cuTensorMapEncodeTiled"))?;
        Ok(TensorMap(map.opaque))
    }
}
