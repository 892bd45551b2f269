//! Kernels that were compiled ahead of time: a module each.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::time::Instant;

use cudarc::driver::result;

use super::super::{GpuError, Kernel, Source, triton};
use super::{Cuda, State};

impl Cuda {
    /// Loads a kernel of Triton's, once.
    pub(super) fn ahead(&self, state: &mut State, source: &'static Source, name: &str) -> Result<Kernel, GpuError> {
        let key = format!("{}:{name}", source.name);
        if let Some(kernel) = state.ahead.get(&key) {
            return Ok(kernel.clone());
        }
        let start = Instant::now();
        let found = triton::find(source, name, &self.arch())?;
        // SAFETY: an ELF image that is whole by its manifest; the driver checks that it is for this architecture.
        let module = unsafe { result::module::load_data(found.cubin.as_ptr().cast()) };
        let module = module.map_err(self.failed("cuModuleLoadData"))?;
        let handle = self.entry(module, CString::new(found.entry).unwrap_or_default())?;
        let resources = self.resources(handle).unwrap_or_else(|| "resources unavailable".into());
        let resources = format!("{resources}, {} ahead of time", found.compiler);
        let fixed = Some(found.fixed);
        let kernel = Kernel { name: name.to_string(), handle, resources, fixed, ..Kernel::default() };
        state.ahead.insert(key, kernel.clone());
        // Loading is all that is left to do here, and is done once.
        let compile_ns = Some(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        Ok(Kernel { compile_ns, ..kernel })
    }
}
