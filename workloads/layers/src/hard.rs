//! Hard inputs for the layer operations and their gradients: ordinary arrays, except for x and the arrays that depend on
//! it.

use ellwand_core::{Case, HardSet, InputError, Tensors, Workload};

use super::half::INPUTS;
use super::op::Op;
use ellwand_simd::isa::Isa;
use ellwand_simd::precision::{Precision, change, narrowed, widened};

/// What is hard about x.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Ordinary,
    /// A large value is added to every element.
    Offset(f32),
    /// Few different values.
    Ties,
    Constant,
    /// Up to nearly the largest f32, of both signs.
    Huge,
    Tiny,
    /// Some values, and for a softmax a whole row, are -inf.
    Infinite,
}

/// Sets: name, rows times columns, and kind. 67 leaves a remainder after groups of four vectors of any width.
const SETS: [(&str, [i64; 2], Kind); 11] = [
    ("odd sizes", [7, 67], Kind::Ordinary),
    ("rows of one value", [5, 1], Kind::Ordinary),
    ("offset 100", [7, 67], Kind::Offset(100.0)),
    ("offset 1e4", [7, 67], Kind::Offset(1e4)),
    ("offset 1e6", [7, 300], Kind::Offset(1e6)),
    ("offset -1e6", [7, 67], Kind::Offset(-1e6)),
    ("ties", [7, 67], Kind::Ties),
    ("constant rows", [7, 67], Kind::Constant),
    ("huge", [8, 67], Kind::Huge),
    ("tiny", [7, 67], Kind::Tiny),
    ("-inf", [7, 67], Kind::Infinite),
];

/// Largest magnitude: bf16 can hold it too.
const HUGE: f32 = 3.3e38;

/// The hard sets of an operation or its gradient, whose ordinary inputs `workload` makes.
pub(super) fn sets(workload: &dyn Workload, op: Op, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
    let has_sums_of_exponentials = op == Op::Softmax || op.is_cross_entropy();
    let kept = SETS.iter().filter(|(.., kind)| *kind != Kind::Infinite || has_sums_of_exponentials);
    kept.map(|(name, [rows, columns], kind)| {
        let mut case = case.clone();
        for (axis, extent) in [("batch", 1), ("sequence", *rows), ("dimension", *columns)] {
            case.set(axis, extent);
        }
        let inputs = workload.inputs(&case, seed ^ workload.data_digest(&case))?;
        let bf16 = Precision::of(&case) == Precision::Bf16;
        let wide = if bf16 { widened(inputs, &INPUTS)? } else { inputs };
        let hard = hardened(op, wide, *columns as usize, *kind)?;
        let inputs = if bf16 { narrowed(hard, &INPUTS)? } else { hard };
        let also = Isa::others(&case);
        Ok(HardSet { also, ..HardSet::new(*name, case, inputs) })
    })
    .collect()
}

fn hardened(op: Op, mut inputs: Tensors, columns: usize, kind: Kind) -> Result<Tensors, InputError> {
    let mut replace = |name: &str, of: &dyn Fn(usize, f32) -> f32| change(&mut inputs, name, of);
    // Multiples of 1/8 up to 2^20 are exact, so that sums and differences are.
    let eighths = |x: f32| (x * 8.0).round() / 8.0;
    replace("x", &|at, x| value(op, kind, [at / columns, at % columns], x))?;
    match kind {
        Kind::Offset(offset) => {
            if op == Op::MseLoss {
                replace("target", &|_, x| offset + eighths(x))?;
            }
            replace("residual", &|_, x| eighths(x))?;
        }
        Kind::Constant => replace("residual", &|_, _| 0.0)?,
        Kind::Huge if op == Op::MseLoss => replace("target", &|_, x| x * 3e17)?,
        Kind::Tiny if op == Op::MseLoss => replace("target", &|_, x| x * 1e-38)?,
        Kind::Ordinary | Kind::Ties | Kind::Infinite | Kind::Huge | Kind::Tiny => {}
    }
    if kind == Kind::Infinite && op.has_labels() {
        let mut labels = inputs.get("labels")?.clone();
        // A finite loss: these columns stay finite.
        labels.i64_mut()?.iter_mut().for_each(|label| *label -= *label % 3);
        inputs.insert("labels", labels);
    }
    Ok(inputs)
}

/// Element of x whose ordinary value is `x`.
fn value(op: Op, kind: Kind, [row, column]: [usize; 2], x: f32) -> f32 {
    let sign = if (row + column).is_multiple_of(2) { 1.0 } else { -1.0 };
    match kind {
        Kind::Ordinary => x,
        Kind::Offset(offset) => offset + (x * 8.0).round() / 8.0,
        Kind::Ties => x.round(),
        Kind::Constant => [0.0, 1.0, -1e4, 3.3e7, 1e-30, -0.1, 1e30][row % 7],
        // Squares fit into f32, their sums do not.
        Kind::Huge if op == Op::MseLoss => x * 3e17,
        // Differences of two logits fit into f32.
        Kind::Huge if op.is_cross_entropy() => sign * x.abs().min(3.0) * 5e37,
        Kind::Huge => match row % 4 {
            0 => sign * HUGE,
            1 => HUGE - x.abs() * 1e33,
            2 => x * 1e19,
            _ => x.clamp(-3.0, 3.0) * 1e38,
        },
        Kind::Tiny => x * 1e-38,
        Kind::Infinite if column % 3 == 1 || (op == Op::Softmax && row == 3) => f32::NEG_INFINITY,
        Kind::Infinite => x,
    }
}
