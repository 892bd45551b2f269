//! The product in bf16 on a GPU: our kernels for tensor cores of every architecture since Ampere (`matmul.cu`) and with what
//! Hopper alone has (`matmul_hopper.cu`), Triton's (`matmul.py`), NVIDIA's own library (`cublas.rs`).

use ellwand_core::{Case, Dtype, InputError, PrepareError, Tensors};

use super::gpu::{SMALL, WIDE, fastest};
use super::half;
use super::workload::Shape;
use crate::device::{Arg, Buffer, Gpu, Grid, Job, Source, Tiles, files, whole};

/// The kernels for every architecture since Ampere.
pub(crate) static SOURCE: Source =
    Source { name: "matmul.cu", text: files!("../device/tensor.cuh", "matmul.cu"), options: &[] };

/// The kernels for Hopper.
pub(crate) static HOPPER: Source = Source {
    name: "matmul_hopper.cu",
    text: files!("../device/tensor.cuh", "../device/hopper.cuh", "matmul_hopper.cu"),
    options: &[],
};

/// Steps of the sum that a tile of the portable kernel takes at a time, and how many such tiles lie in shared memory.
const DEPTH: usize = 32;
const STAGES: usize = 4;

/// Rows and columns of C that a block makes at a time on Hopper, steps of the sum, tiles that lie in shared memory; rows that a
/// warpgroup writes at a time, 64 columns each.
const HOPPER_ROWS: usize = 256;
const HOPPER_COLUMNS: usize = 192;
const HOPPER_DEPTH: usize = 64;
const HOPPER_STAGES: usize = 3;
const BOX: usize = 64;

/// A job with its arrays on the device.
pub(super) struct Made {
    pub(super) job: Job,
    pub(super) shape: Shape,
    /// A, B and C.
    pub(super) arrays: [Arg; 3],
}

fn unsupported<T>(why: impl Into<String>) -> Result<T, PrepareError> {
    Err(PrepareError::Unsupported(why.into()))
}

pub(super) fn make(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Made, PrepareError> {
    if let Some((major, minor)) = gpu.capability().filter(|capability| *capability < (8, 0)) {
        return unsupported(format!("products in bf16 need compute capability 8.0; this device has {major}.{minor}"));
    }
    let shape = Shape::of(case)?;
    let Shape { m, n, k, .. } = shape;
    let mut job = Job::new(gpu);
    let mut given = |name: &str, want: [usize; 2]| -> Result<Arg, PrepareError> {
        let array = inputs.get(name)?;
        if array.shape() != want {
            let problem = format!("its shape is {:?}", array.shape());
            return Err(InputError::new(name, problem, format!("{want:?}")).into());
        }
        Ok(job.hold(Buffer::of_u16(gpu, half::bits(inputs, name)?)?))
    };
    let (a, b) = (given("a", [m, k])?, given("b", shape.b())?);
    let c = job.output("c", Dtype::U16, &[m, n], 0)?;
    Ok(Made { job, shape, arrays: [a, b, c] })
}

/// The portable kernels.
pub(super) fn cuda(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
    let mut made = make(case, inputs, gpu)?;
    let Shape { m, n, k, transposed } = made.shape;
    let tile = fastest([m, n], 1, made.job.multiprocessors() as usize, &[SMALL, WIDE]);
    let kernel = format!("matmul_{tile}{}", if transposed { "_transposed" } else { "" });
    // Which rows begin at multiples of 16 bytes: A's, B's, C's.
    let rows = [k, made.shape.b()[1], n];
    let wide = (0..3).filter(|at| rows[*at].is_multiple_of(8)).map(|at| 1 << at).sum();
    let mut args = made.arrays.to_vec();
    args.extend([m, n, k].map(whole));
    args.push(Arg::U32(wide));
    let grid = Grid::line(m.div_ceil(tile) * n.div_ceil(tile), 128).shared(STAGES * 2 * tile * DEPTH * 2);
    made.job.launch(&SOURCE, &kernel, grid, args)?;
    Ok(made.job)
}

/// The kernels for Hopper.
pub(super) fn hopper(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
    let (major, minor) = gpu.capability().unwrap_or_default();
    if (major, minor) != (9, 0) {
        return unsupported(format!(
            "products of warpgroups (wgmma) are of compute capability 9.0 alone; this device has {major}.{minor}; use cuda"
        ));
    }
    let mut made = make(case, inputs, gpu)?;
    let Shape { m, n, k, transposed } = made.shape;
    if let Some(row) = [k, made.shape.b()[1], n].into_iter().find(|row| !row.is_multiple_of(8)) {
        return unsupported(format!(
            "the copy engine takes rows of multiples of 16 bytes, not of {row} values of bf16; use cuda"
        ));
    }
    let map = |at: Arg, [rows, values]: [usize; 2], cut: usize| {
        let Arg::At(address) = at else { return Ok(at) };
        gpu.tensor_map(Tiles { address, shape: [1, rows, values], rows: cut as u32 }).map(Arg::Map)
    };
    let [a, b, c] = made.arrays;
    // A box of B has 64 steps of the sum, of as many columns as a tile has where they are its rows; otherwise 64 columns.
    let cut = if transposed { HOPPER_COLUMNS } else { HOPPER_DEPTH };
    let mut args = vec![map(a, [m, k], HOPPER_ROWS)?, map(b, made.shape.b(), cut)?, map(c, [m, n], BOX)?];
    args.extend([m, n, k].map(whole));
    let tiles = m.div_ceil(HOPPER_ROWS) * n.div_ceil(HOPPER_COLUMNS);
    // The ring, what the two warpgroups write, barriers, and what it takes to begin at a multiple of 1024.
    let ring = HOPPER_STAGES * 2 * (HOPPER_ROWS + HOPPER_COLUMNS) * HOPPER_DEPTH;
    let grid = Grid::line(tiles.min(made.job.multiprocessors() as usize), 384);
    let grid = grid.shared(ring + 2 * 2 * BOX * HOPPER_COLUMNS + 8 * 2 * HOPPER_STAGES + 1024);
    made.job.launch(&HOPPER, if transposed { "matmul_hopper_transposed" } else { "matmul_hopper" }, grid, args)?;
    Ok(made.job)
}

/// The library.
pub(super) fn cublas(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
    let mut made = make(case, inputs, gpu)?;
    super::cublas::narrow(&mut made)?;
    Ok(made.job)
}

/// A device without bf16.
pub(super) fn wgpu(_: &Case, _: &Tensors, _: &Gpu) -> Result<Job, PrepareError> {
    unsupported("WGSL has neither bf16 nor products of matrices: --precision f32")
}
