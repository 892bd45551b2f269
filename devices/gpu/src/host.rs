//! Host memory that a device copies to and from, page-locked or pageable.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};

use ellwand_core::{DeviceError, Dtype, Tensor};

use super::{Gpu, GpuError};

/// Alignment of pageable memory: the system's page size.
const PAGE: usize = 4096;

/// Bytes on the host. A copy to or from them may be in flight until the device is synchronised.
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
    /// Allocates `bytes` bytes, page-locked if `pinned`.
    ///
    /// # Errors
    /// If the memory is exhausted, or the driver cannot lock that much.
    pub fn new(gpu: &Gpu, bytes: usize, pinned: bool) -> Result<Self, GpuError> {
        let at = if pinned {
            gpu.pin(bytes.max(1))?
        } else {
            // SAFETY: the layout is not empty.
            unsafe { alloc_zeroed(layout(bytes)?) as u64 }
        };
        if at == 0 {
            let problem = format!("the host has no {bytes} bytes of memory left");
            return Err(GpuError::Call { call: "allocation", problem });
        }
        let mut host = Self { gpu: gpu.clone(), at, bytes, pinned };
        // Touch every page now, so that no timed copy faults.
        host.with(|all| all.fill(0xff))?;
        Ok(host)
    }

    /// Copies `bytes` into new host memory.
    pub fn of(gpu: &Gpu, bytes: &[u8], pinned: bool) -> Result<Self, GpuError> {
        let mut host = Self::new(gpu, bytes.len(), pinned)?;
        host.with(|all| all.copy_from_slice(bytes))?;
        Ok(host)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits for the device, then calls `of` with the bytes.
    pub fn with<T>(&mut self, of: impl FnOnce(&mut [u8]) -> T) -> Result<T, GpuError> {
        self.gpu.sync()?;
        // SAFETY: the bytes allocated and initialised in `new`; the device has been synchronised, and the owner of
        // `&mut self` enqueues nothing meanwhile.
        Ok(of(unsafe { std::slice::from_raw_parts_mut(self.at as *mut u8, self.bytes) }))
    }

    /// The first `shape` elements as a tensor, once the device is idle.
    pub fn tensor(&mut self, dtype: Dtype, shape: &[usize]) -> Result<Tensor, DeviceError> {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        Ok(self.with(|all| Tensor::from_bytes(dtype, shape, &all[..bytes.min(all.len())], false))??)
    }

    /// Enqueues a copy of all bytes to the device address `to`.
    pub fn bring_in(&self, to: u64) -> Result<(), GpuError> {
        self.gpu.bring_in(to, self.at, self.bytes, self.pinned)
    }

    /// Enqueues a copy of all bytes from the device address `from`.
    pub fn bring_out(&mut self, from: u64) -> Result<(), GpuError> {
        self.gpu.bring_out(from, self.at, self.bytes, self.pinned)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A copy may still be in flight, unless the device is lost.
        let _ = self.gpu.sync();
        if self.pinned {
            self.gpu.unpin(self.at);
        } else if let Ok(layout) = layout(self.bytes) {
            // SAFETY: allocated with this layout, freed once.
            unsafe { dealloc(self.at as *mut u8, layout) };
        }
    }
}
