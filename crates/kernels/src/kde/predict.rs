//! Prediction: the log likelihood of each time bin at each position bin.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use ellwand_profile::span;

use super::error::{KdeError, length};
use super::model::{ClusterlessDecoder, LOG_FLOOR};
use super::options::{BIN_STEP, Method, Options, Tiling, thread_bytes};
use super::rows::{Decoding, Marked};
use super::sink::Sink;
use super::tiles::{Buffers, Part};
use super::{exact, plain};
use crate::lanes::dispatch;
use crate::pool;

/// Memory that prediction needs beside model, inputs and output, kept from call to call.
#[derive(Default)]
pub struct Workspace {
    marked: Vec<Marked>,
    tiles: Vec<Mutex<Buffers>>,
    plain: Option<plain::Buffers>,
    shape: Option<Tiling>,
    silent: Vec<u32>,
    base: Vec<f32>,
}

impl Workspace {
    /// Bytes that it holds.
    pub fn bytes(&self) -> u64 {
        let marked: usize = self.marked.iter().map(Marked::bytes).sum();
        let locked = |buffers: &Mutex<Buffers>| buffers.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        let tiles: usize = self.tiles.iter().map(locked).sum();
        let plain = self.plain.as_ref().map_or(0, plain::Buffers::bytes);
        (marked + tiles + plain + 4 * (self.silent.capacity() + self.base.capacity())) as u64
    }

    /// The shapes of the last prediction.
    pub(super) fn tiling(&self) -> Option<Tiling> {
        self.shape
    }
}

/// Work, in pairs of spikes times bins, below which waking other threads costs more than it brings.
const WORTH_THREADS: f64 = 2e6;

/// Parts a thread: an interrupted one is made up for by the others.
const PARTS: usize = 2;

impl ClusterlessDecoder {
    /// The log likelihood `[N, B]` of the decoding spikes, up to a constant of each row's own.
    ///
    /// # Errors
    /// When the spikes do not fit the model, or the memory allowed does not hold one tile.
    pub fn predict(&self, decoding: &Decoding<'_>, options: &Options) -> Result<Vec<f32>, KdeError> {
        let mut out = vec![0.0; decoding.time_edges.len() * self.bins];
        self.predict_into(decoding, options, &mut Workspace::default(), &mut out)?;
        Ok(out)
    }

    /// The same in f64, by the reference.
    ///
    /// # Errors
    /// As [`ClusterlessDecoder::predict`].
    pub fn predict_exactly(&self, decoding: &Decoding<'_>) -> Result<Vec<f64>, KdeError> {
        decoding.check(self)?;
        let rows: Vec<usize> = (0..decoding.time_edges.len()).collect();
        Ok(exact::predict(self, decoding, &rows, 1))
    }

    /// The reference at some rows only, `[rows, B]`, on all threads.
    pub(super) fn rows_exactly(&self, decoding: &Decoding<'_>, rows: &[usize]) -> Result<Vec<f64>, KdeError> {
        decoding.check(self)?;
        Ok(exact::predict(self, decoding, rows, pool::threads()))
    }

    /// [`ClusterlessDecoder::predict`] into memory that the caller keeps: no allocation after the first call of a shape.
    ///
    /// # Errors
    /// As [`ClusterlessDecoder::predict`], and when `out` is not N x B.
    pub fn predict_into(
        &self,
        decoding: &Decoding<'_>,
        options: &Options,
        workspace: &mut Workspace,
        out: &mut [f32],
    ) -> Result<(), KdeError> {
        decoding.check(self)?;
        let rows = decoding.time_edges.len();
        length("log_likelihood", out.len(), rows * self.bins, "time edges x bins")?;
        if options.method == Method::Reference {
            let exact = self.predict_exactly(decoding)?;
            out.iter_mut().zip(exact).for_each(|(out, exact)| *out = exact as f32);
            return Ok(());
        }
        let tiling = self.reserve(decoding, options, workspace)?;
        let span = span!("decoding spikes");
        for (number, marked) in workspace.marked.iter_mut().enumerate() {
            marked.take(self, number, decoding);
        }
        self.start(workspace, rows, out);
        drop(span);
        if let Method::Simd(isa) | Method::Parallel(isa) = options.method {
            let Workspace { marked, tiles, .. } = &*workspace;
            let sink = Sink::new(out, self.bins);
            let part = |rows: Range<usize>, bins: Range<usize>, buffers: &mut Buffers| {
                let (marked, sink, skip) = (&marked[..], &sink, options.skip);
                dispatch(isa, Part { model: self, marked, rows, bins, tiling, skip, buffers, sink });
            };
            let parts = self.parts(marked, rows, tiles.len());
            if parts.len() == 1 {
                let mut buffers = tiles[0].lock().unwrap_or_else(PoisonError::into_inner);
                part(0..rows, 0..self.bins, &mut buffers);
            } else {
                pool::for_each_chunk(parts.len(), |i| {
                    // As many buffers as threads, so one is always free for a thread that looks for it.
                    let mut buffers = free(tiles);
                    part(parts[i].0.clone(), parts[i].1.clone(), &mut buffers);
                });
            }
        } else {
            let Workspace { marked, plain, .. } = workspace;
            if let Some(buffers) = plain {
                plain::predict(self, marked, tiling, options, buffers, out);
            }
        }
        self.add_exactly(decoding, out);
        Ok(())
    }

    /// Makes the working memory for predictions like this one, so that the first takes no longer than the others. Gives the
    /// shapes that were chosen.
    fn reserve(
        &self,
        decoding: &Decoding<'_>,
        options: &Options,
        workspace: &mut Workspace,
    ) -> Result<Tiling, KdeError> {
        let most = decoding.electrodes.iter().map(|spikes| spikes.times.len()).max().unwrap_or(0);
        let tiling = options.tiling(most, self.bins, self.dims, self.fixed_memory(decoding))?;
        workspace.marked.resize_with(self.electrodes.len(), Marked::default);
        for (marked, spikes) in workspace.marked.iter_mut().zip(decoding.electrodes) {
            marked.reserve(spikes);
        }
        let threads = options.method.threads();
        let fused = matches!(options.method, Method::Simd(_) | Method::Parallel(_));
        let fresh = workspace.shape != Some(tiling);
        if fused && (fresh || workspace.tiles.len() != threads) {
            workspace.tiles = (0..threads).map(|_| Mutex::new(Buffers::new(tiling, self.dims))).collect();
        }
        if !fused && (fresh || workspace.plain.is_none()) {
            workspace.plain = Some(plain::Buffers::new(tiling));
        }
        workspace.shape = Some(tiling);
        Ok(tiling)
    }

    /// A workspace with all memory that predictions like this one take, for programs that cannot wait at the first.
    ///
    /// # Errors
    /// As [`ClusterlessDecoder::predict`].
    pub fn workspace(&self, decoding: &Decoding<'_>, options: &Options) -> Result<Workspace, KdeError> {
        decoding.check(self)?;
        let mut workspace = Workspace::default();
        if options.method != Method::Reference {
            self.reserve(decoding, options, &mut workspace)?;
            workspace.silent.reserve(decoding.time_edges.len());
            workspace.base.reserve(self.bins);
        }
        Ok(workspace)
    }

    /// Every row without its spikes: -Lambda, and the floor for each spike of an electrode without encoding spikes.
    fn start(&self, workspace: &mut Workspace, rows: usize, out: &mut [f32]) {
        let Workspace { silent, marked, base, .. } = workspace;
        silent.clear();
        silent.resize(rows, 0);
        for (_, marked) in self.electrodes.iter().zip(marked).filter(|(electrode, _)| electrode.spikes() == 0) {
            marked.rows.iter().for_each(|&row| silent[row as usize] += 1);
        }
        base.clear();
        base.extend(self.ground.iter().map(|ground| -*ground as f32));
        for (row, &silent) in out.chunks_exact_mut(self.bins).zip(silent.iter()) {
            if silent == 0 {
                row.copy_from_slice(base);
            } else {
                let floors = f64::from(silent) * LOG_FLOOR;
                row.iter_mut().zip(&self.ground).for_each(|(out, ground)| *out = (floors - ground) as f32);
            }
        }
    }

    /// Electrodes whose kernels leave the range of f32.
    fn add_exactly(&self, decoding: &Decoding<'_>, out: &mut [f32]) {
        let strange = |number: &usize| !self.electrodes[*number].fits_f32 && self.electrodes[*number].spikes() > 0;
        let mut row_sum = vec![0.0; self.bins];
        for number in (0..self.electrodes.len()).filter(strange) {
            let spikes = &decoding.electrodes[number];
            let (kept, rows) = decoding.rows_of(spikes);
            for (spike, row) in kept.zip(rows) {
                row_sum.fill(0.0);
                exact::add_spikes(self, number, spikes, &[(spike, 0)], 0, self.bins, &mut row_sum);
                out[row * self.bins..].iter_mut().zip(&row_sum).for_each(|(out, l)| *out += *l as f32);
            }
        }
    }

    /// Cuts the output for several threads: by bins, where the mark kernels are computed anew for each part, or by rows, where
    /// the position kernels are, whichever costs less.
    fn parts(&self, marked: &[Marked], rows: usize, threads: usize) -> Vec<(Range<usize>, Range<usize>)> {
        let per = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
            let pairs = self.electrodes.iter().zip(marked);
            pairs.map(|(e, m)| f(e.spikes() as f64, m.rows.len() as f64)).sum()
        };
        let pairs = per(&|encoding, decoding| encoding * decoding);
        let places = per(&|encoding, decoding| if decoding > 0.0 { encoding * self.bins as f64 } else { 0.0 });
        if threads == 1 || pairs * self.bins as f64 <= WORTH_THREADS {
            return vec![(0..rows, 0..self.bins)];
        }
        let steps = self.bins.div_ceil(BIN_STEP);
        let wanted = threads * PARTS;
        let cost = |columns: usize| columns as f64 * pairs + wanted.div_ceil(columns) as f64 * places;
        let columns = (1..=wanted.min(steps)).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(1);
        let cuts = wanted.div_ceil(columns).min(rows - 1).max(1);
        let mut parts = Vec::new();
        for cut in 0..cuts {
            // The last row never holds a spike.
            let range = cut * (rows - 1) / cuts..(cut + 1) * (rows - 1) / cuts;
            for column in 0..columns {
                let bins =
                    column * steps / columns * BIN_STEP..((column + 1) * steps / columns * BIN_STEP).min(self.bins);
                parts.push((range.clone(), bins));
            }
        }
        parts
    }

    /// Estimate of the working memory in bytes that prediction takes beside model, inputs and output.
    ///
    /// # Errors
    /// When the memory allowed does not hold one tile.
    pub fn working_memory(&self, decoding: &Decoding<'_>, options: &Options) -> Result<u64, KdeError> {
        let most = decoding.electrodes.iter().map(|spikes| spikes.times.len()).max().unwrap_or(0);
        let fixed = self.fixed_memory(decoding);
        let tiling = options.tiling(most, self.bins, self.dims, fixed)?;
        Ok(options.method.threads() as u64 * thread_bytes(tiling, self.dims, options.method) + fixed)
    }

    /// What does not depend on block and tile: spikes as f32, counts by row, a row.
    fn fixed_memory(&self, decoding: &Decoding<'_>) -> u64 {
        let spikes: usize = decoding.electrodes.iter().map(|s| s.times.len() * (s.n_features + 1)).sum();
        4 * (spikes + decoding.time_edges.len() + self.bins) as u64
    }
}

/// A set of buffers that nobody uses at the moment.
fn free(buffers: &[Mutex<Buffers>]) -> std::sync::MutexGuard<'_, Buffers> {
    loop {
        for buffer in buffers {
            if let Ok(buffer) = buffer.try_lock() {
                return buffer;
            }
        }
        std::thread::yield_now();
    }
}
