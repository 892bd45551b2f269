//! The decoder as CUDA kernels: the encoding model (`kde.cu`), and prediction at all bins in fused tiles of 128
//! decoding spikes by 128 bins (`predict.cu`). No array of size (encoding spikes x decoding spikes), (encoding spikes x
//! bins) or (decoding spikes x bins) is stored in memory. A run takes raw times, positions and marks. The model for a
//! prediction is fitted on the CPU beforehand, as for every other implementation.

use ellwand_core::{Case, Device, Dtype, Implementation, PrepareError, Prepared, Tensors};

use super::arrays::Arrays;
use super::data::Spikes;
use super::model::{ClusterlessDecoder, UNIT, log_norm};
use super::options::{Method, Precision};
use super::reach::{self, GROUP};
use super::workload_run::fit;
use super::workload_spec::{self as spec, Task};
use super::{cuda_local, cuda_small, local};
use ellwand_gpu::products::unsupported;
use ellwand_gpu::{Arg, GpuError, Grid, Job, Source, files, gpu, on_cuda, whole};
use ellwand_simd::isa::Isa;

pub(crate) static SOURCE: Source = Source {
    name: "kde.cu",
    text: files!("../../../devices/gpu/src/tensor.cuh", "common.cuh", "kde.cu", "predict.cu", "small.cu"),
    options: &[],
};

/// Words per electrode in the table that kernels read; see `common.cuh`.
const WORDS: usize = 16;
/// Bins per tile, decoding spikes per block and per warp (at most), and points per partial sum.
const BINS: usize = 128;
const SPIKES: usize = 128;
const ROWS: usize = 16;
const PIECE: usize = 1024;
/// Groups of encoding spikes that a block lists at a time.
const LISTED: usize = 512;
const THREADS: u32 = 128;
/// Threads per block for element-wise kernels.
const EACH: u32 = 256;

/// The electrodes of a model and of a recording, in the kernels' layout.
pub(super) struct Recording {
    /// Table of shape `[electrodes, WORDS]`.
    pub(super) table: Vec<u64>,
    pub(super) marks: Vec<f32>,
    pub(super) places: Vec<f32>,
    /// Centre and unit of each feature.
    pub(super) centres: Vec<f64>,
    /// Decoding spikes, one electrode after another: electrode, times and marks.
    pub(super) spikes: Vec<u32>,
    pub(super) times: Vec<f64>,
    pub(super) given: Vec<f64>,
    /// Total number of groups of encoding spikes over all electrodes.
    pub(super) groups: usize,
}

impl Recording {
    pub(super) fn new(model: &ClusterlessDecoder, encoding: &[Spikes<'_>], decoding: &[Spikes<'_>]) -> Self {
        let mut r = Self {
            table: vec![0; model.electrodes.len() * WORDS],
            marks: Vec::new(),
            places: Vec::new(),
            centres: Vec::new(),
            spikes: Vec::new(),
            times: Vec::new(),
            given: Vec::new(),
            groups: 0,
        };
        let (mut padded, mut taken) = (0, 0);
        for (number, electrode) in model.electrodes.iter().enumerate() {
            let decoded = decoding.get(number);
            let heard = encoding.get(number).map_or(0, |spikes| spikes.times.len());
            let words = [
                padded,
                electrode.spikes(),
                electrode.stride(),
                electrode.n_features,
                r.marks.len(),
                r.places.len(),
                r.times.len(),
                decoded.map_or(0, |spikes| spikes.times.len()),
                r.given.len(),
                r.centres.len(),
                r.groups,
                taken,
                heard,
            ];
            r.table[number * WORDS..].iter_mut().zip(words).for_each(|(word, value)| *word = value as u64);
            padded += electrode.stride();
            taken += heard;
            r.groups += electrode.spikes().div_ceil(GROUP);
            r.marks.extend(&electrode.marks);
            r.places.extend(&electrode.place_pairs);
            r.centres.extend(&electrode.mark_centre);
            r.centres.extend(electrode.waveform_std.iter().map(|width| UNIT / width));
            if let Some(decoded) = decoded {
                r.spikes.extend(std::iter::repeat_n(number as u32, decoded.times.len()));
                r.times.extend(decoded.times);
                r.given.extend(decoded.features);
            }
        }
        r
    }
}

/// Factors that convert coordinates to units of the position kernel.
pub(super) fn units(model: &ClusterlessDecoder) -> Vec<f64> {
    model.position_std.iter().map(|width| UNIT / width).collect()
}

/// Selects the kernel for one, two or any number of dimensions.
pub(super) fn by_dims(dims: usize, kernels: [&'static str; 3]) -> &'static str {
    kernels[dims.clamp(1, 3) - 1]
}

pub(super) fn blocks(x: usize, y: usize) -> Result<Grid, GpuError> {
    let problem = || GpuError::Call {
        call: "cuLaunchKernel",
        problem: format!("a grid of {x} x {y} blocks; the device takes {} x 65535", i32::MAX),
    };
    let [x, y] = [u32::try_from(x).map_err(|_| problem())?, u16::try_from(y).map_err(|_| problem())?.into()];
    Ok(Grid { blocks: [x, y, 1], threads: [THREADS, 1, 1], shared: 0 })
}

fn each(n: usize) -> Grid {
    Grid::line(n.div_ceil(EACH as usize), EACH)
}

fn add_fit(job: &mut Job, arrays: &Arrays, model: &ClusterlessDecoder) -> Result<(), GpuError> {
    let (bins, dims, padded, samples) = (model.bins, model.dims, model.rarity.len(), model.track_time.len());
    let encoding = arrays.encoding();
    let electrodes = encoding.len();
    let recording = Recording::new(model, &encoding, &[]);
    let times: Vec<f64> = encoding.iter().flat_map(|spikes| spikes.times).copied().collect();
    let occupancy = job.output("occupancy", Dtype::F32, &[bins], 0)?;
    let ground = job.output("ground_process_intensity", Dtype::F32, &[bins], 0)?;
    let rates = job.output("mean_rates", Dtype::F32, &[electrodes], 0)?;
    if cuda_small::fit(job, model, &recording, &times, [occupancy, ground, rates])? {
        return Ok(());
    }
    let all = samples + times.len();
    // Sources of kernels: the track, then each electrode, split into pieces.
    let (mut pieces, mut firsts, mut start) = (Vec::new(), vec![0_u32], 0);
    for n in std::iter::once(samples).chain(encoding.iter().map(|spikes| spikes.times.len())) {
        for first in (start..start + n).step_by(PIECE) {
            pieces.extend([first as u32, (start + n).min(first + PIECE) as u32]);
        }
        start += n;
        firsts.push(pieces.len() as u32 / 2);
    }
    let table = job.upload::<u64>(&recording.table)?;
    let (times, time) = (job.upload::<f64>(&times)?, job.upload::<f64>(&model.track_time)?);
    let (track, units) = (job.upload::<f64>(&model.track_position)?, job.upload::<f64>(&units(model))?);
    let grid = job.upload::<f32>(&local::pairs(&model.grid_units, dims))?;
    let (count, pieces) = (pieces.len() / 2, job.upload::<u32>(&pieces)?);
    let firsts = job.upload::<u32>(&firsts)?;
    let places = job.scratch(8 * dims * all)?;
    let (sums, kept) = (job.scratch(8 * count * bins)?, job.scratch(4 * electrodes)?);
    let args = vec![table, times, time, track, units, places, kept, rates];
    let sizes = [all, samples, dims, electrodes].map(whole);
    job.launch(&SOURCE, "kde_places", each(all + electrodes), args.into_iter().chain(sizes).collect())?;
    let by_piece = blocks(count, bins.div_ceil(BINS))?.shared(4 * 2 * dims * BINS);
    let args = vec![places, grid, pieces, sums, whole(all), whole(bins), whole(padded), whole(dims)];
    let kernel = by_dims(dims, ["kde_sums_1", "kde_sums_2", "kde_sums_any"]);
    job.launch(&SOURCE, kernel, by_piece, args)?;
    let norm = Arg::F64(log_norm(&model.position_std).exp());
    let args = vec![sums, firsts, kept, occupancy, ground, whole(electrodes), whole(bins), whole(samples), norm];
    job.launch(&SOURCE, "kde_densities", Grid::line(bins.div_ceil(32), EACH), args)
}

/// The bounding boxes of groups of encoding spikes and of tiles of bins, and the reach of a spike by electrode and
/// tile.
fn reaches(model: &ClusterlessDecoder, tiles: usize) -> [Vec<f64>; 3] {
    let (dims, padded) = (model.dims, model.rarity.len());
    let mut groups = Vec::new();
    for electrode in &model.electrodes {
        let (n, stride) = (electrode.spikes(), electrode.stride());
        for start in (0..n).step_by(GROUP) {
            reach::boxes(&electrode.places, stride, dims, start..n.min(start + GROUP), &mut groups);
        }
    }
    let mut bins = Vec::new();
    let mut limits = vec![0.0; model.electrodes.len() * tiles];
    for tile in 0..tiles {
        let range = tile * BINS..padded.min((tile + 1) * BINS);
        reach::boxes(&model.grid_units, padded, dims, range.clone(), &mut bins);
        let rarest = model.rarity[range].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (electrode, limits) in model.electrodes.iter().zip(limits.chunks_exact_mut(tiles)) {
            limits[tile] = reach::limit(electrode, rarest, Precision::F32);
        }
    }
    let flat = |boxes: Vec<(f64, f64)>| boxes.into_iter().flat_map(|(low, high)| [low, high]).collect();
    [flat(groups), flat(bins), limits]
}

/// Blocks of decoding spikes, one electrode after another: (electrode, first spike, spikes). The spikes of an electrode
/// are split evenly into multiples of `ROWS`.
fn pieces(decodings: &[usize]) -> Vec<u32> {
    let (mut work, mut first) = (Vec::new(), 0);
    for (number, &n) in decodings.iter().enumerate() {
        let piece = n.div_ceil(n.div_ceil(SPIKES).max(1)).next_multiple_of(ROWS).max(ROWS);
        for at in (0..n).step_by(piece) {
            work.extend([number as u32, (first + at) as u32, (n - at).min(piece) as u32]);
        }
        first += n;
    }
    work
}

fn add_predict(job: &mut Job, arrays: &Arrays, model: &ClusterlessDecoder, skip: bool) -> Result<(), GpuError> {
    let (bins, dims, padded) = (model.bins, model.dims, model.rarity.len());
    let tiles = bins.div_ceil(BINS);
    let spikes = arrays.decoding_spikes();
    let time_edges = arrays.decoding(&spikes).time_edges;
    let rows = time_edges.len();
    let recording = Recording::new(model, &[], &spikes);
    let work = pieces(&spikes.iter().map(|spikes| spikes.times.len()).collect::<Vec<_>>());
    let nearest: Vec<f32> = model.electrodes.iter().flat_map(|electrode| &electrode.nearest).copied().collect();
    let constant = |electrode: &super::model::Electrode, b: usize| {
        (electrode.log_scale + model.rarity[b] + f64::from(electrode.nearest[b]) * std::f64::consts::LN_2) as f32
    };
    let constants: Vec<f32> =
        model.electrodes.iter().flat_map(|electrode| (0..padded).map(move |b| constant(electrode, b))).collect();
    let out = job.output("log_likelihood", Dtype::F32, &[rows, bins], 0)?;
    if cuda_small::predict(job, model, &recording, time_edges, [&nearest, &constants], out)? {
        return Ok(());
    }
    let most_features = model.n_features().max().unwrap_or(1);
    let count = recording.spikes.len();
    let table = job.upload::<u64>(&recording.table)?;
    let (own, times, given) = (
        job.upload::<u32>(&recording.spikes)?,
        job.upload::<f64>(&recording.times)?,
        job.upload::<f64>(&recording.given)?,
    );
    let (centres, edges) = (job.upload::<f64>(&recording.centres)?, job.upload::<f64>(time_edges)?);
    let (marks, places) = (job.upload::<f32>(&recording.marks)?, job.upload::<f32>(&recording.places)?);
    let decoded = job.scratch(4 * recording.given.len())?;
    let (shifts, spike_rows) = (job.scratch(4 * count)?, job.scratch(4 * count)?);
    let cells = rows * bins;
    let sums = job.scratch(8 * cells)?;
    let n = Arg::U64(cells as u64);
    let args = vec![table, own, times, given, centres, edges, marks, decoded, shifts, spike_rows, sums, n];
    let args = args.into_iter().chain([whole(count), whole(rows)]).collect();
    let spread = Grid::line(cells.div_ceil(EACH as usize).min(8 * job.multiprocessors() as usize), EACH);
    // A warp per spike, and enough of them to clear the sums.
    let by_spike = Grid::line(count.div_ceil(EACH as usize / 32).max(spread.blocks[0] as usize), EACH);
    job.launch(&SOURCE, "kde_marks", by_spike, args)?;

    if !work.is_empty() {
        let grid = job.upload::<f32>(&local::pairs(&model.grid_units, dims))?;
        let (nearest, constants) = (job.upload::<f32>(&nearest)?, job.upload::<f32>(&constants)?);
        let [groups, tile_boxes, limits] = reaches(model, tiles);
        let [groups, tile_boxes, limits] =
            [job.upload::<f64>(&groups)?, job.upload::<f64>(&tile_boxes)?, job.upload::<f64>(&limits)?];
        let by_piece = Grid { threads: [EACH, 1, 1], ..blocks(work.len() / 3, tiles)? };
        let work = job.upload::<u32>(&work)?;
        // Shared memory: kernels of two groups of encoding spikes; coordinates of the bins and marks of the spikes, for
        // two groups too; shifts and rows; results of each warp, and the list.
        let widest = 2 * dims + most_features;
        let floats = 2 * GROUP * (SPIKES + BINS) + widest * (BINS + 2 * GROUP) + 2 * SPIKES + EACH as usize / 32;
        let args = vec![table, work, marks, places, grid, nearest, constants, decoded, shifts, spike_rows];
        let args = args.into_iter().chain([groups, tile_boxes, limits, sums]);
        let sizes = [bins, padded, tiles, dims, usize::from(skip)].map(whole);
        job.launch(&SOURCE, "kde_predict", by_piece.shared(4 * floats + 2 * LISTED), args.chain(sizes).collect())?;
    }
    let ground = job.upload::<f64>(&model.ground)?;
    let columns = bins.div_ceil(EACH as usize);
    let down = (8 * job.multiprocessors() as usize).div_ceil(columns).min(rows);
    let by_bin = Grid { threads: [EACH, 1, 1], ..blocks(columns, down)? };
    job.launch(&SOURCE, "kde_likelihood", by_bin, vec![sums, ground, out, whole(rows), whole(bins)])
}

fn prepare(
    task: Task,
    graph: bool,
    case: &Case,
    inputs: &Tensors,
    device: &dyn Device,
) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    let method = Method::Parallel(Isa::best());
    let options = spec::options(case, method)?;
    if options.block.is_some() || options.tile.is_some() || options.memory.is_some() {
        return unsupported("tiles on a GPU are always 128 spikes by 128 bins; use auto for block, tile and memory");
    }
    if options.precision == Precision::F64 {
        return unsupported("the GPU kernels compute in f32; use precision=f32");
    }
    let arrays = Arrays::read(inputs, task != Task::Fit, task == Task::Local)?;
    let model = fit(&arrays, method.into())?;
    let strange = |electrode: &super::model::Electrode| !electrode.fits_f32 && electrode.spikes() > 0;
    if let Some(number) = model.electrodes.iter().position(strange).filter(|_| task != Task::Fit) {
        return unsupported(format!("the mark kernels of electrode {number} exceed the range of f32; they need f64"));
    }
    let spikes = arrays.decoding_spikes();
    if task != Task::Fit {
        arrays.decoding(&spikes).check(&model)?;
    }
    let mut job = Job::new(gpu);
    match task {
        Task::Fit => add_fit(&mut job, &arrays, &model)?,
        Task::Predict => add_predict(&mut job, &arrays, &model, options.skip)?,
        Task::Local => cuda_local::add(&mut job, &arrays, &model)?,
        Task::Total => return unsupported("fit and prediction are separate on GPUs: use kde-fit and kde-predict"),
        Task::Stream => return unsupported("decoding bin by bin is not implemented for GPUs"),
    }
    Ok(if graph { job.replayed()?.boxed() } else { job.boxed() })
}

/// The two implementations of a task: separate launches, and all launches as one graph.
pub(super) fn implementations(task: Task) -> [Implementation; 2] {
    let about = match task {
        Task::Fit => "one thread per bin, points in pieces; f32 in pairs, sums in f64",
        Task::Predict => "fused tiles of 128 spikes x 128 bins, kernels computed in shared memory, f32",
        _ => "one thread per position, points through shared memory, largest kernel factored out",
    };
    let row = |name: &str, about: &str, graph: bool| {
        let prepared =
            move |case: &Case, inputs: &Tensors, device: &dyn Device| prepare(task, graph, case, inputs, device);
        on_cuda(Implementation::cpu(task.name(), name, about, prepared))
    };
    [row("cuda", about, false), row("cuda-graph", "the same, its launches replayed as one graph", true)]
}
