//! Warm-up, and the number of iterations per slot.

use ellwand_core::DeviceError;
use ellwand_core::device::{Caches, CpuScope, Device, DeviceKind, Timing};
use ellwand_core::implementation::{Parallelism, Prepared};
use ellwand_core::record::Settings;

use crate::sample::{Slot, slot};

/// Upper bound on the iterations of a slot; beyond it the loop overhead dominates.
const MAX_ITERATIONS: u64 = 1 << 24;

/// Requirements on slots and warm-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotNeeds {
    /// Cache state at the start of a slot.
    pub(crate) caches: Caches,
    /// Shortest duration of a slot that holds several iterations.
    pub(crate) slot_min_ns: u64,
    /// Duration of the warm-up.
    pub(crate) warm_up_ns: u64,
}

impl SlotNeeds {
    /// The requirements in `settings`.
    pub(crate) fn of(settings: &Settings) -> Self {
        let Settings { caches, slot_min_ns, warm_up_ns, .. } = *settings;
        Self { caches, slot_min_ns, warm_up_ns }
    }
}

/// Factor on the warm-up time that may go into starved slots before a starved slot is accepted.
const PATIENCE: u64 = 100;
/// CPU time, in units of the slot length, beyond which a job counts as long whatever disturbed it: far more than a
/// thread spends spinning.
const LONG: u64 = 50;

/// True if a multithreaded slot mostly waited for a processor: a thread was preempted and the slot was idle for most of
/// its time. On a busy machine, a job of 1 us then takes as long as the scheduler needs to start its second thread,
/// which says nothing about how many iterations fill a slot.
fn starved(parallelism: Parallelism, timing: &Timing, slot_ns: u64) -> bool {
    let cpu_ns = timing.cpu_ns.unwrap_or(u64::MAX);
    parallelism == Parallelism::Many
        && timing.switches.is_some_and(|switches| switches > 0)
        && cpu_ns < timing.wall_ns / 2
        && cpu_ns < LONG * slot_ns
}

/// Warms up and finds the slot shape.
pub(crate) fn shape(
    device: &dyn Device,
    parallelism: Parallelism,
    prepared: &mut dyn Prepared,
    effort: SlotNeeds,
) -> Result<Slot, DeviceError> {
    let times = if device.kind() == DeviceKind::Cpu { 1 } else { LONGER_ON_DEVICES };
    let warm_up_ns = times * effort.warm_up_ns;
    match effort.caches {
        Caches::Warm => warm(device, parallelism, prepared, times * effort.slot_min_ns, warm_up_ns),
        Caches::Cold => cold(device, parallelism, prepared, warm_up_ns),
    }
}

/// Factor on slot and warm-up time for a device with its own clock. Its events have a resolution of 0.5 us and lie 1 to
/// 2 us outside the first and last kernel, and its clock rate rises only some time after work arrives. A launch queue
/// limits the iterations ([`Prepared::most_iterations`]).
const LONGER_ON_DEVICES: u64 = 10;

/// Minimum number of slots that determine the cost of a cold slot, and maximum that warm up, whatever the clock says.
const COLD_SLOTS: [u64; 2] = [3, 1000];

/// Takes cold-cache slots for at least `warm_up_ns`, which raises the device's clock rate and touches all pages, and
/// measures the time of a slot and of the flush before it.
fn cold(
    device: &dyn Device,
    parallelism: Parallelism,
    prepared: &mut dyn Prepared,
    warm_up_ns: u64,
) -> Result<Slot, DeviceError> {
    let (mut spent, mut slots) = (0_u64, 0);
    let (mut fastest, mut flush_ns) = (u64::MAX, u64::MAX);
    while slots < COLD_SLOTS[0] || (spent < warm_up_ns && slots < COLD_SLOTS[1]) {
        let mut flushed = Ok(());
        let flush = device.time(CpuScope::Thread, &mut || flushed = device.flush_cache());
        flushed?;
        flush_ns = flush_ns.min(flush.wall_ns);
        let timing = slot(device, parallelism.scope(), prepared, Slot::cold(0, 0))?.0;
        fastest = fastest.min(timing.device_ns.unwrap_or(timing.wall_ns));
        spent = spent.saturating_add(timing.wall_ns.saturating_add(flush.wall_ns).max(1));
        slots += 1;
    }
    Ok(Slot::cold(fastest, flush_ns))
}

/// Slots longer than this either exceed every cache or are compute-bound, so cache state does not matter.
const LONG_SLOT_NS: u64 = 20_000_000;

/// Untimed iterations at the head of a slot while there is no settling curve (`settle.rs`), or if the device cannot
/// record one: a twentieth of the slot, and at least one unless the slot is long.
pub(crate) fn unlearnt(slot: Slot) -> u64 {
    if slot.iterations >= 20 { slot.iterations / 20 } else { u64::from(slot.cost_ns <= LONG_SLOT_NS) }
}

/// Warms up for at least `warm_up_ns` and finds how many iterations fill a slot of `slot_ns`.
fn warm(
    device: &dyn Device,
    parallelism: Parallelism,
    prepared: &mut dyn Prepared,
    slot_ns: u64,
    warm_up_ns: u64,
) -> Result<Slot, DeviceError> {
    let most = prepared.most_iterations().clamp(1, MAX_ITERATIONS);
    let mut iterations = 1_u64;
    let mut spent = 0_u64;
    // The fastest slot at the current size. One preempted slot must not end the search early, so a second slot confirms
    // that the size is large enough, unless no preemption could explain the duration.
    let mut fastest = u64::MAX;
    let (mut tries, mut starved_ns) = (0, 0_u64);
    loop {
        let timing = slot(device, parallelism.scope(), prepared, Slot::whole(iterations, 0))?.0;
        let took = timing.device_ns.unwrap_or(timing.wall_ns);
        spent = spent.saturating_add(timing.wall_ns.max(1));
        fastest = fastest.min(took);
        if starved(parallelism, &timing, slot_ns) && starved_ns < PATIENCE * warm_up_ns {
            starved_ns = starved_ns.saturating_add(timing.wall_ns);
        } else {
            tries += 1;
        }
        let sure = tries >= 2 || (tries == 1 && took >= LONG * slot_ns);
        if fastest < slot_ns && iterations < most {
            iterations = (iterations * 2).min(most);
            (fastest, tries) = (u64::MAX, 0);
        } else if sure && (spent >= warm_up_ns || iterations >= MAX_ITERATIONS) {
            let one = fastest.max(1) as f64 / iterations as f64;
            let wanted = ((slot_ns as f64 / one).ceil() as u64).clamp(1, most);
            let shape = Slot::whole(wanted, (one * wanted as f64) as u64).cut(device.finest_part_ns());
            return Ok(Slot { lead: unlearnt(shape), ..shape });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts runs that were not loaded in advance.
    struct Loaded {
        left: u64,
        starved: u64,
    }

    impl Prepared for Loaded {
        fn load(&mut self, iterations: u64) {
            self.left = iterations;
        }
        fn most_iterations(&self) -> u64 {
            48
        }
        fn run(&mut self) {
            self.starved += u64::from(self.left == 0);
            self.left = self.left.saturating_sub(1);
        }
        fn poison(&mut self, _: ellwand_core::Poison) {}
        fn output(&mut self) -> Result<ellwand_core::Tensors, DeviceError> {
            Ok(ellwand_core::Tensors::new())
        }
    }

    #[test]
    fn every_timed_run_is_loaded_for_and_slots_stay_below_what_can_be_loaded() {
        let device = crate::Cpu::default();
        let mut loaded = Loaded { left: 0, starved: 0 };
        let shape = warm(&device, Parallelism::Single, &mut loaded, 1_000_000, 0).expect("it cannot fail");
        assert!(shape.iterations <= 50, "at most 48 in up to five equal parts: {shape:?}");
        slot(&device, CpuScope::Thread, &mut loaded, shape).expect("it cannot fail");
        assert_eq!((loaded.starved, loaded.left), (0, 0));
    }
}
