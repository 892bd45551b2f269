//! The heap of the process over time, sampled by the allocator while a recording measures memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::alloc;
use crate::clock::ticks;
use crate::detail::Track;
use crate::fork::Inside;
use crate::sync::locked;

/// Samples kept; when they are full, every second one is dropped.
const ROOM: usize = if cfg!(miri) { 64 } else { 8192 };

/// Number of recordings that measure memory.
static WATCHERS: AtomicU32 = AtomicU32::new(0);
/// Bytes by which the heap has changed since the last sample, as reported by threads. Signed (two's complement).
static CHANGED: AtomicU64 = AtomicU64::new(0);
/// Change in bytes that causes a sample.
const STEP: u64 = 256 << 10;
/// Bytes of the profiler's buffers, which are no part of the program's heap.
static OWN: AtomicU64 = AtomicU64::new(0);
static SAMPLES: Mutex<Samples> = Mutex::new(Samples { points: Vec::new(), spacing: 0 });

struct Samples {
    /// Ticks and live bytes at each sample.
    points: Vec<(u64, u64)>,
    /// Minimum number of ticks between samples; within them, a higher value replaces the last sample instead.
    spacing: u64,
}

impl Samples {
    fn push(&mut self, now: u64, live: u64) {
        if let Some(last) = self.points.last_mut()
            && now.saturating_sub(last.0) < self.spacing
        {
            last.1 = last.1.max(live);
            return;
        }
        if self.points.len() >= ROOM {
            self.thin(now);
        }
        // No allocation here: `watch` reserved the room, and this runs inside the allocator.
        if self.points.len() < self.points.capacity() {
            self.points.push((now, live));
        }
    }

    /// Keeps the larger of each pair of samples, so the peak stays.
    fn thin(&mut self, now: u64) {
        let pairs = self.points.len() / 2;
        for at in 0..pairs {
            let (a, b) = (self.points[2 * at], self.points[2 * at + 1]);
            self.points[at] = if a.1 > b.1 { a } else { b };
        }
        self.points.truncate(pairs);
        let first = self.points.first().map_or(now, |point| point.0);
        self.spacing = now.saturating_sub(first) / ROOM as u64;
    }
}

/// Keeps a new buffer of the profiler out of the heap.
pub(crate) fn exclude(bytes: usize) {
    OWN.fetch_add(bytes as u64, Relaxed);
}

/// Takes back what was excluded for buffers that have been freed.
pub(crate) fn include(bytes: usize) {
    OWN.fetch_sub(bytes as u64, Relaxed);
}

/// The program's live bytes; `None` if it does not count its allocations.
fn live_bytes() -> Option<u64> {
    // A buffer counts before it is excluded.
    alloc::counts().map(|counts| counts.live_bytes.saturating_sub(OWN.load(Relaxed)))
}

pub(crate) fn watch() {
    let mut samples = locked(&SAMPLES);
    if WATCHERS.load(Relaxed) == 0 {
        samples.spacing = 0;
        samples.points.clear();
        let before = samples.points.capacity();
        samples.points.reserve_exact(ROOM);
        exclude((samples.points.capacity() - before) * size_of::<(u64, u64)>());
    }
    if let Some(live) = live_bytes() {
        samples.push(ticks(), live);
    }
    WATCHERS.fetch_add(1, Relaxed);
}

pub(crate) fn unwatch() {
    let samples = locked(&SAMPLES);
    WATCHERS.fetch_sub(1, Relaxed);
    drop(samples);
}

/// Counts a change in the balance of a thread. Adds a sample if the heap has changed by a step, unless another thread
/// is adding one, or forking, at this moment.
pub(crate) fn change(bytes: u64) {
    if WATCHERS.load(Relaxed) == 0 {
        return;
    }
    let sum = CHANGED.fetch_add(bytes, Relaxed).wrapping_add(bytes);
    if sum.cast_signed().unsigned_abs() < STEP {
        return;
    }
    CHANGED.store(0, Relaxed);
    let live = live_bytes().unwrap_or(0);
    // Do not wait for either, because this runs inside the allocator.
    if let Some(_inside) = Inside::try_enter()
        && let Ok(mut samples) = SAMPLES.try_lock()
    {
        samples.push(ticks(), live);
    }
}

/// The heap between two moments, with a point at both; `None` if the program does not count its allocations.
pub(crate) fn track(start: u64, end: u64) -> Option<Track> {
    let live = live_bytes()?;
    // Allocate before taking the lock: an allocation may take a sample.
    let mut points = Vec::with_capacity(ROOM + 1);
    for (at, live) in locked(&SAMPLES).points.iter().filter(|(at, _)| *at <= end) {
        // The last sample before the start gives the value at the start.
        if *at <= start {
            points.clear();
        }
        points.push(((*at).max(start), *live as f64));
    }
    points.push((end, live as f64));
    Some(Track { name: "heap".into(), unit: "B".into(), points })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_bounded_and_keep_the_peak() {
        let mut samples = Samples { points: Vec::with_capacity(ROOM), spacing: 0 };
        let (peak, highest) = (77_777, 3 * ROOM as u64 / 2 + 1);
        for at in 0..10 * ROOM as u64 {
            samples.push(at * 10, if at == highest { 1 << 40 } else { at % peak });
        }
        assert!(samples.points.len() <= ROOM && samples.points.len() > ROOM / 8);
        assert_eq!(samples.points.iter().map(|point| point.1).max(), Some(1 << 40));
        assert!(samples.points.is_sorted_by_key(|point| point.0));
    }
}
