//! Products of matrices as Triton kernels: f32 without TF32, many products a launch (`product.py`), and one product in bf16
//! (`matmul.py`).

use ellwand_core::{Case, PrepareError, Tensors};

use super::gpu::{Masked, Place, Products, SMALL, WIDE};
use super::gpu_half::make;
use super::workload::Shape;
use crate::device::{Arg, Gpu, GpuError, Grid, Job, Source, whole};

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "product.py", text: include_str!("product.py"), options: &[] };

/// The kernels in bf16.
static NARROW: Source = Source { name: "matmul.py", text: include_str!("matmul.py"), options: &[] };

/// Rows and columns of a tile in bf16.
const NARROW_WIDE: [usize; 2] = [128, 256];
const NARROW_SMALL: [usize; 2] = [64, 64];

/// The product in bf16.
pub(super) fn narrow(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
    let mut made = make(case, inputs, gpu)?;
    let Shape { m, n, k, transposed } = made.shape;
    if let Some((axis, size)) = [("n", n), ("k", k)].into_iter().find(|(_, size)| !size.is_multiple_of(16)) {
        let why = format!("the kernel takes multiples of 16 as --n and --k, not --{axis} {size}; use cuda");
        return Err(PrepareError::Unsupported(why));
    }
    let tiles = |[rows, columns]: [usize; 2]| m.div_ceil(rows) * n.div_ceil(columns);
    let wide = tiles(NARROW_WIDE) >= made.job.multiprocessors() as usize;
    let (tile, count) = if wide { ("wide", tiles(NARROW_WIDE)) } else { ("small", tiles(NARROW_SMALL)) };
    let kernel = format!("matmul{}_{tile}_16", if transposed { "_transposed" } else { "" });
    let args = made.arrays.into_iter().chain([m, n, k].map(whole)).collect();
    made.job.launch(&NARROW, &kernel, Grid::line(count, 1), args)?;
    Ok(made.job)
}

impl Place {
    /// Whether every row of every matrix begins at a multiple of 16 bytes and lies multiples of 16 values on.
    fn sixteen(self) -> bool {
        self.address().word().is_multiple_of(16)
            && [self.row, self.head, self.batch].iter().all(|step| step.is_multiple_of(16))
    }
}

impl Products {
    /// Adds the launch of Triton's kernel to a job.
    pub(crate) fn launch_triton(&self, job: &mut Job) -> Result<(), GpuError> {
        let kernel = match (self.transposed, self.mask) {
            (true, Masked::Not) => "product_transposed",
            (false, Masked::Not) => "product",
            (true, Masked::C) => "scores",
            (false, Masked::A) => "sums",
            (_, mask) => {
                let problem = format!("there is no kernel with this order of B that masks {mask:?}");
                return Err(GpuError::Call { call: "cuLaunchKernel", problem });
            }
        };
        let [_, n, k] = self.size;
        let even = [self.a, self.b, self.c].into_iter().all(Place::sixteen)
            && [n, k].iter().all(|size| size.is_multiple_of(16))
            && self.bias.is_none_or(|bias| bias.word().is_multiple_of(16));
        let (tile, blocks) = self.tiles(job, if even { &[SMALL, WIDE] } else { &[SMALL] })?;
        let kernel = match (tile == WIDE, even) {
            (true, _) => format!("{kernel}_128_16"),
            (false, true) => format!("{kernel}_64_16"),
            (false, false) => format!("{kernel}_64"),
        };
        let (sees, _) = self.sees.args();
        let mut args = self.args();
        args.extend([sees, Arg::U32(u32::from(self.bias.is_some())), Arg::F32(self.alpha)]);
        job.launch(&SOURCE, &kernel, Grid { blocks, threads: [1; 3], shared: 0 }, args)
    }
}
