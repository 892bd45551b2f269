//! Flushing the caches: by reading twice what the second level holds, of zeros that were written long ago.

use super::super::{Arg, Backend, GpuError, Grid, Source, files};
use super::Cuda;

/// The kernel.
pub(in super::super) static SOURCE: Source = Source { name: "flush.cu", text: files!("../flush.cu"), options: &[] };

const THREADS: u32 = 256;
/// Blocks of a multiprocessor: together they have enough loads under way.
const RESIDENT: u32 = 8;

impl Cuda {
    /// Once it returns nothing of what ran before is in the caches, and no line there would have to be written back.
    pub(super) fn flush_caches(&self) -> Result<(), GpuError> {
        let bytes = 2 * self.l2_bytes;
        if bytes == 0 {
            return Err(GpuError::Absent(
                "the driver does not tell how large the cache is that would be flushed".into(),
            ));
        }
        let known = self.enter()?.scratch;
        let scratch = match known {
            Some(scratch) => scratch,
            None => {
                // A word more, for what never happens.
                let scratch = self.alloc(bytes + 16)?;
                self.fill(scratch, 0, bytes + 16)?;
                self.enter()?.scratch = Some(scratch);
                scratch
            }
        };
        let kernel = self.kernel(&SOURCE, "flush")?;
        let words = bytes as u64 / 16;
        let args = [Arg::At(scratch), Arg::At(scratch + 16 * words), Arg::U64(words)];
        self.launch(&kernel, Grid::line((RESIDENT * self.multiprocessors) as usize, THREADS), &args)?;
        self.sync()
    }
}
