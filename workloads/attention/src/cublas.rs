//! The attention components that are products, computed by cuBLAS in f32 without TF32.

use super::Task;
use super::gpu::{Kernels, Steps};
use ellwand_gpu::products::{Place, Products};
use ellwand_gpu::{Arg, GpuError, Job};

/// The products of cuBLAS.
pub(super) struct Library;

fn more_than_a_product() -> Result<(), GpuError> {
    Err(GpuError::Absent("this task is more than a product, and cuBLAS has no kernel for it; use cuda".into()))
}

impl Kernels for Library {
    const HEADS: &'static [usize] = &[];
    type Around = ellwand_layers::Cuda;

    fn product(products: &Products, job: &mut Job) -> Result<(), GpuError> {
        products.launch_cublas(job)
    }

    fn softmax(_: &mut Steps<Self>, _: Arg, _: Arg) -> Result<(), GpuError> {
        more_than_a_product()
    }

    fn fused(_: &mut Steps<Self>, _: usize, _: [Place; 4]) -> Result<(), GpuError> {
        more_than_a_product()
    }
}

/// Description of a task that is a product; `None` for other tasks.
pub(super) fn about(task: Task) -> Option<&'static str> {
    match task {
        Task::Qkv | Task::Output => Some("NVIDIA's library, f32 without TF32, added to the bias"),
        Task::Scores | Task::WeightedSum => Some("NVIDIA's library, f32 without TF32; no mask"),
        _ => None,
    }
}
