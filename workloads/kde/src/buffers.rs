//! Working memory of the fused kernels, in f32 (`tiles.rs`) and f64 (`wide.rs`).

use ellwand_core::tensor::Buffer;

use super::options::{CHUNK, STRIP, Tiling};
use super::reach::Reach;
use super::real::Real;

/// Working memory of one thread.
pub(super) struct Buffers<T: Real> {
    /// Mark kernels W, `[block, CHUNK]`.
    pub(super) marks: Buffer<T>,
    /// Position kernels P, `[panels of a strip, CHUNK, panel]`.
    pub(super) places: Buffer<T>,
    /// Sums, `[panels of a tile, block, panel]`.
    pub(super) sums: Buffer<T>,
    /// Largest mark exponent of each spike of the block.
    pub(super) shifts: Vec<T>,
    /// Value added to the logarithm at each bin of the tile.
    pub(super) constants: Vec<T>,
    /// Samples and bins relative to the middle of a panel; empty in f64.
    pub(super) middle: Vec<T>,
    pub(super) touched: Vec<bool>,
    pub(super) reach: Vec<Reach>,
    pub(super) scratch: Vec<(f64, f64)>,
    /// (Encoding spike, decoding spike, bin) triples summed since this was last reset.
    pub(super) pairs: u64,
}

impl<T: Real> Buffers<T> {
    pub(super) fn new(tiling: Tiling, dims: usize) -> Self {
        let zeros = |len: usize| Buffer::filled(len, T::default());
        let middle = if T::RELATIVE { dims * (CHUNK + STRIP) } else { 0 };
        Self {
            marks: zeros(tiling.block * CHUNK),
            places: zeros(STRIP * CHUNK),
            sums: zeros(tiling.block * tiling.tile),
            shifts: vec![T::default(); tiling.block],
            constants: vec![T::default(); tiling.tile],
            middle: vec![T::default(); middle],
            touched: vec![false; tiling.tile],
            reach: Vec::new(),
            scratch: Vec::new(),
            pairs: 0,
        }
    }

    /// Size of the buffers in bytes.
    pub(super) fn bytes(&self) -> usize {
        let buffers = self.marks.len() + self.places.len() + self.sums.len();
        let numbers = self.shifts.capacity() + self.constants.capacity() + self.middle.capacity();
        size_of::<T>() * (buffers + numbers)
            + 4 * self.reach.capacity()
            + self.touched.capacity()
            + 16 * self.scratch.capacity()
    }
}

/// Passes small numbers of features as constants, so that loops over them unroll.
macro_rules! by_features {
    ($vectors:ident, $n:expr, $function:ident($($argument:expr),*)) => {
        match $n {
            1 => $function::<$vectors, 1>($($argument),*),
            2 => $function::<$vectors, 2>($($argument),*),
            3 => $function::<$vectors, 3>($($argument),*),
            4 => $function::<$vectors, 4>($($argument),*),
            _ => $function::<$vectors, 0>($($argument),*),
        }
    };
}
pub(super) use by_features;
