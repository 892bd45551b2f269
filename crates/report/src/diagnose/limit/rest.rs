//! The time that no measured cost explains: instructions in the core, or threads without work or without a processor.
//!
//! Traffic and arithmetic overlap on a processor that reorders instructions, so the larger of the two counts; page
//! faults, calls and wake-ups do not. The remaining time is spent in the core on instructions, provided that nothing
//! waited. Instructions per cycle then separate code that issues as fast as it can from code whose instructions wait
//! (Yasin 2014, level 1: retiring against stalled slots).

use ellwand_core::ceiling::latency;
use ellwand_core::stats::median;
use ellwand_core::{Ceiling, Environment, Measurement, Sample};

use super::{BINDS, CLOSE, Diagnosis, Limit, REFUTED};
use crate::model::load::{could_use, held_up};

/// Instructions per cycle above which most cycles issue as many as the ports or the front end take.
pub(super) const ISSUES: f64 = 2.5;
/// Instructions per cycle below which most cycles wait.
pub(super) const WAITS: f64 = 1.5;
/// Clock rates that a count of cycles must imply to be used: the counted run is a single one, and a cold run also
/// counts other costs.
const CLOCK_HZ: std::ops::RangeInclusive<f64> = 0.5e9..=6e9;
/// Cycles in user mode per second of CPU time above which most of the time is spent in user mode: processors run at
/// twice to three times this rate.
const USER_HZ: f64 = 1.5e9;
/// Prefixes of vector instruction sets in a row's description of what ran.
const SETS: [&str; 2] = ["avx", "baseline"];

/// Share of the time that no measured cost explains.
pub(super) fn rest(d: &Diagnosis) -> f64 {
    let share = |limit| d.seconds(limit) / d.time_s;
    let possible = |limit| share(limit) * f64::from(u8::from(share(limit) <= REFUTED));
    let overlapped = share(Limit::Memory).max(share(Limit::Compute));
    let serial =
        [Limit::PageFaults, Limit::Overhead, Limit::ThreadWake, Limit::Contended].map(possible).iter().sum::<f64>();
    (1.0 - overlapped - serial).clamp(0.0, 1.0)
}

/// The limit that takes the rest of the time, and its share; `None` if the record does not show one.
pub(super) fn limit(d: &Diagnosis, m: &Measurement, e: &Environment, ceilings: &[Ceiling]) -> Option<(Limit, f64)> {
    if let Some(share) = idle(d, m, e).filter(|share| *share >= BINDS) {
        let limit = if held_up(m, e).is_some() { Limit::HeldUp } else { Limit::IdleThreads };
        return Some((limit, share));
    }
    let rest = rest(d);
    if rest < CLOSE {
        return None;
    }
    match per_cycle(m) {
        Some(rate) if rate >= ISSUES => Some((Limit::Issue, rest)),
        // From cold caches, code, page tables and scratch memory also come from memory, and no count shows for how long.
        _ if !m.caches.is_warm() => None,
        Some(rate) if rate < WAITS => Some((Limit::Dependency, rest)),
        Some(_) => Some((Limit::Instructions, rest)),
        None => in_core(d, m, e, ceilings).then_some((Limit::Instructions, rest)),
    }
}

/// Share of the processors that a row could use but did not get.
fn idle(d: &Diagnosis, m: &Measurement, e: &Environment) -> Option<f64> {
    let cpu = median(&m.samples.iter().map(|sample| m.cpu_seconds(sample)).collect::<Option<Vec<f64>>>()?)?;
    Some(1.0 - cpu / (d.time_s * could_use(m, e)))
}

/// Instructions per cycle of a run in steady state, if the counts fit its time.
pub(super) fn per_cycle(m: &Measurement) -> Option<f64> {
    let count = |id: &str| m.reading(id)?.value.filter(|value| *value > 0.0);
    let (cycles, instructions) = (count("cycles")?, count("instructions")?);
    let cpu = median(&m.samples.iter().map(Sample::cpu_seconds).collect::<Option<Vec<f64>>>()?)?;
    CLOCK_HZ.contains(&(cycles / cpu)).then_some(instructions / cycles)
}

/// True if most of the time is spent in user mode, where no page fault is handled.
pub(super) fn in_user_mode(m: &Measurement) -> bool {
    let cycles = m.reading("cycles").and_then(|reading| reading.value);
    let cpu = median(&m.samples.iter().filter_map(Sample::cpu_seconds).collect::<Vec<_>>());
    cycles.zip(cpu).is_some_and(|(cycles, cpu)| cycles / cpu >= USER_HZ)
}

/// True if code that names no vectors does the required operations about as fast as one lane of a vector can.
pub(super) fn one_lane(d: &Diagnosis, m: &Measurement, e: &Environment) -> bool {
    // With 512-bit vectors many processors have half as many units, so the peak is that of eight lanes.
    let singles = if e.cpu_features.iter().any(|feature| feature == "avx2") { 8.0 } else { 4.0 };
    let lanes = if m.work.double { singles / 2.0 } else { singles };
    let names_vectors = SETS.iter().any(|set| m.what_ran.contains(set));
    !m.work.bf16 && !names_vectors && (BINDS..=REFUTED).contains(&(lanes * d.seconds(Limit::Compute) / d.time_s))
}

/// True if the time is spent in the core with warm caches: arrays are read in order and prefetched, or the time would
/// remain even if each required cache line waited for the previous one in its thread.
fn in_core(d: &Diagnosis, m: &Measurement, e: &Environment, ceilings: &[Ceiling]) -> bool {
    let work = m.work_done();
    if work.in_order {
        return true;
    }
    let Some(each) = latency(e, ceilings, work.footprint(), m.caches) else { return work.bytes_total() == 0 };
    work.bytes_total() as f64 / super::LINE / could_use(m, e) * each.value < BINDS * d.time_s
}
