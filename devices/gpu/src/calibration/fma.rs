//! `fma` as CUDA kernels: enough chains of multiply-adds to fill a device.

use ellwand_core::{Case, Device, Implementation, PrepareError, Prepared, Registry, Tensors};

use crate::{Arg, Grid, Job, Source, files, gpu, on_cuda, whole};

/// Threads per block, and chains per thread: a block has four groups of the workload.
const THREADS: u32 = 128;
const EACH: usize = 6;
/// Factor and summand of a step, as the workload defines them.
const A: f64 = 0.999;
const B: f64 = 0.001;

/// The CUDA kernels of this file.
pub(super) static SOURCE: Source = Source { name: "fma.cu", text: files!("fma.cu"), options: &[] };

/// Runs the chains on a GPU.
fn on_device(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let mut job = Job::new(gpu(device)?);
    let x = inputs.get("x")?;
    let steps = whole(super::axis(case, "steps"));
    let grid = Grid::line(x.len().div_ceil(EACH * THREADS as usize), THREADS);
    let y = job.output("y", x.dtype(), x.shape(), 0)?;
    if case.text("precision") == Some("f64") {
        let from = job.upload::<f64>(x.f64()?)?;
        job.launch(&SOURCE, "fma_double", grid, vec![from, y, Arg::F64(A), Arg::F64(B), whole(x.len()), steps])?;
    } else {
        let from = job.upload::<f32>(x.f32()?)?;
        let [a, b] = [A, B].map(|factor| Arg::F32(factor as f32));
        job.launch(&SOURCE, "fma_single", grid, vec![from, y, a, b, whole(x.len()), steps])?;
    }
    Ok(job.boxed())
}

pub(super) fn register(registry: &mut Registry) {
    let about = "six chains per thread; as many groups as fill the device (axis groups)";
    registry.implementation(on_cuda(Implementation::cpu("fma", "cuda", about, on_device)));
}
