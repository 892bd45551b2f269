//! Prediction at the animal's position in WGSL (`local.wgsl`): one workgroup per sum of kernels, then the edges.

use ellwand_core::{Dtype, PrepareError, Prepared};

use super::arrays::Arrays;
use super::data::Track;
use super::local::pairs;
use super::model::{ClusterlessDecoder, LOG_FLOOR, UNIT, log_norm};
use super::rows::Marked;
use super::wgpu::check;
use ellwand_gpu::products::word;
use ellwand_gpu::{Arg, Gpu, GpuError, Grid, Job, Source, wgsl};

pub(crate) static SOURCE: Source =
    wgsl!("local.wgsl", "../../../devices/gpu/src/invocation.wgsl", "../../../devices/gpu/src/portable.wgsl");

/// Threads per workgroup.
const THREADS: usize = 128;

/// Kernel centres on the device.
struct Points {
    places: Arg,
    marks: Arg,
    n: usize,
    stride: usize,
    features: usize,
}

/// Positions at which sums are evaluated: `[dims, 2, all]`.
struct Queries {
    at: Arg,
    all: usize,
    dims: usize,
}

impl Queries {
    /// Launches the sums over the points for `count` queries starting at `first`, with the marks `decoded`.
    fn sum(&self, job: &mut Job, of: &Points, places: [usize; 2], decoded: Arg) -> Result<Arg, PrepareError> {
        let [first, count] = places;
        let sums = job.scratch(8 * count)?;
        let sizes = [of.n, of.stride, self.dims, of.features, count, first, self.all, 0];
        let mut args = sizes.into_iter().map(word).collect::<Result<Vec<Arg>, _>>()?;
        args.extend([of.places, of.marks, self.at, decoded, sums]);
        job.launch(&SOURCE, "log_sums", Grid::line(count, THREADS as u32), args)?;
        Ok(sums)
    }
}

/// Uploads f32 values; an empty array gets one element, because a binding must not be empty.
fn held(job: &mut Job, values: &[f32]) -> Result<Arg, GpuError> {
    job.upload::<f32>(if values.is_empty() { &[0.0] } else { values })
}

/// The animal's positions at `times`, in units of the kernel, as pairs of f32.
fn places(track: &Track<'_>, times: &[f64], model: &ClusterlessDecoder) -> Vec<f32> {
    let (dims, all) = (model.dims, times.len());
    let (mut here, mut places) = (vec![0.0; dims], vec![0.0; dims * all]);
    for (q, &t) in times.iter().enumerate() {
        track.interpolate(t, &mut here);
        for (d, (x, width)) in here.iter().zip(&model.position_std).enumerate() {
            places[d * all + q] = x * (UNIT / width);
        }
    }
    pairs(&places, dims)
}

pub(super) fn predict(
    arrays: &Arrays,
    gpu: &Gpu,
    model: &ClusterlessDecoder,
) -> Result<Box<dyn Prepared>, PrepareError> {
    let track = arrays.checked_track()?;
    let spikes = arrays.decoding_spikes();
    let decoding = arrays.decoding(&spikes);
    check(&decoding, model)?;
    let edges = decoding.time_edges.len();
    let mut times = decoding.time_edges.to_vec();
    let mut heard = Vec::new();
    for (number, spikes) in spikes.iter().enumerate() {
        let mut marked = Marked::default();
        marked.take(model, number, &decoding);
        heard.push((times.len(), marked.rows.clone(), marked.marks.clone()));
        times.extend(&spikes.times[marked.first..][..marked.rows.len()]);
    }
    let mut job = Job::new(gpu);
    let y = job.output("local_log_likelihood", Dtype::F32, &[edges, 1], 0)?;
    let nothing = held(&mut job, &[])?;
    let all = times.len();
    let at = held(&mut job, &places(&track, &times, model))?;
    let queries = Queries { at, all, dims: model.dims };
    let samples = model.track_time.len();
    let on_track = Points {
        places: held(&mut job, &model.track_pairs)?,
        marks: nothing,
        n: samples,
        stride: model.track_pairs.len() / (2 * model.dims),
        features: 0,
    };
    let of_track = queries.sum(&mut job, &on_track, [0, all], nothing)?;
    // The occupancy is the mean of its kernels.
    let occupied = log_norm(&model.position_std) - (samples as f64).ln();
    let numbers =
        |scale: f64| [LOG_FLOOR, f64::MIN_POSITIVE.ln(), occupied, scale - occupied].map(|n| Arg::F32(n as f32));
    let by_edge = Grid::line(edges.div_ceil(THREADS), THREADS as u32);
    let args_of = |first: usize, has_model: bool, scale: f64| -> Result<Vec<Arg>, PrepareError> {
        let mut args = vec![word(edges)?, word(first)?, Arg::U32(u32::from(has_model))];
        args.extend(numbers(scale));
        Ok(args)
    };
    job.launch(&SOURCE, "clear_local", by_edge, [args_of(0, false, 0.0)?, vec![y]].concat())?;
    for (electrode, (first, rows, marks)) in model.electrodes.iter().zip(&heard) {
        let has_model = electrode.spikes() > 0;
        let (mut of_places, mut of_marks) = (nothing, nothing);
        if has_model {
            let mut points = Points {
                places: held(&mut job, &electrode.place_pairs)?,
                marks: nothing,
                n: electrode.spikes(),
                stride: electrode.stride(),
                features: 0,
            };
            of_places = queries.sum(&mut job, &points, [0, edges], nothing)?;
            if !rows.is_empty() {
                points.marks = held(&mut job, &electrode.marks)?;
                points.features = electrode.n_features;
                let decoded = held(&mut job, marks)?;
                of_marks = queries.sum(&mut job, &points, [*first, rows.len()], decoded)?;
            }
        }
        let starts: Vec<u32> = (0..=edges).map(|row| rows.partition_point(|r| (*r as usize) < row) as u32).collect();
        let starts = job.upload::<u32>(&starts)?;
        let arrays = vec![of_track, of_places, of_marks, starts, y];
        job.launch(&SOURCE, "add_local", by_edge, [args_of(*first, has_model, electrode.log_scale)?, arrays].concat())?;
    }
    Ok(job.boxed())
}
