//! The layer operations as CUDA kernels (`layers.cu`): f32, with sums of losses in f64.

use super::gpu::Kernels;
use crate::device::{Arg, GpuError, Grid, Job, Source, whole};

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "layers.cu", text: include_str!("layers.cu"), options: &[] };

const THREADS: u32 = 256;
/// Blocks that a multiprocessor holds at once, for kernels that loop.
const RESIDENT: u32 = 8;

/// A block for each of so many rows of `d` values: enough warps, and no more threads than a block should have.
fn by_row([rows, d]: [usize; 2]) -> Grid {
    let threads = u32::try_from(d.div_ceil(4).next_multiple_of(32)).unwrap_or(THREADS).clamp(32, THREADS);
    Grid::line(rows, threads)
}

/// Blocks of kernels that go over `n` values in a loop.
fn spread(job: &Job, n: usize) -> Grid {
    let most = (RESIDENT * job.multiprocessors()) as usize;
    Grid::line((n / 4).div_ceil(THREADS as usize).clamp(1, most), THREADS)
}

/// The kernels of `layers.cu`.
pub(crate) struct Cuda;

impl Kernels for Cuda {
    const NAME: &'static str = "cuda";
    const ABOUT: [&'static str; 2] = ["a block a row, f32", "16 bytes a thread, f32"];

    fn elements(job: &mut Job, kernel: &str, x: Arg, second: Option<Arg>, y: Arg, n: usize) -> Result<(), GpuError> {
        let args = vec![x, second.unwrap_or(Arg::At(0)), y, Arg::U64(n as u64)];
        job.launch(&SOURCE, kernel, spread(job, n), args)
    }

    fn sums(job: &Job, n: usize) -> usize {
        spread(job, n).blocks[0] as usize
    }

    fn squared_error_sums(job: &mut Job, [x, target, sums]: [Arg; 3], n: usize) -> Result<(), GpuError> {
        job.launch(&SOURCE, "squared_error_sums", spread(job, n), vec![x, target, sums, Arg::U64(n as u64)])
    }

    fn reduce_sums(job: &mut Job, [sums, loss]: [Arg; 2], count: usize, scale: f64) -> Result<(), GpuError> {
        job.launch(&SOURCE, "reduce_sums", Grid::line(1, THREADS), vec![sums, loss, whole(count), Arg::F64(scale)])
    }

    fn rows(job: &mut Job, kernel: &str, arrays: &[Arg], rows: [usize; 2]) -> Result<(), GpuError> {
        job.launch(&SOURCE, kernel, by_row(rows), [arrays, &[whole(rows[1])]].concat())
    }

    fn norm(
        job: &mut Job,
        [x, gamma, beta, y]: [Arg; 4],
        residual: Option<[Arg; 2]>,
        rows: [usize; 2],
        eps: f32,
    ) -> Result<(), GpuError> {
        let [residual, sum] = residual.unwrap_or([Arg::At(0); 2]);
        let args = vec![x, residual, gamma, beta, y, sum, whole(rows[1]), Arg::F32(eps)];
        job.launch(&SOURCE, "layer_norm", by_row(rows), args)
    }

    fn bias_gelu(job: &mut Job, [x, bias, y]: [Arg; 3], [rows, d]: [usize; 2], tanh: bool) -> Result<(), GpuError> {
        let kernel = if tanh { "bias_gelu_approximate" } else { "bias_gelu" };
        let args = vec![x, bias, y, Arg::U64((rows * d) as u64), whole(d)];
        job.launch(&SOURCE, kernel, spread(job, rows * d), args)
    }
}
