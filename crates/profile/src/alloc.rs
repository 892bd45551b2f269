//! Heap accounting: a wrapper around the system allocator that counts calls and bytes, by thread.
//!
//! Install it in a binary:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: ellwand_profile::alloc::Counting = ellwand_profile::alloc::Counting;
//! ```
//!
//! A thread counts in memory that only it writes, without atomic read-modify-write instructions. If more than 511
//! threads live at the same time, the others share counters, which costs about 10 ns more for each call.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::detail::MemoryUse;
use crate::heap;

/// The system allocator with counters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

/// Allocation totals of all threads since the program started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Calls that allocated, grew or shrank a block.
    pub allocations: u64,
    /// Bytes requested, before rounding by the allocator.
    pub allocated_bytes: u64,
    /// Bytes allocated and not yet freed.
    pub live_bytes: u64,
}

/// Counters of one thread, on a cache line. Shard 0 is shared by the threads that found no free one.
#[repr(align(64))]
struct Shard {
    allocations: AtomicU64,
    allocated: AtomicU64,
    freed: AtomicU64,
    /// Largest difference between allocated and freed since a [`Mark`] was set. A thread may free what others
    /// allocated, so differences are signed (two's complement).
    peak: AtomicU64,
    /// Difference when the heap was last sampled.
    sampled: AtomicU64,
    owned: AtomicBool,
}

const SHARDS: usize = if cfg!(miri) { 32 } else { 512 };
static COUNTERS: [Shard; SHARDS] = [const {
    Shard {
        allocations: AtomicU64::new(0),
        allocated: AtomicU64::new(0),
        freed: AtomicU64::new(0),
        peak: AtomicU64::new(0),
        sampled: AtomicU64::new(0),
        owned: AtomicBool::new(false),
    }
}; SHARDS];
/// Shards that were ever used.
static USED: AtomicU32 = AtomicU32::new(0);

const SHARED: u32 = 0;
const UNKNOWN: u32 = u32::MAX;

thread_local! {
    static MINE: Cell<u32> = const { Cell::new(UNKNOWN) };
    static RELEASE: Release = const { Release(Cell::new(SHARED)) };
}

/// Frees the shard of a thread when the thread ends; the totals stay and the next owner adds to them.
struct Release(Cell<u32>);

impl Drop for Release {
    fn drop(&mut self) {
        MINE.set(SHARED);
        if let Some(shard) = COUNTERS.get(self.0.get() as usize) {
            shard.owned.store(false, std::sync::atomic::Ordering::Release);
        }
    }
}

/// A change of the thread's balance by this many bytes is a sample of the heap.
const STEP: u64 = 256 << 10;

/// The totals so far; `None` if [`Counting`] is not this program's allocator.
pub fn counts() -> Option<Counts> {
    // Every Rust program allocates before main, so an installed allocator has been called by now.
    let used = USED.load(Relaxed) as usize;
    let mut sums = [0_u64; 3];
    for shard in COUNTERS.iter().take(used) {
        for (sum, value) in sums.iter_mut().zip([&shard.allocations, &shard.allocated, &shard.freed]) {
            *sum = sum.wrapping_add(value.load(Relaxed));
        }
    }
    let [allocations, allocated_bytes, freed] = sums;
    (used > 0).then(|| Counts { allocations, allocated_bytes, live_bytes: allocated_bytes.saturating_sub(freed) })
}

/// Takes a shard for the calling thread.
#[cold]
fn claim() -> u32 {
    // Registering the destructor below may allocate; those calls go to the shared shard.
    MINE.set(SHARED);
    let free = |shard: &&Shard| {
        shard.owned.compare_exchange(false, true, std::sync::atomic::Ordering::Acquire, Relaxed).is_ok()
    };
    let found = COUNTERS.iter().skip(1).position(|shard| free(&shard)).map_or(SHARED, |at| at as u32 + 1);
    USED.fetch_max(found + 1, Relaxed);
    if found != SHARED && RELEASE.try_with(|release| release.0.set(found)).is_ok() {
        MINE.set(found);
    }
    MINE.get()
}

#[inline]
fn shard() -> (u32, &'static Shard) {
    let mut mine = MINE.get();
    if mine == UNKNOWN {
        mine = claim();
    }
    (mine, COUNTERS.get(mine as usize).unwrap_or(&COUNTERS[0]))
}

#[inline]
fn count(allocations: u64, allocated: u64, freed: u64) {
    let (mine, shard) = shard();
    if mine == SHARED {
        return count_shared(shard, allocations, allocated, freed);
    }
    let add = |value: &AtomicU64, more: u64| {
        let sum = value.load(Relaxed).wrapping_add(more);
        value.store(sum, Relaxed);
        sum
    };
    if allocations > 0 {
        add(&shard.allocations, allocations);
    }
    let allocated = if allocated > 0 { add(&shard.allocated, allocated) } else { shard.allocated.load(Relaxed) };
    let freed = if freed > 0 { add(&shard.freed, freed) } else { shard.freed.load(Relaxed) };
    let live = allocated.wrapping_sub(freed);
    if live.cast_signed() > shard.peak.load(Relaxed).cast_signed() {
        shard.peak.store(live, Relaxed);
    }
    if live.wrapping_sub(shard.sampled.load(Relaxed)).wrapping_add(STEP) > 2 * STEP {
        sample(shard, live);
    }
}

#[cold]
fn count_shared(shard: &Shard, allocations: u64, allocated: u64, freed: u64) {
    USED.fetch_max(1, Relaxed);
    shard.allocations.fetch_add(allocations, Relaxed);
    shard.allocated.fetch_add(allocated, Relaxed);
    shard.freed.fetch_add(freed, Relaxed);
}

#[cold]
fn sample(shard: &Shard, live: u64) {
    shard.sampled.store(live, Relaxed);
    if heap::is_watched() {
        heap::sample(counts().map_or(0, |counts| counts.live_bytes));
    }
}

/// Calls a function and returns its result with what the calling thread allocated meanwhile.
///
/// # Errors
/// The function, not called, if [`Counting`] is not this program's allocator or the thread shares its counters.
pub fn during<T, F: FnOnce() -> T>(f: F) -> Result<(T, MemoryUse), F> {
    let Some(mark) = Mark::set() else { return Err(f) };
    let result = f();
    Ok((result, mark.finish()))
}

/// The counters of this thread at the start of a span.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    allocations: u64,
    allocated: u64,
    freed: u64,
    outer_peak: u64,
}

impl Mark {
    /// Starts a count for the calling thread, and a new peak. `None` if the allocator is not installed or the thread
    /// shares its counters.
    pub(crate) fn set() -> Option<Self> {
        if USED.load(Relaxed) == 0 {
            return None;
        }
        let (mine, shard) = shard();
        let mark = Self {
            allocations: shard.allocations.load(Relaxed),
            allocated: shard.allocated.load(Relaxed),
            freed: shard.freed.load(Relaxed),
            outer_peak: shard.peak.load(Relaxed),
        };
        (mine != SHARED).then(|| {
            shard.peak.store(mark.live(), Relaxed);
            mark
        })
    }

    fn live(self) -> u64 {
        self.allocated.wrapping_sub(self.freed)
    }

    /// What the thread allocated since; the peak of the span around continues.
    pub(crate) fn finish(self) -> MemoryUse {
        let (_, shard) = shard();
        let peak = shard.peak.load(Relaxed);
        if self.outer_peak.cast_signed() > peak.cast_signed() {
            shard.peak.store(self.outer_peak, Relaxed);
        }
        MemoryUse {
            allocations: shard.allocations.load(Relaxed).wrapping_sub(self.allocations),
            allocated_bytes: shard.allocated.load(Relaxed).wrapping_sub(self.allocated),
            freed_bytes: shard.freed.load(Relaxed).wrapping_sub(self.freed),
            peak_bytes: u64::try_from(peak.wrapping_sub(self.live()).cast_signed()).unwrap_or(0),
        }
    }
}

#[allow(unsafe_code)]
// SAFETY: every call goes to `System` unchanged, which upholds the contract of GlobalAlloc; the counters neither
// panic nor allocate, except once for each thread through `claim`, whose own calls find a shard set.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as u64, 0);
        // SAFETY: the caller upholds the contract; the arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as u64, 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, 0, layout.size() as u64);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(1, new_size as u64, layout.size() as u64);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn a_live_block_is_counted() {
        // Other tests of this binary allocate too, hence inequalities and a block far larger than theirs.
        const SIZE: usize = 256 << 20;
        let before = counts().unwrap();
        let block: Vec<u8> = Vec::with_capacity(SIZE);
        let during = counts().unwrap();
        assert!(during.allocations > before.allocations);
        assert!(during.live_bytes >= before.live_bytes + SIZE as u64 / 2);
        assert!(block.capacity() >= SIZE);
        drop(block);
        assert!(counts().unwrap().live_bytes < before.live_bytes + SIZE as u64 / 2);
    }

    #[test]
    fn marks_nest_and_count_this_thread_only() {
        let outer = Mark::set().unwrap();
        let kept = vec![1_u8; 1000];
        let inner = Mark::set().unwrap();
        drop(vec![1_u8; 5000]);
        drop(std::thread::spawn(|| drop(vec![1_u8; 1 << 20])).join());
        let inner = inner.finish();
        drop(kept);
        let outer = outer.finish();
        assert!(inner.allocations >= 1 && inner.allocated_bytes >= 5000);
        assert!((5000..9000).contains(&inner.peak_bytes), "{inner:?}");
        assert!((6000..10_000).contains(&outer.peak_bytes), "{outer:?}");
        assert!(outer.allocated_bytes < 1 << 20 && outer.freed_bytes >= 6000, "{outer:?}");
    }

    #[test]
    fn threads_return_their_counters_and_the_totals_stay() {
        let before = counts().unwrap();
        for _ in 0..2 * SHARDS {
            std::thread::spawn(|| drop(vec![0_u8; 100])).join().unwrap();
        }
        let after = counts().unwrap();
        assert!(after.allocated_bytes >= before.allocated_bytes + 200 * SHARDS as u64);
        // Threads of other tests come and go, so not every shard is free, but most are.
        assert!(COUNTERS.iter().filter(|shard| shard.owned.load(Relaxed)).count() < SHARDS / 2);
    }

    #[test]
    fn a_free_of_another_thread_is_no_underflow() {
        let block = vec![7_u8; 10_000];
        let freed = std::thread::spawn(move || {
            let mark = Mark::set()?;
            drop(block);
            Some(mark.finish())
        });
        let freed = freed.join().unwrap().unwrap();
        assert_eq!((freed.allocations, freed.freed_bytes, freed.peak_bytes), (0, 10_000, 0));
    }
}
