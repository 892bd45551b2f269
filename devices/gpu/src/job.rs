//! `Job`: a prepared implementation that is a list of launches.

use std::sync::Arc;

use ellwand_core::tensor::Element;
use ellwand_core::{Better, DeviceError, DeviceKind, Dtype, Poison, Prepared, Reading, Tensors};

use super::{Arg, Buffer, Gpu, GpuError, Grid, Host, Launch, Series, Source, gate};

/// An output array of a job.
pub(crate) struct Output {
    /// Name of the output.
    pub name: &'static str,
    /// Type of each element.
    pub dtype: Dtype,
    /// Length of each dimension.
    pub shape: Vec<usize>,
    /// Device memory of the array.
    pub buffer: Arc<Buffer>,
}

/// Converts the arrays once they are back on the host (checks, unpacking of codes); never timed.
type Finish = dyn Fn(Tensors) -> Result<Tensors, DeviceError> + Send + Sync;

/// Host memory of the transfers that a run includes.
struct Carried {
    /// Device address and host memory of each input.
    ins: Vec<(u64, Host)>,
    /// Host memory of each output, in the order of `Job::outputs`.
    outs: Vec<Host>,
}

/// Launches with their buffers.
pub struct Job {
    gpu: Gpu,
    launches: Vec<Launch>,
    /// The launches as a graph, if a run replays one.
    graph: Option<usize>,
    /// How often a run repeats the launches.
    times: usize,
    outputs: Vec<Output>,
    /// Inputs and scratch memory, held until the job is dropped.
    held: Vec<Arc<Buffer>>,
    finish: Option<Box<Finish>>,
    /// Host memory of inputs and outputs, if a run includes their transfers.
    carried: Option<Carried>,
    problem: Option<GpuError>,
    /// True if a run has written the outputs since they were last overwritten.
    computed: bool,
}

impl Job {
    /// Creates a job without launches.
    pub fn new(gpu: &Gpu) -> Self {
        Self {
            gpu: gpu.clone(),
            launches: Vec::new(),
            graph: None,
            times: 1,
            outputs: Vec::new(),
            held: Vec::new(),
            finish: None,
            carried: None,
            problem: None,
            computed: false,
        }
    }

    /// Keeps a buffer until the job is dropped and returns its address.
    pub fn hold(&mut self, buffer: Buffer) -> Arg {
        let buffer = Arc::new(buffer);
        self.held.push(buffer.clone());
        Arg::At(buffer.address())
    }

    /// Copies values to device memory that lives as long as the job.
    pub fn upload<T: Element>(&mut self, values: &[T]) -> Result<Arg, GpuError> {
        let buffer = Buffer::of_values(&self.gpu, values)?;
        Ok(self.hold(buffer))
    }

    /// As [`Job::upload`], followed by `slack` extra bytes.
    pub fn upload_bytes(&mut self, bytes: &[u8], slack: usize) -> Result<Arg, GpuError> {
        let buffer = Buffer::of(&self.gpu, bytes, slack)?;
        Ok(self.hold(buffer))
    }

    /// Allocates scratch memory of `bytes` bytes that lives as long as the job.
    pub fn scratch(&mut self, bytes: usize) -> Result<Arg, GpuError> {
        let buffer = Buffer::new(&self.gpu, bytes)?;
        Ok(self.hold(buffer))
    }

    /// Adds an output of `bytes` bytes, or of its shape's size if that is larger.
    pub fn output(&mut self, name: &'static str, dtype: Dtype, shape: &[usize], bytes: usize) -> Result<Arg, GpuError> {
        let needed = shape.iter().product::<usize>() * dtype.size();
        let buffer = Arc::new(Buffer::new(&self.gpu, needed.max(bytes))?);
        let at = Arg::At(buffer.address());
        self.outputs.push(Output { name, dtype, shape: shape.to_vec(), buffer });
        Ok(at)
    }

    /// Number of multiprocessors of the device.
    pub fn multiprocessors(&self) -> u32 {
        self.gpu.multiprocessors()
    }

    /// Appends a launch of a kernel.
    pub fn launch(
        &mut self,
        source: &'static Source,
        kernel: &str,
        grid: Grid,
        args: Vec<Arg>,
    ) -> Result<(), GpuError> {
        let ready = self.gpu.kernel(source, kernel)?;
        self.launches.push((ready, grid, args));
        Ok(())
    }

    /// Appends a batch of cuBLAS products.
    pub fn library(&mut self, series: &Series) -> Result<(), GpuError> {
        self.launches.push((series.kernel(self.gpu.library()?), Grid::line(1, 1), series.args()?));
        Ok(())
    }

    /// Makes a run repeat the launches `times` times.
    pub fn repeat(&mut self, times: usize) {
        self.times = times;
    }

    /// Sets the function that converts the arrays once they are back on the host.
    pub fn finish(&mut self, finish: impl Fn(Tensors) -> Result<Tensors, DeviceError> + Send + Sync + 'static) {
        self.finish = Some(Box::new(finish));
    }

    /// Makes a run copy these inputs to the device before its launches and every output back after them, through
    /// page-locked memory. The outputs are then what the run copied back.
    pub fn carrying(mut self, inputs: &[(Arg, &[u8])]) -> Result<Self, GpuError> {
        let ins = inputs.iter().map(|(at, bytes)| Ok((at.word(), Host::of(&self.gpu, bytes, true)?)));
        let ins = ins.collect::<Result<_, GpuError>>()?;
        let bytes = |output: &Output| output.shape.iter().product::<usize>() * output.dtype.size();
        let outs = self.outputs.iter().map(|output| Host::new(&self.gpu, bytes(output), true));
        self.carried = Some(Carried { ins, outs: outs.collect::<Result<_, GpuError>>()? });
        Ok(self)
    }

    /// Makes a run replay one graph of all launches instead of making them one by one.
    pub fn replayed(mut self) -> Result<Self, GpuError> {
        let all: Vec<Launch> = std::iter::repeat_n(&self.launches, self.times).flatten().cloned().collect();
        self.graph = Some(self.gpu.graph(&all)?);
        Ok(self)
    }

    fn enqueue(&mut self) -> Result<(), GpuError> {
        for (to, host) in self.carried.iter().flat_map(|carried| &carried.ins) {
            host.bring_in(*to)?;
        }
        for (kernel, grid, args) in std::iter::repeat_n(&self.launches, self.times).flatten() {
            self.gpu.launch(kernel, *grid, args)?;
        }
        for (host, output) in self.carried.iter_mut().flat_map(|carried| &mut carried.outs).zip(&self.outputs) {
            host.bring_out(output.buffer.address())?;
        }
        Ok(())
    }

    /// Boxes the job as a prepared implementation.
    pub fn boxed(self) -> Box<dyn Prepared> {
        Box::new(self)
    }
}

impl Prepared for Job {
    /// As many iterations as fit in the queue after a closed gate; with more, the device would run while the host still
    /// queues.
    fn most_iterations(&self) -> u64 {
        let carried = self.carried.as_ref().map_or(0, |carried| carried.ins.len() + carried.outs.len());
        let launches = if self.graph.is_some() { 1 } else { self.launches.len() * self.times + carried };
        ((gate::MAX_LAUNCHES - 1) as u64 / launches.max(1) as u64).max(1)
    }

    fn run(&mut self) {
        self.computed = true;
        if let Some(graph) = self.graph {
            if let Err(error) = self.gpu.replay(graph) {
                self.problem.get_or_insert(error);
            }
            return;
        }
        if let Err(error) = self.enqueue() {
            self.problem.get_or_insert(error);
        }
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        let waited = self.gpu.sync();
        match self.problem.take() {
            Some(problem) => Err(problem.into()),
            None => Ok(waited?),
        }
    }

    fn poison(&mut self, poison: Poison) {
        self.computed = false;
        for output in &self.outputs {
            if let Err(error) = output.buffer.fill(poison.byte()) {
                self.problem.get_or_insert(error);
            }
        }
        for host in self.carried.iter_mut().flat_map(|carried| &mut carried.outs) {
            if let Err(error) = host.with(|all| all.fill(poison.byte())) {
                self.problem.get_or_insert(error);
            }
        }
    }

    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.sync()?;
        let mut arrays = Tensors::new();
        for (index, output) in self.outputs.iter().enumerate() {
            let array = match &mut self.carried {
                Some(carried) => carried.outs[index].tensor(output.dtype, &output.shape)?,
                None => output.buffer.tensor(output.dtype, &output.shape)?,
            };
            arrays.insert(output.name, array);
        }
        match &self.finish {
            Some(finish) if self.computed => finish(arrays),
            _ => Ok(arrays),
        }
    }

    fn what_ran(&self) -> String {
        let mut kernels: Vec<String> = Vec::new();
        for (kernel, ..) in &self.launches {
            // The resources of a kernel are listed once.
            let whole = format!("{} ({})", kernel.name, kernel.resources);
            let known = kernels.contains(&whole);
            kernels.push(if known { kernel.name.clone() } else { whole });
        }
        let graph = if self.graph.is_some() { "a graph of " } else { "" };
        let carried = if self.carried.is_some() { "transfers and " } else { "" };
        format!("{}: {carried}{graph}{}", self.gpu.about(), kernels.join(", "))
    }

    /// Device state, read once after the last slot; device memory of the job; occupancy; and compile time (which is
    /// part of preparation), if known.
    fn readings(&mut self) -> Vec<Reading> {
        let bytes: usize = self.outputs.iter().map(|output| &output.buffer).chain(&self.held).map(|b| b.bytes()).sum();
        // Reports the lowest occupancy if there are several kernels.
        let resident = self.launches.iter().filter_map(|(kernel, grid, _)| self.gpu.occupancy(kernel, *grid));
        let resident = resident.reduce(f64::min);
        let held = "device memory of inputs, outputs and working arrays";
        let mut readings =
            vec![Reading::derived("device-memory", "device memory", "B", Better::Lower, bytes as f64, held)];
        if let Some(memory) = self.gpu.memory() {
            let read =
                |id, title, bytes: u64, about| Reading::measured(id, title, "B", Better::Lower, bytes as f64, about);
            let peak = "peak memory that the process held on the device, for any purpose";
            let kept = "device memory that the process keeps for reuse, outside all arrays";
            readings.extend([
                read("device-memory-peak", "peak device memory", memory.most, peak),
                read("device-memory-kept", "kept device memory", memory.kept, kept),
            ]);
        }
        let launches = (self.times * self.launches.len()) as f64;
        let about = "kernel launches and library calls in a run, separate or as parts of one graph";
        readings.push(Reading::derived(Reading::LAUNCHES, "launches", "", Better::Lower, launches, about));
        if let Some(Carried { ins, outs }) = &self.carried {
            let ins = ins.iter().map(|(_, host)| host.bytes() as u64).sum();
            readings.extend(carried_over([ins, outs.iter().map(|host| host.bytes() as u64).sum()]));
        }
        if self.gpu.kind() == DeviceKind::Cuda {
            readings.extend(state(&self.gpu));
            let about = "share of a multiprocessor's threads that resident blocks can hold, for the kernel with the lowest share";
            let (id, title) = (Reading::OCCUPANCY, "theoretical occupancy");
            readings.push(match resident {
                Some(share) => Reading::derived(id, title, "1", Better::Higher, share, about),
                None => Reading::unavailable(id, title, "1", Better::Higher, "the driver does not report it here"),
            });
        }
        let took: Vec<u64> = self.launches.iter().filter_map(|(kernel, ..)| kernel.compile_ns).collect();
        if !took.is_empty() {
            let about = "time to compile the kernels for the device or load them, if that happens before the first run";
            let seconds = took.iter().sum::<u64>() as f64 * 1e-9;
            readings.push(Reading::measured("compile-time", "compiled in", "s", Better::Lower, seconds, about));
        }
        readings
    }
}

/// Clock, power and throttling of a CUDA device.
pub(crate) fn state(gpu: &Gpu) -> Vec<Reading> {
    let state = gpu.state();
    let without = "the driver's management library (libnvidia-ml.so.1) does not report it";
    let reading = |id, title, unit, better, value: Option<f64>, about| match value {
        Some(value) => Reading::measured(id, title, unit, better, value, about),
        None => Reading::unavailable(id, title, unit, better, without),
    };
    let slowed = state.slowed_by.map(|reasons| f64::from(u8::from(reasons != 0)));
    let after = "multiprocessor clock, read once after the last slot";
    let power = "power that the card draws, read once after the last slot";
    let why = "1 if heat or power limits slowed the card down, read once after the last slot";
    vec![
        reading("device-clock", "device clock", "Hz", Better::Higher, state.clock_hz.map(|hz| hz as f64), after),
        reading("device-power", "device power", "W", Better::Lower, state.power_mw.map(|mw| mw as f64 * 1e-3), power),
        reading("device-slowed", "device slowed", "", Better::Lower, slowed, why),
    ]
}

/// Readings for the bytes that a run copies to the device and back.
pub fn carried_over([ins, outs]: [u64; 2]) -> Vec<Reading> {
    let reading = |id, title, bytes: u64, about| Reading::derived(id, title, "B", Better::Lower, bytes as f64, about);
    vec![
        reading(
            Reading::CARRIED_IN,
            "copied to the device",
            ins,
            "bytes that a run copies from the host to the device",
        ),
        reading(
            Reading::CARRIED_OUT,
            "copied to the host",
            outs,
            "bytes that a run copies from the device to the host",
        ),
    ]
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(graph) = self.graph.take() {
            self.gpu.forget(graph);
        }
    }
}
