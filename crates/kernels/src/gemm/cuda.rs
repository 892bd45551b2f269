//! Products of matrices as CUDA kernels (`product.cu`): f32, tiles in registers and shared memory, many products a launch.

use super::gpu::{Place, Products};
use crate::device::{Arg, GpuError, Grid, Job, Source};

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "product.cu", text: include_str!("product.cu"), options: &[] };

impl Place {
    /// Whether every row of every matrix starts at a multiple of 16 bytes. Buffers start at multiples of 256.
    fn wide(self) -> bool {
        self.address().word().is_multiple_of(16)
            && [self.row, self.head, self.batch].iter().all(|step| step.is_multiple_of(4))
    }
}

impl Products {
    /// Adds the launch to a job.
    pub(crate) fn launch_cuda(&self, job: &mut Job) -> Result<(), GpuError> {
        let (wide, blocks) = self.tiles(job, true)?;
        let kernel = match (wide, self.transposed) {
            (true, true) => "product_wide_transposed",
            (true, false) => "product_wide",
            (false, true) => "product_small_transposed",
            (false, false) => "product_small",
        };
        let flags = [(self.a, 1), (self.b, 2), (self.c, 4)];
        let flags = flags.iter().filter(|(place, _)| place.wide()).map(|(_, flag)| flag).sum();
        let (sees, _) = self.sees.args();
        let mut args = self.args();
        args.extend([Arg::U32(self.mask as u32), sees, Arg::U32(flags), Arg::F32(self.alpha)]);
        job.launch(&SOURCE, kernel, Grid { blocks, threads: [if wide { 256 } else { 128 }, 1, 1], shared: 0 }, args)
    }
}
