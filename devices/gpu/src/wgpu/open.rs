//! An open wgpu device: its memory, its kernels and its errors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::held::{Held, Memory};
use super::super::{Arg, GpuError, Grid, Kernel, Source};
use super::commands::{Commands, MAX_SPANS};
use super::finished;

/// Array sizes are multiples of this: the widest access of a kernel, and a requirement of copies.
const ALIGN: u64 = 16;
/// Size of the array that fills copy from.
const PATTERN: u64 = 1 << 20;
/// Maximum number of bytes to download at once.
const STAGED: u64 = 64 << 20;

/// Errors that the device's callbacks record.
#[derive(Default)]
pub(super) struct Complaints {
    /// The first uncaught error since [`Opened::complaint`] last returned one.
    error: Mutex<Option<String>>,
    /// Why the device is lost, if it is.
    lost: Mutex<Option<String>>,
}

/// A device with its queue and state.
pub(super) struct Opened {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    /// Nanoseconds per tick of the device's clock; `None` without timestamps.
    pub(super) tick_ns: Option<f64>,
    pub(super) complaints: Arc<Complaints>,
    pattern: wgpu::Buffer,
    held: Held,
    pub(super) state: Mutex<State>,
}

/// An argument in the key of a bind group: true for an array, and its bits.
type Word = (bool, u64);

/// What the lock of the device guards.
#[derive(Default)]
pub(super) struct State {
    pub(super) commands: Commands,
    next: u64,
    arrays: HashMap<u64, wgpu::Buffer>,
    modules: HashMap<&'static str, wgpu::ShaderModule>,
    pipelines: Vec<(&'static str, String, wgpu::ComputePipeline)>,
    bound: HashMap<(usize, Vec<Word>), Option<wgpu::BindGroup>>,
    /// Overwritten to flush the caches.
    scratch: Option<wgpu::Buffer>,
}

fn call(call: &'static str, problem: impl ToString) -> GpuError {
    GpuError::Call { call, problem: problem.to_string() }
}

impl Opened {
    pub(super) fn of(adapter: &wgpu::Adapter) -> Result<Self, GpuError> {
        let clock = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS;
        let required_features = adapter.features() & clock;
        let wanted = wgpu::DeviceDescriptor {
            label: Some("ellwand"),
            required_features,
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let made = finished(adapter.request_device(&wanted));
        let (device, queue) = match made {
            Some(Ok(made)) => made,
            Some(Err(error)) => return Err(call("request_device", error)),
            None => return Err(call("request_device", "it did not answer")),
        };
        let complaints = Arc::new(Complaints::default());
        let heard = complaints.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            heard.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.to_string());
        }));
        let heard = complaints.clone();
        device.set_device_lost_callback(move |_, message| {
            let why = format!("the device was lost: {message}");
            heard.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        });
        let pattern = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("pattern"),
            size: PATTERN,
            usage: wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let tick_ns = (required_features == clock).then(|| f64::from(queue.get_timestamp_period()));
        let state = Mutex::new(State { next: ALIGN, ..State::default() });
        let opened = Self { device, queue, tick_ns, complaints, pattern, held: Held::default(), state };
        if opened.tick_ns.is_some() {
            opened.state().commands.clock(&opened.device);
        }
        opened.complaint()?;
        Ok(opened)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns and clears the error since the last call; a lost device stays an error.
    pub(super) fn complaint(&self) -> Result<(), GpuError> {
        let error = self.complaints.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        let lost = self.complaints.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match lost.or(error) {
            Some(problem) => Err(call("wgpu", problem)),
            None => Ok(()),
        }
    }

    /// True if the device is lost and all memory on it has been freed.
    pub(super) fn is_gone(&self) -> bool {
        self.complaints.lost.lock().unwrap_or_else(PoisonError::into_inner).is_some() && self.state().arrays.is_empty()
    }

    /// Waits for everything that was submitted.
    pub(super) fn wait(&self) -> Result<(), GpuError> {
        self.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| call("poll", error))?;
        self.complaint()
    }

    fn buffer(&self, bytes: u64, usage: wgpu::BufferUsages, label: &'static str) -> Result<wgpu::Buffer, GpuError> {
        let invalid = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size: bytes,
            usage,
            mapped_at_creation: false,
        });
        let (memory, invalid) = (finished(memory.pop()).flatten(), finished(invalid.pop()).flatten());
        if memory.is_some() {
            return Err(GpuError::Memory { wanted: bytes, free: None });
        }
        match invalid {
            Some(error) => Err(call("create_buffer", error)),
            None => Ok(buffer),
        }
    }

    pub(super) fn alloc(&self, bytes: u64) -> Result<u64, GpuError> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer(bytes.next_multiple_of(ALIGN), usage, "array")?;
        let mut state = self.state();
        let address = state.next;
        // Never reuse an address, so that a use after free is an error.
        state.next += buffer.size();
        self.held.take(buffer.size());
        state.arrays.insert(address, buffer);
        Ok(address)
    }

    pub(super) fn free(&self, address: u64) {
        let mut state = self.state();
        let Some(buffer) = state.arrays.remove(&address) else { return };
        self.held.give(buffer.size());
        state.bound.retain(|(_, words), _| !words.contains(&(true, address)));
        state.commands.submit(&self.queue);
        drop(state);
        // wgpu frees memory only after the work that uses it, and only when polled.
        let _ = self.wait();
        buffer.destroy();
        let _ = self.device.poll(wgpu::PollType::Poll);
    }

    pub(super) fn memory(&self) -> Memory {
        self.held.memory(self.state().scratch.as_ref().map_or(0, wgpu::Buffer::size))
    }

    /// Submits all collected commands and returns the array at an address.
    fn array(&self, address: u64) -> Result<wgpu::Buffer, GpuError> {
        let mut state = self.state();
        state.commands.submit(&self.queue);
        let missing = || call("arrays", format!("no array begins at {address}"));
        state.arrays.get(&address).cloned().ok_or_else(missing)
    }

    pub(super) fn upload(&self, to: u64, from: &[u8]) -> Result<(), GpuError> {
        let array = self.array(to)?;
        let whole = from.len() / 4 * 4;
        self.queue.write_buffer(&array, 0, &from[..whole]);
        if whole < from.len() {
            let mut last = [0; 4];
            last[..from.len() - whole].copy_from_slice(&from[whole..]);
            self.queue.write_buffer(&array, whole as u64, &last);
        }
        self.queue.submit([]);
        self.wait()
    }

    pub(super) fn download(&self, from: u64, to: &mut [u8]) -> Result<(), GpuError> {
        let array = self.array(from)?;
        let room = (to.len() as u64).next_multiple_of(4).clamp(4, STAGED);
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = self.buffer(room, usage, "staging")?;
        for (part, piece) in to.chunks_mut(STAGED as usize).enumerate() {
            let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let bytes = (piece.len() as u64).next_multiple_of(4);
            encoder.copy_buffer_to_buffer(&array, part as u64 * STAGED, &staging, 0, bytes);
            self.queue.submit([encoder.finish()]);
            self.read(&staging, piece)?;
        }
        Ok(())
    }

    /// Waits, then reads the beginning of a mappable buffer.
    pub(super) fn read(&self, staging: &wgpu::Buffer, to: &mut [u8]) -> Result<(), GpuError> {
        let slice = staging.slice(..(to.len() as u64).next_multiple_of(4));
        slice.map_async(wgpu::MapMode::Read, |_| {});
        self.wait()?;
        // A failed mapping is reported here.
        let mapped = slice.get_mapped_range().map_err(|error| call("get_mapped_range", error))?;
        to.copy_from_slice(&mapped[..to.len()]);
        drop(mapped);
        staging.unmap();
        Ok(())
    }

    pub(super) fn fill(&self, at: u64, byte: u8) -> Result<(), GpuError> {
        let array = self.array(at)?;
        self.write(&array, byte)
    }

    fn write(&self, array: &wgpu::Buffer, byte: u8) -> Result<(), GpuError> {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        match byte {
            0 => encoder.clear_buffer(array, 0, None),
            _ => {
                self.queue.write_buffer(&self.pattern, 0, &vec![byte; PATTERN as usize]);
                for start in (0..array.size()).step_by(PATTERN as usize) {
                    let bytes = PATTERN.min(array.size() - start);
                    encoder.copy_buffer_to_buffer(&self.pattern, 0, array, start, bytes);
                }
            }
        }
        self.queue.submit([encoder.finish()]);
        self.complaint()
    }

    /// Overwrites an array of `bytes` bytes and waits. The first call allocates it.
    pub(super) fn flush(&self, bytes: u64) -> Result<(), GpuError> {
        let known = self.state().scratch.clone();
        let scratch = match known {
            Some(scratch) => scratch,
            None => {
                let made = self.buffer(bytes, wgpu::BufferUsages::COPY_DST, "scratch")?;
                self.held.take(made.size());
                self.state().scratch.insert(made).clone()
            }
        };
        // Copy from a small array: a software renderer may clear memory with stores that bypass the CPU's caches.
        self.write(&scratch, 0xff)?;
        self.wait()
    }

    pub(super) fn kernel(&self, source: &'static Source, name: &str, adapter: &str) -> Result<usize, GpuError> {
        let mut state = self.state();
        if let Some(known) = state.pipelines.iter().position(|(of, known, _)| *of == source.name && known == name) {
            return Ok(known);
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let module = state.modules.entry(source.name).or_insert_with(|| {
            self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(source.name),
                source: wgpu::ShaderSource::Wgsl(source.text.into()),
            })
        });
        let made = finished(scope.pop()).flatten();
        if let Some(error) = made {
            let log = located(module, &error);
            state.modules.remove(source.name);
            return Err(GpuError::Compile { source_name: source.name.into(), arch: adapter.into(), log });
        }
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let invalid = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(name),
            layout: None,
            module,
            entry_point: Some(name),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let invalid = finished(invalid.pop()).flatten();
        if let Some(error) = invalid.or(finished(internal.pop()).flatten()) {
            let log = format!("{name}: {error}");
            return Err(GpuError::Compile { source_name: source.name.into(), arch: adapter.into(), log });
        }
        state.pipelines.push((source.name, name.to_string(), pipeline));
        Ok(state.pipelines.len() - 1)
    }

    /// Appends a launch. Scalars are in a uniform at binding 0 in their order, arrays at bindings 1, 2, and so on; a
    /// null array skips its binding.
    pub(super) fn launch(&self, kernel: &Kernel, grid: Grid, args: &[Arg], most: u32) -> Result<(), GpuError> {
        let mut state = self.state();
        let state = &mut *state;
        let words: Vec<Word> = args.iter().map(|arg| (matches!(arg, Arg::At(_)), arg.word())).collect();
        let missing = || call("launch", format!("{} was never compiled here", kernel.name));
        let (_, _, pipeline) = state.pipelines.get(kernel.handle).ok_or_else(missing)?;
        let bound = match state.bound.entry((kernel.handle, words)) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(vacant) => {
                let made = bind(&self.device, &self.queue, pipeline, &state.arrays, args)?;
                vacant.insert(made)
            }
        };
        let groups = spread(grid.blocks[0], most).ok_or_else(|| {
            call("launch", format!("{} needs {} workgroups, more than {most} x {most}", kernel.name, grid.blocks[0]))
        })?;
        state.commands.launch(&self.device, &self.queue, pipeline, bound.as_ref(), groups);
        Ok(())
    }
}

/// Spreads `groups` workgroups over two dimensions of at most `most`; the result may be slightly larger.
pub(super) fn spread(groups: u32, most: u32) -> Option<[u32; 2]> {
    let high = groups.div_ceil(most.max(1)).max(1);
    (high <= most).then(|| [groups.div_ceil(high), high])
}

/// Compiler messages, each with line and column.
fn located(module: &wgpu::ShaderModule, error: &wgpu::Error) -> String {
    let messages = finished(module.get_compilation_info()).map(|info| info.messages).unwrap_or_default();
    let line = |message: &wgpu::CompilationMessage| match message.location {
        Some(at) => format!("line {}, column {}: {}", at.line_number, at.line_position, message.message),
        None => message.message.clone(),
    };
    if messages.is_empty() { error.to_string() } else { messages.iter().map(line).collect::<Vec<_>>().join("\n") }
}

/// Creates the bind group of a launch; `None` if the kernel has no arguments.
fn bind(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    pipeline: &wgpu::ComputePipeline,
    arrays: &HashMap<u64, wgpu::Buffer>,
    args: &[Arg],
) -> Result<Option<wgpu::BindGroup>, GpuError> {
    let mut scalars: Vec<u8> = Vec::new();
    for arg in args {
        match *arg {
            Arg::At(_) => {}
            Arg::U32(value) => scalars.extend(value.to_le_bytes()),
            Arg::U64(value) => scalars.extend(value.to_le_bytes()),
            Arg::F32(value) => scalars.extend(value.to_le_bytes()),
            Arg::F64(value) => scalars.extend((value as f32).to_le_bytes()),
            Arg::Map(_) => return Err(call("launch", "this device has no copy engine for tiles")),
        }
    }
    let uniform = (!scalars.is_empty()).then(|| {
        scalars.resize(scalars.len().next_multiple_of(16), 0);
        let uniform = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("scalars"),
            size: scalars.len() as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        queue.write_buffer(&uniform, 0, &scalars);
        uniform
    });
    let mut entries = Vec::new();
    if let Some(uniform) = &uniform {
        entries.push(wgpu::BindGroupEntry { binding: 0, resource: uniform.as_entire_binding() });
    }
    let places = args.iter().filter_map(|arg| if let Arg::At(address) = arg { Some(*address) } else { None });
    for (binding, address) in (1..).zip(places).filter(|(_, address)| *address != 0) {
        let missing = || call("launch", format!("no array begins at {address}"));
        let array = arrays.get(&address).ok_or_else(missing)?;
        entries.push(wgpu::BindGroupEntry { binding, resource: array.as_entire_binding() });
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &entries,
    });
    match finished(scope.pop()).flatten() {
        Some(error) => Err(call("create_bind_group", error)),
        None => Ok(Some(group)),
    }
}

impl Opened {
    pub(super) fn sync(&self) -> Result<(), GpuError> {
        let mut state = self.state();
        state.commands.end_span(&self.device);
        state.commands.submit(&self.queue);
        drop(state);
        self.wait()
    }

    pub(super) fn start(&self) {
        let _ = self.sync();
        self.state().commands.start();
    }

    pub(super) fn stop(&self) -> Option<u64> {
        let mut state = self.state();
        let (spans, staging) = state.commands.stop(&self.device, &self.queue)?;
        drop(state);
        let mut ticks = vec![0; 16 * spans.min(MAX_SPANS as usize)];
        self.read(&staging, &mut ticks).ok()?;
        let ticks: Vec<u64> = ticks.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let run: u64 = ticks.as_chunks::<2>().0.iter().map(|[from, to]| to.saturating_sub(*from)).sum();
        Some((run as f64 * self.tick_ns?).round() as u64)
    }
}
