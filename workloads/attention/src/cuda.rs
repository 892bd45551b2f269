//! Attention as CUDA kernels: products from `product.cu`, the masked softmax and the fused core from `attention.cu`,
//! norms and activation from `layers.cu`, all in f32.

use ellwand_core::{Case, PrepareError, Tensors};

use super::gpu::{Kernels, Steps};
use super::{Task, cuda_bf16};
use ellwand_gpu::products::{Place, Products};
use ellwand_gpu::{Arg, Gpu, GpuError, Grid, Job, Source, files, whole};

pub(super) static SOURCE: Source = Source {
    name: "attention.cu",
    text: files!("../../layers/src/rows.cuh", "mask.cuh", "attention.cu"),
    options: &[],
};

const THREADS: u32 = 256;
/// Queries and keys per block of the fused kernel.
const TILE: usize = 64;

/// The kernels of `product.cu`, `attention.cu` and `layers.cu`.
pub(super) struct Cuda;

impl Kernels for Cuda {
    const HEADS: &'static [usize] = &[32, 64, 128];
    type Around = ellwand_layers::Cuda;

    fn product(products: &Products, job: &mut Job) -> Result<(), GpuError> {
        products.launch_cuda(job)
    }

    fn softmax(steps: &mut Steps<Self>, scores: Arg, weights: Arg) -> Result<(), GpuError> {
        let rows = steps.s.positions() * steps.s.heads;
        let (sees, lengths) = steps.sees.args();
        let grid = Grid::line(rows.div_ceil(THREADS as usize / 32), THREADS);
        let args =
            vec![scores, lengths, weights, whole(steps.s.sequence), whole(steps.s.heads), sees, Arg::U64(rows as u64)];
        steps.job.launch(&SOURCE, "softmax_rows", grid, args)
    }

    fn fused(steps: &mut Steps<Self>, padded: usize, places: [Place; 4]) -> Result<(), GpuError> {
        let s = steps.s;
        let [q, k, _, out] = places;
        let wide = places[..3].iter().all(|place| {
            place.address().word().is_multiple_of(16) && place.steps().iter().all(|step| step.is_multiple_of(4))
        });
        let (sees, lengths) = steps.sees.args();
        let scale = s.scale() * std::f64::consts::LOG2_E;
        let mut args = places.map(Place::address).to_vec();
        args.extend([lengths, whole(s.sequence), whole(s.head()), whole(s.heads / s.kv_heads)]);
        args.extend([sees, Arg::U32(u32::from(wide)), Arg::F32(scale as f32)]);
        args.extend([q, k, out].iter().flat_map(|place| place.steps().map(|step| Arg::U64(step as u64))));
        let blocks = [s.heads, s.batch, s.sequence.div_ceil(TILE)].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        if s.batch > 65_535 {
            let problem = format!("{} sequences; the maximum of a grid is 65535", s.batch);
            return Err(GpuError::Call { call: "cuLaunchKernel", problem });
        }
        // Queries, keys or values, and weights, with rows padded by four values.
        let shared = 4 * TILE * (2 * (padded + 4) + TILE + 4);
        let grid = Grid { blocks, threads: [THREADS, 1, 1], shared: 0 }.shared(shared);
        steps.job.launch(&SOURCE, &format!("attention_{padded}"), grid, args)
    }

    fn narrow(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
        cuda_bf16::job(case, inputs, gpu)
    }
}

/// Description of the implementation of a task.
pub(super) fn about(task: Task) -> &'static str {
    match task {
        Task::Softmax => "one warp per row, f32",
        Task::Core => "fused online softmax over tiles of 64 queries and 64 keys; f32, or bf16 on tensor cores",
        Task::Whole => "fused online softmax over tiles of 64 queries and 64 keys, f32",
        Task::Layer => "products in tiles, fused attention, f32; bias with GELU, residual with norm",
        _ => "products in tiles of registers and shared memory, f32",
    }
}
