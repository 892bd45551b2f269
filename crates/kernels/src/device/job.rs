//! An implementation that is a list of launches, made ready.

use std::sync::Arc;

use ellwand_core::reading::{Better, Reading};
use ellwand_core::{Dtype, Prepared, Tensors};

use super::{Arg, Buffer, Gpu, GpuError, Grid, Kernel, Source};

/// An array that a job makes.
pub(crate) struct Output {
    /// Its name.
    pub(crate) name: &'static str,
    /// Element type.
    pub(crate) dtype: Dtype,
    /// Shape.
    pub(crate) shape: Vec<usize>,
    /// Where it lies.
    pub(crate) buffer: Arc<Buffer>,
}

/// What is done with the arrays of a job once they are back (checks, codes from packed bits); never timed.
type Finish = dyn Fn(Tensors) -> Result<Tensors, String> + Send + Sync;

/// Launches with their buffers.
pub(crate) struct Job {
    gpu: Gpu,
    launches: Vec<(Kernel, Grid, Vec<Arg>)>,
    /// How often a run makes all of them.
    times: usize,
    outputs: Vec<Output>,
    /// Inputs and scratch memory, held until the job is dropped.
    held: Vec<Arc<Buffer>>,
    finish: Option<Box<Finish>>,
    problem: Option<GpuError>,
}

impl Job {
    pub(crate) fn new(gpu: &Gpu) -> Self {
        Self {
            gpu: gpu.clone(),
            launches: Vec::new(),
            times: 1,
            outputs: Vec::new(),
            held: Vec::new(),
            finish: None,
            problem: None,
        }
    }

    /// Keeps a buffer for as long as the job lives and says where it begins.
    pub(crate) fn hold(&mut self, buffer: Buffer) -> Arg {
        let buffer = Arc::new(buffer);
        self.held.push(buffer.clone());
        Arg::At(buffer.address())
    }

    /// Makes an output of `bytes` bytes or as many as its shape has, whatever is more.
    pub(crate) fn output(
        &mut self,
        name: &'static str,
        dtype: Dtype,
        shape: &[usize],
        bytes: usize,
    ) -> Result<Arg, GpuError> {
        let needed = shape.iter().product::<usize>() * dtype.size();
        let buffer = Arc::new(Buffer::new(&self.gpu, needed.max(bytes))?);
        let at = Arg::At(buffer.address());
        self.outputs.push(Output { name, dtype, shape: shape.to_vec(), buffer });
        Ok(at)
    }

    /// Adds a launch.
    pub(crate) fn launch(
        &mut self,
        source: &'static Source,
        kernel: &str,
        grid: Grid,
        args: Vec<Arg>,
    ) -> Result<(), GpuError> {
        self.launches.push((self.gpu.kernel(source, kernel)?, grid, args));
        Ok(())
    }

    /// A run makes all launches so many times.
    pub(crate) fn repeat(&mut self, times: usize) {
        self.times = times;
    }

    /// Says what is done with the arrays once they are back.
    pub(crate) fn finish(&mut self, finish: impl Fn(Tensors) -> Result<Tensors, String> + Send + Sync + 'static) {
        self.finish = Some(Box::new(finish));
    }

    /// The job as an implementation made ready.
    pub(crate) fn boxed(self) -> Box<dyn Prepared> {
        Box::new(self)
    }
}

impl Prepared for Job {
    fn run(&mut self) {
        for (kernel, grid, args) in std::iter::repeat_n(&self.launches, self.times).flatten() {
            if let Err(error) = self.gpu.launch(kernel, *grid, args) {
                self.problem.get_or_insert(error);
                return;
            }
        }
    }

    fn sync(&mut self) -> Result<(), String> {
        let waited = self.gpu.sync();
        match self.problem.take() {
            Some(problem) => Err(problem.to_string()),
            None => waited.map_err(|error| error.to_string()),
        }
    }

    /// Ones everywhere: NaN, and 255 in bytes.
    fn poison(&mut self) {
        for output in &self.outputs {
            if let Err(error) = output.buffer.fill(0xff) {
                self.problem.get_or_insert(error);
            }
        }
    }

    fn output(&mut self) -> Result<Tensors, String> {
        self.sync()?;
        let mut arrays = Tensors::new();
        for output in &self.outputs {
            arrays.insert(output.name, output.buffer.tensor(output.dtype, &output.shape)?);
        }
        match &self.finish {
            Some(finish) => finish(arrays),
            None => Ok(arrays),
        }
    }

    /// What compiling its kernels took, where the device tells; it is part of what making it ready took.
    fn readings(&self) -> Vec<Reading> {
        let took: Vec<u64> = self.launches.iter().filter_map(|(kernel, ..)| kernel.compile_ns).collect();
        if took.is_empty() {
            return Vec::new();
        }
        let about =
            "time in which its kernels were compiled for the device, as far as that happens before the first run";
        let seconds = took.iter().sum::<u64>() as f64 * 1e-9;
        vec![Reading::measured("compile-time", "compiled in", "s", Better::Lower, seconds, about)]
    }

    fn what_ran(&self) -> String {
        let kernels: Vec<String> =
            self.launches.iter().map(|(kernel, ..)| format!("{} ({})", kernel.name, kernel.resources)).collect();
        format!("{}: {}", self.gpu.about(), kernels.join(", "))
    }
}
