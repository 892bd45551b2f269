//! The decoder tasks in a single launch each (`small.cu`, `local_small.cu`), for problems so small that several
//! launches would take longer. Blocks repeat some of each other's work, so that none waits for another.

use super::cuda::{Recording, SOURCE, blocks, units};
use super::cuda_local;
use super::local;
use super::model::{ClusterlessDecoder, log_norm};
use ellwand_gpu::{Arg, GpuError, Grid, Job, whole};

/// Maximum shared memory of a block, in bytes.
const SHARED: usize = 96 << 10;
/// Maximum number of kernel values per multiprocessor; more take longer than the launches saved.
const KERNELS: usize = 30_000;
/// Maximum number of points per multiprocessor for a one-launch fit, in which every block places all points itself.
const POINTS: usize = 16;

#[cfg(test)]
thread_local! {
    /// Forced by tests, regardless of the size.
    pub(super) static WANTED: std::cell::Cell<Option<bool>> = const { std::cell::Cell::new(None) };
}

/// True if `work` is at most `most` per multiprocessor.
fn little(job: &Job, work: usize, most: usize) -> bool {
    #[cfg(test)]
    if let Some(wanted) = WANTED.get() {
        return wanted;
    }
    work <= most * job.multiprocessors() as usize
}

/// Slots for the points of a fit: each source starts at a multiple of eight, and an electrode's at the slot that the kernel
/// expects.
fn slots(samples: usize, spikes: usize, electrodes: usize) -> usize {
    samples.next_multiple_of(8) + 8 * (spikes / 8 + electrodes + 1)
}

/// Adds the fit with these encoding spikes and outputs (occupancy, ground process, rates); false if it is too large.
pub(super) fn fit(
    job: &mut Job,
    model: &ClusterlessDecoder,
    recording: &Recording,
    times: &[f64],
    outputs: [Arg; 3],
) -> Result<bool, GpuError> {
    let (bins, dims, samples, electrodes) = (model.bins, model.dims, model.track_time.len(), model.electrodes.len());
    let slots = slots(samples, times.len(), electrodes);
    let shared = 8 * 32 * (8 + electrodes) + 4 * (2 * dims * slots + electrodes);
    if shared > SHARED || !little(job, samples + times.len(), POINTS) {
        return Ok(false);
    }
    let table = job.upload::<u64>(&recording.table)?;
    let (times, time) = (job.upload::<f64>(times)?, job.upload::<f64>(&model.track_time)?);
    let (track, units) = (job.upload::<f64>(&model.track_position)?, job.upload::<f64>(&units(model))?);
    let grid = job.upload::<f32>(&local::pairs(&model.grid_units, dims))?;
    let args = [table, times, time, track, units, grid].into_iter().chain(outputs);
    let sizes = [electrodes, samples, bins, model.rarity.len(), dims, slots].map(whole);
    let norm = Arg::F64(log_norm(&model.position_std).exp());
    let grid = Grid::line(bins.div_ceil(32), 256).shared(shared);
    job.launch(&SOURCE, "kde_fit_small", grid, args.chain(sizes).chain([norm]).collect())?;
    Ok(true)
}

/// Adds the prediction; `per_bin` is (nearest, constants) `[electrodes, padded bins]`. Returns false if it is too
/// large.
pub(super) fn predict(
    job: &mut Job,
    model: &ClusterlessDecoder,
    recording: &Recording,
    edges: &[f64],
    per_bin: [&[f32]; 2],
    out: Arg,
) -> Result<bool, GpuError> {
    let (bins, dims, rows, count) = (model.bins, model.dims, edges.len(), recording.spikes.len());
    let tiles = bins.div_ceil(128);
    let pairs: usize = recording.spikes.iter().map(|&number| model.electrodes[number as usize].spikes()).sum();
    // Every block searches all spikes for those of its row.
    let work = (pairs * bins).max(rows * tiles * count);
    if rows > usize::from(u16::MAX) || !little(job, work, KERNELS) {
        return Ok(false);
    }
    let (table, own) = (job.upload::<u64>(&recording.table)?, job.upload::<u32>(&recording.spikes)?);
    let (times, given, centres) = (
        job.upload::<f64>(&recording.times)?,
        job.upload::<f64>(&recording.given)?,
        job.upload::<f64>(&recording.centres)?,
    );
    let edges = job.upload::<f64>(edges)?;
    let (marks, places) = (job.upload::<f32>(&recording.marks)?, job.upload::<f32>(&recording.places)?);
    let grid = job.upload::<f32>(&local::pairs(&model.grid_units, dims))?;
    let [nearest, constants] = [job.upload::<f32>(per_bin[0])?, job.upload::<f32>(per_bin[1])?];
    let ground = job.upload::<f64>(&model.ground)?;
    let args = [table, own, times, given, centres, edges, marks, places, grid, nearest, constants, ground, out];
    let sizes = [count, rows, bins, model.rarity.len(), dims].map(whole);
    let widest = model.n_features().max().unwrap_or(1);
    let grid = blocks(tiles, rows)?.shared(4 * (256 + 128 + 4 + widest));
    job.launch(&SOURCE, "kde_predict_small", grid, args.into_iter().chain(sizes).collect())?;
    Ok(true)
}

/// Adds the prediction at the animal's position: `queries` are edges followed by spikes; `track` (time, position) is
/// that of decoding. Returns false if it is too large.
pub(super) fn local(
    job: &mut Job,
    model: &ClusterlessDecoder,
    recording: &Recording,
    (queries, edges): (&[f64], usize),
    (time, position): (&[f64], &[f64]),
    out: Arg,
) -> Result<bool, GpuError> {
    let (dims, samples, electrodes) = (model.dims, model.track_time.len(), model.electrodes.len());
    let count = recording.spikes.len();
    let encoding = || model.electrodes.iter().map(super::model::Electrode::spikes);
    let pairs: usize = recording.spikes.iter().map(|&number| model.electrodes[number as usize].spikes()).sum();
    let work = (edges * (samples + encoding().sum::<usize>()) + count * samples + pairs).max(edges * count);
    let widest = model.n_features().max().unwrap_or(1);
    let shared = 8 * (1 + electrodes + 512) + 4 * (256 + 8 + 257 * 2 * dims + 8 * widest);
    if shared > SHARED || !little(job, work, KERNELS) {
        return Ok(false);
    }
    let (table, own) = (job.upload::<u64>(&recording.table)?, job.upload::<u32>(&recording.spikes)?);
    let (queries, given) = (job.upload::<f64>(queries)?, job.upload::<f64>(&recording.given)?);
    let centres = job.upload::<f64>(&recording.centres)?;
    let (times, position, units) =
        (job.upload::<f64>(time)?, job.upload::<f64>(position)?, job.upload::<f64>(&units(model))?);
    let (on_track, places) = (job.upload::<f32>(&model.track_pairs)?, job.upload::<f32>(&recording.places)?);
    let marks = job.upload::<f32>(&recording.marks)?;
    let scales: Vec<f64> = model.electrodes.iter().map(|electrode| electrode.log_scale).collect();
    let scales = job.upload::<f64>(&scales)?;
    let args = [table, own, queries, given, centres, times, position, units, on_track, places, marks, scales, out];
    let stride = model.track_pairs.len() / (2 * dims);
    let sizes = [edges + count, edges, samples, time.len(), stride, dims, electrodes, widest].map(whole);
    let numbers = [log_norm(&model.position_std), f64::MIN_POSITIVE.ln()].map(Arg::F64);
    let grid = Grid::line(edges, 256).shared(shared);
    let args = args.into_iter().chain(sizes).chain(numbers).collect();
    job.launch(&cuda_local::SOURCE, "local_small", grid, args)?;
    Ok(true)
}
