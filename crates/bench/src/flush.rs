//! Flushes the CPU caches: every processor available to this process reads its own buffer; together the buffers hold
//! several times the size of the last-level caches.
//!
//! Buffers are read, not written: dirty lines would be written back to memory during the next timed slot. Reading also
//! evicts the lines that the slots left dirty. Each buffer is written once when it is made; otherwise all its pages
//! would map to the same zero page.

use ellwand_core::record::Cache;

/// Size of all buffers together relative to the last-level caches, and of each buffer relative to a core's private
/// cache. A single pass over exactly the cache size leaves lines behind in caches that do not replace the oldest line
/// first.
const TIMES: u64 = 4;
/// Assumed cache sizes if the system reports none: 2 MiB per core, 64 MiB shared by all.
const UNKNOWN: [u64; 2] = [2 << 20, 64 << 20];
/// 64-bit words per cache line.
const LINE: usize = 8;
/// 64-bit words of 4 KiB.
const PAGE: usize = 512;

/// The flush buffers, one per processor.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    buffers: Vec<Buffer>,
}

#[derive(Debug)]
struct Buffer {
    /// The processor to run on, if threads can be pinned.
    core: Option<u32>,
    words: Vec<u64>,
}

/// Buffer size for each of `cores` processors, in bytes.
fn share(caches: &[Cache], cores: u64) -> u64 {
    let Some(last) = caches.last() else { return TIMES * UNKNOWN[0].max(UNKNOWN[1].div_ceil(cores)) };
    let shared_by = u64::from(last.shared_by).max(1);
    // Processors that share a last-level cache flush it together; if fewer are available, each reads more.
    let together = cores.min(shared_by);
    // The mid-level cache is private to a core or shared with one neighbour.
    let own = caches.iter().rev().nth(1).map_or(0, |cache| cache.bytes);
    TIMES * last.bytes.div_ceil(together).max(own)
}

/// Memory that each process holds after its first flush of the CPU caches, in bytes.
pub fn flush_bytes() -> u64 {
    buffer_bytes(&crate::environment::caches())
}

fn buffer_bytes(caches: &[Cache]) -> u64 {
    let cores = cores().len() as u64;
    cores.saturating_mul(share(caches, cores))
}

/// Why the caches could not be flushed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlushError {
    #[error("flushing the caches needs {bytes} bytes of memory, which are not available")]
    Memory { bytes: usize },
    #[error("no thread could be started to flush caches: {0}")]
    Thread(std::io::Error),
    #[error("a thread that flushes caches panicked")]
    Panicked,
}

impl Flush {
    /// Flushes all caches. The first call allocates the buffers.
    pub(crate) fn run(&mut self, caches: &dyn Fn() -> Vec<Cache>) -> Result<(), FlushError> {
        let cores = cores();
        if self.buffers.iter().map(|buffer| buffer.core).ne(cores.iter().copied()) {
            let words = usize::try_from(share(&caches(), cores.len() as u64)).unwrap_or(usize::MAX) / 8;
            self.buffers.clear();
            for core in cores {
                self.buffers.push(Buffer { core, words: Buffer::room(words)? });
            }
            on_each(&mut self.buffers, &|buffer| {
                // Copies of a page are fast in every profile; `resize` without optimisation takes seconds for a gigabyte.
                while buffer.words.len() < words {
                    let left = words - buffer.words.len();
                    buffer.words.extend_from_slice(&[1; PAGE][..left.min(PAGE)]);
                }
            })?;
        }
        on_each(&mut self.buffers, &|buffer| {
            let sum = buffer.words.iter().step_by(LINE).fold(0_u64, |sum, word| sum.wrapping_add(*word));
            std::hint::black_box(sum);
        })
    }
}

impl Buffer {
    fn room(words: usize) -> Result<Vec<u64>, FlushError> {
        let mut room = Vec::new();
        room.try_reserve_exact(words).map_err(|_| FlushError::Memory { bytes: 8 * words })?;
        Ok(room)
    }
}

/// Processors available to this thread; `None` for each if it cannot be pinned.
fn cores() -> Vec<Option<u32>> {
    let allowed: Vec<Option<u32>> = crate::block::allowed_cores().into_iter().map(Some).collect();
    if allowed.is_empty() {
        return vec![None; std::thread::available_parallelism().map_or(1, std::num::NonZero::get)];
    }
    allowed
}

/// Applies `what` to all buffers in parallel, each on its own processor.
fn on_each(buffers: &mut [Buffer], what: &(dyn Fn(&mut Buffer) + Sync)) -> Result<(), FlushError> {
    std::thread::scope(|scope| {
        let started = buffers.iter_mut().map(|buffer| {
            std::thread::Builder::new().name("flush".into()).spawn_scoped(scope, move || {
                if let Some(core) = buffer.core {
                    crate::block::stay_on(core);
                }
                what(buffer);
            })
        });
        let started: Vec<_> = started.collect();
        let mut done = Ok(());
        for thread in started {
            let joined = match thread {
                Ok(thread) => thread.join().map_err(|_| FlushError::Panicked),
                Err(error) => Err(FlushError::Thread(error)),
            };
            done = done.and(joined);
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(level: &str, bytes: u64, shared_by: u32) -> Cache {
        Cache { level: level.into(), bytes, shared_by }
    }

    #[test]
    fn all_processors_together_read_several_times_what_the_last_caches_hold() {
        let zen = [cache("L1", 32 << 10, 1), cache("L2", 1 << 20, 1), cache("L3", 32 << 20, 2)];
        assert_eq!(share(&zen, 2), 4 * (16 << 20), "two that share it");
        assert_eq!(share(&zen, 1), 4 * (32 << 20), "one has to read for both");
        assert_eq!(share(&zen, 16), 4 * (16 << 20), "eight caches, each with its two");
        let small = [cache("L2", 2 << 20, 1), cache("L3", 24 << 20, 64)];
        assert_eq!(share(&small, 64), 4 * (2 << 20), "what each has for itself is the larger part");
        assert_eq!(share(&[cache("L2", 4 << 20, 1)], 4), 4 * (4 << 20), "there is but one level");
        assert_eq!(share(&[], 4), 4 * (16 << 20));
    }

    #[test]
    fn buffers_are_made_once_per_usable_processor_with_separate_pages() {
        let mut flush = Flush::default();
        let asked = std::cell::Cell::new(0);
        let caches = || {
            asked.set(asked.get() + 1);
            vec![cache("L2", 64 << 10, 1)]
        };
        flush.run(&caches).unwrap();
        flush.run(&caches).unwrap();
        assert_eq!(asked.get(), 1);
        assert_eq!(flush.buffers.iter().map(|buffer| buffer.core).collect::<Vec<_>>(), cores());
        let words: usize = flush.buffers.iter().map(|buffer| buffer.words.len()).sum();
        assert_eq!(8 * words as u64, buffer_bytes(&caches()), "as it was said beforehand");
        for buffer in &flush.buffers {
            assert_eq!(buffer.words.len(), 4 * (64 << 10) / 8);
            assert!(buffer.words.iter().all(|word| *word == 1), "pages of zeros are one and the same");
        }
    }

    #[test]
    fn an_allocation_that_fails_is_an_error() {
        let problem = Flush::default().run(&|| vec![cache("L3", 1 << 60, 1)]).unwrap_err();
        assert!(problem.to_string().contains("bytes of memory"), "{problem}");
    }
}
