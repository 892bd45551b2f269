//! The quantizer and the dot product on codes as CUDA kernels (`lattice.cu`), with the codes of the processor bit by bit.

use std::sync::{Mutex, PoisonError};

use ellwand_core::{Case, Device, DeviceKind, Dtype, Implementation, PrepareError, Prepared, Registry, Tensors};

use crate::device::{Arg, Buffer, Gpu, Grid, Job, Source, gpu, whole};

use super::Method;
use super::params::{Codec, Overload};
use super::workload_code::Task;
use super::workload_dot::{self, prepare_error};
use super::workload_run;

/// The kernels. Nothing may be fused where the processor rounds twice.
pub(crate) static SOURCE: Source =
    Source { name: "lattice.cu", text: include_str!("lattice.cu"), options: &["--fmad=false"] };

/// Threads of a block, a vector each.
const THREADS: usize = 128;
const WARP: usize = 32;

/// Name of a lattice at the end of the names of its kernels.
fn suffix(codec: &Codec) -> String {
    codec.lattice().name().to_lowercase()
}

/// What the kernels know of a code.
fn code(codec: &Codec) -> [Arg; 4] {
    let pow2 = u32::from(codec.q().is_power_of_two());
    [whole(codec.levels()), Arg::U32(codec.level_bits()), Arg::U32(codec.q()), Arg::U32(pow2)]
}

/// Shift and scales in the order in which the kernels read them.
pub(super) fn constants(gpu: &Gpu, codec: &Codec, scales: &[f32]) -> Result<Buffer, PrepareError> {
    let values: Vec<f32> = codec.shift().iter().chain(scales).copied().collect();
    Ok(Buffer::of_f32(gpu, &values)?)
}

/// The points of a level, or nothing where the kernel computes them.
fn table(job: &mut Job, gpu: &Gpu, codec: &Codec) -> Result<Arg, PrepareError> {
    match codec.level_table() {
        Some(points) => Ok(job.hold(Buffer::of_f32(gpu, points)?)),
        None => Ok(Arg::At(0)),
    }
}

/// Bytes that the codes of `n` vectors take on the device: whole warps write whole words.
pub(super) fn packed_bytes(codec: &Codec, n: usize) -> usize {
    n.div_ceil(WARP) * codec.vector_bits() * 4
}

fn prepare(
    task: Task,
    carrying: bool,
    case: &Case,
    inputs: &Tensors,
    device: &dyn Device,
) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    // The outputs are told by the same code as those of the processor.
    let host = workload_run::Job::new(task, Method::Reference, case, inputs)?;
    let (codec, n) = host.code();
    let codec = codec.clone();
    let mut job = Job::new(gpu);
    let nothing = Arg::At(0);
    let grid = Grid::line(n.div_ceil(THREADS), THREADS as u32).shared(THREADS / WARP * codec.vector_bits() * 4);
    // Where an input lies on the device, and what it is.
    let mut given: Vec<(Arg, Vec<u8>)> = Vec::new();
    let (packed, retries) = if task == Task::Decode {
        let (packed, retries) = host.codes();
        let copies = [packed.to_vec(), retries.to_vec()];
        let slack = packed_bytes(&codec, n) - packed.len();
        let packed = job.hold(Buffer::of(gpu, packed, slack)?);
        let retries = if codec.has_retries() { job.hold(Buffer::of(gpu, retries, 0)?) } else { nothing };
        given.extend([packed, retries].into_iter().zip(copies).filter(|(at, _)| *at != nothing));
        (packed, retries)
    } else {
        let packed = job.output("packed", Dtype::U8, &[codec.packed_len(n)], packed_bytes(&codec, n))?;
        let mut flags = |wanted, name| if wanted { job.output(name, Dtype::U8, &[n], 0) } else { Ok(nothing) };
        let overload = flags(codec.has_overload(), "overload")?;
        let retries = flags(codec.has_retries(), "retries")?;
        let x = job.hold(Buffer::of_f32(gpu, host.vectors())?);
        given.push((x, host.vectors().iter().flat_map(|value| value.to_le_bytes()).collect()));
        let constants = job.hold(constants(gpu, &codec, codec.inverse_scales())?);
        let cap = match codec.params().overload {
            Overload::Retry { cap, .. } => u32::from(cap),
            _ => 0,
        };
        let mut args = vec![x, packed, overload, retries, constants, Arg::U64(n as u64)];
        args.extend(code(&codec));
        args.push(Arg::U32(cap));
        job.launch(&SOURCE, &format!("encode_{}", suffix(&codec)), grid, args)?;
        (packed, retries)
    };
    if task != Task::Encode {
        let table = table(&mut job, gpu, &codec)?;
        let constants = job.hold(constants(gpu, &codec, codec.scales())?);
        let x = job.output("decoded", Dtype::F32, &[n * codec.dimension()], 0)?;
        let bad = job.output("bad", Dtype::U64, &[1], 0)?;
        // All of 2^64 indices are points where this is zero.
        let points = Arg::U64(codec.level_points() as u64);
        let mut args = vec![packed, retries, constants, table, x, bad, Arg::U64(n as u64)];
        args.extend(code(&codec));
        args.push(points);
        job.launch(&SOURCE, &format!("decode_{}", suffix(&codec)), grid, args)?;
    }
    let host = Mutex::new(host);
    job.finish(move |computed| {
        if let Some(bad) = computed.find("bad") {
            let first = bad.u64().map_err(|error| error.to_string())?[0];
            if first != u64::MAX {
                return Err(format!("a level index of vector {first} is not below q^d"));
            }
        }
        let mut host = host.lock().unwrap_or_else(PoisonError::into_inner);
        host.take(&computed).map_err(|error| error.to_string())?;
        host.outputs()
    });
    if carrying {
        let given: Vec<(Arg, &[u8])> = given.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
        job = job.carrying(&given)?;
    }
    Ok(job.boxed())
}

fn prepare_dot(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    let (rows, blocks, codec) = workload_dot::shape(case)?;
    let query = workload_dot::integers(&codec, inputs.u8("query")?, blocks).map_err(prepare_error)?;
    let query: Vec<i32> = query.iter().map(|&s| i32::try_from(s).unwrap_or(i32::MAX)).collect();
    let mut job = Job::new(gpu);
    let packed = inputs.u8("rows")?;
    // Whole words are read.
    let packed = job.hold(Buffer::of(gpu, packed, packed.len().next_multiple_of(4) - packed.len())?);
    let query = job.hold(Buffer::of_i32(gpu, &query)?);
    let table = table(&mut job, gpu, &codec)?;
    let scores = job.output("scores", Dtype::F32, &[rows], 0)?;
    let unit = Arg::F64(workload_dot::unit(&codec));
    let mut args = vec![packed, query, table, scores, whole(rows), whole(blocks), unit];
    args.extend(code(&codec));
    let grid = Grid::line(rows.div_ceil(THREADS / WARP), THREADS as u32);
    job.launch(&SOURCE, &format!("dot_{}", suffix(&codec)), grid, args)?;
    Ok(job.boxed())
}

/// Adds the implementations.
pub(super) fn register(registry: &mut Registry) {
    for task in [Task::Encode, Task::Decode, Task::Quantize] {
        for (name, about, carrying) in [
            ("cuda", "a vector a thread, packed by warps in shared memory", false),
            ("cuda-transfers", "the same, with inputs brought in and results out through page-locked memory", true),
        ] {
            let prepared =
                move |case: &Case, inputs: &Tensors, device: &dyn Device| prepare(task, carrying, case, inputs, device);
            let row = Implementation::cpu(task.name(), name, about, prepared);
            registry.implementation(Implementation { needs: DeviceKind::Cuda, ..row });
        }
    }
    let row =
        Implementation::cpu(workload_dot::NAME, "cuda", "a row a warp, points by table, exact integers", prepare_dot);
    registry.implementation(Implementation { needs: DeviceKind::Cuda, ..row });
}
