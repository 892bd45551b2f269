//! The threads of the `parallel` implementations: one for each processor that this process may use, and each stays on its own.
//!
//! Left to itself, Linux wakes both threads of a two-processor machine on the same processor more often than not, and keeps
//! them there for longer than a kernel of ten milliseconds takes: in two slots out of three nothing ran in parallel. Work is
//! dealt out in several pieces a thread, so that a processor that is taken away for a while delays its own piece only.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Runs `work` on the pool; its parallel iterators use the pool's threads. Where no pool can be had, rayon's own does it.
pub(crate) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
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

/// Calls `work(i)` once for each piece, dealt out to the threads as they become free.
#[allow(dead_code, reason = "the first callers come with the layer operations")]
pub(crate) fn for_each_chunk(pieces: usize, work: impl Fn(usize) + Sync) {
    use rayon::prelude::*;
    run(|| (0..pieces).into_par_iter().with_max_len(1).for_each(&work));
}

/// Threads of the pool.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Puts the calling thread on the `index`-th processor that it may use. A system that refuses is left alone.
#[cfg(target_os = "linux")]
fn pin(index: usize) {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    let this_thread = Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(this_thread) else { return };
    let mut usable = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    if let Some(cpu) = usable.nth(index) {
        let mut only = CpuSet::new();
        if only.set(cpu).is_ok() {
            let _ = sched_setaffinity(this_thread, &only);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(_: usize) {}

#[cfg(test)]
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
