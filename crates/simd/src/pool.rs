//! The threads of the `parallel` implementations: one for each processor that this process may use, and each stays on its own.
//!
//! Left to itself, Linux wakes both threads of a two-processor machine on the same processor more often than not, and keeps
//! them there for longer than a kernel of ten milliseconds takes: in two slots out of three nothing ran in parallel. Work is
//! dealt out in several pieces a thread, so that a processor that is taken away for a while delays its own piece only.
//!
//! There are two pools: a team that spins a while before it sleeps ([`for_each_chunk`], [`for_each_slice`],
//! [`for_each_part`]) for work of microseconds, and rayon's (`run`, feature `rayon`) for parallel iterators over work of
//! milliseconds.

use std::sync::OnceLock;

#[cfg(feature = "rayon")]
use rayon::{ThreadPool, ThreadPoolBuilder};

mod slices;
mod team;

pub use slices::{for_each_part, for_each_slice};
pub use team::{for_each_chunk, for_each_chunk_on, most_threads};

/// Runs `work` on rayon's pool of pinned threads, which its parallel iterators use. Rayon's global pool does it if that pool
/// cannot be made.
#[cfg(feature = "rayon")]
pub fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        let stay = |index| format!("ellwand-{index}");
        ThreadPoolBuilder::new().num_threads(threads()).thread_name(stay).start_handler(pin).build().ok()
    });
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// Threads of the pool. Asked of the system once: it reads files to answer, which takes 27 us where a job takes one.
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Puts the calling thread on the `index`-th processor that it may use. A system that refuses is left alone.
#[cfg(feature = "rayon")]
fn pin(index: usize) {
    if let Some(cpu) = processors().get(index) {
        pin_to(*cpu);
    }
}

/// The processors that the calling thread may use; empty where the system does not tell.
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

/// The processor that the calling thread is on at this moment.
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
    fn every_piece_is_done_once_on_threads_of_the_pool() {
        // Asked here, because a thread of the pool may use one processor only.
        let threads = super::threads();
        let sum: u64 = super::run(|| {
            assert_eq!(rayon::current_num_threads(), threads);
            (0..10_000_u64).into_par_iter().sum()
        });
        assert_eq!(sum, 49_995_000);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn each_thread_stays_on_a_processor_of_its_own() {
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
