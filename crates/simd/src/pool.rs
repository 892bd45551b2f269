//! The threads of the `parallel` implementations: one for each processor available to this process, each pinned to it.
//!
//! Left alone, Linux mostly wakes both threads of a two-processor machine on the same processor and keeps them there
//! for longer than a kernel of ten milliseconds takes: two slots in three ran without parallelism. Each thread's share
//! of the work is split into several pieces, so a preempted processor delays only its current piece.
//!
//! There are two pools: a team that spins before it sleeps ([`for_each_chunk`], [`for_each_slice`], [`for_each_part`])
//! for work of microseconds, and a rayon pool (`run`, feature `rayon`) for parallel iterators over work of
//! milliseconds.

use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

#[cfg(feature = "rayon")]
use rayon::{ThreadPool, ThreadPoolBuilder};

mod slices;
mod team;

pub use slices::{for_each_part, for_each_slice, for_each_slice_on};
pub use team::{for_each_chunk, for_each_chunk_on, most_threads};

/// Runs `work` on a rayon pool of pinned threads, which its parallel iterators use; on the calling thread alone if the
/// system allows no more threads.
#[cfg(feature = "rayon")]
pub fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        let stay = |index| format!("ellwand-{index}");
        ThreadPoolBuilder::new().num_threads(threads()).thread_name(stay).start_handler(pin).build().ok()
    });
    match pool {
        Some(pool) => {
            team::count(usize::MAX);
            pool.install(work)
        }
        None => alone(work),
    }
}

/// Runs `work` on a pool that consists of the calling thread. Rayon's global pool would panic without threads.
#[cfg(feature = "rayon")]
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread_local! {
        static ALONE: Option<ThreadPool> = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok();
    }
    ALONE.with(|pool| match pool {
        Some(pool) => pool.install(work),
        // The calling thread belongs to another pool, which then does the work.
        None => work(),
    })
}

/// Number of threads in the pool. Cached, because the system call reads files and takes 27 us, many times as long as a
/// short job.
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Borrows a buffer that no thread is using; waits until there is one. A thread writes to it before it reads, so it does not
/// matter what a panicked thread left there.
pub fn free<B>(buffers: &[Mutex<B>]) -> MutexGuard<'_, B> {
    loop {
        for buffer in buffers {
            match buffer.try_lock() {
                Ok(buffer) => return buffer,
                Err(TryLockError::Poisoned(buffer)) => return buffer.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        std::thread::yield_now();
    }
}

/// What ran, in words such as `2 threads`, for work on `items` that keeps `busy` threads busy; for one thread, also the
/// reason.
pub fn about(busy: usize, items: &str) -> String {
    about_of(busy, threads(), items)
}

fn about_of(busy: usize, threads: usize, items: &str) -> String {
    match (busy, threads) {
        (1, 1) => "1 thread: this process may use one processor".into(),
        (1, _) => format!("1 thread: too few {items} for more"),
        _ => format!("{busy} threads"),
    }
}

/// Pins the calling thread to the `index`-th available processor. Does nothing if the system refuses.
#[cfg(feature = "rayon")]
fn pin(index: usize) {
    if let Some(cpu) = processors().get(index) {
        pin_to(*cpu);
    }
}

/// Processors available to the calling thread; empty if the system does not report them.
#[cfg(target_os = "linux")]
fn processors() -> Vec<usize> {
    use nix::sched::{CpuSet, sched_getaffinity};
    let Ok(allowed) = sched_getaffinity(nix::unistd::Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect()
}

#[cfg(target_os = "linux")]
fn pin_to(cpu: usize) {
    use nix::sched::{CpuSet, sched_setaffinity};
    let mut only = CpuSet::new();
    if only.set(cpu).is_ok() {
        let _ = sched_setaffinity(nix::unistd::Pid::from_raw(0), &only);
    }
}

/// The processor that the calling thread is currently on.
#[cfg(target_os = "linux")]
fn processor() -> Option<usize> {
    nix::sched::sched_getcpu().ok()
}

#[cfg(not(target_os = "linux"))]
fn processors() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
fn pin_to(_: usize) {}

#[cfg(not(target_os = "linux"))]
fn processor() -> Option<usize> {
    None
}

#[cfg(all(test, feature = "rayon"))]
mod tests {
    use rayon::prelude::*;

    #[test]
    fn one_thread_has_its_reason() {
        let of = |busy, threads| super::about_of(busy, threads, "rows");
        assert_eq!(of(1, 1), "1 thread: this process may use one processor");
        assert_eq!(of(1, 2), "1 thread: too few rows for more");
        assert_eq!(of(2, 2), "2 threads");
    }

    #[test]
    fn every_piece_is_done_once_on_threads_of_the_pool() {
        // Read here, because a pinned pool thread has only one processor.
        let threads = super::threads();
        let sum: u64 = super::run(|| {
            assert_eq!(rayon::current_num_threads(), threads);
            (0..10_000_u64).into_par_iter().sum()
        });
        assert_eq!(sum, 49_995_000);
    }

    #[test]
    fn a_thread_alone_does_every_piece_itself() {
        let me = std::thread::current().id();
        for _ in 0..2 {
            let threads: Vec<_> =
                super::alone(|| (0..100).into_par_iter().map(|_| std::thread::current().id()).collect());
            assert!(threads.len() == 100 && threads.iter().all(|thread| *thread == me));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn each_thread_stays_on_its_own_processor() {
        use nix::sched::{CpuSet, sched_getaffinity};
        let homes: Vec<Vec<usize>> = super::run(|| {
            rayon::broadcast(|_| {
                let set = sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
                (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
            })
        });
        assert!(homes.iter().all(|home| home.len() == 1), "{homes:?}");
        let different: std::collections::BTreeSet<usize> = homes.iter().flatten().copied().collect();
        assert_eq!(different.len(), homes.len());
    }
}
