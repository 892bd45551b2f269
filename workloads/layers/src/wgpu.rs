//! The layer operations in WGSL (`layers.wgsl`): f32, with sums of losses in pairs of f32.

use ellwand_core::DeviceKind;

use super::gpu::{Kernels, Losses};
use ellwand_gpu::{Arg, GpuError, Grid, Job, Source, wgsl, whole};

pub(super) static SOURCE: Source =
    wgsl!("layers.wgsl", "../../../devices/gpu/src/invocation.wgsl", "../../../devices/gpu/src/portable.wgsl");

/// Threads per workgroup for element-wise kernels; for row-wise ones, a workgroup has one row.
const SPREAD: usize = 256;
/// Maximum number of workgroups of a kernel that loops.
const MAX_GROUPS: usize = 1024;

/// Arguments of every kernel (number of elements or rows, length of a row, a constant, whether there is a second
/// array), and its arrays.
fn args(n: usize, d: usize, number: f32, second: bool, arrays: &[Arg]) -> Vec<Arg> {
    [&[whole(n), whole(d), Arg::F32(number), Arg::U32(u32::from(second))], arrays].concat()
}

/// The grid for `n` elements, or for `n` rows.
fn spread(n: usize) -> Grid {
    Grid::line(n.div_ceil(SPREAD), SPREAD as u32)
}
fn by_row(rows: usize) -> Grid {
    Grid::line(rows, 128)
}

/// The kernels of `layers.wgsl`.
pub struct Wgpu;

impl Kernels for Wgpu {
    const NAME: &'static str = "wgpu";
    const NEEDS: DeviceKind = DeviceKind::Wgpu;
    const ABOUT: [&'static str; 2] = ["one workgroup per row, f32", "one element per thread, f32"];

    fn elements(job: &mut Job, kernel: &str, x: Arg, second: Option<Arg>, y: Arg, n: usize) -> Result<(), GpuError> {
        // A kernel has bindings only for the arrays it uses.
        let arrays: Vec<Arg> = [Some(x), second, Some(y)].into_iter().flatten().collect();
        job.launch(&SOURCE, kernel, spread(n), args(n, 1, 0.0, second.is_some(), &arrays))
    }

    fn mse(job: &mut Job, [x, target, loss]: [Arg; 3], _: Arg, n: usize, scale: f64) -> Result<(), GpuError> {
        let grid = Grid::line(n.div_ceil(SPREAD).clamp(1, MAX_GROUPS), SPREAD as u32);
        let count = grid.blocks[0] as usize;
        let sums = job.scratch(8 * count)?;
        job.launch(&SOURCE, "squared_error_sums", grid, args(n, 1, 0.0, true, &[x, target, sums]))?;
        job.launch(&SOURCE, "reduce_sums", spread(1), args(count, 1, scale as f32, false, &[sums, loss]))
    }

    fn cross_entropy(
        job: &mut Job,
        [x, labels]: [Arg; 2],
        losses: Losses,
        _: Arg,
        [rows, d]: [usize; 2],
    ) -> Result<(), GpuError> {
        let sums = job.scratch(8 * rows)?;
        let each = if let Losses::Each(each) = losses { each } else { job.scratch(4 * rows)? };
        job.launch(&SOURCE, "cross_entropy", by_row(rows), args(rows, d, 0.0, false, &[x, labels, sums, each]))?;
        match losses {
            Losses::Each(_) => Ok(()),
            Losses::Sum(loss, scale) => {
                job.launch(&SOURCE, "reduce_sums", spread(1), args(rows, 1, scale as f32, false, &[sums, loss]))
            }
        }
    }

    fn softmax(job: &mut Job, arrays: [Arg; 2], [rows, d]: [usize; 2]) -> Result<(), GpuError> {
        job.launch(&SOURCE, "softmax", by_row(rows), args(rows, d, 0.0, false, &arrays))
    }

    fn norm(
        job: &mut Job,
        [x, gamma, beta, y]: [Arg; 4],
        residual: Option<[Arg; 2]>,
        [rows, d]: [usize; 2],
        eps: f32,
    ) -> Result<(), GpuError> {
        let second = residual.is_some();
        // Every binding of a kernel needs an array, and an array may not be read and written at once.
        let [residual, sum] = match residual {
            Some(arrays) => arrays,
            None => [job.scratch(4)?, job.scratch(4)?],
        };
        let arrays = [x, residual, gamma, beta, y, sum];
        job.launch(&SOURCE, "layer_norm", by_row(rows), args(rows, d, eps, second, &arrays))
    }

    fn bias_gelu(job: &mut Job, arrays: [Arg; 3], [rows, d]: [usize; 2], tanh: bool) -> Result<(), GpuError> {
        let kernel = if tanh { "bias_gelu_approximate" } else { "bias_gelu" };
        job.launch(&SOURCE, kernel, spread(rows * d), args(rows * d, d, 0.0, false, &arrays))
    }
}
