//! Memory on a device that is given back when nobody holds it any longer.

use ellwand_core::{Data, Dtype, Tensor};

use super::{Gpu, GpuError};

/// Memory on a device.
pub struct Buffer {
    gpu: Gpu,
    address: u64,
    bytes: usize,
}

impl Buffer {
    /// Room for `bytes` bytes, filled with ones: NaN as floating point numbers, so that what is read before it is written shows.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self, GpuError> {
        let buffer = Self { gpu: gpu.clone(), address: gpu.alloc(bytes.max(1))?, bytes };
        buffer.fill(0xff)?;
        Ok(buffer)
    }

    /// A copy of `bytes`, with `slack` more bytes behind them, which are zero.
    pub fn of(gpu: &Gpu, bytes: &[u8], slack: usize) -> Result<Self, GpuError> {
        let buffer = Self::new(gpu, bytes.len() + slack)?;
        buffer.fill(0)?;
        if !bytes.is_empty() {
            gpu.upload(buffer.address, bytes)?;
        }
        Ok(buffer)
    }

    /// A copy of f32 values.
    pub fn of_f32(gpu: &Gpu, values: &[f32]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// A copy of u16 values.
    pub fn of_u16(gpu: &Gpu, values: &[u16]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// A copy of i32 values.
    pub fn of_i32(gpu: &Gpu, values: &[i32]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// A copy of u32 values.
    pub fn of_u32(gpu: &Gpu, values: &[u32]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// A copy of f64 values.
    pub fn of_f64(gpu: &Gpu, values: &[f64]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// A copy of u64 values.
    pub fn of_u64(gpu: &Gpu, values: &[u64]) -> Result<Self, GpuError> {
        Self::of(gpu, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), 0)
    }

    /// Sets all bytes.
    pub fn fill(&self, byte: u8) -> Result<(), GpuError> {
        if self.bytes == 0 { Ok(()) } else { self.gpu.fill(self.address, byte, self.bytes) }
    }

    /// Its first `bytes` bytes.
    pub fn read(&self, bytes: usize) -> Result<Vec<u8>, GpuError> {
        let mut read = vec![0; bytes.min(self.bytes)];
        if !read.is_empty() {
            self.gpu.download(self.address, &mut read)?;
        }
        Ok(read)
    }

    /// Its beginning as a tensor.
    pub fn tensor(&self, dtype: Dtype, shape: &[usize]) -> Result<Tensor, String> {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        tensor(&self.read(bytes).map_err(|error| error.to_string())?, dtype, shape)
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }
}

/// Bytes of a device as a tensor.
pub(super) fn tensor(read: &[u8], dtype: Dtype, shape: &[usize]) -> Result<Tensor, String> {
    let data = match dtype {
        Dtype::F32 => Data::from(&read.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<_>>()[..]),
        Dtype::F64 => Data::from(&read.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect::<Vec<_>>()[..]),
        Dtype::U64 => Data::from(&read.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b)).collect::<Vec<_>>()[..]),
        Dtype::U16 => Data::from(&read.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect::<Vec<_>>()[..]),
        Dtype::U8 => Data::from(read),
        other => return Err(format!("{} cannot be brought back from a device", other.name())),
    };
    Tensor::new(shape, data).map_err(|error| error.to_string())
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.gpu.free(self.address);
    }
}
