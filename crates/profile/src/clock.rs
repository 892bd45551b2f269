//! The tick clock of spans: the processor's time-stamp counter where it may be trusted, else the monotonic clock.
//!
//! The counter is trusted when the processor says that it runs at one rate whatever the core does (CPUID 8000_0007h EDX
//! bit 8, "invariant TSC") and the kernel itself keeps time with it, which it stops doing as soon as its watchdog sees
//! the counters of two processors disagree. A pair of readings then costs about 19 ns against 47 ns for the monotonic
//! clock. The readings are not fenced: a few instructions may cross the ends of a span.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What ticks are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockKind {
    /// The time-stamp counter of an x86-64 processor.
    Tsc,
    /// The monotonic clock of the system; a tick is a nanosecond.
    Monotonic,
}

impl ClockKind {
    /// `tsc` or `monotonic`.
    pub fn word(self) -> &'static str {
        match self {
            ClockKind::Tsc => "tsc",
            ClockKind::Monotonic => "monotonic",
        }
    }
}

/// How ticks become nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// What ticks are.
    pub kind: ClockKind,
    /// Length of a tick in nanoseconds.
    pub ns_per_tick: f64,
    /// Bound of the relative error of that length: the width of the two bracketed readings over the time between them.
    pub relative_error: f64,
}

impl Calibration {
    /// Nanoseconds in so many ticks.
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }
}

const UNKNOWN: u8 = 0;
const TSC: u8 = 1;
const MONOTONIC: u8 = 2;

static KIND: AtomicU8 = AtomicU8::new(UNKNOWN);
static BASE: OnceLock<Instant> = OnceLock::new();
static ANCHOR: OnceLock<Anchor> = OnceLock::new();

/// One moment on both clocks.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    at: Instant,
    ticks: u64,
    /// Width of the bracket in which both were read.
    width: Duration,
}

impl Anchor {
    /// The narrowest of some readings of the counter between two readings of the monotonic clock.
    fn take() -> Self {
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

/// Least time between the two moments of a calibration. A bracket is some 50 ns wide, so that this leaves an error
/// around 1e-5; sessions that last longer leave less.
const APART: Duration = Duration::from_millis(5);

/// The time now, in ticks of the clock that [`calibration`] names.
#[inline]
pub fn ticks() -> u64 {
    match KIND.load(Relaxed) {
        #[cfg(target_arch = "x86_64")]
        TSC => counter(),
        MONOTONIC => monotonic(),
        _ => {
            choose();
            ticks()
        }
    }
}

/// Length of a tick, by two moments that lie apart: the first use of the clock in this process and now. Waits up to 5 ms
/// if that was just now.
pub fn calibration() -> Calibration {
    if choose() == ClockKind::Monotonic {
        return Calibration { kind: ClockKind::Monotonic, ns_per_tick: 1.0, relative_error: 0.0 };
    }
    let first = *ANCHOR.get_or_init(Anchor::take);
    if let Some(wait) = APART.checked_sub(first.at.elapsed()) {
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

/// Decides once which clock this process uses.
fn choose() -> ClockKind {
    let known = KIND.load(Relaxed);
    if known != UNKNOWN {
        return if known == TSC { ClockKind::Tsc } else { ClockKind::Monotonic };
    }
    BASE.get_or_init(Instant::now);
    let kind = if trusted() { ClockKind::Tsc } else { ClockKind::Monotonic };
    // Two threads that get here at once decide alike.
    KIND.store(if kind == ClockKind::Tsc { TSC } else { MONOTONIC }, Relaxed);
    if kind == ClockKind::Tsc {
        ANCHOR.get_or_init(Anchor::take);
    }
    kind
}

fn monotonic() -> u64 {
    let base = *BASE.get_or_init(Instant::now);
    u64::try_from(base.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[inline]
fn counter() -> u64 {
    // SAFETY: the instruction reads a register and touches no memory; every x86-64 processor has it. An operating system
    // may forbid it to programs, but then it does not keep its own time with it where programs read it (see `trusted`).
    unsafe { core::arch::x86_64::_rdtsc() }
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
    fn ticks_never_go_back_and_agree_with_the_monotonic_clock() {
        let mut last = ticks();
        for _ in 0..10_000 {
            let now = ticks();
            assert!(now >= last);
            last = now;
        }
        // Ticks between two moments, bracketed from inside and outside by the other clock: an order, not a duration.
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
