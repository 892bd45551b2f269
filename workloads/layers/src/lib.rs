//! The layer operations of a transformer besides its matrix products: normalisation, activations, softmax, losses, and
//! the pairs that models fuse.
//!
//! An array has the shape [batch, sequence, dimension]; a *row* is one vector along the last axis. Work is divided into
//! pieces of whole rows that depend only on the shape, so one thread and many give the same bits.
//!
//! NaN and infinity propagate as in PyTorch's eager kernels: NaN makes its element (activations, `mse-loss` without
//! reduction) or its row (normalisation, softmax, cross-entropy) NaN; +inf gives +inf in an activation and NaN in a
//! normalisation or softmax; -inf gives NaN in an activation (-inf times 0) and weight 0 in a softmax, unless the whole
//! row is -inf.

mod backward;
mod cuda;
mod data;
mod gelu;
mod gelu_exponent;
mod gelu_table;
mod gpu;
mod half;
mod hard;
mod input;
mod job;
mod labels;
mod library;
mod line;
mod loss;
mod norm;
mod op;
mod piece;
mod reference;
mod scalar;
mod shape;
mod soft_targets;
mod softmax;
#[cfg(test)]
mod tests;
mod wgpu;
mod workload;

use ellwand_core::view::{Columns, JsonForm, View};
use ellwand_core::{Reading, Registry};

use ellwand_gpu::Source;

pub use cuda::Cuda;
pub use gpu::{Kernels, Losses};
pub use library::Layer;
pub use norm::layer_norm;
pub use wgpu::Wgpu;

/// The JSON keys that scripts for layer benchmarks read.
fn json_form() -> View {
    let operations = [
        ("layer-norm", "LayerNorm"),
        ("gelu", "GELU"),
        ("swish", "Swish"),
        ("softmax", "Softmax"),
        ("mse-loss", "MSELoss"),
        ("cross-entropy-loss", "CrossEntropyLoss"),
    ];
    let axes = [("batch_size", "batch"), ("sequence_length", "sequence"), ("tensor_dimension", "dimension")];
    let owned = |(a, b): (&str, &str)| (a.to_string(), b.to_string());
    View::JsonForm(JsonForm { operations: operations.map(owned).into(), axes: axes.map(owned).into() })
}

/// Registers the layer workloads, their implementations and their view.
pub fn register(registry: &mut Registry) {
    registry.views.push(json_form());
    let workloads = op::Op::ALL.iter().map(|op| op.name()).chain(backward::names()).map(String::from).collect();
    let readings = [Reading::TOTAL_MEMORY, Reading::EXTRA_MEMORY].map(String::from).into();
    registry.views.push(View::Columns(Columns { workloads, readings }));
    for op in op::Op::ALL {
        registry.workload(workload::Layer::new(op));
        for implementation in job::implementations(op) {
            registry.implementation(implementation);
        }
        for row in gpu::implementations(op) {
            registry.implementation(row);
        }
    }
    backward::register(registry);
}

/// Sources of the GPU kernels, for checks that compile them all.
pub fn gpu_sources() -> Vec<&'static Source> {
    vec![&cuda::SOURCE, &wgpu::SOURCE]
}
