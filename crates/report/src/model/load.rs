//! The effect of other programs on the time of a row: how much of the processors the row got.

use std::fmt;

use ellwand_core::stats::median;
use ellwand_core::{Environment, Measurement, Parallelism, Reading, Sample};
use serde::Serialize;

/// Involuntary context switches per second of CPU time, but at most of elapsed time, above which other programs compete
/// for the processors. An idle machine has a few; two programs per processor cause some hundred. A row that hardly gets
/// a processor has few switches per second of elapsed time.
const SWITCHES: f64 = 50.0;
/// A row that got less than this share of the processors that its threads could use, while other programs competed for
/// them, was held up.
const GOT: f64 = 0.8;

/// A row whose elapsed time other programs lengthened. The printed time is then an upper bound of the undisturbed one.
#[derive(Debug, Clone, Copy, Serialize, PartialEq)]
pub struct HeldUp {
    /// CPU time of an iteration divided by the printed time: the average number of processors that worked for the row.
    pub busy: f64,
    /// Processors that its threads could use.
    pub could_use: f64,
    /// The least time the row can take: its CPU time spread evenly over those processors, in seconds.
    pub least_s: f64,
}

impl fmt::Display for HeldUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held up ({:.2} of {:.0} CPUs)", self.busy, self.could_use)
    }
}

/// How other programs lengthened the time of a measurement; `None` if they did not, or if nothing shows it.
pub(crate) fn held_up(m: &Measurement, environment: &Environment) -> Option<HeldUp> {
    let elsewhere = m.undeclared_threads().is_some() || m.samples.iter().any(|sample| sample.device_ns.is_some());
    if !m.outcome.is_measured() || elsewhere {
        return None;
    }
    let middle = |of: &dyn Fn(&Sample) -> Option<f64>| median(&m.samples.iter().map(of).collect::<Option<Vec<f64>>>()?);
    let ran = |s: &Sample| s.cpu_ns.map_or(s.wall_ns, |cpu| cpu.min(s.wall_ns)).max(1) as f64 * 1e-9;
    // Over all slots, because most short ones contain no switch. A single switch is no rate.
    let switches =
        m.samples.iter().map(|sample| sample.switches).sum::<Option<u64>>().filter(|switches| *switches > 1)?;
    let switches = switches as f64 / m.samples.iter().map(ran).sum::<f64>();
    let time = median(&m.all_seconds())?;
    // The CPU time of an iteration hardly depends on other programs, so that of whole slots equals that of their
    // fastest parts. Whole slots are often disturbed although the printed time is not.
    let cpu = middle(&Sample::cpu_seconds)?;
    let could_use = if m.used_one_thread() { 1.0 } else { could_use(m, environment) };
    let busy = cpu / time;
    (switches >= SWITCHES && busy < GOT * could_use).then_some(HeldUp { busy, could_use, least_s: cpu / could_use })
}

/// Processors that the threads of a measurement can use.
pub(crate) fn could_use(m: &Measurement, environment: &Environment) -> f64 {
    let cores = f64::from(environment.cores.max(1));
    let threads = || m.reading(Reading::THREADS).and_then(|reading| reading.value).unwrap_or(cores);
    if m.ran_on() == Parallelism::Single { 1.0 } else { threads().clamp(1.0, cores) }
}

/// Median wall time divided by median CPU time. Only for a single CPU thread: several threads have more CPU than wall
/// time, and a device has its own clock.
pub(super) fn contention(m: &Measurement) -> Option<f64> {
    if m.ran_on() != Parallelism::Single || m.samples.iter().any(|sample| sample.device_ns.is_some()) {
        return None;
    }
    let wall: Vec<f64> = m.samples.iter().map(Sample::wall_seconds).collect();
    let cpu: Option<Vec<f64>> = m.samples.iter().map(Sample::cpu_seconds).collect();
    let ratio = median(&wall)? / median(&cpu?)?;
    ratio.is_finite().then_some(ratio)
}

/// Warning for a row whose implementation uses threads that it does not declare.
pub(super) fn undeclared(m: &Measurement) -> Option<String> {
    let share = crate::units::human(m.undeclared_threads().filter(|_| m.outcome.is_measured())?, "1");
    Some(format!(
        "other threads of this program worked meanwhile ({share} of its CPU time): declare them with .many_threads()"
    ))
}

/// Share of the samples with an involuntary context switch.
pub(super) fn switched_share(m: &Measurement) -> Option<f64> {
    let known: Vec<u64> = m.samples.iter().filter_map(|sample| sample.switches).collect();
    let switched = known.iter().filter(|switches| **switches > 0).count();
    (!known.is_empty()).then(|| switched as f64 / known.len() as f64)
}
