//! Series of matrix products on a GPU, as launches that jobs are made of: by our kernels in CUDA (`cuda.rs`), NVIDIA's own library
//! (`cublas.rs`), our kernels in WGSL (`wgpu.rs`). Several workloads are made of such products.

mod cublas;
mod cuda;
mod wgpu;

use crate::{Arg, GpuError, Job, whole};

pub use cuda::SOURCE as CUDA;
pub use wgpu::{SOURCE as WGSL, Then, word};

/// The smallest tile: rows and columns of C that a block makes.
pub const TINY: usize = 32;
/// The middle tile.
pub const SMALL: usize = 64;
/// The largest tile.
pub const WIDE: usize = 128;

/// Where the matrices of a series lie. All steps are counted in values.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The array.
    pub at: Arg,
    /// The first value of the first matrix.
    pub start: usize,
    /// From row to row.
    pub row: usize,
    /// From head to head.
    pub head: usize,
    /// From sequence to sequence.
    pub batch: usize,
}

impl Place {
    /// One matrix of rows that lie one after another.
    pub fn one(at: Arg, row: usize) -> Self {
        Self { at, start: 0, row, head: 0, batch: 0 }
    }

    /// The address of the first value, where addresses within an array are to be had.
    pub fn address(self) -> Arg {
        Arg::At(self.at.word() + 4 * self.start as u64)
    }

    /// Values from sequence to sequence, from head to head, from row to row, as kernels of attention have them.
    pub fn steps(self) -> [usize; 3] {
        [self.batch, self.head, self.row]
    }
}

/// What a prefix of the columns that a row sees does to a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Masked {
    /// Nothing.
    Not,
    /// C is -inf beyond it.
    C,
    /// A counts as 0 beyond it.
    A,
}

/// Length of the prefix of columns that a row sees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sees {
    /// Every column.
    All,
    /// Columns up to the row's own position.
    Causal,
    /// The length of the row's sequence, from this array of i64.
    Lengths(Arg),
}

impl Sees {
    /// As the kernels have it: which, and the lengths.
    pub fn args(self) -> (Arg, Arg) {
        match self {
            Sees::All => (Arg::U32(0), Arg::At(0)),
            Sees::Causal => (Arg::U32(1), Arg::At(0)),
            Sees::Lengths(at) => (Arg::U32(2), at),
        }
    }
}

/// `sequences` times `heads` products `C = alpha A B + bias`, B as [k, n] or transposed as [n, k].
#[derive(Debug, Clone, Copy)]
pub struct Products {
    /// m, n and k: rows and columns of C, terms of a sum.
    pub size: [usize; 3],
    /// Whether B is stored as [n, k].
    pub transposed: bool,
    /// Left side.
    pub a: Place,
    /// Right side.
    pub b: Place,
    /// Result.
    pub c: Place,
    /// One value for each column, added to every row.
    pub bias: Option<Arg>,
    /// Factor of the product.
    pub alpha: f32,
    /// Number of sequences.
    pub sequences: usize,
    /// Number of heads of A and C.
    pub heads: usize,
    /// Heads of A and C that share one of B.
    pub group: usize,
    /// What columns beyond the prefix do.
    pub mask: Masked,
    /// The prefix.
    pub sees: Sees,
}

impl Products {
    /// One product without bias.
    pub fn one(size: [usize; 3], transposed: bool, a: Place, b: Place, c: Place) -> Self {
        let (sequences, heads, group, mask, sees) = (1, 1, 1, Masked::Not, Sees::All);
        Self { size, transposed, a, b, c, bias: None, alpha: 1.0, sequences, heads, group, mask, sees }
    }

    /// Rows and columns of a tile, one of `sizes` in ascending order; blocks across and down C, and of all products.
    pub fn tiles(&self, job: &Job, sizes: &[usize]) -> Result<(usize, [u32; 3]), GpuError> {
        let [m, n, _] = self.size;
        let batch = self.sequences * self.heads;
        let tile = fastest([m, n], batch, job.multiprocessors() as usize, sizes);
        let (columns, rows) = (n.div_ceil(tile), m.div_ceil(tile));
        // The hardware's limit of blocks in the second and third direction.
        if rows.max(batch) > 65_535 {
            return Err(GpuError::Call {
                call: "cuLaunchKernel",
                problem: format!("{rows} rows of tiles of {batch} products; a grid takes 65535 of each"),
            });
        }
        Ok((tile, [columns, rows, batch].map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX))))
    }

    /// The arguments with which every kernel begins: arrays, sizes, steps, heads.
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

/// The tile that makes `batch` products of m x n soonest. A multiprocessor makes one after another, in a time that goes by their
/// values; a value of a smaller tile takes longer, since tiles share less of what they read.
pub fn fastest([m, n]: [usize; 2], batch: usize, multiprocessors: usize, tiles: &[usize]) -> usize {
    let time = |tile: usize| {
        let turns = (n.div_ceil(tile) * m.div_ceil(tile) * batch).div_ceil(multiprocessors.max(1));
        let value = if tile >= WIDE { 3 } else { 2 + WIDE / tile };
        turns * tile * tile * value
    };
    tiles.iter().copied().min_by_key(|&tile| time(tile)).unwrap_or(SMALL)
}
