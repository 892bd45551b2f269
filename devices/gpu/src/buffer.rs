//! Device memory, freed when its last owner drops it.

use ellwand_core::tensor::Element;
use ellwand_core::{DeviceError, Dtype, Tensor};

use super::{Gpu, GpuError};

/// An allocation on a device.
pub struct Buffer {
    gpu: Gpu,
    address: u64,
    bytes: usize,
}

impl Buffer {
    /// Allocates `bytes` bytes and sets every bit: as floats they are NaN, so a read before the first write shows up.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self, GpuError> {
        let buffer = Self { gpu: gpu.clone(), address: gpu.alloc(bytes.max(1))?, bytes };
        buffer.fill(0xff)?;
        Ok(buffer)
    }

    /// Copies `bytes` to the device, followed by `slack` zero bytes.
    pub fn of(gpu: &Gpu, bytes: &[u8], slack: usize) -> Result<Self, GpuError> {
        let buffer = Self::new(gpu, bytes.len() + slack)?;
        buffer.fill(0)?;
        if !bytes.is_empty() {
            gpu.upload(buffer.address, bytes)?;
        }
        Ok(buffer)
    }

    /// Copies values to the device. Callers name the type, which is the one that the kernel reads.
    pub fn of_values<T: Element>(gpu: &Gpu, values: &[T]) -> Result<Self, GpuError> {
        let mut bytes = vec![0; size_of_val(values)];
        T::to_bytes(values, &mut bytes);
        Self::of(gpu, &bytes, 0)
    }

    /// Sets every byte to `byte`.
    pub fn fill(&self, byte: u8) -> Result<(), GpuError> {
        if self.bytes == 0 { Ok(()) } else { self.gpu.fill(self.address, byte, self.bytes) }
    }

    /// Copies the first `bytes` bytes back to the host.
    pub fn read(&self, bytes: usize) -> Result<Vec<u8>, GpuError> {
        let mut read = vec![0; bytes.min(self.bytes)];
        if !read.is_empty() {
            self.gpu.download(self.address, &mut read)?;
        }
        Ok(read)
    }

    /// Copies the first `shape` elements back to the host as a tensor.
    pub fn tensor(&self, dtype: Dtype, shape: &[usize]) -> Result<Tensor, DeviceError> {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        Ok(Tensor::from_bytes(dtype, shape, &self.read(bytes)?, false)?)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Device address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.gpu.free(self.address);
    }
}
