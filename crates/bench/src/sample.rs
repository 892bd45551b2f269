//! Slots: iterations that are timed together.

use std::hint::black_box;

use ellwand_core::DeviceError;
use ellwand_core::device::{Caches, CpuScope, Device, Part, Timing, slowed};
use ellwand_core::implementation::{Parallelism, Prepared};
use ellwand_core::record::{Counts, Sample, Settings};
use serde::{Deserialize, Serialize};

use crate::calibrate::{self, SlotNeeds};
use crate::check;

/// Maximum number of parts of a slot. Five parts avoid a disturbance as well as ten (a preemption hits one of them),
/// and each part costs a clock reading.
pub(crate) const MAX_PARTS: u64 = 5;

/// Takes one slot: its untimed head, then its iterations in equal parts, back to back. Only `run_times` and
/// `sync` lie between the clock readings. Returns time and counters of the whole slot, and the time of each part in
/// nanoseconds, if the device can time parts.
///
/// # Errors
/// If the work fails on its device.
pub fn slot(
    device: &dyn Device,
    scope: CpuScope,
    prepared: &mut dyn Prepared,
    shape: Slot,
) -> Result<(Timing, Vec<u64>), DeviceError> {
    let most = prepared.most_iterations().max(1);
    let mut head = shape.lead;
    // Head iterations that cannot be loaded together with those of the slot run first.
    while head > most.saturating_sub(shape.iterations) {
        let now = head.min(most);
        prepared.load(now);
        prepared.run_times(now);
        prepared.sync()?;
        head -= now;
    }
    prepared.load(head + shape.iterations);
    // Flush last: loading and poisoning must not leave warm caches either.
    check::cooled(device, shape.caches())?;
    let each = shape.iterations / shape.parts.max(1);
    let mut synced = Ok(());
    let mut part = |part: Part| {
        prepared.run_times(if part == Part::Head { head } else { each });
        let done = if part == Part::Head && head == 0 { Ok(()) } else { prepared.sync() };
        if synced.is_ok() {
            synced = done;
        }
    };
    let taken = device.time_parts(scope, shape.parts.max(1), &mut part);
    synced.map(|()| taken)
}

/// Makes a sample of a timed slot.
pub fn sample(shape: Slot, timing: &Timing, parts_ns: &[u64]) -> Sample {
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

/// Warnings about the samples.
pub(crate) fn remarks(samples: &[Sample]) -> Vec<String> {
    stood_still(samples).into_iter().chain(slowed_down(samples)).chain(short(samples)).collect()
}

/// The remark on slots whose counts the user fixed.
pub(crate) fn counted(counts: Counts, samples: &[Sample]) -> String {
    let held = samples.iter().map(|sample| sample.iterations).max().unwrap_or(counts.iterations);
    let most = if held < counts.iterations {
        format!(", the most that one slot can hold of {}", counts.iterations)
    } else {
        String::new()
    };
    format!(
        "fixed counts: {held} timed iterations per slot{most}, after {} untimed ones, settled or not",
        counts.warm_up
    )
}

/// A warning if the device throttled during some slots.
pub fn slowed_down(samples: &[Sample]) -> Option<String> {
    let reasons: Vec<u64> = samples.iter().filter_map(|sample| sample.state.slowed_by).filter(|by| *by != 0).collect();
    let (slots, all) = (reasons.len(), samples.len());
    (slots > 0).then(|| {
        let why = slowed::names(reasons.iter().fold(0, |all, by| all | by));
        format!("throttled: the device slowed itself down ({why}) in {slots} of {all} slots; their times are those of a slower device")
    })
}

/// A warning if the device clock did not advance during some slots: real work takes time, so the clock stood still or
/// was set back.
fn stood_still(samples: &[Sample]) -> Option<String> {
    let still = samples.iter().filter(|sample| sample.device_ns.unwrap_or(sample.wall_ns) == 0).count();
    (still > 0).then(|| {
        format!("the clock stood still or went back in {still} of {} slots: it is not monotonic", samples.len())
    })
}

/// Duration below which slots of several iterations contain the cost of reading the clock, in nanoseconds.
const SHORT_NS: f64 = 1000.0;
/// Cost of a pair of clock readings, in nanoseconds.
const CLOCK_NS: f64 = 50.0;

/// A warning if the slots hold so few iterations that reading the clock counts.
fn short(samples: &[Sample]) -> Option<String> {
    let several = samples.iter().filter(|sample| sample.iterations > 1 && sample.device_ns.is_none());
    let walls: Vec<f64> = several.clone().map(|sample| sample.wall_ns as f64).collect();
    let wall_ns = ellwand_core::stats::median(&walls).filter(|ns| (1.0..SHORT_NS).contains(ns))?;
    let iterations = several.map(|sample| sample.iterations).max()?;
    let (took, share) = (wall_ns / 1e3, 100.0 * CLOCK_NS / wall_ns);
    Some(format!(
        "its slots are short: {iterations} iterations take {took:.1} µs, of which reading the clock may be {share:.0} %"
    ))
}

/// The shape of an implementation's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Iterations timed together.
    pub iterations: u64,
    /// Number of equal parts, timed separately; divides the iterations.
    pub parts: u64,
    /// Expected duration of the timed part, in nanoseconds.
    pub cost_ns: u64,
    /// Untimed iterations at the head of the slot.
    #[serde(default)]
    pub lead: u64,
    /// Time to flush the device's caches before the slot, in nanoseconds; `None` for warm slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_ns: Option<u64>,
}

impl Slot {
    /// A slot in one part, without a head.
    pub fn whole(iterations: u64, cost_ns: u64) -> Self {
        Self { iterations, parts: 1, cost_ns, lead: 0, flush_ns: None }
    }

    /// One iteration from cold caches: a second one would find data that the first one left there.
    pub fn cold(cost_ns: u64, flush_ns: u64) -> Self {
        Self { flush_ns: Some(flush_ns), ..Self::whole(1, cost_ns) }
    }

    /// The cache state at the start of the slot.
    pub fn caches(&self) -> Caches {
        if self.flush_ns.is_some() { Caches::Cold } else { Caches::Warm }
    }

    /// Duration of a turn: flush, head and slot.
    pub fn turn_ns(&self) -> u64 {
        self.cost_ns.saturating_add(self.untimed_ns() as u64).saturating_add(self.flush_ns.unwrap_or(0))
    }

    /// Duration of the head, in nanoseconds.
    pub(crate) fn untimed_ns(&self) -> f64 {
        self.lead as f64 * self.iteration_ns()
    }

    /// Expected time of an iteration, in nanoseconds.
    pub(crate) fn iteration_ns(&self) -> f64 {
        self.cost_ns as f64 / self.iterations.max(1) as f64
    }

    /// A slot with the user's counts, for iterations as long as this one's. It holds at most `most` iterations, and has
    /// as many equal parts as the clock can time and the count allows.
    #[must_use]
    pub fn counted(self, counts: Counts, most: u64, finest_part_ns: Option<u64>) -> Self {
        let iterations = counts.iterations.clamp(1, most.max(1));
        let cost_ns = (iterations as f64 * self.iteration_ns()) as u64;
        let longest = finest_part_ns.map_or(1, |finest| (cost_ns / finest.max(1)).clamp(1, MAX_PARTS));
        let parts = (1..=longest).rev().find(|parts| iterations.is_multiple_of(*parts)).unwrap_or(1);
        Self { iterations, parts, cost_ns, lead: counts.warm_up, ..self }
    }

    /// This slot cut into as many equal parts as the clock can time, with the iterations rounded up to a multiple.
    #[must_use]
    pub fn cut(self, finest_part_ns: Option<u64>) -> Self {
        let Some(finest) = finest_part_ns else { return self };
        let parts = (self.cost_ns / finest.max(1)).min(MAX_PARTS).min(self.iterations).max(1);
        let iterations = self.iterations.div_ceil(parts) * parts;
        let cost_ns = (u128::from(self.cost_ns) * u128::from(iterations) / u128::from(self.iterations.max(1))) as u64;
        Self { iterations, parts, cost_ns, ..self }
    }
}

/// An implementation that does nothing except, as in every suite, hide the input and output of a function from the
/// optimizer. It measures the overhead of the instrument.
#[derive(Debug)]
struct Nothing;

impl Prepared for Nothing {
    fn run(&mut self) {
        // Consecutive runs do not depend on each other.
        black_box(black_box(&*self));
    }
    fn poison(&mut self, _: ellwand_core::Poison) {}
    fn output(&mut self) -> Result<ellwand_core::Tensors, DeviceError> {
        Ok(ellwand_core::Tensors::new())
    }
}

/// Time of an empty iteration in slots of these settings, in nanoseconds: no time below twice this can be resolved.
///
/// # Errors
/// If the device fails.
pub fn empty_iteration_ns(device: &dyn Device, settings: &Settings) -> Result<f64, DeviceError> {
    let mut nothing: Box<dyn Prepared> = Box::new(Nothing);
    let effort = SlotNeeds { warm_up_ns: 0, ..SlotNeeds::of(settings) };
    let found = calibrate::shape(device, Parallelism::Single, nothing.as_mut(), effort)?;
    let mut costs = Vec::new();
    for _ in 0..15 {
        let whole = Slot { parts: 1, ..found };
        let timing = slot(device, CpuScope::Thread, nothing.as_mut(), whole)?.0;
        costs.push(timing.device_ns.unwrap_or(timing.wall_ns) as f64 / whole.iterations as f64);
    }
    Ok(ellwand_core::stats::median(&costs).unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails unless every run was loaded in advance; logs the loaded counts.
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
        fn poison(&mut self, _: ellwand_core::Poison) {}
        fn output(&mut self) -> Result<ellwand_core::Tensors, DeviceError> {
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
            assert_eq!((counted.loaded, counted.left, taken.1.len()), (loaded, 0, 4), "{most}");
        }
    }

    /// Fails on single calls of `run`; logs the counts of `run_times`.
    struct Repeated(Vec<u64>);

    impl Prepared for Repeated {
        fn run(&mut self) {
            panic!("a slot pays a dynamic call for each iteration");
        }
        fn run_times(&mut self, times: u64) {
            self.0.push(times);
        }
        fn poison(&mut self, _: ellwand_core::Poison) {}
        fn output(&mut self) -> Result<ellwand_core::Tensors, DeviceError> {
            Ok(ellwand_core::Tensors::new())
        }
    }

    #[test]
    fn a_part_is_one_call_of_the_implementation() {
        let shape = Slot { lead: 7, ..Slot::whole(20, 2000).cut(Some(500)) };
        let mut repeated = Repeated(Vec::new());
        slot(&crate::Cpu::default(), CpuScope::Thread, &mut repeated, shape).unwrap();
        assert_eq!(repeated.0, [7, 5, 5, 5, 5]);
        repeated.0.clear();
        let steps = crate::settle::Steps { iterations: 3, count: 4 };
        crate::settle::turn(&crate::Cpu::default(), CpuScope::Thread, &mut repeated, steps).unwrap();
        assert_eq!(repeated.0, [3; 4]);
    }

    #[test]
    fn slots_too_short_for_the_clock_have_a_remark() {
        let of = |iterations, wall_ns| remarks(&[Sample { iterations, wall_ns, ..Sample::default() }; 3]);
        assert_eq!(
            of(64, 640),
            ["its slots are short: 64 iterations take 0.6 µs, of which reading the clock may be 8 %"]
        );
        assert!(of(64, 1000).is_empty() && of(1, 640).is_empty(), "a cold slot has one iteration");
        let device_ns = Some(1000);
        assert_eq!(short(&[Sample { iterations: 64, wall_ns: 640, device_ns, ..Sample::default() }]), None);
    }

    #[test]
    fn counted_slots_have_exactly_the_requested_iterations() {
        let found = Slot { lead: 40, ..Slot::whole(500, 500_000) };
        let of = |warm_up, iterations, most| found.counted(Counts { warm_up, iterations }, most, Some(10_000));
        let slot = |lead, iterations, parts| Slot { lead, parts, ..Slot::whole(iterations, iterations * 1000) };
        assert_eq!(of(10, 100, 1000), slot(10, 100, 5));
        // Parts are equal, and no shorter than the clock can time.
        assert_eq!(of(0, 98, 1000), slot(0, 98, 2));
        assert_eq!(of(3, 101, 1000), slot(3, 101, 1));
        assert_eq!(of(3, 20, 1000), slot(3, 20, 2));
        assert_eq!(of(3, 100, 64), slot(3, 64, 4));
    }

    #[test]
    fn slots_are_cut_into_equal_parts_that_the_clock_can_time() {
        let sized = |iterations, parts, cost_ns| Slot { parts, ..Slot::whole(iterations, cost_ns) };
        // 200 iterations of 1 us: five parts of forty.
        assert_eq!(Slot::whole(200, 200_000).cut(Some(10_000)), sized(200, 5, 200_000));
        // Iterations of 45 us: as many parts as iterations.
        assert_eq!(Slot::whole(5, 225_000).cut(Some(10_000)), sized(5, 5, 225_000));
        // 23 iterations become 25, so that the parts are equal.
        assert_eq!(Slot::whole(23, 230_000).cut(Some(10_000)), sized(25, 5, 250_000));
        assert_eq!(Slot::whole(4, 30_000).cut(Some(10_000)), sized(6, 3, 45_000));
        assert_eq!(Slot::whole(1, 9_000).cut(Some(10_000)), Slot::whole(1, 9_000));
        assert_eq!(Slot::whole(7, 7_000_000).cut(None), Slot::whole(7, 7_000_000));
    }
}
