//! The calibration tasks in WGSL (`calibration.wgsl`). WGSL cannot guarantee fused multiply-adds, so the `fma` row is
//! unsupported.

use ellwand_core::{Case, Device, Dtype, Implementation, PrepareError, Prepared, Registry, Tensors};

use crate::{Arg, Grid, Job, Source, gpu, on_wgpu, wgsl};

/// The WGSL kernels of this file.
pub(super) static SOURCE: Source = wgsl!("calibration.wgsl", "../invocation.wgsl");

const THREADS: u32 = 256;
/// Workgroups per multiprocessor for kernels that loop.
const RESIDENT: u32 = 8;

fn stream(
    task: &'static str,
    pattern: u64,
    [words, passes]: [usize; 2],
    inputs: &Tensors,
    device: &dyn Device,
) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    super::cuda::check_passes(passes)?;
    let mut job = Job::new(gpu);
    let n = Arg::U64(words as u64);
    let blocks = (words / 2).div_ceil(THREADS as usize).clamp(1, (RESIDENT * gpu.multiprocessors()) as usize);
    let grid = Grid::line(blocks, THREADS);
    let nothing = Arg::U64(0);
    match task {
        "copy" => {
            let x = job.upload::<u64>(inputs.get("x")?.u64()?)?;
            let y = job.output("y", Dtype::U64, &[words], 0)?;
            job.launch(&SOURCE, "copy_words", grid, vec![n, nothing, x, y])?;
        }
        "fill" => {
            let y = job.output("y", Dtype::U64, &[words], 0)?;
            job.launch(&SOURCE, "fill_words", grid, vec![n, Arg::U64(pattern), y])?;
        }
        _ => {
            let x = job.upload::<u64>(inputs.get("x")?.u64()?)?;
            let sums = job.scratch(8 * blocks)?;
            let y = job.output("y", Dtype::U64, &[1], 0)?;
            job.launch(&SOURCE, "sum_words", grid, vec![n, nothing, x, sums])?;
            let all = vec![Arg::U64(blocks as u64), nothing, sums, y];
            job.launch(&SOURCE, "sum_words", Grid::line(1, THREADS), all)?;
        }
    }
    job.repeat(passes);
    Ok(job.boxed())
}

fn fma(_: &Case, _: &Tensors, _: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let why = "WGSL lets a driver compute fma(a, b, c) as a product and a sum, so neither its bits nor its rate are \
               those of a fused one; and 3072 chains do not fill a GPU";
    Err(PrepareError::Unsupported(why.into()))
}

pub(super) fn register(registry: &mut Registry) {
    registry.implementation(on_wgpu(Implementation::cpu(
        "fma",
        "wgpu",
        "unavailable: WGSL does not guarantee fma",
        fma,
    )));
    let about = "an empty kernel: the cost of a launch on the device";
    let null = |_: &Case, _: &Tensors, device: &dyn Device| super::cuda::null(&SOURCE, device);
    registry.implementation(on_wgpu(Implementation::cpu("null", "wgpu", about, null)));
    for task in ["copy", "read", "fill"] {
        let prepare = move |case: &Case, inputs: &Tensors, device: &dyn Device| {
            let shape = [super::array_words(task, case), super::axis(case, "passes")];
            stream(task, super::PATTERN, shape, inputs, device)
        };
        let about = "8 or 16 bytes per thread, a looping grid";
        registry.implementation(on_wgpu(Implementation::cpu(task, "wgpu", about, prepare)));
    }
}
