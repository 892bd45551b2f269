//! Gradients of the layer operations: the backward pass of a training step.
//!
//! With L the loss of a whole model, an operation receives dy = dL/dy (the upstream gradient) and computes dx = dL/dx,
//! and for layer normalisation dL/dgamma and dL/dbeta. Only the inputs of the forward pass are kept: means, variances
//! and sums of exponentials are recomputed from x, which for a row in the cache costs less than loading them from
//! memory.
//!
//! dgamma and dbeta are sums over all rows, computed in f32 over a few rows, in f64 over pieces of rows, and then over
//! the pieces in order, so one thread and many give the same bits.
//!
//! NaN and infinity: NaN in x or dy makes its element NaN (activations, `mse-loss-backward`), in x its row
//! (cross-entropy, layer normalisation, where dgamma becomes NaN in every column), in dy its row and its column of
//! dgamma and dbeta. An infinity in x gives NaN, as in PyTorch, whose formulas multiply it by a derivative of 0;
//! -infinity among logits is a class of weight 0.

mod data;
mod job;
mod line;
mod loss;
mod norm;
mod op;
mod piece;
mod reference;
mod scalar;
#[cfg(test)]
mod tests;
mod workload;

use ellwand_core::Registry;

/// Names of the workloads.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    op::Op::ALL.into_iter().map(op::Op::name)
}

/// Registers the workloads and their implementations.
pub(super) fn register(registry: &mut Registry) {
    for op in op::Op::ALL {
        registry.workload(workload::Backward::new(op));
        for row in job::implementations(op) {
            registry.implementation(row);
        }
    }
}
