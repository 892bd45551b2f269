//! Attention in WGSL: components and projections as products (`product.wgsl`), softmax and the fused core
//! (`attention.wgsl`), and the norms of the layer (`layers.wgsl`).

use super::Task;
use super::gpu::{Kernels, Steps};
use ellwand_gpu::products::{Place, Products, Sees, Then, word};
use ellwand_gpu::{Arg, GpuError, Grid, Job, Source, wgsl};

pub(super) static SOURCE: Source =
    wgsl!("attention.wgsl", "../../../devices/gpu/src/invocation.wgsl", "../../../devices/gpu/src/portable.wgsl");

/// Largest head that the fused kernel supports, and queries per workgroup.
const MAX_HEAD: usize = 128;
const QUERIES: usize = 16;

/// The kernels of `product.wgsl`, `attention.wgsl` and `layers.wgsl`.
pub(super) struct Wgpu;

/// Arguments shared by both kernels of `attention.wgsl`, and the lengths.
fn shared_args(steps: &mut Steps<Wgpu>, places: [Place; 4]) -> Result<(Vec<Arg>, Arg), GpuError> {
    let s = steps.s;
    let sizes = [s.batch, s.heads, s.heads / s.kv_heads, s.sequence, s.head()];
    let mut args = sizes.into_iter().map(word).collect::<Result<Vec<Arg>, _>>()?;
    let (mask, lengths) = match steps.sees {
        // Even an unused binding needs an array.
        Sees::All => (0, steps.scratch(1)?),
        Sees::Causal => (1, steps.scratch(1)?),
        Sees::Lengths(at) => (2, at),
    };
    args.extend([Arg::U32(mask), Arg::F32(s.scale() as f32)]);
    let [q, k, v, out] = places;
    let offsets = [q.start, q.batch, q.head, q.row, k.start, v.start, k.batch, k.head, k.row];
    for value in offsets.into_iter().chain(out.steps()) {
        args.push(word(value)?);
    }
    Ok((args, lengths))
}

impl Kernels for Wgpu {
    /// The fused kernel itself rejects heads that are too large: the alternative would write all scores to memory.
    const HEADS: &'static [usize] = &[usize::MAX];
    type Around = ellwand_layers::Wgpu;

    fn product(products: &Products, job: &mut Job) -> Result<(), GpuError> {
        products.launch_wgpu(job, Then::Nothing)
    }

    fn softmax(steps: &mut Steps<Self>, scores: Arg, weights: Arg) -> Result<(), GpuError> {
        let (mut args, lengths) = shared_args(steps, [Place::one(scores, 0); 4])?;
        args.extend([scores, lengths, weights]);
        let groups = steps.s.positions() * steps.s.heads;
        steps.job.launch(&SOURCE, "softmax", Grid::line(groups, 128), args)
    }

    fn fused(steps: &mut Steps<Self>, _: usize, places: [Place; 4]) -> Result<(), GpuError> {
        let s = steps.s;
        if s.head() > MAX_HEAD {
            let why = format!("a head has {} values, and the maximum of the fused kernel is {MAX_HEAD}", s.head());
            return Err(GpuError::Absent(why));
        }
        let (mut args, lengths) = shared_args(steps, places)?;
        let [q, k, v, out] = places.map(|place| place.at);
        args.extend([q, k, v, lengths, out]);
        let groups = s.batch * s.heads * s.sequence.div_ceil(QUERIES);
        steps.job.launch(&SOURCE, "fused", Grid::line(groups, 128), args)
    }

    /// Uploads the lengths as 32-bit integers.
    fn lengths(job: &mut Job, lengths: &[i64]) -> Result<Arg, GpuError> {
        let lengths: Vec<i32> = lengths.iter().map(|length| i32::try_from(*length).unwrap_or(i32::MAX)).collect();
        job.upload::<i32>(&lengths)
    }

    /// Residuals and the activation are fused with the preceding products.
    fn layer(steps: &mut Steps<Self>, input: &dyn Fn(&str) -> Arg, y: Arg) -> Result<(), GpuError> {
        let (positions, d, x) = (steps.s.positions(), steps.s.dimension, input("x"));
        let (between, hidden) = (steps.scratch(positions * d)?, steps.scratch(4 * positions * d)?);
        let normed = steps.scratch(positions * d)?;
        steps.norm(x, ["gamma_1", "beta_1"].map(input), normed, None)?;
        let context = steps.context(normed, input)?;
        steps.projected(context, input, between).launch_wgpu(&mut steps.job, Then::Add(x))?;
        steps.norm(between, ["gamma_2", "beta_2"].map(input), normed, None)?;
        let up = steps.linear([normed, input("w_up"), hidden], Some(input("b_up")), [positions, d, 4 * d]);
        up.launch_wgpu(&mut steps.job, Then::Gelu)?;
        let down = steps.linear([hidden, input("w_down"), y], Some(input("b_down")), [positions, 4 * d, d]);
        down.launch_wgpu(&mut steps.job, Then::Add(between))
    }
}

/// Description of the implementation of a task.
pub(super) fn about(task: Task) -> &'static str {
    match task {
        Task::Qkv | Task::Output | Task::Scores | Task::WeightedSum => {
            "tiles of 64 x 64 per workgroup, 4 x 4 per thread"
        }
        Task::Softmax => "one workgroup per row",
        Task::Core => "online softmax, 16 queries per workgroup, scores never leave it; heads up to 128",
        Task::Whole | Task::Layer => "tiled products around the fused core; heads up to 128",
    }
}
