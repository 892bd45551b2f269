//! `copy`, `read`, `fill`: memory bandwidth, at a footprint that selects the cache level.
//!
//! Bytes are counted as in STREAM (McCalpin 1995): a copy counts bytes read and bytes written, without write-allocate
//! traffic, which is why non-temporal stores reach higher values.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use ellwand_core::tensor::Data;
use ellwand_core::{
    Axis, Case, Description, Device, DeviceError, Dtype, Implementation, InputError, Poison, PrepareError, Prepared,
    Registry, Tensor, Tensors, Work, Workload,
};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use ellwand_simd::pool;

use super::stream_loops::{Loops, Stores};

/// Parallel pieces are multiples of this many words (4 KiB), so that each starts on a separate cache line.
pub(super) const PIECE: usize = 512;

/// Words of the largest parallel piece (1 MiB): in main memory, a delayed thread must not delay the others.
pub(super) const LARGEST: usize = 1 << 17;

ellwand_core::words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Task {
        Copy = "copy",
        Read = "read",
        Fill = "fill",
    }
    fn name;
}

impl Task {
    fn about(self) -> &'static str {
        match self {
            Task::Copy => "copies an array: bandwidth of reading and writing together",
            Task::Read => "sums an array of 64-bit words: bandwidth of reading",
            Task::Fill => "fills an array with one word: bandwidth of writing",
        }
    }
}

struct Stream {
    task: Task,
    description: Description,
}

impl Stream {
    fn new(task: Task) -> Self {
        let bytes = Axis::int("bytes", "total bytes touched, read and written", 4096, 1 << 34, 64 << 20)
            .sweep([16_i64 << 10, 512 << 10, 4 << 20, 128 << 20])
            .unit("B");
        let mut passes = Axis::int("passes", "passes over them per iteration", 1, 1 << 20, 1);
        passes.neutral = Some(1_i64.into());
        let description = Description::new(task.name(), task.about()).group("calibration");
        Self { task, description: description.axes(vec![bytes, passes]).baseline("system") }
    }

    /// Number of words in one array.
    fn array_words(&self, case: &Case) -> usize {
        array_words(self.task.name(), case)
    }
}

/// Number of words in one array of the task.
pub(super) fn array_words(task: &str, case: &Case) -> usize {
    let arrays = if task == "copy" { 2 } else { 1 };
    case.count("bytes", 4096) / 8 / arrays
}

pub(super) const PATTERN: u64 = 0x5a5a_0123_4567_89ab;

impl Workload for Stream {
    fn description(&self) -> &Description {
        &self.description
    }
    fn footprint(&self, case: &Case) -> u64 {
        // Inputs, reference outputs, and buffers of up to five implementations.
        7 * case.int("bytes").unwrap_or(0).unsigned_abs()
    }
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let words = if self.task == Task::Fill { 1 } else { self.array_words(case) };
        let mut x = Tensor::zeros(Dtype::U64, &[words])?;
        x.u64_mut()?.iter_mut().for_each(|word| *word = rng.random());
        Ok(Tensors::new().with("x", x))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let x = inputs.get("x")?;
        let y = match self.task {
            Task::Copy => x.clone(),
            Task::Read => Tensor::vector(&[x.u64()?.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word))][..]),
            Task::Fill => Tensor::vector(Data::from(&vec![PATTERN; self.array_words(case)][..])),
        };
        Ok(Tensors::new().with("y", y))
    }
    fn work(&self, case: &Case) -> Work {
        let passes = case.count("passes", 1) as u64;
        let bytes = self.array_words(case) as u64 * 8 * passes;
        let (read, written) = match self.task {
            Task::Copy => (bytes, bytes),
            Task::Read => (bytes, 0),
            Task::Fill => (0, bytes),
        };
        let work = Work::items("bytes", read + written).bytes(read, written);
        if passes == 1 { work } else { work.working_set((read + written) / passes) }
    }
    fn tolerance(&self, _: &Case) -> ellwand_core::Tolerance {
        ellwand_core::Tolerance::Exact
    }
}

/// A prepared stream: loops, arrays and thread count.
struct Ready {
    task: Task,
    loops: Loops,
    threads: usize,
    passes: usize,
    x: Tensor,
    y: Tensor,
}

impl Ready {
    fn pieces(&self) -> usize {
        (self.x.len().max(self.y.len()) / self.threads.max(1)).min(LARGEST).next_multiple_of(PIECE).max(PIECE)
    }
}

impl Prepared for Ready {
    fn run(&mut self) {
        let (loops, piece) = (self.loops, self.pieces());
        let (Ok(x), Ok(y)) = (self.x.u64(), self.y.u64_mut()) else { return };
        // Each thread repeats its own piece, because distributing pieces is not being measured. The compiler cannot see
        // that passes are identical.
        let passes = || 0..black_box(self.passes);
        match (self.task, self.threads) {
            (Task::Copy, 1) => passes().for_each(|_| loops.copy(black_box(x), y)),
            (Task::Copy, _) => pool::for_each_slice(y, piece, |at, y| {
                passes().for_each(|_| loops.copy(black_box(&x[at * piece..]), y));
            }),
            (Task::Read, 1) => passes().for_each(|_| y[0] = loops.sum(black_box(x))),
            (Task::Read, _) => {
                let sum = AtomicU64::new(0);
                pool::for_each_chunk(x.len().div_ceil(piece), |at| {
                    let part = &x[at * piece..x.len().min((at + 1) * piece)];
                    let of_part = passes().fold(0, |_, _| loops.sum(black_box(part)));
                    sum.fetch_add(of_part, Ordering::Relaxed); // Wraps, like the sums.
                });
                y[0] = sum.into_inner();
            }
            (Task::Fill, 1) => passes().for_each(|_| loops.fill(black_box(PATTERN), y)),
            (Task::Fill, _) => pool::for_each_slice(y, piece, |_, y| {
                passes().for_each(|_| loops.fill(black_box(PATTERN), y));
            }),
        }
    }
    fn poison(&mut self, poison: Poison) {
        poison.fill_tensor(&mut self.y);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", self.y.clone()))
    }
    fn what_ran(&self) -> String {
        match self.threads {
            1 => self.loops.name(),
            n => format!("{}, {n} threads", self.loops.name()),
        }
    }
}

fn prepare(
    task: Task,
    stores: Stores,
    threads: usize,
    case: &Case,
    inputs: &Tensors,
) -> Result<Box<dyn Prepared>, PrepareError> {
    let loops = Loops::new(stores).ok_or_else(|| {
        PrepareError::Unsupported(
            "this processor has none of the vector stores that these loops use (AVX2 or AVX-512)".into(),
        )
    })?;
    let x = inputs.get("x")?.clone();
    let words = array_words(task.name(), case);
    let y = Tensor::zeros(Dtype::U64, &[if task == Task::Read { 1 } else { words }])?;
    Ok(Box::new(Ready { task, loops, threads, passes: case.count("passes", 1), x, y }))
}

pub(super) fn register(registry: &mut Registry) {
    for task in [Task::Copy, Task::Read, Task::Fill] {
        registry.workload(Stream::new(task));
        let mut add = |implementation: &str, about: &str, stores: Stores, parallel: bool| {
            let prepared = move |case: &Case, inputs: &Tensors, _: &dyn Device| {
                let threads = if parallel { pool::threads() } else { 1 };
                prepare(task, stores, threads, case, inputs)
            };
            let row = Implementation::cpu(task.name(), implementation, about, prepared);
            registry.implementation(if parallel { row.many_threads() } else { row });
        };
        add("system", "the loops of the standard library", Stores::System, false);
        add("simd", "vector loads and stores", Stores::Ordinary, false);
        add("parallel", "vector loads and stores, all threads", Stores::Ordinary, true);
        if task != Task::Read {
            add("non-temporal", "vector stores that bypass the caches", Stores::NonTemporal, false);
            add(
                "parallel-non-temporal",
                "vector stores that bypass the caches, all threads",
                Stores::NonTemporal,
                true,
            );
        }
    }
}
