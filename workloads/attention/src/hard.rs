//! Hard inputs for the attention workloads.
//!
//! Scores that share a large offset are exact here: queries and keys are small whole numbers except in their last value,
//! whose product is the offset, and the square root of the head size is a power of two. A difference from the reference is
//! then an error of the weights, and the set allows no more than for scores near 0.

use ellwand_core::{Case, HardSet, InputError, Tensors, Tolerance, Workload};

use super::bf16::INPUTS;
use super::shape::set_keys;
use super::{Attention, Task};
use ellwand_simd::isa::Isa;
use ellwand_simd::precision::{Precision, change, narrowed, widened};

/// Values per head.
const HEAD: usize = 16;
/// Keys: one more than a multiple of the small blocks, or than of the large ones.
const SHORT: usize = 65;
const LONG: usize = 513;

/// What is hard.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Ordinary,
    /// The number of keys differs from that of queries.
    Keys(usize),
    Offset(f32),
    /// Every score of a row is the same.
    Constant,
    /// Scores grow from key to key.
    Growing,
    /// Up to nearly the largest f32, of both signs.
    Huge,
    Tiny,
    /// Some scores are -inf, and so is a whole row.
    Infinite,
}

const SETS: [(&str, usize, Kind); 13] = [
    ("odd sizes", SHORT, Kind::Ordinary),
    ("more keys than queries", 7, Kind::Keys(SHORT)),
    ("fewer keys than queries", LONG, Kind::Keys(19)),
    ("one position", 1, Kind::Ordinary),
    ("offset 100", SHORT, Kind::Offset(100.0)),
    ("offset 1e4", SHORT, Kind::Offset(1e4)),
    ("offset 1e6", SHORT, Kind::Offset(1e6)),
    ("offset -1e6", LONG, Kind::Offset(-1e6)),
    ("constant rows", SHORT, Kind::Constant),
    ("growing scores", LONG, Kind::Growing),
    ("huge", SHORT, Kind::Huge),
    ("tiny", SHORT, Kind::Tiny),
    ("-inf", SHORT, Kind::Infinite),
];

/// The hard sets of a task.
pub(super) fn sets(workload: &Attention, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
    let task = workload.task;
    let kept = SETS.iter().filter(|(.., kind)| match kind {
        Kind::Ordinary | Kind::Tiny => true,
        Kind::Infinite => task == Task::Softmax,
        Kind::Keys(_) => task == Task::Core,
        _ => matches!(task, Task::Softmax | Task::Core),
    });
    kept.map(|(name, sequence, kind)| {
        let case = sized(case, *sequence, *kind, task == Task::Core);
        let inputs = workload.inputs(&case, seed ^ workload.data_digest(&case))?;
        let bf16 = Precision::of(&case) == Precision::Bf16;
        let wide = if bf16 { widened(inputs, &INPUTS)? } else { inputs };
        let hard = hardened(task, wide, *sequence, *kind)?;
        let also = Isa::others(&case);
        let set = if bf16 {
            HardSet::new(*name, case, narrowed(hard, &INPUTS)?)
        } else if matches!(kind, Kind::Ordinary | Kind::Keys(_) | Kind::Tiny) {
            HardSet::new(*name, case, hard)
        } else {
            HardSet::new(*name, case, hard).within(exact_scores(task))
        };
        Ok(HardSet { also, ..set })
    })
    .collect()
}

/// The case of a set; `keys` if the task can choose their number.
fn sized(case: &Case, sequence: usize, kind: Kind, keys: bool) -> Case {
    let mut case = case.clone();
    let sizes = [("batch", 1), ("sequence", sequence), ("dimension", 2 * HEAD), ("heads", 2), ("kv-heads", 0)];
    for (axis, size) in sizes {
        case.set(axis, size as i64);
    }
    if keys {
        set_keys(&mut case, if let Kind::Keys(keys) = kind { keys } else { 0 });
    }
    case
}

/// The hard sets of the gradients of the core: sizes, and values near 0.
pub(super) fn of_gradients(workload: &dyn Workload, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
    let kept = SETS.iter().filter(|(.., kind)| matches!(kind, Kind::Ordinary | Kind::Keys(_) | Kind::Tiny));
    kept.map(|(name, sequence, kind)| {
        let case = sized(case, *sequence, *kind, true);
        let mut inputs = workload.inputs(&case, seed ^ workload.data_digest(&case))?;
        if *kind == Kind::Tiny {
            for name in ["q", "k", "v", "dcontext"] {
                change(&mut inputs, name, |_, x| x * 1e-15)?;
            }
        }
        let also = Isa::others(&case);
        Ok(HardSet { also, ..HardSet::new(*name, case, inputs) })
    })
    .collect()
}

/// Tolerance for scores that are exact. A weight is about as accurate as the difference of its score from the largest,
/// which is at most 64 here or gives a weight near 0.
fn exact_scores(task: Task) -> Tolerance {
    match task {
        Task::Softmax => Tolerance::Close { absolute: 1e-8, relative: 1e-5 },
        _ => Tolerance::Close { absolute: 4e-6, relative: 1e-5 },
    }
}

fn hardened(task: Task, mut inputs: Tensors, sequence: usize, kind: Kind) -> Result<Tensors, InputError> {
    let mut replace = |name: &str, width: usize, of: &dyn Fn([usize; 2], f32) -> f32| -> Result<(), InputError> {
        change(&mut inputs, name, |at, x| of([at / width, at % width], x))
    };
    match task {
        _ if matches!(kind, Kind::Ordinary | Kind::Keys(_)) => {}
        Task::Softmax => replace("scores", sequence, &|at, x| score(kind, at, x))?,
        Task::Core if kind != Kind::Tiny => {
            replace("q", HEAD, &|[_, column], x| match column {
                0..LAST => x.clamp(-2.0, 2.0).round(),
                _ => query(kind),
            })?;
            replace("k", HEAD, &|[row, column], x| match (kind, column) {
                (Kind::Constant, 0..LAST) => 1.0,
                (_, 0..LAST) => x.clamp(-2.0, 2.0).round(),
                _ => key(kind, row % sequence),
            })?;
        }
        _ => {
            for name in ["x", "q", "k", "v", "context", "weights"] {
                replace(name, HEAD, &|_, x| x * 1e-30)?;
            }
        }
    }
    Ok(inputs)
}

/// The last value of a query or key.
const LAST: usize = HEAD - 1;

/// A score whose ordinary value is `x`.
fn score(kind: Kind, [row, column]: [usize; 2], x: f32) -> f32 {
    match kind {
        Kind::Ordinary | Kind::Keys(_) => x,
        Kind::Offset(offset) => offset + (x * 8.0).round() / 8.0,
        Kind::Constant => [0.0, 1.0, -1e4, 3.3e7, 1e-30, -3.4e38, 3.4e38][row % 7],
        Kind::Growing => column as f32 * (row % 5) as f32,
        Kind::Huge => match row % 3 {
            0 if (row + column).is_multiple_of(2) => f32::MAX,
            0 => f32::MIN,
            1 => x.clamp(-3.0, 3.0) * 1e38,
            _ => x * 1e11,
        },
        Kind::Tiny => x * 1e-38,
        Kind::Infinite if column % 3 == 1 || row == 3 => f32::NEG_INFINITY,
        Kind::Infinite => x,
    }
}

/// The last value of every query; all values are exact in bf16 too.
fn query(kind: Kind) -> f32 {
    match kind {
        Kind::Offset(_) => 1000.0,
        Kind::Growing => 4.0,
        Kind::Huge => 1e15,
        _ => 0.0,
    }
}

/// The last value of key `row`.
fn key(kind: Kind, row: usize) -> f32 {
    match kind {
        // The score is divided by 4, the square root of the head size.
        Kind::Offset(offset) => offset * 4.0 / 1000.0,
        Kind::Growing => row as f32,
        Kind::Huge => ((row * 37) % SHORT) as f32 * 4e21 - 1.3e23,
        _ => 0.0,
    }
}
