//! GPU calibration tasks for memory and launches; `fma.rs` has multiply-adds.

use ellwand_core::{Case, Device, Dtype, Implementation, PrepareError, Prepared, Registry, Tensors};

use crate::{Arg, Grid, Job, Source, files, gpu, on_cuda};

/// The CUDA kernels of this file.
pub(super) static SOURCE: Source = Source { name: "calibration.cu", text: files!("calibration.cu"), options: &[] };

const THREADS: u32 = 256;
/// Resident blocks of `THREADS` per multiprocessor; a grid of this size loops over the data.
const RESIDENT: u32 = 8;
/// 16-byte words that each thread of `copy_words` copies if the array is large enough.
const SEVERAL: usize = 4;
/// Maximum number of passes per iteration.
const MAX_PASSES: usize = 16;

/// Prepares the empty kernel of a source.
pub(super) fn null(source: &'static Source, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let mut job = Job::new(gpu(device)?);
    let called = job.output("called", Dtype::U8, &[1], 0)?;
    job.launch(source, "null_call", Grid::line(1, 1), vec![called])?;
    Ok(job.boxed())
}

/// Rejects a pass count at which the launches, not the passes, would dominate the time.
pub(super) fn check_passes(passes: usize) -> Result<(), PrepareError> {
    if passes <= MAX_PASSES {
        return Ok(());
    }
    Err(PrepareError::Unsupported(format!(
        "on a GPU every pass is a launch: {passes} passes would measure launches; at most {MAX_PASSES} are allowed"
    )))
}

/// Prepares one streaming task; `copy` can also use a grid-stride loop.
fn stream(
    task: &'static str,
    looping: bool,
    pattern: u64,
    [words, passes]: [usize; 2],
    inputs: &Tensors,
    device: &dyn Device,
) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    check_passes(passes)?;
    let mut job = Job::new(gpu);
    let n = Arg::U64(words as u64);
    let most = (RESIDENT * gpu.multiprocessors()) as usize;
    let all = (words / 2).div_ceil(THREADS as usize);
    let blocks = all.clamp(1, most);
    let grid = Grid::line(blocks, THREADS);
    match task {
        "copy" => {
            let x = job.upload::<u64>(inputs.get("x")?.u64()?)?;
            let y = job.output("y", Dtype::U64, &[words], 0)?;
            if looping {
                job.launch(&SOURCE, "copy_words_looping", grid, vec![x, y, n])?;
            } else {
                let pieces = if all <= most { all } else { words.div_ceil(2 * SEVERAL * THREADS as usize) };
                job.launch(&SOURCE, "copy_words", Grid::line(pieces, THREADS), vec![x, y, n])?;
            }
        }
        "fill" => {
            let y = job.output("y", Dtype::U64, &[words], 0)?;
            job.launch(&SOURCE, "fill_words", grid, vec![Arg::U64(pattern), y, n])?;
        }
        _ => {
            let x = job.upload::<u64>(inputs.get("x")?.u64()?)?;
            let sums = job.scratch(8 * blocks)?;
            let y = job.output("y", Dtype::U64, &[1], 0)?;
            let come = job.upload::<u32>(&[0])?;
            job.launch(&SOURCE, "sum_words", grid, vec![x, sums, come, y, n])?;
        }
    }
    job.repeat(passes);
    Ok(job.boxed())
}

fn row(
    workload: &str,
    about: &str,
    prepare: impl Fn(&Case, &Tensors, &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> + Send + Sync + 'static,
) -> Implementation {
    on_cuda(Implementation::cpu(workload, "cuda", about, prepare))
}

pub(super) fn register(registry: &mut Registry) {
    registry.implementation(row("null", "an empty kernel: the cost of a launch on the device", |_, _, device| {
        null(&SOURCE, device)
    }));
    let by = |row: &'static str, task: &'static str, about, looping| {
        let prepare = move |case: &Case, inputs: &Tensors, device: &dyn Device| {
            let sizes = [super::array_words(task, case), super::axis(case, "passes")];
            stream(task, looping, super::PATTERN, sizes, inputs, device)
        };
        Implementation { name: row.into(), ..self::row(task, about, prepare) }
    };
    let looping = "16 bytes per thread, a grid as large as the GPU holds";
    registry.implementation(by("cuda", "copy", "64 bytes per thread, a separate piece for each block", false));
    // The faster of the two is the ceiling for other workloads.
    registry.implementation(by("cuda-loop", "copy", looping, true));
    registry.implementation(by("cuda", "read", looping, true));
    registry.implementation(by("cuda", "fill", looping, true));
}
