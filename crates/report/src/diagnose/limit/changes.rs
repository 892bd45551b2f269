//! The changes that would help most: for each CPU limit, the levers that act on it, each with an upper bound on its
//! saving.

use ellwand_core::ceiling::{cost, operations};
use ellwand_core::{Ceiling, CeilingKind, Environment, Measurement, Parallelism, ceiling};
use serde::Serialize;

use super::{Diagnosis, Limit};

ellwand_core::words! {
    /// A kind of change that can save time.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Lever {
        /// Combine with the previous or next step, so that data move only once.
        Fusion = "fusion",
        /// Keep buffers between calls.
        BufferReuse = "reuse of buffers",
        /// Process more items per call.
        Batching = "batching",
        /// Use more or fewer threads.
        Threads = "threads",
        /// Use smaller data types.
        Precision = "precision",
        /// Do the same work closer to the ceiling.
        Tuning = "tuning",
        /// Use several independent chains, or order data by use.
        Independence = "independent loads",
        /// Keep data where they are computed.
        Residency = "data that stay",
        /// Overlap transfers with computation.
        Overlap = "overlap",
    }
    /// The name of the lever in messages.
    fn word;
}

/// A lever and the most that it can save.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saving {
    /// The lever to use.
    pub lever: Lever,
    /// Upper bound on the share of the time that it saves.
    pub saving_upper_bound: f64,
    /// What to try next.
    pub experiment: &'static str,
}

/// Smallest saving worth mentioning.
const WORTH: f64 = 0.02;

/// Levers worth mentioning.
#[derive(Default)]
pub(super) struct Levers(Vec<Saving>);

impl Levers {
    /// Adds a lever that saves at most the share `saving` of the time.
    pub(super) fn add(&mut self, lever: Lever, saving: f64, experiment: &'static str) {
        if saving.is_finite() && saving >= WORTH {
            self.0.push(Saving { lever, saving_upper_bound: saving.min(1.0), experiment });
        }
    }

    pub(super) fn best_first(mut self) -> Vec<Saving> {
        self.0.sort_by(|a, b| b.saving_upper_bound.total_cmp(&a.saving_upper_bound));
        self.0
    }
}

/// The levers for the limit of a measurement, best first.
pub(super) fn changes(d: &Diagnosis, m: &Measurement, e: &Environment, ceilings: &[Ceiling]) -> Vec<Saving> {
    let share = |limit| d.seconds(limit) / d.time_s;
    let (memory, compute) = (share(Limit::Memory), share(Limit::Compute));
    let mut levers = Levers::default();
    match d.limit {
        Limit::Memory => of_memory(&mut levers, d, m, e, ceilings),
        Limit::Compute => of_compute(&mut levers, d, m, e, ceilings),
        Limit::Issue | Limit::Dependency | Limit::Instructions => {
            levers.add(Lever::Threads, spread(m, e.cores, d, ceilings), SEVERAL_THREADS);
            levers.add(Lever::Tuning, d.share, fewer_or_faster(d, m));
        }
        Limit::PageFaults => levers.add(
            Lever::BufferReuse,
            // The cost of a fault varies, so its product with the count is no bound.
            1.0 - memory.max(compute),
            "keep the buffers between calls, or ask for huge pages, and check that the faults per iteration vanish",
        ),
        Limit::ThreadWake => {
            let one = alone(m, e, ceilings).map_or(0.0, |seconds| 1.0 - seconds / d.time_s);
            let waking = 1.0 - memory.max(compute);
            let at_once = "give one call more work, so the threads are woken once for all of it";
            levers.add(Lever::Batching, waking, at_once);
            levers.add(Lever::Threads, one, "run it on one thread at this size");
        }
        Limit::Contended => levers.add(
            Lever::Threads,
            d.share,
            "give each thread separate data and combine the results at the end; compare with one thread",
        ),
        Limit::IdleThreads => levers.add(
            Lever::Threads,
            d.share,
            "split the work into equal parts for all threads, and look for parts that one thread does alone",
        ),
        Limit::Overhead => levers.add(
            Lever::Batching,
            1.0 - memory.max(compute),
            "let one call process more items, and compare the time per item",
        ),
        Limit::Latency => levers.add(
            Lever::Independence,
            1.0 - memory,
            "follow several chains at once, or sort the accesses, and compare the time per load",
        ),
        // Launch and transfer are limits of devices, and for a time above the ceiling or on a busy machine there is no
        // advice on the code.
        Limit::AboveCeiling | Limit::FewSlots | Limit::Launch | Limit::Transfer | Limit::HeldUp => {}
        Limit::Unexplained if d.cold => levers.add(Lever::Tuning, 1.0 - d.share, AGAINST_WARM),
        Limit::Unexplained => levers.add(
            Lever::Tuning,
            1.0 - d.share,
            "run it under a sampling profiler with `run --once`: look for dependent arithmetic, branches, look-ups and conversions",
        ),
    }
    levers.best_first()
}

const AGAINST_WARM: &str =
    "compare with warm caches: the difference is the time in which data, code and page tables come from memory";
const SEVERAL_THREADS: &str = "run the implementation with several threads at the same case";

fn of_memory(levers: &mut Levers, d: &Diagnosis, m: &Measurement, e: &Environment, ceilings: &[Ceiling]) {
    let [memory, compute] = [Limit::Memory, Limit::Compute].map(|limit| d.seconds(limit) / d.time_s);
    let wide = d.level.as_deref() == Some("DRAM") && !m.work.bf16 && !m.work.narrow;
    levers.add(
        Lever::Fusion,
        // Without any traffic, only the arithmetic remains.
        memory.min(1.0 - compute),
        "compute it in the same pass as the step before or after, and compare the two forms",
    );
    levers.add(
        Lever::Precision,
        if wide { memory / 2.0 } else { 0.0 },
        "store 16-bit numbers instead of 32-bit ones, and compare the error as well as the time",
    );
    levers.add(Lever::Threads, more_threads(d, m, e, ceilings), SEVERAL_THREADS);
    levers.add(
        Lever::Tuning,
        1.0 - memory,
        "compare ordinary with non-temporal stores, and check whether bytes move more than once",
    );
}

fn of_compute(levers: &mut Levers, d: &Diagnosis, m: &Measurement, e: &Environment, ceilings: &[Ceiling]) {
    let compute = d.seconds(Limit::Compute) / d.time_s;
    levers.add(Lever::Threads, more_threads(d, m, e, ceilings), SEVERAL_THREADS);
    levers.add(
        Lever::Precision,
        if m.work.double { compute / 2.0 } else { 0.0 },
        "compute in f32, with twice the lanes, and compare the error as well as the time",
    );
    levers.add(
        Lever::Tuning,
        1.0 - compute,
        "look at the share of instructions that are multiply-adds, with a sampling profiler and `run --once`",
    );
}

/// What to try if instructions are the limit.
fn fewer_or_faster(d: &Diagnosis, m: &Measurement) -> &'static str {
    // Counters that the run could not read are not available to `perf stat` either.
    let uncounted = m.reading("cycles").is_some_and(|cycles| cycles.value.is_none());
    match d.limit {
        Limit::Issue => "do the same with fewer instructions: wider vectors, tables, or fewer conversions and moves",
        Limit::Dependency => {
            "compute several independent results at once, and replace divisions, roots and unpredictable branches"
        }
        _ if d.one_lane => {
            "check whether the compiler vectorises its loops, and if not, why; or write them with vector instructions"
        }
        _ if uncounted => "find the loop that takes the time (`perf record` with `run --once`)",
        _ => {
            "count its instructions and cycles (`perf stat` with `run --once`) and find the loop that takes them (`perf record`)"
        }
    }
}

/// Upper bound on what using all threads could save: compares the limits of all threads, with their wake-up, to those
/// of one thread.
fn more_threads(d: &Diagnosis, m: &Measurement, e: &Environment, ceilings: &[Ceiling]) -> f64 {
    if m.ran_on() == Parallelism::Many {
        return 0.0;
    }
    let Some(many) = ceiling::roof(e, &m.work_done(), Parallelism::Many, &m.device, m.caches) else {
        return 0.0;
    };
    let wake = cost(ceilings, CeilingKind::Wake).map_or(0.0, |ceiling| ceiling.value);
    let bound = d.seconds(Limit::Memory).max(d.seconds(Limit::Compute));
    if bound <= 0.0 { 0.0 } else { 1.0 - (many.limit_s + wake) / bound }
}

/// Upper bound on what spreading the instructions of one thread over all processors could save.
fn spread(m: &Measurement, cores: u32, d: &Diagnosis, ceilings: &[Ceiling]) -> f64 {
    let wake = cost(ceilings, CeilingKind::Wake).map_or(0.0, |ceiling| ceiling.value);
    match m.ran_on() {
        Parallelism::Single => d.share * (1.0 - 1.0 / f64::from(cores.max(1))) - wake / d.time_s,
        Parallelism::Many => 0.0,
    }
}

/// The least time that one thread needs, in seconds.
fn alone(m: &Measurement, e: &Environment, ceilings: &[Ceiling]) -> Option<f64> {
    let memory = ceiling::traffic(e, ceilings, &m.work, Parallelism::Single, m.caches).map(|traffic| traffic.seconds);
    let compute = operations(ceilings, &m.work, Parallelism::Single).map(|c| m.work_done().flops / c.value);
    Some(memory.unwrap_or(0.0).max(compute?))
}
