//! The CPU implementations of each task, one row each.

use super::Task;
use super::fused::Tiling;
use super::shape::Shape;
use ellwand_simd::pool;

/// A method of computing a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) steps: Steps,
    /// True to use all threads.
    pub(super) parallel: bool,
}

/// How a method performs the steps of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Steps {
    /// One after another, in f64.
    Reference,
    /// Plain loops; all scores are in memory.
    Plain,
    /// Packed products and vector lanes; all scores are in memory.
    Packed,
    /// Online softmax over tiles: scores never leave the cache.
    Tiled(Tiling),
    /// The smallest tiles, and a few queries at a time from projection to output: memory does not grow with the
    /// sequence.
    Streamed,
}

impl Way {
    const fn new(name: &'static str, about: &'static str, steps: Steps) -> Self {
        Self { name, about, steps, parallel: false }
    }

    const fn on_all_threads(self) -> Self {
        Self { parallel: true, ..self }
    }

    // These matches name every method, so that a new method does not compile until each match covers it.

    pub(super) fn is_reference(&self) -> bool {
        match self.steps {
            Steps::Reference => true,
            Steps::Plain | Steps::Packed | Steps::Tiled(_) | Steps::Streamed => false,
        }
    }

    /// True for plain loops, false for packed products; the reference has neither.
    pub(super) fn is_plain(&self) -> bool {
        match self.steps {
            Steps::Plain => true,
            Steps::Reference | Steps::Packed | Steps::Tiled(_) | Steps::Streamed => false,
        }
    }

    pub(super) fn is_streamed(&self) -> bool {
        match self.steps {
            Steps::Streamed => true,
            Steps::Reference | Steps::Plain | Steps::Packed | Steps::Tiled(_) => false,
        }
    }

    /// True if all scores are in memory at once.
    pub(super) fn keeps_scores(&self) -> bool {
        match self.steps {
            Steps::Plain | Steps::Packed => true,
            Steps::Reference | Steps::Tiled(_) | Steps::Streamed => false,
        }
    }

    /// The products whose packed factors need room, as columns and length of the sums.
    pub(super) fn products(&self, task: Task, s: &Shape) -> Vec<(usize, usize)> {
        let (d, n, head) = (s.dimension, s.sequence, s.head());
        let projections = [(s.projected(), d), (d, d)];
        match self.steps {
            Steps::Reference | Steps::Plain => Vec::new(),
            Steps::Packed | Steps::Tiled(_) | Steps::Streamed => match task {
                Task::Qkv => vec![(s.projected(), d)],
                Task::Scores => vec![(n, head)],
                Task::Softmax => Vec::new(),
                Task::WeightedSum => vec![(head, n)],
                Task::Output => vec![(d, d)],
                Task::Core if self.keeps_scores() => vec![(s.keys, head), (head, s.keys)],
                Task::Core => Vec::new(),
                Task::Whole if self.keeps_scores() => [&[(n, head), (head, n)][..], &projections].concat(),
                Task::Whole if self.is_streamed() => vec![(2 * s.kv_heads * head, d), (d, d)],
                Task::Whole => projections.into(),
                Task::Layer => [&projections[..], &[(4 * d, d), (d, 4 * d)]].concat(),
            },
        }
    }

    pub(super) fn tiling(&self) -> Option<Tiling> {
        match self.steps {
            Steps::Tiled(tiling) => Some(tiling),
            Steps::Streamed => Some(Tiling::SMALL),
            Steps::Reference | Steps::Plain | Steps::Packed => None,
        }
    }

    /// Number of threads that the method uses.
    pub(super) fn threads(&self) -> usize {
        if self.parallel { pool::threads() } else { 1 }
    }

    /// Describes what ran: the instruction set `isa` and the threads of the last run.
    pub(super) fn what_ran(&self, isa: &str, threads: usize) -> String {
        match self.steps {
            Steps::Reference => format!("f64, {}", pool::about(pool::threads(), "values")),
            Steps::Plain => "scalar".into(),
            Steps::Streamed => format!("{isa}, tiles of {} keys", Tiling::SMALL.keys),
            Steps::Packed | Steps::Tiled(_) if self.parallel => format!("{isa}, {}", pool::about(threads, "values")),
            Steps::Packed | Steps::Tiled(_) => isa.into(),
        }
    }
}

const REFERENCE: Way = Way::new("reference", "step by step in f64", Steps::Reference).on_all_threads();

const CORE: &[Way] = &[
    REFERENCE,
    Way::new("naive", "plain loops, all scores in memory", Steps::Plain),
    Way::new("blocked", "packed products and vector softmax, all scores in memory", Steps::Packed),
    Way::new(
        "fused",
        "online softmax, scores never leave the cache: memory linear in the sequence",
        Steps::Tiled(Tiling::FAST),
    ),
    Way::new("parallel", "the fused form on all threads", Steps::Tiled(Tiling::FAST)).on_all_threads(),
    Way::new("memory-efficient", "the fused form with the smallest tiles and buffers", Steps::Streamed),
];

const LAYER: &[Way] = &[
    REFERENCE,
    Way::new("simd", "packed products and fused attention on one thread", Steps::Tiled(Tiling::FAST)),
    Way::new("parallel", "the same on all threads", Steps::Tiled(Tiling::FAST)).on_all_threads(),
];

const STEP: &[Way] = &[
    REFERENCE,
    Way::new("scalar", "plain loops on one thread", Steps::Plain),
    Way::new("simd", "vector lanes on one thread", Steps::Packed),
    Way::new("parallel", "the same on all threads", Steps::Packed).on_all_threads(),
];

/// The implementations of a task, the reference first.
pub(super) fn ways(task: Task) -> &'static [Way] {
    match task {
        Task::Core | Task::Whole => CORE,
        Task::Layer => LAYER,
        Task::Qkv | Task::Scores | Task::Softmax | Task::WeightedSum | Task::Output => STEP,
    }
}
