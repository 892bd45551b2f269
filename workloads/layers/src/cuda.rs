//! The layer operations as CUDA kernels (`layers.cu`): f32, with sums of losses in f64.

use super::gpu::{Kernels, Losses};
use ellwand_gpu::{Arg, GpuError, Grid, Job, Source, files, whole};

pub(super) static SOURCE: Source = Source { name: "layers.cu", text: files!("rows.cuh", "layers.cu"), options: &[] };

const THREADS: u32 = 256;
/// Blocks that a multiprocessor can hold at once, and number for the kernel `mse`, which loops.
const RESIDENT: u32 = 8;
const LOOPING: u32 = 6;

/// The kernels that hold rows: largest row length if it is a multiple of 4 (half of it otherwise), threads per row,
/// threads per block.
const FORMS: [(usize, u32, u32); 5] =
    [(64, 8, 256), (256, 16, 256), (1024, 32, 128), (4096, 128, 128), (16_384, 512, 512)];
/// Threads per block of the kernel that goes over a row in steps.
const LONG: u32 = 512;

/// The kernel for rows of `d` values, and a grid for all rows.
fn by_row(kernel: &str, [rows, d]: [usize; 2]) -> (String, Grid) {
    let size = if d.is_multiple_of(4) { d } else { 2 * d };
    match FORMS.iter().find(|(longest, ..)| size <= *longest) {
        Some((longest, sharing, threads)) => {
            (format!("{kernel}_{longest}"), Grid::line(rows.div_ceil((threads / sharing) as usize), *threads))
        }
        None => (format!("{kernel}_long"), Grid::line(rows, LONG)),
    }
}

/// True if there are too few vectors to give each thread several.
fn few(job: &Job, vectors: usize) -> bool {
    vectors <= (RESIDENT * THREADS * job.multiprocessors()) as usize
}

/// The kernels of `layers.cu`.
pub struct Cuda;

impl Kernels for Cuda {
    const NAME: &'static str = "cuda";
    const ABOUT: [&'static str; 2] = ["rows in registers, f32", "64 bytes per thread, f32"];

    fn elements(job: &mut Job, kernel: &str, x: Arg, second: Option<Arg>, y: Arg, n: usize) -> Result<(), GpuError> {
        // Vectors per thread, as in `elements` of `layers.cu`.
        let each = match second {
            _ if few(job, n / 4) => 1,
            Some(_) => 2,
            None => 4,
        };
        let grid = Grid::line(n.div_ceil(4).div_ceil(each * THREADS as usize), THREADS);
        job.launch(&SOURCE, kernel, grid, vec![x, second.unwrap_or(Arg::At(0)), y, Arg::U64(n as u64)])
    }

    fn mse(job: &mut Job, [x, target, loss]: [Arg; 3], come: Arg, n: usize, scale: f64) -> Result<(), GpuError> {
        let most = (LOOPING * job.multiprocessors()) as usize;
        let grid = Grid::line((n / 4).div_ceil(THREADS as usize).clamp(1, most), THREADS);
        let sums = job.scratch(8 * grid.blocks[0] as usize)?;
        job.launch(&SOURCE, "mse", grid, vec![x, target, sums, come, loss, Arg::U64(n as u64), Arg::F64(scale)])
    }

    fn cross_entropy(
        job: &mut Job,
        [x, labels]: [Arg; 2],
        losses: Losses,
        come: Arg,
        rows: [usize; 2],
    ) -> Result<(), GpuError> {
        let (kernel, mut grid) = by_row("cross_entropy", rows);
        let (each, loss, scale) = match losses {
            Losses::Each(each) => (each, Arg::At(0), 0.0),
            Losses::Sum(loss, scale) => (Arg::At(0), loss, scale),
        };
        // As many blocks as run at once: the last one adds up all sums, and more blocks cost more than an uneven end.
        let resident = RESIDENT.min(2048 / grid.threads[0]);
        grid.blocks[0] = grid.blocks[0].min(resident * job.multiprocessors());
        let sums = job.scratch(8 * grid.blocks[0] as usize)?;
        let args = vec![x, labels, each, sums, come, loss, Arg::U64(rows[0] as u64), whole(rows[1]), Arg::F64(scale)];
        job.launch(&SOURCE, &kernel, grid, args)
    }

    fn softmax(job: &mut Job, [x, y]: [Arg; 2], rows: [usize; 2]) -> Result<(), GpuError> {
        let (kernel, grid) = by_row("softmax", rows);
        job.launch(&SOURCE, &kernel, grid, vec![x, y, Arg::U64(rows[0] as u64), whole(rows[1])])
    }

    fn norm(
        job: &mut Job,
        [x, gamma, beta, y]: [Arg; 4],
        residual: Option<[Arg; 2]>,
        rows: [usize; 2],
        eps: f32,
    ) -> Result<(), GpuError> {
        let (kernel, grid) = by_row(if residual.is_some() { "residual_layer_norm" } else { "layer_norm" }, rows);
        let [residual, sum] = residual.unwrap_or([Arg::At(0); 2]);
        let numbers =
            [Arg::U64(rows[0] as u64), whole(rows[1]), Arg::F32((1.0 / rows[1] as f64) as f32), Arg::F32(eps)];
        let args = [&[x, residual, gamma, beta, y, sum][..], &numbers].concat();
        job.launch(&SOURCE, &kernel, grid, args)
    }

    fn bias_gelu(job: &mut Job, arrays: [Arg; 3], [rows, d]: [usize; 2], tanh: bool) -> Result<(), GpuError> {
        // Columns and rows per thread, as in `biased` of `layers.cu`.
        let (columns, each) = if d.is_multiple_of(4) { (d / 4, 4) } else { (d, 8) };
        let each = if few(job, rows * columns) { 1 } else { each };
        // The block width that leaves the fewest threads idle at the end of a row.
        let width = [256, 128, 64, 32, 16, 8].into_iter().min_by_key(|width| columns.next_multiple_of(*width));
        let width = width.unwrap_or(THREADS as usize);
        let height = THREADS as usize / width;
        let mut grid = Grid::line(rows.div_ceil(each * height), width as u32);
        grid.threads[1] = height as u32;
        // The hardware limit in the second dimension; a block continues with the columns beyond.
        grid.blocks[1] = columns.div_ceil(width).min(65_535) as u32;
        let kernel = if tanh { "bias_gelu_approximate" } else { "bias_gelu" };
        job.launch(&SOURCE, kernel, grid, [&arrays[..], &[Arg::U64(rows as u64), whole(d)]].concat())
    }
}
