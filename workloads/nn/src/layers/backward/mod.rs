//! Gradients of the layer operations: what a training step computes on its way back.
//!
//! With L the loss of a whole model, an operation gets dy = dL/dy (the gradient of what follows) and gives dx = dL/dx, and for
//! layer normalisation dL/dgamma and dL/dbeta. Nothing is kept from the way forward but its inputs: means, variances and sums
//! of exponentials are computed again from x, which a row in the cache costs less than bringing them back from memory.
//!
//! The sums over all rows that dgamma and dbeta are, go in f32 over a few rows, in f64 over pieces of rows, and over the pieces
//! in order, so one thread and many give the same bits.
//!
//! NaN and infinity: NaN in x or dy makes its element NaN (activations, `mse-loss-backward`), in x its row (cross-entropy, layer
//! normalisation, where dgamma becomes NaN in every column), in dy its row and its column of dgamma and dbeta. An infinity in x
//! gives NaN, as in PyTorch, whose formulas multiply it with a derivative of 0; -infinity among logits is a class of weight 0.

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

/// Adds the workloads and their implementations.
pub(super) fn register(registry: &mut Registry) {
    for op in op::Op::ALL {
        registry.workload(workload::Backward::new(op));
        for row in job::implementations(op) {
            registry.implementation(row);
        }
    }
}
