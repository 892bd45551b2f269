//! Copies between host and device, ordered by the stream.
#![allow(unsafe_code)]

use std::ffi::c_void;

use cudarc::driver::sys;

use super::super::GpuError;
use super::Cuda;

impl Cuda {
    /// Allocates page-locked memory.
    pub(super) fn lock_pages(&self, bytes: usize) -> Result<u64, GpuError> {
        let _state = self.enter_disturbing()?;
        let mut at: *mut c_void = std::ptr::null_mut();
        // SAFETY: one out-parameter; the context is current.
        unsafe { sys::cuMemHostAlloc(&raw mut at, bytes, 0) }.result().map_err(self.failed("cuMemHostAlloc"))?;
        Ok(at as u64)
    }

    /// Frees page-locked memory.
    pub(super) fn unlock_pages(&self, at: u64) {
        let Ok(_state) = self.enter_disturbing() else { return };
        // SAFETY: allocated by `lock_pages`, freed once, after everything that uses it.
        let _ = unsafe { sys::cuMemFreeHost(at as *mut c_void) };
    }

    /// Enqueues a copy. For pageable memory the driver stages the data and the call may block, so a closed gate would
    /// deadlock: only the wall clock times such a copy.
    pub(super) fn copy(
        &self,
        device: u64,
        host: u64,
        bytes: usize,
        pinned: bool,
        inwards: bool,
    ) -> Result<(), GpuError> {
        let mut state = if pinned { self.enter()? } else { self.enter_disturbing()? };
        let at = host as *mut c_void;
        // SAFETY: both sides have at least `bytes` bytes and live until the stream is synchronised (`Host` ensures it).
        let (name, said) = unsafe {
            if inwards {
                ("cuMemcpyHtoDAsync", sys::cuMemcpyHtoDAsync_v2(device, at, bytes, self.stream))
            } else {
                ("cuMemcpyDtoHAsync", sys::cuMemcpyDtoHAsync_v2(at, device, bytes, self.stream))
            }
        };
        said.result().map_err(self.failed(name))?;
        if state.gate().launched() {
            self.open_gate(&state);
        }
        Ok(())
    }
}
