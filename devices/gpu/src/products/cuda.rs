//! Matrix products as CUDA kernels (`product.cu`): f32, tiles in registers and shared memory, many products per launch.

use super::{LEAST, Place, Products, SMALL, TINY, WIDE};
use crate::{Arg, GpuError, Grid, Job, Source, files};

/// The CUDA kernels of this file.
pub static SOURCE: Source = Source { name: "product.cu", text: files!("product.cu"), options: &[] };

impl Place {
    /// True if every row of every matrix starts at a multiple of 16 bytes. Buffers start at multiples of 256.
    fn wide(self) -> bool {
        self.address().word().is_multiple_of(16)
            && [self.row, self.head, self.batch].iter().all(|step| step.is_multiple_of(4))
    }
}

impl Products {
    /// Appends the launch to a job.
    pub fn launch_cuda(&self, job: &mut Job) -> Result<(), GpuError> {
        let (tile, blocks) = self.tiles(job, &[LEAST, TINY, SMALL, WIDE])?;
        let kernel = match (tile, self.transposed) {
            (WIDE, true) => "product_wide_transposed",
            (WIDE, false) => "product_wide",
            (SMALL, true) => "product_small_transposed",
            (SMALL, false) => "product_small",
            (TINY, true) => "product_tiny_transposed",
            (TINY, false) => "product_tiny",
            (_, true) => "product_least_transposed",
            (_, false) => "product_least",
        };
        let threads = if tile == LEAST { 128 } else { 2 * tile as u32 };
        let flags = [(self.a, 1), (self.b, 2), (self.c, 4)];
        let flags = flags.iter().filter(|(place, _)| place.wide()).map(|(_, flag)| flag).sum();
        let (sees, _) = self.sees.args();
        let mut args = self.args();
        args.extend([Arg::U32(self.mask as u32), sees, Arg::U32(flags), Arg::F32(self.alpha)]);
        job.launch(&SOURCE, kernel, Grid { blocks, threads: [threads, 1, 1], shared: 0 }, args)
    }
}
