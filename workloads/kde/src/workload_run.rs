//! Prepared implementations of the workloads: model, buffers, poison, outputs.

use ellwand_core::{
    Better, Case, DeviceError, Implementation, InputError, Poison, PrepareError, Prepared, Provenance, Reading, Tensor,
    Tensors,
};

use super::arrays::Arrays;
use super::model::ClusterlessDecoder;
use super::options::{CHUNK, Method, Options, Precision};
use super::workload_spec::{self as spec, Task};
use super::workload_work as work;
use super::{LocalWorkspace, Workspace};
use ellwand_simd::isa::Isa;
use ellwand_simd::pool;

/// The CPU implementations of a task.
pub(super) fn implementations(task: Task) -> Vec<Implementation> {
    if task == Task::Stream {
        return super::workload_stream::implementations();
    }
    let row = |name: &str, about: &str, method: fn(Isa) -> Method| {
        Implementation::cpu(task.name(), name, about, move |case, inputs, _| {
            Ok(Box::new(Job::new(task, method(Isa::of(case)?), case, inputs)?))
        })
    };
    let reference = row("reference", "f64, one formula after the other", |_| Method::Reference);
    let mut rows = vec![
        // A fit's densities are computed bin by bin on all threads.
        if matches!(task, Task::Fit | Task::Total) { reference.many_threads() } else { reference },
        row("scalar", "plain loops on one thread", |_| Method::Scalar),
    ];
    if task.predicts() {
        rows.push(row(
            "gemm",
            "matrix product of the crate matrixmultiply between vectorised kernels, one thread",
            Method::Gemm,
        ));
    }
    rows.push(row("simd", "fused tiles in vector lanes on one thread: AVX-512, AVX2 or the baseline", Method::Simd));
    rows.push(row("parallel", "the same on all threads", Method::Parallel).many_threads());
    if task != Task::Total {
        rows.extend(super::cuda::implementations(task));
    }
    rows
}

/// One task at one case.
struct Job {
    task: Task,
    arrays: Arrays,
    options: Options,
    model: ClusterlessDecoder,
    workspace: Workspace,
    local: LocalWorkspace,
    /// The result in f32.
    out: Vec<f32>,
    /// The result in f64; always used by the reference.
    wide: Vec<f64>,
    fitted: Option<ClusterlessDecoder>,
    /// Maximum number of threads that the last run can have used: little work stays on one thread.
    threads: usize,
    /// Operations of the fit at the start of each run; 0 if a run only predicts. A fit skips nothing.
    fit_operations: f64,
    done: Result<(), InputError>,
}

pub(super) fn fit(arrays: &Arrays, options: Options) -> Result<ClusterlessDecoder, InputError> {
    ClusterlessDecoder::fit(arrays.track(), &arrays.grid, &arrays.encoding(), &arrays.bandwidth, options)
}

impl Job {
    fn new(task: Task, method: Method, case: &Case, inputs: &Tensors) -> Result<Job, PrepareError> {
        let arrays = Arrays::read(inputs, task != Task::Fit, task == Task::Local)?;
        let options = spec::options(case, method)?;
        let model = fit(&arrays, options)?;
        let edges = arrays.decoding.as_ref().map_or(0, |(edges, _)| edges.len());
        let values = match task {
            Task::Fit | Task::Stream => 0,
            Task::Predict | Task::Total => edges * model.bins(),
            Task::Local => edges,
        };
        // A budget too small for a tile is reported now.
        let workspace = if task.predicts() {
            let spikes = arrays.decoding_spikes();
            model.workspace(&arrays.decoding(&spikes), &options)?
        } else {
            Workspace::default()
        };
        Ok(Job {
            task,
            options,
            model,
            workspace,
            local: LocalWorkspace::default(),
            out: vec![0.0; if options.precision == Precision::F32 && method != Method::Reference { values } else { 0 }],
            wide: vec![
                0.0;
                if options.precision == Precision::F64 && method != Method::Reference { values } else { 0 }
            ],
            fitted: None,
            threads: 1,
            fit_operations: if task == Task::Total { work::of_fit(case, &arrays) } else { 0.0 },
            done: Ok(()),
            arrays,
        })
    }

    fn compute(&mut self) -> Result<(), InputError> {
        let method = self.options.method;
        if self.task == Task::Fit {
            self.fitted = Some(fit(&self.arrays, self.options)?);
            return Ok(());
        }
        if self.task == Task::Total {
            self.model = fit(&self.arrays, self.options)?;
        }
        let spikes = self.arrays.decoding_spikes();
        let decoding = self.arrays.decoding(&spikes);
        match (self.task, self.arrays.dec_track()) {
            (Task::Local, Some(track)) if method == Method::Reference => {
                self.wide = self.model.predict_local_exactly(track, &decoding)?;
            }
            (Task::Local, Some(track)) => {
                let (options, local) = (&self.options, &mut self.local);
                if options.precision == Precision::F64 {
                    self.model.local_into(track, &decoding, options, local, &mut self.wide)?;
                } else {
                    self.model.local_into(track, &decoding, options, local, &mut self.out)?;
                }
            }
            _ if method == Method::Reference => self.wide = self.model.predict_exactly(&decoding)?,
            _ if self.options.precision == Precision::F64 => {
                self.model.predict_f64_into(&decoding, &self.options, &mut self.workspace, &mut self.wide)?;
            }
            _ => self.model.predict_into(&decoding, &self.options, &mut self.workspace, &mut self.out)?,
        }
        Ok(())
    }

    /// True if the result is in f64.
    fn in_f64(&self) -> bool {
        self.options.precision == Precision::F64 || self.options.method == Method::Reference
    }

    /// The memory that the implementation holds in addition to model, inputs and output.
    fn working_memory(&self) -> Reading {
        let packed = match self.workspace.tiling(self.options.precision) {
            // The crate packs up to 64 rows of one factor and 1024 columns of the other, 256 deep.
            Some(tiling) if self.options.method.multiplies() => {
                self.options.precision.bytes() * CHUNK.min(256) * (tiling.block.min(64) + tiling.tile.min(1024))
            }
            _ => 0,
        };
        let value = (self.workspace.bytes() + packed as u64) as f64;
        let about = "estimated memory that the implementation holds in addition to model, inputs and output, on all its threads";
        let derived = Reading::derived("working-memory", "working memory", "B", Better::Lower, value, about);
        Reading { provenance: Provenance::Estimated, ..derived }
    }

    fn collect(&self) -> Result<Tensors, ellwand_core::InputError> {
        let edges = self.arrays.decoding.as_ref().map_or(0, |(edges, _)| edges.len());
        if self.task == Task::Fit {
            let none = ellwand_core::InputError::new("outputs", "nothing was fitted", "a run");
            let model = self.fitted.as_ref().ok_or(none)?;
            let f32s = |values: &[f64]| {
                let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
                Tensor::vector(&values[..])
            };
            let density = |values| if self.in_f64() { Tensor::vector(values) } else { f32s(values) };
            return Ok(Tensors::new()
                .with("occupancy", density(model.occupancy()))
                .with("ground_process_intensity", density(model.ground_process_intensity()))
                .with("mean_rates", Tensor::vector(&model.mean_rates()[..])));
        }
        let (name, width) = match self.task {
            Task::Local => ("local_log_likelihood", 1),
            _ => ("log_likelihood", self.model.bins()),
        };
        let tensor = if self.in_f64() {
            Tensor::new(&[edges, width], &self.wide[..])?
        } else {
            Tensor::new(&[edges, width], &self.out[..])?
        };
        Ok(Tensors::new().with(name, tensor))
    }
}

impl Prepared for Job {
    fn run(&mut self) {
        (self.done, self.threads) = pool::most_threads(|| self.compute());
    }

    fn poison(&mut self, poison: Poison) {
        self.done = Ok(());
        self.fitted = None;
        poison.fill(&mut self.out);
        poison.fill(&mut self.wide);
    }

    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.done.clone()?;
        Ok(self.collect()?)
    }

    fn threads(&self) -> Option<usize> {
        self.options.method.is_parallel().then_some(self.threads)
    }

    /// How much work is skipped depends on the data, so it is known only after a run.
    fn readings(&mut self) -> Vec<Reading> {
        if !self.task.predicts() || self.options.method == Method::Reference {
            return Vec::new();
        }
        let pairs = self.workspace.pairs(self.options.precision);
        vec![Reading::operations(self.fit_operations + 2.0 * pairs as f64), self.working_memory()]
    }

    fn what_ran(&self) -> String {
        let mut method = self.options.method.what_ran(self.options.precision);
        if self.options.method.is_parallel() {
            let items = match self.task {
                Task::Fit => "bins",
                Task::Local => "spikes",
                Task::Predict | Task::Total | Task::Stream => "spikes and bins",
            };
            method = format!("{method}, {}", self.options.describe_threads(self.threads, items));
        }
        let Some(tiling) = self.workspace.tiling(self.options.precision) else { return method };
        let skip = if self.options.skip { "skipping below the floor" } else { "nothing skipped" };
        format!("{method}, blocks of {} spikes x {} bins, {skip}", tiling.block, tiling.tile)
    }
}
