//! The decoder in WGSL (`kde.wgsl`): densities of a fit, and the log likelihood at every bin.
//!
//! An electrode whose kernels exceed the range of f32 (`fits_f32`) is computed in f64 on the CPU, since WGSL has no
//! f64.

use ellwand_core::{Case, Device, Dtype, Implementation, PrepareError, Prepared, Tensor, Tensors};

use super::arrays::Arrays;
use super::local::pairs;
use super::model::{ClusterlessDecoder, Electrode, FLOOR, LOG_FLOOR, log_norm};
use super::options::{Method, Precision};
use super::rows::{Decoding, Marked};
use super::wgpu_local;
use super::workload_spec::{self as spec, Task};
use ellwand_gpu::products::{Place, Products, Then, word};
use ellwand_gpu::{Arg, Gpu, GpuError, Grid, Job, Source, gpu, wgsl};
use ellwand_simd::isa::Isa;

pub(crate) static SOURCE: Source =
    wgsl!("kde.wgsl", "../../../devices/gpu/src/invocation.wgsl", "../../../devices/gpu/src/portable.wgsl");

/// Threads per workgroup.
const THREADS: usize = 128;

/// Parameters of every kernel: sizes of an electrode, the number `n` of items to process, and two constants.
#[derive(Debug, Clone, Copy)]
struct Args {
    spikes: usize,
    stride: usize,
    bins: usize,
    padded: usize,
    dims: usize,
    features: usize,
    n: usize,
    number: f64,
    rate: f64,
}

impl Args {
    fn of(model: &ClusterlessDecoder, electrode: Option<&Electrode>) -> Self {
        Self {
            spikes: electrode.map_or(0, Electrode::spikes),
            stride: electrode.map_or(0, Electrode::stride),
            bins: model.bins,
            padded: model.rarity.len(),
            dims: model.dims,
            features: electrode.map_or(0, |electrode| electrode.n_features),
            n: 0,
            number: LOG_FLOOR,
            rate: electrode.map_or(0.0, |electrode| electrode.mean_rate),
        }
    }

    /// Adds the launch of a kernel with `groups` workgroups.
    fn launch(&self, job: &mut Job, kernel: &str, groups: usize, arrays: &[Arg]) -> Result<(), PrepareError> {
        let sizes = [self.spikes, self.stride, self.bins, self.padded, self.dims, self.features, self.n];
        let mut args = sizes.into_iter().map(word).collect::<Result<Vec<Arg>, _>>()?;
        args.extend([Arg::F32(self.number as f32), Arg::F32(self.rate as f32)]);
        args.extend(arrays);
        Ok(job.launch(&SOURCE, kernel, Grid::line(groups, THREADS as u32), args)?)
    }
}

fn f32s(job: &mut Job, values: impl Iterator<Item = f64>) -> Result<Arg, GpuError> {
    job.upload::<f32>(&values.map(|value| value as f32).collect::<Vec<_>>())
}

fn fit(arrays: &Arrays, gpu: &Gpu, model: &ClusterlessDecoder) -> Result<Box<dyn Prepared>, PrepareError> {
    let mut job = Job::new(gpu);
    let bins = model.bins;
    let occupancy = job.output("occupancy", Dtype::F32, &[bins], 0)?;
    let ground = job.output("ground_process_intensity", Dtype::F32, &[bins], 0)?;
    let density = job.scratch(4 * bins)?;
    let grid = job.upload::<f32>(&pairs(&model.grid_units, model.dims))?;
    let norm = log_norm(&model.position_std).exp();
    let mean = |n: usize| if n == 0 { 0.0 } else { norm / n as f64 };
    let samples = super::fit::units(&arrays.position, model.dims, &model.position_std);
    let track = job.upload::<f32>(&pairs(&samples, model.dims))?;
    let n = arrays.position_time.len();
    let of_track = Args { spikes: n, stride: samples.len() / model.dims, number: mean(n), ..Args::of(model, None) };
    of_track.launch(&mut job, "mean_kernel", bins, &[grid, track, occupancy])?;
    for (number, electrode) in model.electrodes.iter().enumerate() {
        // Without spikes nothing is read, but the binding still needs an array.
        let pairs = if electrode.spikes() == 0 { &[0.0][..] } else { &electrode.place_pairs };
        let places = job.upload::<f32>(pairs)?;
        let args = Args { number: mean(electrode.spikes()), ..Args::of(model, Some(electrode)) };
        args.launch(&mut job, "mean_kernel", bins, &[grid, places, density])?;
        let kernel = if number == 0 { "first_ground" } else { "next_ground" };
        let args = Args { number: FLOOR, ..args };
        args.launch(&mut job, kernel, bins.div_ceil(THREADS), &[occupancy, density, ground])?;
    }
    let rates = model.mean_rates();
    job.finish(move |computed| Ok(computed.with("mean_rates", Tensor::vector(&rates[..]))));
    Ok(job.boxed())
}

/// Working memory that the electrodes share, one after another.
struct Shared {
    kernels: Arg,
    weights: Arg,
    shifts: Arg,
    sums: Arg,
}

/// Refuses spikes that do not fit the model, and marks that need f64.
pub(super) fn check(decoding: &Decoding<'_>, model: &ClusterlessDecoder) -> Result<(), PrepareError> {
    decoding.check(model)?;
    match model.electrodes.iter().position(|e| e.spikes() > 0 && !e.fits_f32) {
        None => Ok(()),
        Some(number) => Err(PrepareError::Unsupported(format!(
            "the mark kernels of electrode {number} need f64, which the device does not have"
        ))),
    }
}

fn predict(arrays: &Arrays, gpu: &Gpu, model: &ClusterlessDecoder) -> Result<Box<dyn Prepared>, PrepareError> {
    let spikes = arrays.decoding_spikes();
    let decoding = arrays.decoding(&spikes);
    check(&decoding, model)?;
    let (edges, bins) = (decoding.time_edges.len(), model.bins);
    let marked: Vec<Marked> = (0..model.electrodes.len())
        .map(|number| {
            let mut marked = Marked::default();
            marked.take(model, number, &decoding);
            marked
        })
        .collect();
    let mut silent = vec![0.0; edges];
    let mut most = [1; 3];
    for (electrode, heard) in model.electrodes.iter().zip(&marked) {
        if electrode.spikes() == 0 {
            heard.rows.iter().for_each(|&row| silent[row as usize] += LOG_FLOOR);
            continue;
        }
        let (n, m) = (electrode.spikes(), heard.rows.len());
        for (most, needed) in most.iter_mut().zip([n * bins, n * m, m * bins]) {
            *most = needed.max(*most);
        }
    }
    let mut job = Job::new(gpu);
    let y = job.output("log_likelihood", Dtype::F32, &[edges, bins], 0)?;
    let mut scratch = |values: usize| job.scratch(4 * values);
    let shared = Shared {
        kernels: scratch(most[0])?,
        weights: scratch(most[1])?,
        shifts: scratch(marked.iter().map(|heard| heard.rows.len()).max().unwrap_or(0).max(1))?,
        sums: scratch(most[2])?,
    };
    let ground = f32s(&mut job, model.ground.iter().copied())?;
    let silent = f32s(&mut job, silent.into_iter())?;
    let args = Args { n: edges * bins, ..Args::of(model, None) };
    args.launch(&mut job, "begin", args.n.div_ceil(THREADS), &[ground, silent, y])?;
    let grid = job.upload::<f32>(&pairs(&model.grid_units, model.dims))?;
    for (electrode, heard) in model.electrodes.iter().zip(&marked) {
        if electrode.spikes() > 0 && !heard.rows.is_empty() {
            add(&mut job, model, electrode, heard, &shared, [grid, y])?;
        }
    }
    Ok(job.boxed())
}

/// Adds the spikes of one electrode.
fn add(
    job: &mut Job,
    model: &ClusterlessDecoder,
    electrode: &Electrode,
    heard: &Marked,
    shared: &Shared,
    [grid, y]: [Arg; 2],
) -> Result<(), PrepareError> {
    let (n, m, bins) = (electrode.spikes(), heard.rows.len(), model.bins);
    let args = Args::of(model, Some(electrode));
    let places = job.upload::<f32>(&electrode.place_pairs)?;
    let nearest = job.upload::<f32>(&electrode.nearest)?;
    let all = Args { n: n * bins, ..args };
    let arrays = [grid, places, nearest, shared.kernels];
    all.launch(job, "position_kernels", all.n.div_ceil(THREADS), &arrays)?;
    let marks = job.upload::<f32>(&electrode.marks)?;
    let of_heard = job.upload::<f32>(&heard.marks)?;
    let arrays = [marks, of_heard, shared.weights, shared.shifts];
    Args { n: m, ..args }.launch(job, "mark_kernels", m, &arrays)?;
    let [a, b, c] =
        [(shared.weights, n), (shared.kernels, bins), (shared.sums, bins)].map(|(at, row)| Place::one(at, row));
    Products::one([m, bins, n], false, a, b, c).launch_wgpu(job, Then::Nothing)?;
    // Computed in f64, because large numbers of opposite sign cancel.
    let ln_2 = std::f64::consts::LN_2;
    let offset = |(nearest, rarity): (&f32, &f64)| ln_2 * f64::from(*nearest) + electrode.log_scale + rarity;
    let offsets = f32s(job, electrode.nearest.iter().zip(&model.rarity).map(offset))?;
    // Each row with spikes and its first spike, packed in the two halves of a word; then the end.
    let mut rows: Vec<u64> = Vec::new();
    for (spike, row) in heard.rows.iter().enumerate() {
        if spike == 0 || heard.rows[spike - 1] != *row {
            rows.push((spike as u64) << 32 | u64::from(*row));
        }
    }
    let holding = Args { n: rows.len() * bins, ..args };
    rows.push((m as u64) << 32);
    let rows = job.upload::<u64>(&rows)?;
    let arrays = [shared.sums, shared.shifts, offsets, rows, y];
    holding.launch(job, "add_spikes", holding.n.div_ceil(THREADS), &arrays)
}

/// The implementation of a task.
pub(super) fn implementation(task: Task) -> Implementation {
    let about = match task {
        Task::Fit => {
            "densities, one workgroup per bin; positions of spikes are interpolated and sorted beforehand, untimed"
        }
        Task::Predict => "one product of mark and position kernels per electrode, nothing skipped",
        Task::Local => {
            "one workgroup per position and electrode, largest kernel factored out; positions are interpolated beforehand"
        }
        Task::Total => "unavailable: fit and prediction are separate",
        Task::Stream => "unavailable: one bin at a time",
    };
    let prepared = move |case: &Case, inputs: &Tensors, device: &dyn Device| {
        let gpu = gpu(device)?;
        if task == Task::Stream {
            let why = "a stream would send the device one bin per call and wait for it, which costs more than the bin; use kde-predict, \
                       which decodes many bins at once";
            return Err(PrepareError::Unsupported(why.into()));
        }
        if spec::precision(case) == Precision::F64 {
            return Err(PrepareError::Unsupported("the WGSL kernels compute in f32; use precision=f32".into()));
        }
        let arrays = Arrays::read(inputs, task != Task::Fit, task == Task::Local)?;
        let method = Method::Simd(Isa::best());
        let (track, encoding) = (arrays.track(), arrays.encoding());
        let model = ClusterlessDecoder::fit(track, &arrays.grid, &encoding, &arrays.bandwidth, method);
        let model = model?;
        match task {
            Task::Fit => fit(&arrays, gpu, &model),
            Task::Local => wgpu_local::predict(&arrays, gpu, &model),
            _ => predict(&arrays, gpu, &model),
        }
    };
    ellwand_gpu::on_wgpu(Implementation::cpu(task.name(), "wgpu", about, prepared))
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Registry, Value};

    use ellwand_gpu_lab::testing::{case, judged_on_wgpu};

    #[test]
    fn wgpu_fits_and_predicts_like_the_reference() {
        let mut registry = Registry::new();
        crate::register(&mut registry);
        for (data, dims, features, bins) in
            [("script", 1, 2, 200), ("structured", 1, 4, 77), ("structured", 2, 3, 130), ("structured", 1, 1, 1)]
        {
            for workload in ["kde-fit", "kde-predict", "kde-predict-local"] {
                let sizes = [("dims", dims), ("features", features), ("bins", bins), ("enc-spikes", 90)];
                let mut set: Vec<(&str, Value)> = sizes.map(|(axis, value)| (axis, Value::Int(value))).to_vec();
                set.push(("data", data.into()));
                let case = case(&registry, workload, &set);
                let inputs = registry.find(workload).unwrap().inputs(&case, 8).unwrap();
                judged_on_wgpu(&registry, &case, &inputs, |_, _| {});
            }
        }
    }
}
