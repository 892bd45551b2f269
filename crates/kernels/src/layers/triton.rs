//! The layer operations as Triton kernels (`layers.py`), compiled ahead of time: f32, with sums of losses in f64.

use super::gpu::{Kernels, Losses};
use crate::device::{Arg, GpuError, Grid, Job, Source, whole};

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "layers.py", text: include_str!("layers.py"), options: &[] };

/// Values of an element-wise program, and of a step of the squared errors, of which a program takes `STEPS`.
const BLOCK: usize = 2048;
const STEPS: usize = 4;
/// Rows and columns of a program that adds a bias.
const BIASED: [usize; 2] = [8, 256];
/// Values and rows of the tiles that rows fit into, and whether one is there for rows that are no multiple of 16 values, as in
/// `layers.py`.
const TILES: [(usize, usize, bool); 8] = [
    (64, 32, true),
    (256, 8, true),
    (512, 4, false),
    (1024, 2, true),
    (2048, 1, false),
    (4096, 1, true),
    (8192, 1, false),
    (16_384, 1, false),
];

/// The name of the variant for sizes that are multiples of 16, or not. Arrays begin at multiples of 256 bytes.
fn variant(kernel: &str, size: usize) -> String {
    if size.is_multiple_of(16) { format!("{kernel}_16") } else { kernel.to_string() }
}

/// The variant of a kernel by rows for rows of `d` values, and how many rows a program takes.
fn by_row(kernel: &str, d: usize) -> (String, usize) {
    match TILES.iter().find(|(block, _, odd)| d <= *block && (*odd || d.is_multiple_of(16))) {
        Some((block, rows, _)) => (variant(&format!("{kernel}_{block}"), d), *rows),
        None => (variant(&format!("{kernel}_long"), d), 1),
    }
}

/// A launch over one direction; the programs of Triton's kernels bring their own number of threads.
fn line(programs: usize) -> Grid {
    Grid::line(programs, 1)
}

/// The last arguments of kernels that go row by row.
fn counted([rows, d]: [usize; 2]) -> Result<[Arg; 2], GpuError> {
    if i32::try_from(rows).is_err() {
        return Err(GpuError::Absent(format!("{rows} rows; these kernels count rows in 32 bits")));
    }
    Ok([rows, d].map(whole))
}

/// The kernels of `layers.py`.
pub(crate) struct Triton;

impl Kernels for Triton {
    const NAME: &'static str = "triton";
    const ABOUT: [&'static str; 2] = ["Triton: whole rows in tiles, f32", "Triton: element by element, f32"];

    /// An operation without a second array is given the first for it and never reads it.
    fn elements(job: &mut Job, kernel: &str, x: Arg, second: Option<Arg>, y: Arg, n: usize) -> Result<(), GpuError> {
        let args = vec![x, second.unwrap_or(x), y, Arg::U64(n as u64)];
        job.launch(&SOURCE, &variant(kernel, n), line(n.div_ceil(BLOCK)), args)
    }

    fn mse(job: &mut Job, [x, target, loss]: [Arg; 3], come: Arg, n: usize, scale: f64) -> Result<(), GpuError> {
        let programs = n.div_ceil(STEPS * BLOCK);
        let sums = job.scratch(8 * programs)?;
        let args = vec![x, target, sums, come, loss, Arg::U64(n as u64), Arg::F64(scale)];
        job.launch(&SOURCE, &variant("mse", n), line(programs), args)
    }

    fn cross_entropy(
        job: &mut Job,
        [x, labels]: [Arg; 2],
        losses: Losses,
        come: Arg,
        rows: [usize; 2],
    ) -> Result<(), GpuError> {
        let [count, d] = counted(rows)?;
        let (to, each, scale) = match losses {
            Losses::Each(to) => (to, 1, 1.0),
            Losses::Sum(to, scale) => (to, 0, scale),
        };
        let (kernel, together) = by_row("cross_entropy", rows[1]);
        let programs = rows[0].div_ceil(together);
        let sums = job.scratch(8 * programs)?;
        let args = vec![x, labels, to, sums, come, to, count, d, Arg::U32(each), Arg::F64(scale)];
        job.launch(&SOURCE, &kernel, line(programs), args)
    }

    fn softmax(job: &mut Job, [x, y]: [Arg; 2], rows: [usize; 2]) -> Result<(), GpuError> {
        let [count, d] = counted(rows)?;
        let (kernel, each) = by_row("softmax", rows[1]);
        job.launch(&SOURCE, &kernel, line(rows[0].div_ceil(each)), vec![x, y, count, d])
    }

    fn norm(
        job: &mut Job,
        [x, gamma, beta, y]: [Arg; 4],
        residual: Option<[Arg; 2]>,
        rows: [usize; 2],
        eps: f32,
    ) -> Result<(), GpuError> {
        let kernel = if residual.is_some() { "residual_layer_norm" } else { "layer_norm" };
        let [residual, sum] = residual.unwrap_or([x, y]);
        let [count, d] = counted(rows)?;
        let args = vec![x, residual, gamma, beta, y, sum, count, d, Arg::F32(eps)];
        let (kernel, each) = by_row(kernel, rows[1]);
        job.launch(&SOURCE, &kernel, line(rows[0].div_ceil(each)), args)
    }

    fn bias_gelu(job: &mut Job, arrays: [Arg; 3], rows: [usize; 2], tanh: bool) -> Result<(), GpuError> {
        let across = rows[1].div_ceil(BIASED[1]);
        // The hardware's limit of blocks in the second direction.
        if across > 65_535 {
            return Err(GpuError::Call {
                call: "cuLaunchKernel",
                problem: format!("rows of {} values; a grid takes {} of them", rows[1], 65_535 * BIASED[1]),
            });
        }
        let mut grid = line(rows[0].div_ceil(BIASED[0]));
        grid.blocks[1] = across as u32;
        let kernel = variant(if tanh { "bias_gelu_approximate" } else { "bias_gelu" }, rows[1]);
        job.launch(&SOURCE, &kernel, grid, arrays.into_iter().chain(counted(rows)?).collect())
    }
}
