//! Flushes the caches: reads an array of twice the L2's size, zeros that were written long ago.

use super::super::{Arg, Backend, GpuError, Grid, Source, files};
use super::Cuda;

/// The kernel that reads the array.
pub(crate) static SOURCE: Source = Source { name: "flush.cu", text: files!("../flush.cu"), options: &[] };

const THREADS: u32 = 256;
/// Blocks per multiprocessor; together they keep enough loads in flight.
const RESIDENT: u32 = 8;

impl Cuda {
    /// Size of the array: twice the L2 cache, and 16 bytes for a store that never happens.
    pub(super) fn flush_bytes(&self) -> usize {
        2 * self.l2_bytes + 16
    }

    /// On return, the caches hold no data of earlier work and no dirty lines.
    pub(super) fn flush_caches(&self) -> Result<(), GpuError> {
        if self.l2_bytes == 0 {
            return Err(GpuError::Absent("the driver does not report the size of the cache to flush".into()));
        }
        let known = self.enter()?.flush.clone();
        let (array, kernel) = match known {
            Some(known) => known,
            None => {
                let kernel = self.kernel(&SOURCE, "flush")?;
                let array = self.alloc(self.flush_bytes())?;
                self.fill(array, 0, self.flush_bytes())?;
                self.enter()?.flush = Some((array, kernel.clone()));
                (array, kernel)
            }
        };
        let words = 2 * self.l2_bytes as u64 / 16;
        let args = [Arg::At(array), Arg::At(array + 16 * words), Arg::U64(words)];
        self.launch(&kernel, Grid::line((RESIDENT * self.multiprocessors) as usize, THREADS), &args)?;
        self.sync()
    }
}
