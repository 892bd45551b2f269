//! Prediction at the animal's position as CUDA kernels (`local.cu`).

use ellwand_core::{Dtype, PrepareError};

use super::arrays::Arrays;
use super::cuda::{Recording, by_dims, units};
use super::cuda_small;
use super::model::{ClusterlessDecoder, log_norm};
use ellwand_gpu::{Arg, Grid, Job, Source, files, whole};

pub(crate) static SOURCE: Source = Source {
    name: "local.cu",
    text: files!("../../../devices/gpu/src/tensor.cuh", "common.cuh", "local.cu", "local_small.cu"),
    options: &[],
};

/// Queries per block.
const QUERIES: usize = 128;
/// Points that a block holds in shared memory at a time.
const POINTS: usize = 2 * 128;

/// Blocks of queries: (kind, electrode, first, count), longest sums first.
fn work(edges: usize, model: &ClusterlessDecoder, decodings: &[usize]) -> Vec<u32> {
    let mut work = Vec::new();
    let mut cut = |kind: u32, electrode: usize, start: usize, end: usize| {
        for first in (start..end).step_by(QUERIES) {
            work.extend([kind, electrode as u32, first as u32, (end - first).min(QUERIES) as u32]);
        }
    };
    cut(0, 0, 0, edges + decodings.iter().sum::<usize>());
    let mut first = edges;
    for (number, n) in decodings.iter().enumerate() {
        if model.electrodes[number].spikes() > 0 {
            cut(1, number, 0, edges);
            cut(2, number, first, first + n);
        }
        first += n;
    }
    work
}

pub(super) fn add(job: &mut Job, arrays: &Arrays, model: &ClusterlessDecoder) -> Result<(), PrepareError> {
    let track = arrays.checked_track()?;
    let (dims, samples) = (model.dims, model.track_time.len());
    let spikes = arrays.decoding_spikes();
    let time_edges = arrays.decoding(&spikes).time_edges;
    let edges = time_edges.len();
    let recording = Recording::new(model, &[], &spikes);
    let decodings: Vec<usize> = spikes.iter().map(|spikes| spikes.times.len()).collect();
    let all = edges + recording.times.len();
    let queries: Vec<f64> = time_edges.iter().chain(&recording.times).copied().collect();
    let out = job.output("local_log_likelihood", Dtype::F32, &[edges, 1], 0)?;
    if cuda_small::local(job, model, &recording, (&queries, edges), (track.time, track.position), out)? {
        return Ok(());
    }

    let (table, own, times) =
        (job.upload::<u64>(&recording.table)?, job.upload::<u32>(&recording.spikes)?, job.upload::<f64>(&queries)?);
    let (given, centres) = (job.upload::<f64>(&recording.given)?, job.upload::<f64>(&recording.centres)?);
    let (time, position, units) =
        (job.upload::<f64>(track.time)?, job.upload::<f64>(track.position)?, job.upload::<f64>(&units(model))?);
    let here = job.scratch(8 * dims * all)?;
    let decoded = job.scratch(4 * recording.given.len())?;
    let rows = job.scratch(4 * recording.spikes.len())?;
    let args = vec![table, own, times, given, centres, time, position, units, here, decoded, rows];
    let sizes = [all, edges, track.time.len(), dims].map(whole);
    let by_query = Grid::line(all.div_ceil(QUERIES), QUERIES as u32);
    job.launch(&SOURCE, "local_queries", by_query, args.into_iter().chain(sizes).collect())?;

    let work = work(edges, model, &decodings);
    let widest = 2 * dims + model.n_features().max().unwrap_or(1);
    let by_work = Grid::line(work.len() / 4, QUERIES as u32).shared(4 * (widest * (POINTS + QUERIES) + 1));
    let work = job.upload::<u32>(&work)?;
    let (on_track, places) = (job.upload::<f32>(&model.track_pairs)?, job.upload::<f32>(&recording.places)?);
    let marks = job.upload::<f32>(&recording.marks)?;
    let (logs, ground) = (job.scratch(8 * all)?, job.scratch(8 * edges * model.electrodes.len())?);
    let joint = job.scratch(8 * recording.spikes.len())?;
    let args = vec![table, work, on_track, places, marks, here, decoded, logs, ground, joint];
    let stride = model.track_pairs.len() / (2 * dims);
    let sizes = [all, edges, samples, stride, dims].map(whole);
    job.launch(
        &SOURCE,
        by_dims(dims, ["local_sums_1", "local_sums_2", "local_sums_any"]),
        by_work,
        args.into_iter().chain(sizes).collect(),
    )?;

    let scales: Vec<f64> = model.electrodes.iter().map(|electrode| electrode.log_scale).collect();
    let scales = job.upload::<f64>(&scales)?;
    let numbers = [log_norm(&model.position_std), samples as f64, f64::MIN_POSITIVE.ln()].map(Arg::F64);
    let args = [table, scales, logs, ground, joint, rows, out, whole(edges), whole(model.electrodes.len())];
    let by_edge = Grid::line(edges.div_ceil(QUERIES / 32), QUERIES as u32);
    job.launch(&SOURCE, "local_likelihood", by_edge, args.into_iter().chain(numbers).collect())?;
    Ok(())
}
