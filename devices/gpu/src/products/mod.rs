//! Batches of matrix products on a GPU, as launches of a job: CUDA kernels (`cuda.rs`), cuBLAS (`cublas.rs`) and WGSL
//! kernels (`wgpu.rs`). Several workloads use them.

mod cublas;
mod cuda;
mod wgpu;

use ellwand_core::PrepareError;

use crate::{Arg, Gpu, GpuError, Job, whole};

pub use cuda::SOURCE as CUDA;
pub use wgpu::{SOURCE as WGSL, Then, word};

/// The smallest tile: rows and columns of C per block.
pub const LEAST: usize = 16;
/// The second smallest tile.
pub const TINY: usize = 32;
/// The medium tile.
pub const SMALL: usize = 64;
/// The largest tile.
pub const WIDE: usize = 128;

/// Layout of the matrices of a batch. All strides are in elements.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Where the matrix begins.
    pub at: Arg,
    /// Offset of the first element of the first matrix.
    pub start: usize,
    /// Stride between rows.
    pub row: usize,
    /// Stride between heads.
    pub head: usize,
    /// Stride between sequences.
    pub batch: usize,
}

impl Place {
    /// Layout of a single matrix with contiguous rows of `row` elements.
    pub fn one(at: Arg, row: usize) -> Self {
        Self { at, start: 0, row, head: 0, batch: 0 }
    }

    /// Device address of the first element, for backends with address arithmetic.
    pub fn address(self) -> Arg {
        Arg::At(self.at.word() + 4 * self.start as u64)
    }

    /// Strides between sequences, heads and rows, in the order of the attention kernels.
    pub fn steps(self) -> [usize; 3] {
        [self.batch, self.head, self.row]
    }
}

/// Which matrix the mask applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Masked {
    /// Neither: no entry is masked.
    Not,
    /// Elements of C beyond the visible prefix are -inf.
    C,
    /// Elements of A beyond the visible prefix count as 0.
    A,
}

/// The prefix of columns that is visible to a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sees {
    /// Every column is visible.
    All,
    /// Columns up to the row's position.
    Causal,
    /// The length of the row's sequence, from this array of i64.
    Lengths(Arg),
}

impl Sees {
    /// Kernel arguments: the kind of prefix and the array of lengths.
    pub fn args(self) -> (Arg, Arg) {
        match self {
            Sees::All => (Arg::U32(0), Arg::At(0)),
            Sees::Causal => (Arg::U32(1), Arg::At(0)),
            Sees::Lengths(at) => (Arg::U32(2), at),
        }
    }
}

/// `sequences` times `heads` products `C = alpha A B + bias`; B is [k, n], or [n, k] if transposed.
#[derive(Debug, Clone, Copy)]
pub struct Products {
    /// m, n and k: rows and columns of C, and length of the sums.
    pub size: [usize; 3],
    /// True if B is stored as [n, k].
    pub transposed: bool,
    /// Layout of A.
    pub a: Place,
    /// Layout of B.
    pub b: Place,
    /// Layout of C.
    pub c: Place,
    /// One value per column of C, added to every row.
    pub bias: Option<Arg>,
    /// Factor of the product.
    pub alpha: f32,
    /// Number of sequences.
    pub sequences: usize,
    /// Number of heads of A and C.
    pub heads: usize,
    /// Heads of A and C per head of B.
    pub group: usize,
    /// Which matrix the mask applies to.
    pub mask: Masked,
    /// The prefix of columns that is visible to a row.
    pub sees: Sees,
}

impl Products {
    /// A single product without bias.
    pub fn one(size: [usize; 3], transposed: bool, a: Place, b: Place, c: Place) -> Self {
        let (sequences, heads, group, mask, sees) = (1, 1, 1, Masked::Not, Sees::All);
        Self { size, transposed, a, b, c, bias: None, alpha: 1.0, sequences, heads, group, mask, sees }
    }

    /// Chooses a tile from `sizes` (ascending). Returns its rows and columns, and the blocks across C, down C and over
    /// all products.
    pub fn tiles(&self, job: &Job, sizes: &[usize]) -> Result<(usize, [u32; 3]), GpuError> {
        let [m, n, _] = self.size;
        let batch = self.sequences * self.heads;
        let tile = fastest([m, n], batch, job.multiprocessors() as usize, sizes);
        let (columns, rows) = (n.div_ceil(tile), m.div_ceil(tile));
        // CUDA's limit on blocks in the second and third dimension.
        if rows.max(batch) > 65_535 {
            return Err(GpuError::Call {
                call: "cuLaunchKernel",
                problem: format!("{rows} rows of tiles for {batch} products; the maximum of a grid is 65535 of each"),
            });
        }
        Ok((tile, [columns, rows, batch].map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX))))
    }

    /// The first arguments of every kernel: arrays, sizes, strides, heads.
    pub fn args(&self) -> Vec<Arg> {
        let [m, n, k] = self.size;
        let places = [self.a, self.b, self.c];
        let (_, lengths) = self.sees.args();
        let [a, b, c] = places.map(Place::address);
        let mut args = vec![a, b, self.bias.unwrap_or(Arg::At(0)), c, lengths];
        args.extend([m, n, k].map(whole));
        args.extend(places.map(|place| whole(place.row)));
        args.extend(places.iter().flat_map(|place| [place.batch, place.head].map(|step| Arg::U64(step as u64))));
        args.extend([self.heads, self.group].map(whole));
        args
    }
}

/// The fastest tile for `batch` products of m x n. The model: a multiprocessor computes one tile after another, in a
/// time proportional to its elements; an element of a smaller tile takes longer, since small tiles reuse less of what
/// they read.
pub fn fastest([m, n]: [usize; 2], batch: usize, multiprocessors: usize, tiles: &[usize]) -> usize {
    let time = |tile: usize| {
        let turns = (n.div_ceil(tile) * m.div_ceil(tile) * batch).div_ceil(multiprocessors.max(1));
        let value = if tile >= WIDE { 3 } else { 2 + WIDE / tile };
        turns * tile * tile * value
    };
    tiles.iter().copied().min_by_key(|&tile| time(tile)).unwrap_or(SMALL)
}

/// The error of an implementation that cannot compute a case.
pub fn unsupported<T>(why: impl Into<String>) -> Result<T, PrepareError> {
    Err(PrepareError::Unsupported(why.into()))
}

/// Rejects a GPU whose tensor cores do not support bf16.
pub fn need_bf16(gpu: &Gpu) -> Result<(), PrepareError> {
    match gpu.capability().filter(|capability| *capability < (8, 0)) {
        None => Ok(()),
        Some((major, minor)) => {
            unsupported(format!("bf16 products need compute capability 8.0; this device has {major}.{minor}"))
        }
    }
}

/// Rejects a GPU without Hopper's own instructions.
pub fn need_hopper(gpu: &Gpu) -> Result<(), PrepareError> {
    match gpu.capability().unwrap_or_default() {
        (9, 0) => Ok(()),
        (major, minor) => unsupported(format!(
            "warpgroup products (wgmma) exist only in compute capability 9.0; this device has {major}.{minor}; use cuda"
        )),
    }
}
