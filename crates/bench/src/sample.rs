//! Slots: how many iterations are timed together, and one timed slot.

use ellwand_core::device::{CpuScope, Device, Timing};
use ellwand_core::implementation::{Parallelism, Prepared};

/// Most iterations a slot may hold; beyond this the loop itself is all there is to see.
const MOST_ITERATIONS: u64 = 1 << 24;

/// Times `iterations` runs together. Only `run` and `sync` lie between the clock readings.
///
/// # Errors
/// When the work fails on its device.
pub fn slot(
    device: &dyn Device,
    scope: CpuScope,
    prepared: &mut dyn Prepared,
    iterations: u64,
) -> Result<Timing, String> {
    let mut synced = Ok(());
    let timing = device.time(scope, &mut || {
        for _ in 0..iterations {
            prepared.run();
        }
        synced = prepared.sync();
    });
    synced.map(|()| timing)
}

/// The shape of an implementation's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Runs timed together.
    pub iterations: u64,
    /// What such a slot takes.
    pub cost_ns: u64,
}

/// Warms up for at least `warm_up_ns` and finds how many iterations fill a slot of `slot_ns`.
///
/// # Errors
/// When the work fails on its device.
pub fn calibrate(
    device: &dyn Device,
    parallelism: Parallelism,
    prepared: &mut dyn Prepared,
    slot_ns: u64,
    warm_up_ns: u64,
) -> Result<Slot, String> {
    let mut iterations = 1_u64;
    let mut spent = 0_u64;
    // The fastest slot at the current size: one preempted slot must not end the search early, so that a slot which is
    // long enough is confirmed by a second one, unless it is so long that no preemption explains it.
    let mut fastest = u64::MAX;
    let mut tries = 0;
    loop {
        let timing = slot(device, parallelism.scope(), prepared, iterations)?;
        let took = timing.device_ns.unwrap_or(timing.wall_ns);
        spent = spent.saturating_add(timing.wall_ns.max(1));
        fastest = fastest.min(took);
        tries += 1;
        let sure = tries >= 2 || took >= 50 * slot_ns;
        if fastest < slot_ns && iterations < MOST_ITERATIONS {
            iterations = (iterations * 2).min(MOST_ITERATIONS);
            (fastest, tries) = (u64::MAX, 0);
        } else if sure && (spent >= warm_up_ns || iterations >= MOST_ITERATIONS) {
            let one = fastest.max(1) as f64 / iterations as f64;
            let wanted = ((slot_ns as f64 / one).ceil() as u64).clamp(1, MOST_ITERATIONS);
            return Ok(Slot { iterations: wanted, cost_ns: (one * wanted as f64) as u64 });
        }
    }
}

/// An implementation that does nothing, to measure what a call through the instrument costs.
#[derive(Debug, Default)]
struct Nothing {
    calls: u64,
}

impl Prepared for Nothing {
    fn run(&mut self) {
        self.calls = std::hint::black_box(self.calls.wrapping_add(1));
    }
    fn poison(&mut self) {}
    fn output(&mut self) -> Result<ellwand_core::Tensors, String> {
        Ok(ellwand_core::Tensors::new())
    }
}

/// Nanoseconds that one iteration of nothing takes: no time below twice this can be told from nothing.
///
/// # Errors
/// When the device fails.
pub fn empty_iteration_ns(device: &dyn Device, slot_ns: u64) -> Result<f64, String> {
    let mut nothing: Box<dyn Prepared> = Box::new(Nothing::default());
    let Slot { iterations, .. } = calibrate(device, Parallelism::Single, nothing.as_mut(), slot_ns, 0)?;
    let mut costs = Vec::new();
    for _ in 0..15 {
        let timing = slot(device, CpuScope::Thread, nothing.as_mut(), iterations)?;
        costs.push(timing.device_ns.unwrap_or(timing.wall_ns) as f64 / iterations as f64);
    }
    Ok(ellwand_core::stats::median(&costs).unwrap_or(f64::NAN))
}
