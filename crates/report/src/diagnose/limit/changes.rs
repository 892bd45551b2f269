//! What would change most: for each limit of the processor the levers that act on it, each with an upper bound of what it can
//! save.

use ellwand_core::ceiling::{cost, operations};
use ellwand_core::{Ceiling, CeilingKind, Measurement, Parallelism, ceiling};
use serde::Serialize;

use super::{Diagnosis, Limit};

/// What can be turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lever {
    /// Compute together with the step before or after, so that the data move once.
    Fusion,
    /// Keep buffers between calls.
    BufferReuse,
    /// Do more in one call.
    Batching,
    /// Use more threads, or fewer.
    Threads,
    /// Smaller types.
    Precision,
    /// The same work closer to the ceiling.
    Tuning,
    /// Several independent chains at once, or data in the order of their use.
    Independence,
    /// Leave data where they are computed.
    Residency,
    /// Move data while computing.
    Overlap,
}

impl Lever {
    /// In a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Lever::Fusion => "fusion",
            Lever::BufferReuse => "reuse of buffers",
            Lever::Batching => "batching",
            Lever::Threads => "threads",
            Lever::Precision => "precision",
            Lever::Tuning => "tuning",
            Lever::Independence => "independent loads",
            Lever::Residency => "data that stay",
            Lever::Overlap => "overlap",
        }
    }
}

/// A lever with its bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The lever.
    pub lever: Lever,
    /// The share of the time that it can save at most.
    pub saving_upper_bound: f64,
    /// The next experiment.
    pub experiment: &'static str,
}

/// Savings below this are not worth a word.
const WORTH: f64 = 0.02;

/// Those that are worth a word.
#[derive(Default)]
pub(super) struct Levers(Vec<Change>);

impl Levers {
    /// One that saves at most this share of the time.
    pub(super) fn add(&mut self, lever: Lever, saving: f64, experiment: &'static str) {
        if saving.is_finite() && saving >= WORTH {
            self.0.push(Change { lever, saving_upper_bound: saving.min(1.0), experiment });
        }
    }

    pub(super) fn best_first(mut self) -> Vec<Change> {
        self.0.sort_by(|a, b| b.saving_upper_bound.total_cmp(&a.saving_upper_bound));
        self.0
    }
}

/// The levers that act on what bounds a measurement, best first.
pub(super) fn changes(d: &Diagnosis, m: &Measurement, ceilings: &[Ceiling]) -> Vec<Change> {
    let share = |limit| d.seconds(limit) / d.time_s;
    let (memory, compute) = (share(Limit::Memory), share(Limit::Compute));
    let mut levers = Levers::default();
    let mut add = |lever, saving, experiment| levers.add(lever, saving, experiment);
    match d.limit {
        Limit::Memory => {
            // What is left when all traffic is gone: the arithmetic.
            add(
                Lever::Fusion,
                memory.min(1.0 - compute),
                "compute it in the same pass as the step before or after, and compare the two forms",
            );
            add(
                Lever::Precision,
                memory / 2.0,
                "store 16-bit numbers in place of 32-bit ones, and look at the error with the time",
            );
            add(
                Lever::Threads,
                more_threads(d, m, ceilings),
                "run the implementation with several threads at the same case",
            );
            add(
                Lever::Tuning,
                1.0 - memory,
                "compare ordinary with non-temporal stores, and look whether bytes move more than once",
            );
        }
        Limit::Compute => {
            add(
                Lever::Threads,
                more_threads(d, m, ceilings),
                "run the implementation with several threads at the same case",
            );
            add(
                Lever::Precision,
                compute / 2.0,
                "twice the lanes with numbers of half the size, where the processor multiplies them",
            );
            add(
                Lever::Tuning,
                1.0 - compute,
                "look at the share of instructions that are multiply-adds, with a sampling profiler and `--once`",
            );
        }
        Limit::PageFaults => {
            add(
                Lever::BufferReuse,
                d.share,
                "keep the buffers between calls, or ask for huge pages, and see the faults an iteration vanish",
            );
        }
        Limit::ThreadWake => {
            let one = alone(m, ceilings).map_or(0.0, |seconds| 1.0 - seconds / d.time_s);
            let waking = 1.0 - memory.max(compute);
            add(Lever::Batching, waking, "give one call more work, so that the threads are woken once for all of it");
            add(Lever::Threads, one, "run it on one thread at this size");
        }
        Limit::Contended => {
            add(
                Lever::Threads,
                d.share,
                "give each thread data of its own and bring the results together at the end; compare with one thread",
            );
        }
        Limit::Overhead => {
            add(
                Lever::Batching,
                1.0 - memory.max(compute),
                "let one call process more items, and compare the time an item",
            );
        }
        Limit::Latency => {
            add(
                Lever::Independence,
                1.0 - memory,
                "follow several chains at once, or sort the accesses, and compare the time a load",
            );
        }
        // The last two are limits of devices.
        Limit::AboveCeiling | Limit::Launch | Limit::Transfer => {}
        Limit::Unexplained => {
            add(
                Lever::Tuning,
                1.0 - d.share,
                "run it under a sampling profiler with `--once`: look for dependent arithmetic, branches, look-ups and conversions",
            );
        }
    }
    levers.best_first()
}

/// What all threads could save at most: the limits of all threads against those of one, and the waking.
fn more_threads(d: &Diagnosis, m: &Measurement, ceilings: &[Ceiling]) -> f64 {
    if m.ran_on() == Parallelism::Many {
        return 0.0;
    }
    let Some(many) = ceiling::roof(ceilings, &m.work_done(), Parallelism::Many, &m.device, m.caches) else {
        return 0.0;
    };
    let wake = cost(ceilings, CeilingKind::Wake).map_or(0.0, |ceiling| ceiling.value);
    let bound = d.seconds(Limit::Memory).max(d.seconds(Limit::Compute));
    if bound <= 0.0 { 0.0 } else { 1.0 - (many.limit_s + wake) / bound }
}

/// The least that one thread needs.
fn alone(m: &Measurement, ceilings: &[Ceiling]) -> Option<f64> {
    let memory = ceiling::traffic(ceilings, &m.work, Parallelism::Single, m.caches).map(|traffic| traffic.seconds);
    let compute = operations(ceilings, &m.work, Parallelism::Single).map(|c| m.work_done().flops / c.value);
    Some(memory.unwrap_or(0.0).max(compute?))
}
