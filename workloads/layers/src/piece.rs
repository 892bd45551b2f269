//! One piece of the work: whole rows of every array, and how to compute it.

use std::cell::RefCell;

use super::line::{self, Flat};
use super::loss::SquaredError;
use super::norm::{self, Norm};
use super::op::{Op, Step};
use super::soft_targets::SoftCrossEntropy;
use super::softmax::{self, CrossEntropy, Share, Softmax};
use super::{reference, scalar};
use ellwand_simd::buffer::{Buffer, Pages};
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::dispatch;

/// Values shared by all pieces of a step.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) step: Step,
    /// Length of a row.
    pub(super) d: usize,
    pub(super) eps: f32,
    /// True for the tanh form of GELU.
    pub(super) tanh: bool,
    /// True if losses are written individually.
    pub(super) each: bool,
    /// Use non-temporal stores; pieces and rows are then aligned to a vector.
    pub(super) stream: bool,
    /// True if the main input exceeds the caches.
    pub(super) far: bool,
    /// gamma and beta, or the bias; empty if unused.
    pub(super) vectors: [&'a [f32]; 2],
}

/// Rows of the arrays; unused arrays are empty.
pub(super) struct Piece<'a, T = f32> {
    pub(super) x: &'a [T],
    pub(super) second: &'a [T],
    pub(super) labels: &'a [i64],
    pub(super) y: &'a mut [T],
    /// Output: x + residual.
    pub(super) sum: &'a mut [T],
}

/// The method used to compute a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// In f64, rounded once at the end.
    Reference,
    /// In plain f32 loops.
    Scalar,
    /// In vector lanes.
    Vector(Isa),
}

impl Way {
    /// The instruction set, if it uses vectors: stores and conversions depend on it.
    pub(super) fn isa(self) -> Option<Isa> {
        match self {
            Way::Vector(isa) => Some(isa),
            Way::Reference | Way::Scalar => None,
        }
    }

    /// Bytes that a thread holds while it computes a step on rows of `d` values.
    pub(super) fn held(self, step: Step, d: usize) -> usize {
        match (self, step) {
            (Way::Reference, Step::Whole(Op::LayerNorm | Op::ResidualLayerNorm)) => size_of::<f64>() * d,
            (Way::Vector(_), Step::Whole(Op::Softmax)) => scratch_bytes(softmax::SCRATCH * d),
            (Way::Vector(_), Step::Whole(Op::ResidualLayerNorm)) => scratch_bytes(norm::SCRATCH * d),
            _ => 0,
        }
    }

    /// Computes a piece; returns the sum of its losses (0 for other operations).
    pub(super) fn run(self, plan: &Plan<'_>, piece: Piece<'_>) -> f64 {
        let _span = span(plan.step);
        self.compute(plan, piece)
    }

    /// As [`Way::run`] without a span, for parts of a piece.
    pub(super) fn compute(self, plan: &Plan<'_>, piece: Piece<'_>) -> f64 {
        match self {
            Way::Reference => reference::piece(plan, piece),
            Way::Scalar => scalar::piece(plan, piece),
            Way::Vector(isa) => vector(isa, plan, piece),
        }
    }
}

/// One span per piece, never per row.
pub(super) fn span(step: Step) -> ellwand_profile::Guard {
    use ellwand_profile::span;
    match step {
        Step::Whole(Op::LayerNorm) => span!("layer-norm"),
        Step::Whole(Op::Gelu) => span!("gelu"),
        Step::Whole(Op::Swish) => span!("swish"),
        Step::Whole(Op::Softmax) => span!("softmax"),
        Step::Whole(Op::MseLoss) => span!("mse-loss"),
        Step::Whole(Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss) => span!("cross-entropy-loss"),
        Step::Whole(Op::BiasGelu) => span!("bias-gelu"),
        Step::Whole(Op::ResidualLayerNorm) => span!("residual-layer-norm"),
        Step::Whole(Op::SwiGlu) => span!("swiglu"),
        Step::AddBias => span!("add-bias"),
        Step::Add => span!("add"),
        Step::Multiply => span!("multiply"),
    }
}

/// Number of f32 in a page of memory.
pub(super) const PAGE: usize = 1024;

/// A buffer for the rows that a kernel works on, kept per thread so that no run allocates. It starts on a page, like
/// most large arrays. A CPU mistakes a load for a recent store if the last twelve address bits are equal, so a kernel's
/// stores must not be a few vectors ahead of its loads within a page.
pub(super) fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [f32]) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<Buffer> = RefCell::default();
    }
    SCRATCH.with_borrow_mut(|scratch| {
        if scratch.len() < len + PAGE {
            *scratch = Buffer::filled(len + PAGE, 0.0, Pages::Heap);
        }
        // If the alignment is unknown, any offset will do.
        let skip = scratch.as_ptr().align_offset(4 * PAGE).min(PAGE);
        work(&mut scratch[skip..skip + len])
    })
}

/// Size of the buffer of [`with_scratch`] in bytes.
pub(super) fn scratch_bytes(len: usize) -> usize {
    size_of::<f32>() * (len + PAGE)
}

fn vector(isa: Isa, plan: &Plan<'_>, piece: Piece<'_>) -> f64 {
    let Piece { x, second, labels, y, sum } = piece;
    let (d, stream) = (plan.d, plan.stream);
    match (plan.step, plan.tanh) {
        (Step::Whole(Op::Gelu), false) => dispatch(isa, Flat { a: x, b: x, y, stream, op: line::Gelu::<false> }),
        (Step::Whole(Op::Gelu), true) => dispatch(isa, Flat { a: x, b: x, y, stream, op: line::Gelu::<true> }),
        (Step::Whole(Op::Swish), _) => dispatch(isa, Flat { a: x, b: x, y, stream, op: line::Swish }),
        (Step::Whole(Op::SwiGlu), _) => dispatch(isa, Flat { a: x, b: second, y, stream, op: line::SwishTimes }),
        (Step::Add, _) => dispatch(isa, Flat { a: x, b: second, y, stream, op: line::Add }),
        (Step::Multiply, _) => dispatch(isa, Flat { a: x, b: second, y, stream, op: line::Multiply }),
        (Step::AddBias, _) => dispatch(isa, Flat { a: x, b: plan.vectors[0], y, stream, op: line::Add }),
        (Step::Whole(Op::BiasGelu), false) => {
            dispatch(isa, Flat { a: x, b: plan.vectors[0], y, stream, op: line::AddGelu::<false> });
        }
        (Step::Whole(Op::BiasGelu), true) => {
            dispatch(isa, Flat { a: x, b: plan.vectors[0], y, stream, op: line::AddGelu::<true> });
        }
        (Step::Whole(Op::MseLoss), _) if plan.each => {
            dispatch(isa, Flat { a: x, b: second, y, stream, op: line::SquaredDifference });
        }
        (Step::Whole(Op::MseLoss), _) => return dispatch(isa, SquaredError { x, target: second }),
        (Step::Whole(Op::CrossEntropyLoss), _) => {
            return dispatch(isa, CrossEntropy { x, labels, d, each: plan.each, far: plan.far, y });
        }
        (Step::Whole(Op::SoftCrossEntropyLoss), _) => {
            return dispatch(isa, SoftCrossEntropy { x, target: second, d, each: plan.each, y });
        }
        (Step::Whole(Op::Softmax), _) => {
            with_scratch(softmax::SCRATCH * d, |scratch| {
                dispatch(isa, Softmax { x, d, y, stream, scratch, weigh: Share });
            });
        }
        (Step::Whole(Op::LayerNorm), _) => {
            let [gamma, beta] = plan.vectors;
            dispatch(
                isa,
                Norm::<false> { x, residual: x, d, eps: plan.eps, gamma, beta, y, sum, stream, scratch: &mut [] },
            );
        }
        (Step::Whole(Op::ResidualLayerNorm), _) => with_scratch(norm::SCRATCH * d, |scratch| {
            let [gamma, beta] = plan.vectors;
            dispatch(isa, Norm::<true> { x, residual: second, d, eps: plan.eps, gamma, beta, y, sum, stream, scratch });
        }),
    }
    0.0
}
