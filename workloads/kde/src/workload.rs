//! The workloads `kde-fit`, `kde-predict`, `kde-predict-local` and `kde-stream` (group `kde`).

use ellwand_core::{
    Case, Description, Dtype, Fit, HardSet, InputError, Port, Ports, Registry, Tensor, Tensors, Tolerance, Verdict,
    View, Work, Workload,
};

use super::arrays::{Arrays, describe, tensors};
use super::exact;
use super::judge;
use super::model::ClusterlessDecoder;
use super::options::Method;
use super::workload_memory as memory;
use super::workload_run::implementations;
use super::workload_spec::{self as spec, Task};
use super::workload_work as work;
use ellwand_simd::isa::Isa;

struct Kde {
    task: Task,
    description: Description,
}

/// Registers the workloads and their implementations.
pub(super) fn register(registry: &mut Registry) {
    registry.views.push(View::Columns(super::workload_stream::columns()));
    for task in Task::ALL {
        let description = Description::new(task.name(), task.about()).group("kde").axes(spec::axes(task));
        let baseline = if task == Task::Stream { "batch" } else { "scalar" };
        registry.workload(Kde { task, description: description.sizes(spec::sizes(task)).baseline(baseline) });
        for implementation in implementations(task) {
            registry.implementation(implementation);
        }
        if task != Task::Total {
            registry.implementation(super::wgpu::implementation(task));
        }
    }
}

/// Pairs times bins that the reference computes in about half a second per thread.
const AFFORDABLE: f64 = 1e9;
/// Number of features from which on the likelihood of nearly every mark of `data=script` is the floor: for the smallest
/// case all differ at 12 features, none does at 14.
const FEATURES_AT_THE_FLOOR: usize = 13;

/// Rows that the reference computes: all in a small case; in a large one the first, the last two and some in between.
fn judged_rows(edges: usize, cost: f64) -> Vec<usize> {
    let affordable = (edges as f64 * AFFORDABLE / cost.max(1.0)) as usize;
    if affordable >= edges {
        return (0..edges).collect();
    }
    // A step coprime to powers of two and ten covers all phases of a periodic recording.
    let n = affordable.clamp(8, edges);
    let mut rows: Vec<usize> =
        (0..n).map(|i| (i * edges / n + (i * 7919) % (edges / n).max(1)).min(edges - 1)).collect();
    rows.extend([0, edges - 2, edges - 1]);
    rows.sort_unstable();
    rows.dedup();
    rows
}

impl Workload for Kde {
    fn description(&self) -> &Description {
        &self.description
    }

    fn check(&self, case: &Case) -> Result<(), InputError> {
        Isa::of(case)?;
        // Checks the least demanding method; the needs of others are checked when they are prepared.
        let options = spec::options(case, Method::Scalar)?;
        let sizes = spec::shape(case);
        options.tiling(sizes.decoding as usize, sizes.bins, sizes.dims, 0).map(drop)
    }

    fn remarks(&self, case: &Case) -> Vec<String> {
        let mut remarks = memory::advice(self.task, case);
        if case.text("data") != Some("script") {
            return remarks;
        }
        // A kernel of 24 has a density of at most 1/60 in each feature, and the floor is 1e-15.
        let marks = if spec::shape(case).features < FEATURES_AT_THE_FLOOR {
            "all look alike under a kernel of 24, so they never exercise floor, outliers and mark distances"
        } else {
            "in this many dimensions have a density below the floor, so most likelihoods are the floor"
        };
        remarks.push(format!("data=script: marks N(0, 1) {marks}; data=structured has marks like those of recordings"));
        remarks
    }

    fn footprint(&self, case: &Case) -> u64 {
        self.memory(case).iter().map(|(_, bytes)| bytes).sum()
    }

    fn memory(&self, case: &Case) -> Vec<(&'static str, u64)> {
        memory::parts(self.task, case)
    }

    fn ports(&self, _case: &Case) -> Ports {
        ports(self.task)
    }

    /// Cases that differ only in how they are computed get the same data.
    fn data_digest(&self, case: &Case) -> u64 {
        let how = ["skip", "block", "tile", "memory", "precision", "threads", "isa"];
        let params = case.params.iter().filter(|(axis, _)| !how.contains(&axis.as_str())).cloned().collect();
        Case::new("kde-data", params).digest()
    }

    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let dims = spec::shape(case).dims;
        tensors(&spec::data(case, seed), dims, self.task != Task::Fit, self.task == Task::Local)
    }

    fn hard_sets(&self, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
        super::hard::sets(self, self.task, case, seed)
    }

    fn adopt(&self, case: &Case, given: Tensors, fit: Fit) -> Result<(Case, Tensors), InputError> {
        let arrays = Arrays::read(&given, self.task != Task::Fit, self.task == Task::Local)?;
        let mut adopted = case.clone();
        describe(&mut adopted, &arrays);
        if fit == Fit::Case {
            // A sweep cannot cut a recording to size.
            let differs = ["samples", "electrodes", "bins", "edges"];
            if let Some(axis) = differs.into_iter().find(|axis| adopted.get(axis) != case.get(axis)) {
                let (have, want) = (adopted.int(axis).unwrap_or(0), case.int(axis).unwrap_or(0));
                return Err(InputError::new(
                    axis,
                    format!("the arrays have {have}, the case asks for {want}"),
                    "the size of the arrays",
                )
                .help(format!("{axis}={have}")));
            }
        }
        // Check the arrays fully here, not in an implementation.
        let names = ports(self.task).inputs;
        let kept = names.iter().filter_map(|port| given.find(port.name).map(|tensor| (port.name, tensor.clone())));
        let inputs = kept.fold(Tensors::new(), |inputs, (name, tensor)| inputs.with(name, tensor));
        let model = ClusterlessDecoder::fit(
            arrays.track(),
            &arrays.grid,
            &arrays.encoding(),
            &arrays.bandwidth,
            Method::Simd(Isa::best()),
        )?;
        let spikes = arrays.decoding_spikes();
        if self.task != Task::Fit {
            arrays.decoding(&spikes).check(&model)?;
        }
        if let Some(track) = arrays.dec_track() {
            track.check("dec_position_time", "dec_position")?;
        }
        Ok((adopted, inputs))
    }

    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let arrays = Arrays::read(inputs, self.task != Task::Fit, self.task == Task::Local)?;
        let encoding = arrays.encoding();
        let model =
            ClusterlessDecoder::fit(arrays.track(), &arrays.grid, &encoding, &arrays.bandwidth, Method::Reference)?;
        let occupancy = Tensor::vector(model.occupancy());
        let spikes = arrays.decoding_spikes();
        let decoding = arrays.decoding(&spikes);
        match (self.task, arrays.dec_track()) {
            (Task::Predict | Task::Total | Task::Stream, _) => {
                let s = spec::shape(case);
                let edges = decoding.time_edges.len();
                let pairs: f64 =
                    encoding.iter().zip(&spikes).map(|(e, d)| e.times.len() as f64 * d.times.len() as f64).sum();
                let rows = judged_rows(edges, pairs * s.bins as f64);
                let exact = model.rows_exactly(&decoding, &rows)?;
                let indices: Vec<u64> = rows.iter().map(|&row| row as u64).collect();
                Ok(Tensors::new()
                    .with("log_likelihood", Tensor::new(&[rows.len(), model.bins()], &exact[..])?)
                    .with("rows", Tensor::vector(&indices[..]))
                    .with("occupancy", occupancy))
            }
            (Task::Local, Some(track)) => {
                let exact = model.predict_local_exactly(track, &decoding)?;
                Ok(Tensors::new().with("local_log_likelihood", Tensor::new(&[exact.len(), 1], &exact[..])?))
            }
            _ => Ok(Tensors::new()
                .with("occupancy", occupancy)
                .with("ground_process_intensity", Tensor::vector(model.ground_process_intensity()))
                .with("mean_rates", Tensor::vector(&exact::rates(&model)[..]))),
        }
    }

    fn work(&self, case: &Case) -> Work {
        work::nominal(self.task, case)
    }

    fn work_of(&self, case: &Case, inputs: &Tensors) -> Work {
        work::of_inputs(self.task, case, inputs)
    }

    fn tolerance(&self, case: &Case) -> Tolerance {
        judge::tolerance(self.task, spec::precision(case))
    }

    fn judge(&self, case: &Case, _: &Tensors, expected: &Tensors, got: &Tensors) -> Verdict {
        self.judge_within(case, expected, got, self.tolerance(case))
    }

    fn judge_within(&self, case: &Case, expected: &Tensors, got: &Tensors, tolerance: Tolerance) -> Verdict {
        judge::judge(self.task, spec::precision(case), expected, got, tolerance)
    }
}

/// The public arrays of a task.
fn ports(task: Task) -> Ports {
    let port = |name, dtype, shape, about, required| Port { name, dtype, shape, about, required };
    let f64s = |name, shape, about| port(name, Dtype::F64, shape, about, true);
    let whole = |name, shape, about| port(name, Dtype::I64, shape, about, true);
    let mut inputs = vec![
        f64s("position_time", "[T]", "times of the position samples, s, ascending"),
        f64s("position", "[T, D] or [T]", "position at these times"),
        f64s("grid", "[B, D] or [B]", "centres of the interior position bins"),
        f64s("enc_spike_times", "[spikes]", "encoding spike times, electrode after electrode, each ascending"),
        whole("enc_spike_times_offsets", "[E + 1]", "start of each electrode's spikes, and the end"),
        f64s("enc_features_flat", "[values]", "marks of these spikes, spike after spike, n_features each"),
        whole("n_features", "[E]", "number of values in a mark, for each electrode"),
        port(
            "position_std",
            Dtype::F64,
            "scalar or [D]",
            "width of the position kernel; sqrt(12.5) when absent",
            false,
        ),
        port("waveform_std", Dtype::F64, "scalar or [F]", "width of the mark kernel; 24 when absent", false),
    ];
    if task == Task::Fit {
        let outputs = vec![
            port("occupancy", Dtype::F32, "[B]", "density of the animal's positions", true),
            port("ground_process_intensity", Dtype::F32, "[B]", "rates of all electrodes, summed", true),
            port("mean_rates", Dtype::F64, "[E]", "spikes per position sample", true),
        ];
        return Ports { inputs, outputs };
    }
    inputs.extend([
        f64s("time_edges", "[N]", "edges of the time bins, s, ascending"),
        f64s("dec_spike_times", "[spikes]", "decoding spike times, in the form of enc_spike_times"),
        whole("dec_spike_times_offsets", "[E + 1]", "in the form of enc_spike_times_offsets"),
        f64s("dec_features_flat", "[values]", "their marks"),
    ]);
    if task.predicts() || task == Task::Stream {
        let about = "log likelihood; row i is the bin from edge i on, the last row never holds a spike";
        return Ports { inputs, outputs: vec![port("log_likelihood", Dtype::F32, "[N, B]", about, true)] };
    }
    inputs.extend([
        f64s("dec_position_time", "[samples]", "times of the positions while decoding"),
        f64s("dec_position", "[samples, D]", "position at these times"),
    ]);
    let about = "log likelihood at the animal's position";
    Ports { inputs, outputs: vec![port("local_log_likelihood", Dtype::F32, "[N, 1]", about, true)] }
}
