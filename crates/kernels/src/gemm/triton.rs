//! Products of matrices as Triton kernels (`product.py`): f32 without TF32, many products a launch.

use super::gpu::{Masked, Place, Products, SMALL, WIDE};
use crate::device::{Arg, GpuError, Grid, Job, Source};

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "product.py", text: include_str!("product.py"), options: &[] };

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
