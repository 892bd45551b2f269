//! Device memory, freed when its last owner drops it.

use ellwand_core::{Data, DeviceError, Dtype, Tensor};

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

    /// Copies f32 values to the device.
    pub fn of_f32(gpu: &Gpu, values: &[f32]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// Copies u16 values to the device.
    pub fn of_u16(gpu: &Gpu, values: &[u16]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// Copies i32 values to the device.
    pub fn of_i32(gpu: &Gpu, values: &[i32]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// Copies u32 values to the device.
    pub fn of_u32(gpu: &Gpu, values: &[u32]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// Copies f64 values to the device.
    pub fn of_f64(gpu: &Gpu, values: &[f64]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// Copies u64 values to the device.
    pub fn of_u64(gpu: &Gpu, values: &[u64]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
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
        tensor(&self.read(bytes)?, dtype, shape)
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

/// Interprets bytes read from a device as a tensor.
pub(super) fn tensor(read: &[u8], dtype: Dtype, shape: &[usize]) -> Result<Tensor, DeviceError> {
    let data = match dtype {
        Dtype::F32 => Data::from(&read.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<_>>()[..]),
        Dtype::F64 => Data::from(&read.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect::<Vec<_>>()[..]),
        Dtype::U64 => Data::from(&read.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b)).collect::<Vec<_>>()[..]),
        Dtype::U16 => Data::from(&read.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect::<Vec<_>>()[..]),
        Dtype::U8 => Data::from(read),
        other => return Err(DeviceError::new(format!("{} cannot be brought back from a device", other.name()))),
    };
    Ok(Tensor::new(shape, data)?)
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.gpu.free(self.address);
    }
}
