//! Attention, as components and as a whole, and the transformer layer around it (group `transformer`, because
//! `attention` is the workload).
//!
//! `y = W_out concat_h(softmax(Q_h K_h^T / sqrt(e) + mask) V_h) + b_out` with Q, K, V = x W_qkv^T + b_qkv (A. Vaswani
//! et al., Attention Is All You Need, 2017); fewer heads of keys and values than of queries give grouped attention (J.
//! Ainslie et al., GQA, 2023). Rows that see no key give 0, as in PyTorch. NaN or infinity in a key makes every row
//! that sees it NaN; values of masked keys must be finite. The core also exists in bf16 (`--precision bf16`,
//! `bf16.rs`) and with another number of keys than of queries (`--keys`).

mod arrays;
mod backward;
mod bf16;
mod cublas;
mod cuda;
mod cuda_bf16;
mod deal;
mod few;
mod fused;
mod gpu;
mod hard;
mod job;
mod library;
mod naive;
mod ops;
mod reference;
mod shape;
mod softmax;
mod task;
#[cfg(test)]
mod tests;
mod way;
mod wgpu;
mod workload;

use ellwand_core::view::{Columns, Fused, Parts, View, Whole};
use ellwand_core::{Description, Reading, Registry};
use ellwand_gpu::Source;

pub use library::{Heads, attend};
use task::Task;
use workload::Attention;

/// The table of components, and when to recommend the fused implementations.
fn components() -> View {
    let parts = [
        ("attention-qkv", "QKV projection"),
        ("attention-scores", "score computation"),
        ("attention-softmax", "softmax"),
        ("attention-weighted-sum", "weighted sum"),
        ("attention-output", "output projection"),
    ];
    View::Parts(Parts {
        title: "attention by component".into(),
        parts: parts.map(|(workload, title)| (workload.into(), title.into())).into(),
        fused: Some(Fused {
            parts: parts[1..4].iter().map(|(workload, _)| (*workload).into()).collect(),
            worth: 0.05,
            advice: "use the fused implementation (`attention-core`, `attention`), which never writes the scores"
                .into(),
        }),
        whole: Some(Whole { workload: Task::Whole.name().into(), implementation: "simd".into() }),
    })
}

/// Registers the attention workloads, their implementations and their view.
pub fn register(registry: &mut Registry) {
    registry.views.push(components());
    let workloads = Task::ALL.iter().map(|task| task.name()).chain([backward::NAME]).map(String::from).collect();
    let readings = vec![Reading::EXTRA_MEMORY.into()];
    registry.views.push(View::Columns(Columns { workloads, readings }));
    for task in Task::ALL {
        let mut axes = shape::axes();
        if task == Task::Core {
            axes.extend([shape::keys(), shape::precision()]);
            registry.implementation(cuda_bf16::implementation(task));
        }
        let description = Description::new(task.name(), task.about()).group("transformer").axes(axes);
        let description = description.sizes(shape::sizes()).baseline(task.baseline());
        registry.workload(Attention { task, description });
        for implementation in job::implementations(task) {
            registry.implementation(implementation);
        }
        for row in gpu::implementations(task) {
            registry.implementation(row);
        }
    }
    backward::register(registry);
}

/// Sources of the GPU kernels, for checks that compile them all.
pub fn gpu_sources() -> Vec<&'static Source> {
    vec![&cuda::SOURCE, &cuda_bf16::SOURCE, &cuda_bf16::HOPPER, &wgpu::SOURCE]
}
