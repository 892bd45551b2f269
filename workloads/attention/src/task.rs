//! The components of attention: names, operations, baselines.

use super::shape::Shape;

/// Added to the variance of a layer norm.
pub(super) const EPSILON: f64 = 1e-5;

ellwand_core::words! {
    /// A component of attention, or the whole.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Task {
        Qkv = "attention-qkv",
        Scores = "attention-scores",
        Softmax = "attention-softmax",
        WeightedSum = "attention-weighted-sum",
        Output = "attention-output",
        Core = "attention-core",
        Whole = "attention",
        Layer = "transformer-layer",
    }
    /// The name of its workload.
    fn name;
}

impl Task {
    pub(super) fn about(self) -> &'static str {
        match self {
            Task::Qkv => "queries, keys and values from positions: x W^T + b",
            Task::Scores => "scores of every query and key: q k / sqrt(head), -inf where masked",
            Task::Softmax => "weights from scores, row by row",
            Task::WeightedSum => "sums of the values by weight",
            Task::Output => "output projection of the concatenated heads",
            Task::Core => "softmax(Q K^T / sqrt(head) + mask) V, between the projections",
            Task::Whole => "multi-head attention with its projections",
            Task::Layer => "transformer layer: norm, attention, residual, norm, MLP with GELU (tanh form), residual",
        }
    }

    pub(super) fn baseline(self) -> &'static str {
        match self {
            Task::Core | Task::Whole => "naive",
            Task::Layer => "reference",
            _ => "scalar",
        }
    }

    /// Required operations: two per multiply-add; for the softmax alone, five per weight.
    pub(super) fn flops(self, s: &Shape) -> f64 {
        let (positions, d) = (s.positions() as f64, s.dimension as f64);
        let pairs = s.pairs() * d;
        let (qkv, out) = (2.0 * positions * d * s.projected() as f64, 2.0 * positions * d * d);
        match self {
            Task::Qkv => qkv,
            Task::Scores | Task::WeightedSum => 2.0 * pairs,
            Task::Softmax => 5.0 * s.pairs() * s.heads as f64,
            Task::Output => out,
            Task::Core => 4.0 * pairs,
            Task::Whole => 4.0 * pairs + qkv + out,
            Task::Layer => 4.0 * pairs + qkv + out + 16.0 * positions * d * d,
        }
    }
}
