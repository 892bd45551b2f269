//! Forks. A child has only the thread that forked: a lock held by another thread would stay locked in the child for
//! ever. So every lock of the profiler is taken inside a gate, and a fork waits until all other threads are outside it.
//! Spans take no lock and pass no gate.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

/// Threads inside, on separate cache lines: threads that lock different lanes do not contend for one counter.
#[repr(align(64))]
struct Shard(AtomicU32);

const SHARDS: usize = 64;
static INSIDE: [Shard; SHARDS] = [const { Shard(AtomicU32::new(0)) }; SHARDS];
/// True while a thread forks: no other thread may go inside.
static FORKING: AtomicBool = AtomicBool::new(false);
/// Threads that were ever inside.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Number of forks from the first process that recorded to this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Changes in the child of a fork, where the CPU clock of the thread starts at 0 again.
pub(crate) fn generation() -> u32 {
    FORKS.load(Relaxed)
}

/// A thread's own state.
struct Seat {
    /// Number of open gates of this thread, one inside another; only the outermost counts.
    depth: Cell<u32>,
    shard: Cell<Option<&'static Shard>>,
}

thread_local! {
    static SEAT: Seat = const { Seat { depth: Cell::new(0), shard: Cell::new(None) } };
}

impl Seat {
    fn shard(&self) -> &'static AtomicU32 {
        let next = || &INSIDE[THREADS.fetch_add(1, Relaxed) % SHARDS];
        let shard = self.shard.get().unwrap_or_else(next);
        self.shard.set(Some(shard));
        &shard.0
    }

    /// Goes inside unless another thread forks.
    fn try_enter(&self) -> bool {
        if self.depth.get() == 0 {
            // Both operations are sequentially consistent, so either this thread sees the fork or the fork sees this
            // thread.
            self.shard().fetch_add(1, SeqCst);
            if FORKING.load(SeqCst) {
                self.shard().fetch_sub(1, SeqCst);
                return false;
            }
        }
        self.depth.set(self.depth.get() + 1);
        true
    }
}

/// A thread inside the gate: while this lives, no other thread can fork.
#[derive(Debug)]
pub(crate) struct Inside(());

impl Inside {
    /// Goes inside, after waiting for any fork in progress.
    pub(crate) fn enter() -> Self {
        loop {
            match Self::try_enter() {
                Some(inside) => return inside,
                None => pause(),
            }
        }
    }

    /// `None` while another thread forks.
    pub(crate) fn try_enter() -> Option<Self> {
        SEAT.with(Seat::try_enter).then(|| Self(()))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        SEAT.with(|seat| {
            seat.depth.set(seat.depth.get() - 1);
            if seat.depth.get() == 0 {
                seat.shard().fetch_sub(1, SeqCst);
            }
        });
    }
}

/// The value of a cell, made on the first call. Made outside the cell's lock, so a slow initialisation does not hold
/// the lock during a fork. Two threads may both make a value; the first one stays.
pub(crate) fn once<T>(cell: &OnceLock<T>, value: impl FnOnce() -> T) -> &T {
    cell.get().unwrap_or_else(|| {
        let value = value();
        let _inside = Inside::enter();
        cell.get_or_init(|| value)
    })
}

/// Sleeps: a high-priority thread that only yields could keep the thread it waits for from running.
fn pause() {
    std::thread::sleep(Duration::from_micros(20));
}

/// Makes forks of this process wait for the gate, from the first call on.
#[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri)))]
#[allow(unsafe_code)]
pub(crate) fn guard() {
    type Handler = extern "C" fn();
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> i32;
    }
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Relaxed) {
        // SAFETY: the C library, which std links, has this function with these types on the systems named above. The
        // handlers are functions of this program that do not unwind. It fails only if memory is short; forks then do
        // not wait.
        unsafe { pthread_atfork(before, in_parent, in_child) };
    }

    /// Runs in the thread that forks.
    extern "C" fn before() {
        SEAT.with(|seat| {
            if seat.depth.get() == 0 {
                while FORKING.swap(true, SeqCst) {
                    pause();
                }
                while INSIDE.iter().any(|shard| shard.0.load(SeqCst) > 0) {
                    pause();
                }
            }
            // What this thread runs until the fork, such as other libraries' handlers, may take locks.
            seat.depth.set(seat.depth.get() + 1);
        });
    }

    extern "C" fn in_parent() {
        SEAT.with(|seat| {
            seat.depth.set(seat.depth.get() - 1);
            if seat.depth.get() == 0 {
                FORKING.store(false, SeqCst);
            }
        });
    }

    extern "C" fn in_child() {
        FORKS.fetch_add(1, Relaxed);
        SEAT.with(|seat| {
            seat.depth.set(seat.depth.get() - 1);
            // The other threads do not exist here, not even those that were about to see the fork.
            INSIDE.iter().for_each(|shard| shard.0.store(0, SeqCst));
            if seat.depth.get() > 0 {
                seat.shard().store(1, SeqCst);
            }
            FORKING.store(false, SeqCst);
        });
    }
}

#[cfg(not(all(any(target_os = "linux", target_os = "macos"), not(miri))))]
pub(crate) fn guard() {}
