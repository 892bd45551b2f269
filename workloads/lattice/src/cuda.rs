//! The quantizer and the dot product on codes as CUDA kernels (`lattice.cu`); their codes match the CPU's bit by bit.

use ellwand_core::{Case, Device, Dtype, Implementation, PrepareError, Prepared, Registry, Tensors};

use ellwand_gpu::{Arg, GpuError, Grid, Job, Source, files, gpu, on_cuda, whole};

use super::Method;
use super::params::{Codec, Lattice, Overload};
use super::workload_code::Task;
use super::{dot, workload_dot, workload_run};

/// The kernels, without fused operations where the CPU rounds twice.
pub(crate) static SOURCE: Source =
    Source { name: "lattice.cu", text: files!("lattice.cuh", "lattice.cu"), options: &["--fmad=false"] };

/// Threads per block.
const THREADS: usize = 256;
const WARP: usize = 32;
/// Rows that a warp scores together if indices are bytes.
const ROWS: usize = 4;
/// Largest table of points that each block keeps in shared memory, in bytes.
const TABLE: usize = 16 << 10;

/// Maximum number of vectors per launch: kernels count in 32 bits.
const PART: usize = 1 << 30;

/// How the kernels find digits and points of a code, and their common arguments.
struct Code {
    /// Suffix of the kernel names.
    suffix: String,
    /// Size of the point table of a level in bytes; 0 if kernels compute the points.
    table: usize,
    args: Vec<Arg>,
}

impl Code {
    fn new(job: &mut Job, codec: &Codec, task: Option<Task>) -> Result<Self, PrepareError> {
        let shifts = codec.q().is_power_of_two();
        let encoding = matches!(task, Some(Task::Encode | Task::Quantize));
        // Encoding subtracts points; with a table, it extracts digits by shifts.
        let sign = if encoding { -1.0 } else { 1.0 };
        let points = if shifts || !encoding { bytes(codec, sign).unwrap_or_default() } else { Vec::new() };
        let way = match (points.is_empty(), shifts, task) {
            (_, _, Some(_)) if codec.q() == 4 && codec.levels() == 2 => "q4_m2",
            _ if codec.q() == 4 && codec.lattice() == Lattice::E8 && !encoding => "q4",
            (false, ..) => "lookups",
            (true, true, _) => "shifts",
            (true, false, _) => "divisions",
        };
        let suffix = format!("{}_{way}", codec.lattice().name().to_lowercase());
        let table = if points.is_empty() { Arg::At(0) } else { job.upload_bytes(&points, 0)? };
        let numbers =
            [whole(points.len() / 4), whole(codec.levels()), Arg::U32(codec.level_bits()), Arg::U32(codec.q())];
        let args = std::iter::once(table).chain(numbers).collect();
        Ok(Self { suffix, table: points.len(), args })
    }

    /// Blocks per multiprocessor: with tables as many as fit at once, otherwise more, to even out the end.
    fn each(&self) -> usize {
        if self.table > 0 { 8 } else { 16 }
    }

    /// The arguments, with the shift of each coordinate.
    fn shifted(&self, codec: &Codec) -> Vec<Arg> {
        self.args.iter().copied().chain(codec.shift().map(Arg::F32)).collect()
    }
}

/// The points of a level by index as bytes (doubled for E8), or their negatives, if the table is small and the values
/// fit. `Z2` is faster without a table.
fn bytes(codec: &Codec, sign: f32) -> Option<Vec<u8>> {
    let points = codec.level_table().filter(|points| codec.dimension() > 2 && points.len() <= TABLE)?;
    let factor = sign * codec.lattice().scale() as f32;
    let fits = points.iter().all(|y| (y * factor).abs() <= 127.0);
    fits.then(|| points.iter().map(|y| ((y * factor) as i8).cast_unsigned()).collect())
}

/// The address `bytes` further on; null stays null.
fn offset(at: Arg, bytes: usize) -> Arg {
    match at {
        Arg::At(address) if address != 0 => Arg::At(address + bytes as u64),
        other => other,
    }
}

/// A grid for `threads` threads with at most `each` blocks per multiprocessor; beyond that each thread does more.
fn grid(job: &Job, threads: usize, each: usize) -> Grid {
    let most = each * job.multiprocessors() as usize;
    Grid::line(threads.div_ceil(THREADS).min(most), THREADS as u32)
}

/// Shared memory in which blocks assemble codes that are not stored in units of a byte, a word or a pair of words.
fn packing_bytes(codec: &Codec) -> usize {
    let words = THREADS / WARP * codec.vector_bits() * 4;
    match codec.vector_bits() {
        8 | 16 | 32 | 64 => 0,
        ..64 => words,
        _ => words + 8 * codec.levels() * THREADS,
    }
}

/// Shift and scales in the order in which the WGSL kernels read them.
pub(super) fn constants(job: &mut Job, codec: &Codec, scales: &[f32]) -> Result<Arg, GpuError> {
    let values: Vec<f32> = codec.shift().iter().chain(scales).copied().collect();
    job.upload::<f32>(&values)
}

/// Bytes for the codes of `n` vectors on the device: whole warps write whole words.
pub(super) fn packed_bytes(codec: &Codec, n: usize) -> usize {
    n.div_ceil(WARP) * codec.vector_bits() * 4
}

/// The launches of one run, part by part.
struct Launches<'a> {
    codec: &'a Codec,
    code: &'a Code,
    /// Vectors of a part.
    part: usize,
    n: usize,
}

/// Address on the device and content of an input.
type Given = (Arg, Vec<u8>);

const NOTHING: Arg = Arg::At(0);

impl Launches<'_> {
    /// First vector and number of vectors of each part.
    fn parts(&self) -> impl Iterator<Item = (usize, usize)> {
        let (part, n) = (self.part, self.n);
        (0..n).step_by(part).map(move |from| (from, part.min(n - from)))
    }

    fn decode(&self, job: &mut Job, host: &workload_run::Job) -> Result<Vec<Given>, PrepareError> {
        let Launches { codec, code, n, .. } = *self;
        let (value_bytes, bits) = (4 * codec.dimension(), codec.vector_bits());
        let (packed, retries) = host.codes();
        let copies = [packed.to_vec(), retries.to_vec()];
        let slack = packed_bytes(codec, n) - packed.len();
        let packed = job.upload_bytes(packed, slack)?;
        let retries = if codec.has_retries() { job.upload_bytes(retries, 0)? } else { NOTHING };
        let given = [packed, retries].into_iter().zip(copies).filter(|(at, _)| *at != NOTHING).collect();
        let scales = job.upload::<f32>(codec.scales())?;
        let x = job.output("decoded", Dtype::F32, &[n * codec.dimension()], 0)?;
        let bad = job.output("bad", Dtype::U64, &[1], 0)?;
        // Zero means that every index is valid.
        let limit = if codec.q().is_power_of_two() { 0 } else { codec.level_points() as u64 };
        for (from, n) in self.parts() {
            let (packed, retries) = (offset(packed, from / 8 * bits), offset(retries, from));
            let x = offset(x, from * value_bytes);
            let mut args = vec![packed, retries, scales, x, bad, Arg::U64(from as u64), whole(n), Arg::U64(limit)];
            args.extend(code.shifted(codec));
            let line = grid(job, n, code.each()).shared(code.table);
            job.launch(&SOURCE, &format!("decode_{}", code.suffix), line, args)?;
        }
        Ok(given)
    }

    fn encode(&self, job: &mut Job, host: &workload_run::Job, task: Task) -> Result<Vec<Given>, PrepareError> {
        let Launches { codec, code, n, .. } = *self;
        let (value_bytes, bits) = (4 * codec.dimension(), codec.vector_bits());
        let packed = job.output("packed", Dtype::U8, &[codec.packed_len(n)], packed_bytes(codec, n))?;
        let mut flags = |wanted, name| if wanted { job.output(name, Dtype::U8, &[n], 0) } else { Ok(NOTHING) };
        let overload = flags(codec.has_overload(), "overload")?;
        let retries = flags(codec.has_retries(), "retries")?;
        let x = job.upload::<f32>(host.vectors())?;
        let given = vec![(x, host.vectors().iter().flat_map(|value| value.to_le_bytes()).collect())];
        let inverses = job.upload::<f32>(codec.inverse_scales())?;
        let cap = match codec.params().overload {
            Overload::Retry { cap, .. } => u32::from(cap),
            _ => 0,
        };
        // The decoded values are known together with the codes: one launch writes both.
        let (name, decoded) = if task == Task::Quantize {
            let scales = job.upload::<f32>(codec.scales())?;
            ("quantize", Some((scales, job.output("decoded", Dtype::F32, &[n * codec.dimension()], 0)?)))
        } else {
            ("encode", None)
        };
        for (from, n) in self.parts() {
            let (x, packed) = (offset(x, from * value_bytes), offset(packed, from / 8 * bits));
            let (overload, retries) = (offset(overload, from), offset(retries, from));
            let mut args = vec![x, packed, overload, retries, inverses, whole(n), Arg::U32(cap)];
            args.extend(code.shifted(codec));
            args.extend(decoded.iter().flat_map(|&(scales, decoded)| [scales, offset(decoded, from * value_bytes)]));
            let line = grid(job, n, code.each()).shared(code.table + packing_bytes(codec));
            job.launch(&SOURCE, &format!("{name}_{}", code.suffix), line, args)?;
        }
        Ok(given)
    }
}

/// Prepares the job. `part` is the maximum number of vectors per launch, a multiple of 32.
pub(super) fn prepare(
    task: Task,
    carrying: bool,
    part: usize,
    case: &Case,
    inputs: &Tensors,
    device: &dyn Device,
) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    // The same code as on the CPU produces the outputs.
    let host = workload_run::Job::new(task, Method::Reference, case, inputs)?;
    let (codec, n) = host.code();
    let codec = codec.clone();
    let mut job = Job::new(gpu);
    let code = Code::new(&mut job, &codec, Some(task))?;
    let launches = Launches { codec: &codec, code: &code, part, n };
    let given = match task {
        Task::Decode => launches.decode(&mut job, &host)?,
        Task::Encode | Task::Quantize => launches.encode(&mut job, &host, task)?,
    };
    job.finish(host.back(u64::MAX));
    if carrying {
        let given: Vec<(Arg, &[u8])> = given.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
        job = job.carrying(&given)?;
    }
    Ok(job.boxed())
}

/// The integers of a query in the form of `dot_bytes`, if that kernel can score rows of this code: indices and integers
/// fit into a byte, vectors fill words, rows are multiples of 16 bytes, and integer sums fit into 31 bits.
fn query_bytes(codec: &Codec, query: &[i32], blocks: usize) -> Option<Vec<u8>> {
    let (d, levels, row_bits) = (codec.dimension(), codec.levels(), blocks * codec.vector_bits());
    let fits = codec.level_bits() == 8 && matches!(levels, 1 | 2 | 4) && row_bits.is_multiple_of(128);
    if !fits || bytes(codec, 1.0).is_none() || query.iter().any(|&s| s.abs() > 127) {
        return None;
    }
    // A point of a level has coordinates up to q, and those of a row are up to q + .. + q^M < 2 q^M.
    let side = 2 * i64::from(codec.q()).pow(levels as u32) * i64::from(codec.lattice().scale());
    if side * 127 * (blocks * d) as i64 > i64::from(i32::MAX) {
        return None;
    }
    let chunks = row_bits / 128;
    let order = (0..16).flat_map(|f| (0..chunks).map(move |c| (16 * c + f) / levels));
    Some(order.flat_map(|block| query[block * d..][..d].iter().map(|&s| (s as i8).cast_unsigned())).collect())
}

fn prepare_dot(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    let (rows, blocks, codec) = workload_dot::shape(case)?;
    let query = workload_dot::narrow_query(&codec, inputs, blocks)?;
    let mut job = Job::new(gpu);
    let packed = inputs.u8("rows")?;
    // The kernel reads whole words.
    let packed = job.upload_bytes(packed, packed.len().next_multiple_of(8) - packed.len())?;
    let scores = job.output("scores", Dtype::F32, &[rows], 0)?;
    let unit = Arg::F64(dot::unit(&codec));
    let code = Code::new(&mut job, &codec, None)?;
    if let Some(bytes) = query_bytes(&codec, &query, blocks) {
        let query = job.upload_bytes(&bytes, 0)?;
        let chunks = whole(blocks * codec.vector_bits() / 128);
        let q = Arg::U32(codec.q());
        let args = vec![packed, query, code.args[0], scores, whole(rows), chunks, unit, q, whole(codec.levels())];
        let line = grid(&job, rows.div_ceil(ROWS) * WARP, 4).shared(256 * 128);
        job.launch(&SOURCE, &format!("dot_{}_bytes", codec.lattice().name().to_lowercase()), line, args)?;
    } else {
        let query = job.upload::<i32>(&query)?;
        let mut args = vec![packed, query, scores, whole(rows), whole(blocks), unit];
        args.extend(&code.args);
        let line = grid(&job, rows * WARP, code.each()).shared(code.table);
        job.launch(&SOURCE, &format!("dot_{}", code.suffix), line, args)?;
    }
    Ok(job.boxed())
}

/// Registers the CUDA implementations.
pub(super) fn register(registry: &mut Registry) {
    for task in Task::ALL {
        for (name, about, carrying) in [
            ("cuda", "one vector per thread, codes assembled in registers, one launch", false),
            ("cuda-transfers", "the same, with inputs and results copied through page-locked memory", true),
        ] {
            let prepared = move |case: &Case, inputs: &Tensors, device: &dyn Device| {
                prepare(task, carrying, PART, case, inputs, device)
            };
            let row = Implementation::cpu(task.name(), name, about, prepared);
            registry.implementation(on_cuda(row));
        }
    }
    let row = Implementation::cpu(
        workload_dot::NAME,
        "cuda",
        "a warp per row or per four rows, points from a table in shared memory, exact integers",
        prepare_dot,
    );
    registry.implementation(on_cuda(row));
}
