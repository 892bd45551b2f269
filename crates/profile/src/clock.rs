//! The tick clock of spans: the CPU's time-stamp counter if it is reliable, otherwise the monotonic clock.
//!
//! The counter is reliable if the CPU reports a constant rate (CPUID 8000_0007h EDX bit 8, "invariant TSC") and the
//! kernel uses it as its clock source; the kernel's watchdog stops that if the counters of two CPUs disagree. A pair of
//! readings costs about 19 ns, against 47 ns for the monotonic clock. Readings are not fenced: a few instructions may
//! move across the ends of a span.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::fork::once;

crate::words! {
    /// The source of ticks.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ClockKind {
        /// The time-stamp counter of an x86-64 processor.
        Tsc = "tsc",
        /// The monotonic clock of the system; a tick is 1 ns.
        Monotonic = "monotonic",
        /// The clock of another program; profile files omit it.
        Unknown = "unknown",
    }
    /// The name as stored in records: `tsc`, `monotonic` or `unknown`.
    fn word;
}

/// The conversion from ticks to nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// The source of ticks.
    pub kind: ClockKind,
    /// Length of a tick in nanoseconds.
    pub ns_per_tick: f64,
    /// Bound on the relative error of that length: the widths of the two bracketed readings divided by the time between
    /// them.
    pub relative_error: f64,
}

/// A clock whose ticks are nanoseconds.
impl Default for Calibration {
    fn default() -> Self {
        Self { kind: ClockKind::Unknown, ns_per_tick: 1.0, relative_error: 0.0 }
    }
}

impl Calibration {
    /// Converts `ticks` to nanoseconds.
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }
}

const UNKNOWN: u8 = 0;
const TSC: u8 = 1;
const MONOTONIC: u8 = 2;

static KIND: AtomicU8 = AtomicU8::new(UNKNOWN);
static ANCHOR: OnceLock<Anchor> = OnceLock::new();

/// The moment from which ticks of the monotonic clock count.
fn anchor() -> Anchor {
    *once(&ANCHOR, Anchor::take)
}

/// One moment read on both clocks.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    at: Instant,
    ticks: u64,
    /// Width of the bracket around both readings.
    width: Duration,
}

impl Anchor {
    /// The narrowest of several brackets: a counter reading between two readings of the monotonic clock.
    fn take() -> Self {
        if choose() == ClockKind::Monotonic {
            return Self { at: Instant::now(), ticks: 0, width: Duration::ZERO };
        }
        let bracket = || {
            let before = Instant::now();
            let ticks = ticks();
            let after = Instant::now();
            Anchor { at: before + (after - before) / 2, ticks, width: after - before }
        };
        let first = bracket();
        (0..15).map(|_| bracket()).fold(first, |best, next| if next.width < best.width { next } else { best })
    }
}

/// Shortest time between the two anchors of a calibration. Brackets are about 50 ns wide, so the relative error is
/// about 1e-5, and less for longer sessions.
const CALIBRATION_MIN: Duration = Duration::from_millis(5);

/// The current time in ticks of the clock that [`calibration`] describes.
#[inline]
pub fn ticks() -> u64 {
    match KIND.load(Relaxed) {
        #[cfg(target_arch = "x86_64")]
        TSC => counter(),
        _ => other_ticks(),
    }
}

/// Ticks of the monotonic clock; the first reading chooses the clock.
#[inline(never)]
fn other_ticks() -> u64 {
    match choose() {
        #[cfg(target_arch = "x86_64")]
        ClockKind::Tsc => counter(),
        _ => monotonic(),
    }
}

/// Shortest time between the anchors of a rough calibration: an error of 1 in 1000.
const ROUGH_MIN: Duration = Duration::from_micros(100);

/// Length of a tick in nanoseconds, to 1 in 1000 or better, for callers that cannot wait as long as [`calibration`]
/// may.
pub(crate) fn rough_ns_per_tick() -> f64 {
    calibrated(ROUGH_MIN).ns_per_tick
}

/// Calibrates the clock between its first use in this process and now. Waits until at least 5 ms have passed between
/// the two.
pub fn calibration() -> Calibration {
    calibrated(CALIBRATION_MIN)
}

fn calibrated(least: Duration) -> Calibration {
    if choose() == ClockKind::Monotonic {
        return Calibration { kind: ClockKind::Monotonic, ..Calibration::default() };
    }
    let first = anchor();
    if let Some(wait) = least.checked_sub(first.at.elapsed()) {
        std::thread::sleep(wait);
    }
    let now = Anchor::take();
    let elapsed = now.at.duration_since(first.at).as_nanos() as f64;
    let counted = now.ticks.saturating_sub(first.ticks).max(1) as f64;
    Calibration {
        kind: ClockKind::Tsc,
        ns_per_tick: elapsed / counted,
        relative_error: (first.width + now.width).as_nanos() as f64 / elapsed,
    }
}

/// The clock of this process, chosen on the first call.
pub(crate) fn choose() -> ClockKind {
    let known = KIND.load(Relaxed);
    if known != UNKNOWN {
        return if known == TSC { ClockKind::Tsc } else { ClockKind::Monotonic };
    }
    let kind = if trusted() { ClockKind::Tsc } else { ClockKind::Monotonic };
    // Two threads that race here make the same choice.
    KIND.store(if kind == ClockKind::Tsc { TSC } else { MONOTONIC }, Relaxed);
    anchor();
    kind
}

fn monotonic() -> u64 {
    u64::try_from(anchor().at.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[inline]
fn counter() -> u64 {
    // SAFETY: the instruction reads a register and touches no memory; every x86-64 CPU has it. If the operating system
    // forbids it to programs, the kernel does not offer it as the user-space clock source, so `trusted` is false.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// CPU time of the calling thread in nanoseconds; `None` on systems where this crate does not read it.
#[cfg(all(any(target_os = "linux", target_os = "macos"), target_pointer_width = "64", not(miri)))]
#[allow(unsafe_code)]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    /// `struct timespec` of 64-bit Linux and macOS.
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }
    const CLOCK_THREAD_CPUTIME_ID: i32 = if cfg!(target_os = "linux") { 3 } else { 16 };
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the C library, which std links, has this function with these types on the systems named above; it writes
    // one `timespec` to the valid pointer.
    let status = unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let ns = u64::try_from(time.seconds).ok()?.checked_mul(1_000_000_000)?;
    (status == 0).then_some(ns + u64::try_from(time.nanoseconds).ok()?)
}

#[cfg(not(all(any(target_os = "linux", target_os = "macos"), target_pointer_width = "64", not(miri))))]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    None
}

/// Number of the processor that the calling thread runs on; 0 on systems where this crate does not ask for it.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
#[allow(unsafe_code)]
pub(crate) fn processor() -> usize {
    unsafe extern "C" {
        fn sched_getcpu() -> i32;
    }
    // SAFETY: the C library, which std links, has this function with this type on Linux; it has no arguments.
    usize::try_from(unsafe { sched_getcpu() }).unwrap_or(0)
}

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
pub(crate) fn processor() -> usize {
    0
}

#[cfg(target_arch = "x86_64")]
fn trusted() -> bool {
    // An interpreter has no counter.
    if cfg!(miri) {
        return false;
    }
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    invariant() && source.is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(not(target_arch = "x86_64"))]
fn trusted() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
fn invariant() -> bool {
    use core::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn the_thread_clock_counts_work_and_not_sleep() {
        let before = thread_cpu_ns().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let slept = thread_cpu_ns().unwrap() - before;
        // The kernel's own accounting of this thread, in ns, as the first field.
        let kernel = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        let kernel: u64 = kernel.split(' ').next().unwrap().parse().unwrap();
        assert!(thread_cpu_ns().unwrap() >= kernel, "{kernel}");
        assert!(slept < 20_000_000, "{slept} ns of CPU time while asleep");
    }

    #[test]
    fn ticks_never_go_back_and_agree_with_the_monotonic_clock() {
        let mut last = ticks();
        for _ in 0..if cfg!(miri) { 100 } else { 10_000 } {
            let now = ticks();
            assert!(now >= last);
            last = now;
        }
        // Ticks between two moments, bracketed on both sides by the other clock: this tests the order, not a duration.
        let outer = Instant::now();
        let first = ticks();
        let inner = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        let inner = inner.elapsed().as_nanos() as f64;
        let second = ticks();
        let outer = outer.elapsed().as_nanos() as f64;
        let calibration = calibration();
        let ns = calibration.ns(second - first);
        let slack = 200.0 + outer * (calibration.relative_error + 1e-3);
        assert!(ns >= inner - slack && ns <= outer + slack, "{inner} <= {ns} <= {outer}");
    }
}
