//! Memory of the host that a device copies from and to: page-locked, or as the system gives it out.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};

use ellwand_core::{Dtype, Tensor};

use super::{Gpu, GpuError, buffer};

/// Pages of the system, on which memory begins.
const PAGE: usize = 4096;

/// Bytes on the host. Copies from and to it may be under way until the device was waited for.
pub struct Host {
    gpu: Gpu,
    at: u64,
    bytes: usize,
    pinned: bool,
}

fn layout(bytes: usize) -> Result<Layout, GpuError> {
    Layout::from_size_align(bytes.max(1), PAGE)
        .map_err(|_| GpuError::Limit { wanted: bytes as u64, limit: isize::MAX as u64 })
}

impl Host {
    /// Room for `bytes` bytes.
    ///
    /// # Errors
    /// When the driver cannot lock as much memory, or there is not as much.
    pub fn new(gpu: &Gpu, bytes: usize, pinned: bool) -> Result<Self, GpuError> {
        let at = if pinned {
            gpu.pin(bytes.max(1))?
        } else {
            // SAFETY: the layout is not empty.
            unsafe { alloc_zeroed(layout(bytes)?) as u64 }
        };
        if at == 0 {
            let problem = format!("no {bytes} bytes of the host's memory are left");
            return Err(GpuError::Call { call: "allocation", problem });
        }
        let mut host = Self { gpu: gpu.clone(), at, bytes, pinned };
        // Every page is touched before anything is timed.
        host.with(|all| all.fill(0xff))?;
        Ok(host)
    }

    /// A copy of `bytes`.
    pub fn of(gpu: &Gpu, bytes: &[u8], pinned: bool) -> Result<Self, GpuError> {
        let mut host = Self::new(gpu, bytes.len(), pinned)?;
        host.with(|all| all.copy_from_slice(bytes))?;
        Ok(host)
    }

    /// How many there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Looks at or changes the bytes, once the device is done with them.
    pub fn with<T>(&mut self, of: impl FnOnce(&mut [u8]) -> T) -> Result<T, GpuError> {
        self.gpu.sync()?;
        // SAFETY: as many bytes as were allocated, initialised when this was made; the device was just waited for, and whoever
        // has `&mut` enqueues nothing meanwhile.
        Ok(of(unsafe { std::slice::from_raw_parts_mut(self.at as *mut u8, self.bytes) }))
    }

    /// Its beginning as a tensor.
    pub fn tensor(&mut self, dtype: Dtype, shape: &[usize]) -> Result<Tensor, String> {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        self.with(|all| buffer::tensor(&all[..bytes.min(all.len())], dtype, shape))
            .map_err(|error| error.to_string())?
    }

    /// Enqueues the copy of all bytes to the device.
    pub fn bring_in(&self, to: u64) -> Result<(), GpuError> {
        self.gpu.bring_in(to, self.at, self.bytes, self.pinned)
    }

    /// Enqueues the copy of all bytes from the device.
    pub fn bring_out(&mut self, from: u64) -> Result<(), GpuError> {
        self.gpu.bring_out(from, self.at, self.bytes, self.pinned)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A copy may still be under way. After a lost device nothing is.
        let _ = self.gpu.sync();
        if self.pinned {
            self.gpu.unpin(self.at);
        } else if let Ok(layout) = layout(self.bytes) {
            // SAFETY: allocated with this layout, freed once.
            unsafe { dealloc(self.at as *mut u8, layout) };
        }
    }
}
