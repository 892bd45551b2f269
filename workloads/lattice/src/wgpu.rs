//! The quantizer and the dot product on codes in WGSL (`lattice.wgsl`, with one file per lattice); the codes match the
//! CPU's bit by bit. Sums of products are exact integers too; only their factor is a rounded f32.

use ellwand_core::{Case, Device, Dtype, Implementation, PrepareError, Prepared, Registry, Tensors};

use ellwand_gpu::{Arg, Grid, Job, Source, gpu};

use super::cuda::{constants, packed_bytes};
use super::params::{Codec, Lattice, Overload};
use super::workload_code::Task;
use super::{Method, dot, workload_dot, workload_run};

/// The common kernels with those of one lattice.
macro_rules! source {
    ($own:literal) => {
        Source {
            name: concat!("lattice.wgsl with ", $own),
            text: concat!(
                include_str!("lattice.wgsl"),
                include_str!($own),
                include_str!("../../../devices/gpu/src/invocation.wgsl")
            ),
            options: &[],
        }
    };
}

static Z2: Source = source!("z2.wgsl");
static D4: Source = source!("d4.wgsl");
static E8: Source = source!("e8.wgsl");

/// The kernels of each lattice.
pub(crate) static SOURCES: [&Source; 3] = [&Z2, &D4, &E8];

fn source(codec: &Codec) -> &'static Source {
    match codec.lattice() {
        Lattice::Z2 => &Z2,
        Lattice::D4 => &D4,
        Lattice::E8 => &E8,
    }
}

/// Vectors per workgroup.
const THREADS: usize = 64;

/// Bits per vector that a workgroup has room for; no valid code needs more.
const MAX_VECTOR_BITS: usize = 180;

/// Flags for the optional arrays.
const OVERLOAD: u32 = 1;
const RETRIES: u32 = 2;
const TABLE: u32 = 4;

fn whole(value: usize) -> Arg {
    Arg::U32(u32::try_from(value).unwrap_or(u32::MAX))
}

/// Parameters of a code for the kernels, in the order of their `struct Code`.
fn code(codec: &Codec, n: usize, has: u32, blocks: usize) -> Vec<Arg> {
    let cap = match codec.params().overload {
        Overload::Retry { cap, .. } => u32::from(cap),
        _ => 0,
    };
    vec![
        whole(n),
        whole(codec.levels()),
        Arg::U32(codec.level_bits()),
        Arg::U32(codec.q()),
        Arg::U32(u32::from(codec.q().is_power_of_two())),
        Arg::U32(cap),
        Arg::U32(has),
        // Zero means that all indices are valid.
        Arg::U64(codec.level_points() as u64),
        // Zero, hidden from the driver's compiler.
        Arg::U32(0),
        whole(blocks),
        Arg::F32(dot::unit(codec) as f32),
    ]
}

/// Bytes of a dummy array for an unused binding.
const NOTHING: usize = 4;

/// The points of a level, or a dummy if the kernel computes them; and the corresponding flag.
fn table(job: &mut Job, codec: &Codec) -> Result<(Arg, u32), PrepareError> {
    match codec.level_table() {
        Some(points) => Ok((job.upload::<f32>(points)?, TABLE)),
        None => Ok((job.scratch(NOTHING)?, 0)),
    }
}

/// Bit positions are 32-bit integers.
fn check_bits(bits: usize) -> Result<(), PrepareError> {
    if u32::try_from(bits).is_ok() {
        return Ok(());
    }
    let why = format!("the codes take {bits} bits, and the kernel counts at most {}; choose a smaller size", u32::MAX);
    Err(PrepareError::Unsupported(why))
}

fn prepare(task: Task, case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    // The same code as on the CPU produces the outputs.
    let host = workload_run::Job::new(task, Method::Reference, case, inputs)?;
    let (codec, n) = host.code();
    let codec = codec.clone();
    if codec.vector_bits() > MAX_VECTOR_BITS {
        let why = format!("a vector takes {} bits, and a group has room for {MAX_VECTOR_BITS}", codec.vector_bits());
        return Err(PrepareError::Unsupported(why));
    }
    check_bits(packed_bytes(&codec, n) * 8)?;
    let mut job = Job::new(gpu);
    let grid = Grid::line(n.div_ceil(THREADS), THREADS as u32);
    let has = if codec.has_overload() { OVERLOAD } else { 0 } | if codec.has_retries() { RETRIES } else { 0 };
    let (packed, retries) = if task == Task::Decode {
        let (packed, retries) = host.codes();
        let slack = packed_bytes(&codec, n) - packed.len();
        let packed = job.upload_bytes(packed, slack)?;
        let retries = if codec.has_retries() { job.upload_bytes(retries, 0)? } else { job.scratch(NOTHING)? };
        (packed, retries)
    } else {
        let packed = job.output("packed", Dtype::U8, &[codec.packed_len(n)], packed_bytes(&codec, n))?;
        let mut marks = |wanted, name| if wanted { job.output(name, Dtype::U8, &[n], 0) } else { job.scratch(NOTHING) };
        let overload = marks(codec.has_overload(), "overload")?;
        let retries = marks(codec.has_retries(), "retries")?;
        let x = job.upload::<f32>(host.vectors())?;
        let constants = constants(&mut job, &codec, codec.inverse_scales())?;
        let mut args = code(&codec, n, has, 0);
        args.extend([x, packed, overload, retries, constants]);
        job.launch(source(&codec), "encode", grid, args)?;
        (packed, retries)
    };
    if task != Task::Encode {
        let (table, has_table) = table(&mut job, &codec)?;
        let constants = constants(&mut job, &codec, codec.scales())?;
        let x = job.output("decoded", Dtype::F32, &[n * codec.dimension()], 0)?;
        let bad = job.output("bad", Dtype::U64, &[1], 0)?;
        let mut args = code(&codec, n, has | has_table, 0);
        args.extend([packed, retries, constants, table, x, bad]);
        job.launch(source(&codec), "decode", grid, args)?;
    }
    // Kernels lower the lower half of `bad`.
    job.finish(host.back(u64::from(u32::MAX)));
    Ok(job.boxed())
}

fn prepare_dot(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    let (rows, blocks, codec) = workload_dot::shape(case)?;
    let query = workload_dot::narrow_query(&codec, inputs, blocks)?;
    let mut job = Job::new(gpu);
    let packed = inputs.u8("rows")?;
    check_bits(packed.len() * 8)?;
    let packed = job.upload_bytes(packed, 0)?;
    let query = job.upload::<i32>(&query)?;
    let (table, has) = table(&mut job, &codec)?;
    let scores = job.output("scores", Dtype::F32, &[rows], 0)?;
    let mut args = code(&codec, rows, has, blocks);
    args.extend([packed, query, table, scores]);
    job.launch(source(&codec), "dot_product", Grid::line(rows, THREADS as u32), args)?;
    Ok(job.boxed())
}

/// Registers the WGSL implementations.
pub(super) fn register(registry: &mut Registry) {
    for task in Task::ALL {
        let prepared = move |case: &Case, inputs: &Tensors, device: &dyn Device| prepare(task, case, inputs, device);
        let about = "one vector per thread, packed by workgroups in shared memory";
        registry.implementation(ellwand_gpu::on_wgpu(Implementation::cpu(task.name(), "wgpu", about, prepared)));
    }
    let about = "one row per workgroup, points from a table, exact 64-bit integers";
    registry.implementation(ellwand_gpu::on_wgpu(Implementation::cpu(workload_dot::NAME, "wgpu", about, prepare_dot)));
}
