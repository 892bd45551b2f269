//! Slots: how many iterations are timed together, and one timed slot.

use ellwand_core::device::{Caches, CpuScope, Device, Part, Timing, slowed};
use ellwand_core::implementation::{Parallelism, Prepared};
use ellwand_core::record::{Sample, Settings, SlotState};
use serde::{Deserialize, Serialize};

use crate::calibrate::{self, Effort};
use crate::check;

/// Most parts of a slot. The fastest of five misses what disturbs a slot as well as the fastest of ten (a preemption hits one
/// of them), and each costs a reading of the clock.
pub(crate) const MOST_PARTS: u64 = 5;

/// A slot that was timed.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// What it cost.
    pub timing: Timing,
    /// Nanoseconds of each part, if the device can time parts.
    pub parts_ns: Vec<u64>,
}

/// Takes one slot: its untimed head, then its iterations in equal parts, back to back. Only `run` and `sync` lie between the
/// clock readings.
///
/// # Errors
/// When the work fails on its device.
pub fn slot(device: &dyn Device, scope: CpuScope, prepared: &mut dyn Prepared, shape: Slot) -> Result<Taken, String> {
    let most = prepared.most_iterations().max(1);
    let mut head = shape.lead;
    // What cannot be loaded beside the slot's own iterations runs before.
    while head > most.saturating_sub(shape.iterations) {
        let now = head.min(most);
        prepared.load(now);
        (0..now).for_each(|_| prepared.run());
        prepared.sync()?;
        head -= now;
    }
    prepared.load(head + shape.iterations);
    // Last of all: what is loaded, and what is spoilt before it is judged, must not be warm either.
    check::cooled(device, shape.caches())?;
    let each = shape.iterations / shape.parts.max(1);
    let mut synced = Ok(());
    let mut part = |part: Part| {
        (0..if part == Part::Head { head } else { each }).for_each(|_| prepared.run());
        let done = if part == Part::Head && head == 0 { Ok(()) } else { prepared.sync() };
        if synced.is_ok() {
            synced = done;
        }
    };
    let (timing, parts_ns) = device.time_parts(scope, shape.parts.max(1), &mut part);
    synced.map(|()| Taken { timing, parts_ns })
}

/// The sample that a timed slot makes.
pub fn sample(shape: Slot, taken: &Taken) -> Sample {
    let Taken { timing, parts_ns } = taken;
    let fastest_ns = parts_ns.iter().min().filter(|_| parts_ns.len() > 1).copied();
    Sample {
        iterations: shape.iterations,
        wall_ns: timing.wall_ns,
        cpu_ns: timing.cpu_ns,
        others_ns: timing.others_ns,
        device_ns: timing.device_ns,
        switches: timing.switches,
        faults: timing.faults,
        waits: timing.waits,
        parts: fastest_ns.map(|_| shape.parts),
        fastest_ns,
        ..Sample::default()
    }
}

/// The state of a device, asked between slots and never inside one.
pub fn state(device: &dyn Device) -> SlotState {
    let status = device.status();
    let whole = |value: f64| (value.is_finite() && value >= 0.0).then_some(value.round() as u64);
    SlotState {
        clock_hz: status.clock_hz.and_then(whole),
        power_mw: status.power_watts.and_then(|watts| whole(watts * 1e3)),
        device_bytes: status.memory_bytes,
        slowed_by: status.slowed_by,
    }
}

/// What must be said of slots.
pub(crate) fn remarks(samples: &[Sample]) -> Vec<String> {
    stood_still(samples).into_iter().chain(slowed_down(samples)).collect()
}

/// What is said of slots behind which the device was found to slow itself down.
pub fn slowed_down(samples: &[Sample]) -> Option<String> {
    let reasons: Vec<u64> = samples.iter().filter_map(|sample| sample.state.slowed_by).filter(|by| *by != 0).collect();
    let (slots, all) = (reasons.len(), samples.len());
    (slots > 0).then(|| {
        let why = slowed::words(reasons.iter().fold(0, |all, by| all | by));
        format!("throttled: the device slowed itself down ({why}) in {slots} of {all} slots; their times are those of a slower device")
    })
}

/// What is said of slots in which the device's clock did not move: no work takes no time, so it stood still or went back.
fn stood_still(samples: &[Sample]) -> Option<String> {
    let still = samples.iter().filter(|sample| sample.device_ns.unwrap_or(sample.wall_ns) == 0).count();
    (still > 0).then(|| {
        format!("the clock stood still or went back in {still} of {} slots: it is no monotonic clock", samples.len())
    })
}

/// The shape of an implementation's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Runs timed together.
    pub iterations: u64,
    /// Equal parts of the slot that are timed one by one; the iterations are a multiple of it.
    pub parts: u64,
    /// What such a slot takes.
    pub cost_ns: u64,
    /// Untimed iterations at its head.
    #[serde(default)]
    pub lead: u64,
    /// What it takes to flush the caches of the device before it; none where slots start warm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_ns: Option<u64>,
}

impl Slot {
    /// A slot in one part.
    pub fn whole(iterations: u64, cost_ns: u64) -> Self {
        Self { iterations, parts: 1, cost_ns, lead: 0, flush_ns: None }
    }

    /// One iteration out of cold caches: the second one would find what the first left there.
    pub fn cold(cost_ns: u64, flush_ns: u64) -> Self {
        Self { flush_ns: Some(flush_ns), ..Self::whole(1, cost_ns) }
    }

    /// What it finds in the caches.
    pub fn caches(&self) -> Caches {
        if self.flush_ns.is_some() { Caches::Cold } else { Caches::Warm }
    }

    /// What it takes with what comes before it.
    pub fn turn_ns(&self) -> u64 {
        self.cost_ns.saturating_add(self.untimed_ns() as u64).saturating_add(self.flush_ns.unwrap_or(0))
    }

    /// What its head takes, in nanoseconds.
    pub(crate) fn untimed_ns(&self) -> f64 {
        self.lead as f64 * self.iteration_ns()
    }

    /// What an iteration takes, in nanoseconds.
    pub(crate) fn iteration_ns(&self) -> f64 {
        self.cost_ns as f64 / self.iterations.max(1) as f64
    }

    /// The same slot cut into as many equal parts as the clock can tell apart, rounding the iterations up to a multiple.
    #[must_use]
    pub fn cut(self, finest_part_ns: Option<u64>) -> Self {
        let Some(finest) = finest_part_ns else { return self };
        let parts = (self.cost_ns / finest.max(1)).min(MOST_PARTS).min(self.iterations).max(1);
        let iterations = self.iterations.div_ceil(parts) * parts;
        let cost_ns = (u128::from(self.cost_ns) * u128::from(iterations) / u128::from(self.iterations.max(1))) as u64;
        Self { iterations, parts, cost_ns, ..self }
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

/// Nanoseconds that one iteration of nothing takes, in slots as `settings` shape them: no time below twice this can be told from nothing.
///
/// # Errors
/// When the device fails.
pub fn empty_iteration_ns(device: &dyn Device, settings: &Settings) -> Result<f64, String> {
    let mut nothing: Box<dyn Prepared> = Box::new(Nothing::default());
    let effort = Effort { warm_up_ns: 0, ..Effort::of(settings) };
    let found = calibrate::shape(device, Parallelism::Single, nothing.as_mut(), effort)?;
    let mut costs = Vec::new();
    for _ in 0..15 {
        let whole = Slot { parts: 1, ..found };
        let timing = slot(device, CpuScope::Thread, nothing.as_mut(), whole)?.timing;
        costs.push(timing.device_ns.unwrap_or(timing.wall_ns) as f64 / whole.iterations as f64);
    }
    Ok(ellwand_core::stats::median(&costs).unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers what it is loaded for, and fails if a run is not loaded for.
    struct Counted {
        loaded: Vec<u64>,
        left: u64,
        most: u64,
    }

    impl Prepared for Counted {
        fn load(&mut self, iterations: u64) {
            assert!(iterations <= self.most);
            self.loaded.push(iterations);
            self.left = iterations;
        }
        fn most_iterations(&self) -> u64 {
            self.most
        }
        fn run(&mut self) {
            self.left -= 1;
        }
        fn poison(&mut self) {}
        fn output(&mut self) -> Result<ellwand_core::Tensors, String> {
            Ok(ellwand_core::Tensors::new())
        }
    }

    #[test]
    fn heads_are_loaded_for_too_beside_the_slot_if_they_fit() {
        let shape = Slot { lead: 7, ..Slot::whole(4, 400).cut(Some(100)) };
        assert_eq!((shape.parts, shape.turn_ns()), (4, 1100));
        for (most, loaded) in
            [(100, vec![11]), (11, vec![11]), (10, vec![7, 4]), (5, vec![5, 2, 4]), (4, vec![4, 3, 4])]
        {
            let mut counted = Counted { loaded: Vec::new(), left: 0, most };
            let taken = slot(&crate::Cpu::default(), CpuScope::Thread, &mut counted, shape).unwrap();
            assert_eq!((counted.loaded, counted.left, taken.parts_ns.len()), (loaded, 0, 4), "{most}");
        }
    }

    #[test]
    fn slots_are_cut_into_equal_parts_no_shorter_than_the_clock_can_tell() {
        let sized = |iterations, parts, cost_ns| Slot { parts, ..Slot::whole(iterations, cost_ns) };
        // 200 us of 1 us each: five parts of forty.
        assert_eq!(Slot::whole(200, 200_000).cut(Some(10_000)), sized(200, 5, 200_000));
        // 45 us each: as many parts as iterations.
        assert_eq!(Slot::whole(5, 225_000).cut(Some(10_000)), sized(5, 5, 225_000));
        // 23 iterations become 25 so that the parts are equal.
        assert_eq!(Slot::whole(23, 230_000).cut(Some(10_000)), sized(25, 5, 250_000));
        assert_eq!(Slot::whole(4, 30_000).cut(Some(10_000)), sized(6, 3, 45_000));
        assert_eq!(Slot::whole(1, 9_000).cut(Some(10_000)), Slot::whole(1, 9_000));
        assert_eq!(Slot::whole(7, 7_000_000).cut(None), Slot::whole(7, 7_000_000));
    }
}
