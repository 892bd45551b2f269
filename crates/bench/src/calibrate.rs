//! Warm-up, and how many iterations make a slot.

use ellwand_core::device::{Caches, CpuScope, Device, DeviceKind, Timing};
use ellwand_core::implementation::{Parallelism, Prepared};
use ellwand_core::record::Settings;

use crate::sample::{Slot, slot};

/// Most iterations a slot may hold; beyond this the loop itself is all there is to see.
const MOST_ITERATIONS: u64 = 1 << 24;

/// What is asked of slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// What they are to find in the caches.
    pub(crate) caches: Caches,
    /// How long they are to be, where several iterations make one.
    pub(crate) slot_min_ns: u64,
    /// How long to warm up.
    pub(crate) warm_up_ns: u64,
}

impl Effort {
    /// What the settings ask.
    pub(crate) fn of(settings: &Settings) -> Self {
        let Settings { caches, slot_min_ns, warm_up_ns, .. } = *settings;
        Self { caches, slot_min_ns, warm_up_ns }
    }
}

/// How many times the warm-up may be spent on slots in which threads waited for a processor, before one of them is believed.
const PATIENCE: u64 = 100;
/// Processor time, in slots, beyond which a job is long whatever disturbed it: far more than a thread spins for another.
const LONG: u64 = 50;

/// Whether a slot of several threads was spent waiting for a processor rather than working: one was taken away, and for most
/// of the slot there was none. Beside other programs a job of a microsecond then takes as long as the scheduler takes to get
/// to its second thread, which says nothing of how many of them fill a slot.
fn starved(parallelism: Parallelism, timing: &Timing, slot_ns: u64) -> bool {
    let cpu_ns = timing.cpu_ns.unwrap_or(u64::MAX);
    parallelism == Parallelism::Many
        && timing.switches.is_some_and(|switches| switches > 0)
        && cpu_ns < timing.wall_ns / 2
        && cpu_ns < LONG * slot_ns
}

/// Warms up, and finds the shape of slots.
///
/// # Errors
/// When the work fails on its device, or its caches cannot be flushed.
pub(crate) fn shape(
    device: &dyn Device,
    parallelism: Parallelism,
    prepared: &mut dyn Prepared,
    effort: Effort,
) -> Result<Slot, String> {
    let times = if device.kind() == DeviceKind::Cpu { 1 } else { LONGER_ON_DEVICES };
    let warm_up_ns = times * effort.warm_up_ns;
    match effort.caches {
        Caches::Warm => warm(device, parallelism, prepared, times * effort.slot_min_ns, warm_up_ns),
        Caches::Cold => cold(device, parallelism, prepared, warm_up_ns),
    }
}

/// How many times as long slots and warm-up are on a device with a clock of its own: its events resolve half a microsecond and
/// stand a microsecond or two before the first kernel and behind the last one, and it raises its clock rate only some time after
/// work has come. Who hands on launches one by one limits them to what its queue holds ([`Prepared::most_iterations`]).
const LONGER_ON_DEVICES: u64 = 10;

/// Fewest slots by which a cold one is known, and most that warm it up, whatever the clock says.
const COLD_SLOTS: [u64; 2] = [3, 1000];

/// Takes slots out of cold caches for at least `warm_up_ns` (so that the clock of the device is up, and pages have been touched)
/// and finds what they and the flush before them take.
///
/// # Errors
/// When the work fails on its device, or its caches cannot be flushed.
fn cold(
    device: &dyn Device,
    parallelism: Parallelism,
    prepared: &mut dyn Prepared,
    warm_up_ns: u64,
) -> Result<Slot, String> {
    let (mut spent, mut slots) = (0_u64, 0);
    let (mut fastest, mut flush_ns) = (u64::MAX, u64::MAX);
    while slots < COLD_SLOTS[0] || (spent < warm_up_ns && slots < COLD_SLOTS[1]) {
        let mut flushed = Ok(());
        let flush = device.time(CpuScope::Thread, &mut || flushed = device.flush_cache());
        flushed.map_err(|error| error.to_string())?;
        flush_ns = flush_ns.min(flush.wall_ns);
        let timing = slot(device, parallelism.scope(), prepared, Slot::cold(0, 0))?.timing;
        fastest = fastest.min(timing.device_ns.unwrap_or(timing.wall_ns));
        spent = spent.saturating_add(timing.wall_ns.saturating_add(flush.wall_ns).max(1));
        slots += 1;
    }
    Ok(Slot::cold(fastest, flush_ns))
}

/// Slots that take longer than this touch more than any cache holds, or compute so much that the caches do not matter.
const LONG_SLOT_NS: u64 = 20_000_000;

/// Untimed iterations at the head of slots until a settling curve says better (`settle.rs`), and for good on a device whose
/// clock cannot record one: a twentieth of the slot, and at least one unless the slot is long.
fn unlearnt(slot: Slot) -> u64 {
    if slot.iterations >= 20 { slot.iterations / 20 } else { u64::from(slot.cost_ns <= LONG_SLOT_NS) }
}

/// Warms up for at least `warm_up_ns` and finds how many iterations fill a slot of `slot_ns`.
///
/// # Errors
/// When the work fails on its device.
fn warm(
    device: &dyn Device,
    parallelism: Parallelism,
    prepared: &mut dyn Prepared,
    slot_ns: u64,
    warm_up_ns: u64,
) -> Result<Slot, String> {
    let most = prepared.most_iterations().clamp(1, MOST_ITERATIONS);
    let mut iterations = 1_u64;
    let mut spent = 0_u64;
    // The fastest slot at the current size: one preempted slot must not end the search early, so that a slot which is
    // long enough is confirmed by a second one, unless it is so long that no preemption explains it.
    let mut fastest = u64::MAX;
    let (mut tries, mut starved_ns) = (0, 0_u64);
    loop {
        let timing = slot(device, parallelism.scope(), prepared, Slot::whole(iterations, 0))?.timing;
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
        } else if sure && (spent >= warm_up_ns || iterations >= MOST_ITERATIONS) {
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

    /// Counts runs that found nothing loaded for them.
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
        fn poison(&mut self) {}
        fn output(&mut self) -> Result<ellwand_core::Tensors, String> {
            Ok(ellwand_core::Tensors::new())
        }
    }

    #[test]
    fn every_timed_run_is_loaded_for_and_slots_stay_below_what_can_be_loaded() {
        let device = crate::Cpu::new("for a test".to_string());
        let mut loaded = Loaded { left: 0, starved: 0 };
        let shape = warm(&device, Parallelism::Single, &mut loaded, 1_000_000, 0).expect("it cannot fail");
        assert!(shape.iterations <= 50, "at most 48 in up to five equal parts: {shape:?}");
        slot(&device, CpuScope::Thread, &mut loaded, shape).expect("it cannot fail");
        assert_eq!((loaded.starved, loaded.left), (0, 0));
    }
}
