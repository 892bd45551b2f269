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
//! threads live at the same time, the others share counters, which costs about 10 ns more for each call; the track of
//! the heap includes their bytes when another thread reports a change.

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
    /// Bytes allocated minus bytes freed. A thread may free what others allocated, so this and the limits below are
    /// signed (two's complement).
    live: AtomicU64,
    /// [`live`](Shard::live) above this sets a new peak, or differs by [`STEP`] from the last report.
    high: AtomicU64,
    /// [`live`](Shard::live) below this differs by [`STEP`] from the last report.
    low: AtomicU64,
    /// Largest value of [`live`](Shard::live) since a [`Mark`] was set.
    peak: AtomicU64,
    owned: AtomicBool,
}

const SHARDS: usize = if cfg!(miri) { 32 } else { 512 };
static COUNTERS: [Shard; SHARDS] = [const {
    Shard {
        allocations: AtomicU64::new(0),
        allocated: AtomicU64::new(0),
        live: AtomicU64::new(0),
        high: AtomicU64::new(0),
        low: AtomicU64::new(STEP.wrapping_neg()),
        peak: AtomicU64::new(0),
        owned: AtomicBool::new(false),
    }
}; SHARDS];
static USED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The shard of this thread; `None` before its first call and if it uses the shared one.
    static MINE: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    /// The shard of this thread while [`apart`] keeps it from counting.
    static ASIDE: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    /// True once this thread has looked for a shard.
    static LOOKED: Cell<bool> = const { Cell::new(false) };
    static RELEASE: Release = const { Release(Cell::new(None)) };
}

/// Frees the shard of a thread when the thread ends; the totals stay and the next owner adds to them.
struct Release(Cell<Option<&'static Shard>>);

impl Drop for Release {
    fn drop(&mut self) {
        MINE.set(None);
        if let Some(shard) = self.0.take() {
            shard.owned.store(false, std::sync::atomic::Ordering::Release);
        }
    }
}

/// A thread reports to [`heap`] when its balance has changed by this many bytes, so samples lack at most that much per
/// thread.
const STEP: u64 = 32 << 10;

/// The totals so far; `None` if [`Counting`] is not this program's allocator.
pub fn counts() -> Option<Counts> {
    // Every Rust program allocates before main, so an installed allocator has been called by now.
    let used = USED.load(Relaxed) as usize;
    let mut sums = [0_u64; 3];
    for shard in COUNTERS.iter().take(used) {
        for (sum, value) in sums.iter_mut().zip([&shard.allocations, &shard.allocated, &shard.live]) {
            *sum = sum.wrapping_add(value.load(Relaxed));
        }
    }
    let [allocations, allocated_bytes, live] = sums;
    (used > 0).then(|| Counts {
        allocations,
        allocated_bytes,
        // A thread may free a block after its own counters were read here and before those of the thread that made it.
        live_bytes: u64::try_from(live.cast_signed()).unwrap_or(0),
    })
}

/// Takes a shard for the calling thread, on its first call; `None` if it uses the shared one.
#[cold]
fn claim() -> Option<&'static Shard> {
    // Registering the destructor below may allocate; those calls go to the shared shard.
    if LOOKED.replace(true) {
        return None;
    }
    let free = |shard: &&Shard| {
        shard.owned.compare_exchange(false, true, std::sync::atomic::Ordering::Acquire, Relaxed).is_ok()
    };
    let at = COUNTERS.iter().skip(1).position(|shard| free(&shard)).map(|at| at + 1);
    USED.fetch_max(at.map_or(1, |at| at as u32 + 1), Relaxed);
    let shard = COUNTERS.get(at?)?;
    if RELEASE.try_with(|release| release.0.set(Some(shard))).is_ok() {
        MINE.set(Some(shard));
    }
    MINE.get()
}

/// The shard that counts for the spans of this thread.
#[inline]
fn shard() -> Option<&'static Shard> {
    MINE.get().or_else(|| ASIDE.get()).or_else(claim)
}

#[must_use]
pub(crate) struct Back(Option<&'static Shard>);

impl Drop for Back {
    fn drop(&mut self) {
        if self.0.is_some() {
            ASIDE.set(None);
            MINE.set(self.0);
        }
    }
}

/// While this lives, a part of the profiler runs: what it allocates and frees counts for the process, but not for the
/// spans of this thread.
#[inline]
pub(crate) fn apart() -> Back {
    // Within another such part the shard has already been put aside.
    let mine = if USED.load(Relaxed) == 0 { None } else { MINE.get().or_else(claim) };
    if mine.is_some() {
        ASIDE.set(mine);
        MINE.set(None);
    }
    Back(mine)
}

/// Adds to a value that only this thread writes; returns the sum.
#[inline]
fn add(value: &AtomicU64, more: u64) -> u64 {
    let sum = value.load(Relaxed).wrapping_add(more);
    value.store(sum, Relaxed);
    sum
}

#[inline]
fn count_new(size: u64) {
    let Some(shard) = MINE.get() else { return count_slowly(1, size, size) };
    add(&shard.allocations, 1);
    add(&shard.allocated, size);
    let live = add(&shard.live, size);
    if live.cast_signed() > shard.high.load(Relaxed).cast_signed() {
        shard.pass(live);
    }
}

#[inline]
fn count_freed(size: u64) {
    let Some(shard) = MINE.get() else { return count_slowly(0, 0, size.wrapping_neg()) };
    let live = add(&shard.live, size.wrapping_neg());
    if live.cast_signed() < shard.low.load(Relaxed).cast_signed() {
        shard.pass(live);
    }
}

#[inline]
fn count_resized(old: u64, new: u64) {
    let Some(shard) = MINE.get() else { return count_slowly(1, new, new.wrapping_sub(old)) };
    shard.count(1, new, new.wrapping_sub(old));
}

/// Counts for a thread that has no shard yet, or that shares one.
#[cold]
fn count_slowly(allocations: u64, allocated: u64, more: u64) {
    match claim() {
        Some(shard) => shard.count(allocations, allocated, more),
        None => {
            let [shared, ..] = &COUNTERS;
            USED.fetch_max(1, Relaxed);
            shared.allocations.fetch_add(allocations, Relaxed);
            shared.allocated.fetch_add(allocated, Relaxed);
            shared.live.fetch_add(more, Relaxed);
        }
    }
}

impl Shard {
    fn count(&self, allocations: u64, allocated: u64, more: u64) {
        add(&self.allocations, allocations);
        add(&self.allocated, allocated);
        let live = add(&self.live, more).cast_signed();
        if live > self.high.load(Relaxed).cast_signed() || live < self.low.load(Relaxed).cast_signed() {
            self.pass(live.cast_unsigned());
        }
    }

    /// Keeps the peak, and reports the balance if it has changed by a step.
    #[inline(never)]
    fn pass(&self, live: u64) {
        if live.cast_signed() > self.peak.load(Relaxed).cast_signed() {
            self.peak.store(live, Relaxed);
        }
        // The last report is a step above the lower limit.
        let low = live.wrapping_sub(STEP);
        let change = low.wrapping_sub(self.low.load(Relaxed));
        if change.wrapping_add(STEP) > 2 * STEP {
            self.low.store(low, Relaxed);
            heap::change(change);
        }
        self.set_high();
    }

    /// Sets the upper limit from the peak and the last report.
    fn set_high(&self) {
        let reported_high = self.low.load(Relaxed).wrapping_add(2 * STEP).cast_signed();
        self.high.store(reported_high.min(self.peak.load(Relaxed).cast_signed()).cast_unsigned(), Relaxed);
    }

    fn set_peak(&self, peak: u64) {
        self.peak.store(peak, Relaxed);
        self.set_high();
    }
}

/// Calls a function and returns its result with what the calling thread allocated meanwhile.
///
/// # Errors
/// Returns the function, without calling it, if [`Counting`] is not this program's allocator or the thread shares its
/// counters.
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
    live: u64,
    outer_peak: u64,
}

impl Mark {
    /// Starts a count for the calling thread, and a new peak. `None` if the allocator is not installed or the thread
    /// shares its counters.
    pub(crate) fn set() -> Option<Self> {
        if USED.load(Relaxed) == 0 {
            return None;
        }
        let shard = shard()?;
        let mark = Self::of(shard);
        shard.set_peak(mark.live);
        Some(mark)
    }

    fn of(shard: &Shard) -> Self {
        Self {
            allocations: shard.allocations.load(Relaxed),
            allocated: shard.allocated.load(Relaxed),
            live: shard.live.load(Relaxed),
            outer_peak: shard.peak.load(Relaxed),
        }
    }

    /// What the thread allocated since; the peak of the enclosing span continues. Zero if the thread has given its
    /// counters back, because it is ending.
    pub(crate) fn finish(self) -> MemoryUse {
        let Some(shard) = MINE.get().or_else(|| ASIDE.get()) else { return MemoryUse::default() };
        let now = Self::of(shard);
        if self.outer_peak.cast_signed() > now.outer_peak.cast_signed() {
            shard.set_peak(self.outer_peak);
        }
        let allocated_bytes = now.allocated.wrapping_sub(self.allocated);
        MemoryUse {
            allocations: now.allocations.wrapping_sub(self.allocations),
            allocated_bytes,
            freed_bytes: allocated_bytes.wrapping_sub(now.live.wrapping_sub(self.live)),
            peak_bytes: u64::try_from(now.outer_peak.wrapping_sub(self.live).cast_signed()).unwrap_or(0),
        }
    }
}

#[allow(unsafe_code)]
// SAFETY: every call goes to `System` unchanged, which upholds the contract of GlobalAlloc; the counters neither
// panic nor allocate, except once for each thread through `claim`, whose own calls find a shard set.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract; the arguments are passed on unchanged.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            count_new(layout.size() as u64);
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            count_new(layout.size() as u64);
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count_freed(layout.size() as u64);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.realloc(block, layout, new_size) };
        if !block.is_null() {
            count_resized(layout.size() as u64, new_size as u64);
        }
        block
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
    fn failed_allocations_are_not_counted() {
        let mut grown = vec![1_u8; 10];
        let mark = Mark::set().unwrap();
        assert!(Vec::<u8>::new().try_reserve(1 << 60).is_err());
        assert!(grown.try_reserve(1 << 60).is_err());
        let memory = mark.finish();
        assert_eq!((memory.allocations, memory.allocated_bytes, memory.peak_bytes), (0, 0, 0), "{memory:?}");
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
