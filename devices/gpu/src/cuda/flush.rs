//! Flushing the caches: by reading twice what the second level holds, of zeros that were written long ago.

use super::super::{Arg, Backend, GpuError, Grid, Source, files};
use super::Cuda;

/// The kernel.
pub(crate) static SOURCE: Source = Source { name: "flush.cu", text: files!("../flush.cu"), options: &[] };

const THREADS: u32 = 256;
/// Blocks of a multiprocessor: together they have enough loads under way.
const RESIDENT: u32 = 8;

impl Cuda {
    /// Bytes of the array: twice the cache, and 16 more for what never happens.
    pub(super) fn flush_bytes(&self) -> usize {
        2 * self.l2_bytes + 16
    }

    /// Once it returns nothing of what ran before is in the caches, and no line there would have to be written back.
    pub(super) fn flush_caches(&self) -> Result<(), GpuError> {
        if self.l2_bytes == 0 {
            return Err(GpuError::Absent(
                "the driver does not tell how large the cache is that would be flushed".into(),
            ));
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
