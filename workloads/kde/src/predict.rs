//! Prediction: the log likelihood of each time bin at each position bin.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ellwand_profile::span;

use ellwand_core::InputError;

use super::buffers::Buffers;
use super::data::Spikes;
use super::error::length;
use super::model::{ClusterlessDecoder, LOG_FLOOR, Wide};
use super::options::{BIN_STEP, Method, Options, Precision, Tiling};
use super::real::Real;
use super::rows::{Decoding, Marked};
use super::tiles::Part;
use super::{exact, plain};
use ellwand_simd::buffer::Shared;
use ellwand_simd::lanes::{Kernel, dispatch};
use ellwand_simd::pool;

/// Memory that prediction needs besides model, inputs and output, reused between calls.
#[derive(Default)]
pub struct Workspace {
    marked: Vec<Marked>,
    single: Tiles<f32>,
    double: Tiles<f64>,
    silent: Vec<u32>,
}

/// Buffers that depend on the number type: those of the fused kernel for each thread, or those of the other methods.
struct Tiles<T: Real> {
    fused: Vec<Mutex<Buffers<T>>>,
    plain: Option<plain::Buffers<T>>,
    shape: Option<Tiling>,
}

impl<T: Real> Default for Tiles<T> {
    fn default() -> Self {
        Self { fused: Vec::new(), plain: None, shape: None }
    }
}

impl<T: Real> Tiles<T> {
    /// Allocates what predictions with these options need, unless already present.
    fn reserve(&mut self, tiling: Tiling, options: &Options, dims: usize) {
        let fused = options.method.fused().is_some();
        let fresh = self.shape != Some(tiling);
        if fused && (fresh || self.fused.len() != options.threads()) {
            self.fused = (0..options.threads()).map(|_| Mutex::new(Buffers::new(tiling, dims))).collect();
        }
        if !fused && (fresh || self.plain.is_none()) {
            self.plain = Some(plain::Buffers::new(tiling));
        }
        self.shape = Some(tiling);
    }

    /// Resets the counts of all threads.
    fn forget_pairs(&mut self) {
        for buffers in &mut self.fused {
            buffers.get_mut().unwrap_or_else(PoisonError::into_inner).pairs = 0;
        }
        self.plain.iter_mut().for_each(|plain| plain.pairs = 0);
    }

    fn locked(&self) -> impl Iterator<Item = MutexGuard<'_, Buffers<T>>> {
        self.fused.iter().map(|buffers| buffers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn pairs(&self) -> u64 {
        self.locked().map(|buffers| buffers.pairs).sum::<u64>() + self.plain.as_ref().map_or(0, |plain| plain.pairs)
    }

    fn bytes(&self) -> usize {
        self.locked().map(|buffers| buffers.bytes()).sum::<usize>()
            + self.plain.as_ref().map_or(0, plain::Buffers::bytes)
    }

    /// Runs `part` over the parts, on as many threads as there are buffers.
    fn over(
        &self,
        parts: &[(Range<usize>, Range<usize>)],
        part: impl Fn(Range<usize>, Range<usize>, &mut Buffers<T>) + Sync,
    ) {
        if let [(rows, bins)] = parts {
            let mut buffers = self.fused[0].lock().unwrap_or_else(PoisonError::into_inner);
            return part(rows.clone(), bins.clone(), &mut buffers);
        }
        let fused = &self.fused[..];
        pool::for_each_chunk_on(fused.len(), parts.len(), |i| {
            // There are as many buffers as threads, so a thread always finds a free one.
            part(parts[i].0.clone(), parts[i].1.clone(), &mut pool::free(fused));
        });
    }
}

/// A number type with a fused kernel.
trait Fused: Real {
    /// The spikes and the buffers of this type.
    fn of(workspace: &mut Workspace) -> (&mut Vec<Marked>, &mut Tiles<Self>);
}

impl Fused for f32 {
    fn of(workspace: &mut Workspace) -> (&mut Vec<Marked>, &mut Tiles<f32>) {
        (&mut workspace.marked, &mut workspace.single)
    }
}

impl Fused for f64 {
    fn of(workspace: &mut Workspace) -> (&mut Vec<Marked>, &mut Tiles<f64>) {
        (&mut workspace.marked, &mut workspace.double)
    }
}

impl Workspace {
    /// Size of the workspace in bytes.
    pub fn bytes(&self) -> u64 {
        let marked: usize = self.marked.iter().map(Marked::bytes).sum();
        (marked + self.single.bytes() + self.double.bytes() + 4 * self.silent.capacity()) as u64
    }

    /// (Encoding spike, decoding spike, bin) triples that the last prediction in a precision summed, i.e. did not skip.
    /// Excludes values outside the range of f32, which are computed by the reference's formula.
    pub(super) fn pairs(&self, precision: Precision) -> u64 {
        match precision {
            Precision::F32 => self.single.pairs(),
            Precision::F64 => self.double.pairs(),
        }
    }

    /// Tile sizes of the last prediction in a precision.
    pub(super) fn tiling(&self, precision: Precision) -> Option<Tiling> {
        match precision {
            Precision::F32 => self.single.shape,
            Precision::F64 => self.double.shape,
        }
    }
}

/// Work, in pairs of spikes times bins, below which waking other threads costs more than it gains.
const WORTH_THREADS: f64 = 2e6;

/// Parts per thread, so that others can make up for an interrupted thread.
const PARTS: usize = 2;

impl ClusterlessDecoder {
    /// The log likelihood `[N, B]` of the decoding spikes, up to a constant per row.
    ///
    /// # Errors
    /// If the spikes do not fit the model, or the memory budget does not hold one tile.
    pub fn predict(&self, decoding: &Decoding<'_>, options: &Options) -> Result<Vec<f32>, InputError> {
        let mut out = vec![0.0; decoding.time_edges.len() * self.bins];
        self.predict_into(decoding, options, &mut Workspace::default(), &mut out)?;
        Ok(out)
    }

    /// As [`ClusterlessDecoder::predict`], with kernels and result in f64, within 1e-11 of the reference.
    ///
    /// # Errors
    /// As for [`ClusterlessDecoder::predict`], and if the model was not fitted in f64.
    pub fn predict_f64(&self, decoding: &Decoding<'_>, options: &Options) -> Result<Vec<f64>, InputError> {
        let mut out = vec![0.0; decoding.time_edges.len() * self.bins];
        let options = Options { precision: Precision::F64, ..*options };
        self.predict_f64_into(decoding, &options, &mut Workspace::default(), &mut out)?;
        Ok(out)
    }

    /// As [`ClusterlessDecoder::predict`], computed in f64 by the reference.
    ///
    /// # Errors
    /// As for [`ClusterlessDecoder::predict`].
    pub fn predict_exactly(&self, decoding: &Decoding<'_>) -> Result<Vec<f64>, InputError> {
        decoding.check(self)?;
        let rows: Vec<usize> = (0..decoding.time_edges.len()).collect();
        Ok(exact::predict(self, decoding, &rows, 1))
    }

    /// The reference for some rows only, `[rows, B]`, on all threads.
    pub(super) fn rows_exactly(&self, decoding: &Decoding<'_>, rows: &[usize]) -> Result<Vec<f64>, InputError> {
        decoding.check(self)?;
        Ok(exact::predict(self, decoding, rows, pool::threads()))
    }

    /// [`ClusterlessDecoder::predict`] into the caller's buffers; allocates nothing after the first call of a shape.
    ///
    /// # Errors
    /// As for [`ClusterlessDecoder::predict`], and if `out` is not N x B.
    pub fn predict_into(
        &self,
        decoding: &Decoding<'_>,
        options: &Options,
        workspace: &mut Workspace,
        out: &mut [f32],
    ) -> Result<(), InputError> {
        if options.precision == Precision::F64 {
            return Err(other_precision("predict gives f32, the options say f64", "predict_f64, or Precision::F32"));
        }
        self.into(decoding, options, workspace, out)?;
        if options.method != Method::Reference {
            self.add_exactly(decoding, out);
        }
        Ok(())
    }

    /// [`ClusterlessDecoder::predict_f64`] into the caller's buffers; the options must select f64.
    ///
    /// # Errors
    /// As for [`ClusterlessDecoder::predict_f64`], and if `out` is not N x B.
    pub fn predict_f64_into(
        &self,
        decoding: &Decoding<'_>,
        options: &Options,
        workspace: &mut Workspace,
        out: &mut [f64],
    ) -> Result<(), InputError> {
        if options.precision == Precision::F32 {
            return Err(other_precision("predict_f64 gives f64, the options say f32", "predict, or Precision::F64"));
        }
        self.into(decoding, options, workspace, out)
    }

    /// Predicts in the precision of the options, which is `T`, regardless of what fits into it.
    fn into<T: Fused>(
        &self,
        decoding: &Decoding<'_>,
        options: &Options,
        workspace: &mut Workspace,
        out: &mut [T],
    ) -> Result<(), InputError>
    where
        for<'a> Part<'a, T>: Kernel<Out = ()>,
    {
        if options.method == Method::Reference {
            let exact = self.predict_exactly(decoding)?;
            length("log_likelihood", out.len(), exact.len(), "time edges x bins")?;
            out.iter_mut().zip(exact).for_each(|(out, exact)| *out = <T as Real>::of(exact));
            return Ok(());
        }
        if options.precision == Precision::F64 {
            self.wide()?;
        }
        let (tiling, parts) = self.begin(decoding, options, workspace, out)?;
        let (marked, tiles) = <T as Fused>::of(workspace);
        match options.method.fused() {
            Some(isa) => {
                let (model, marked, spikes, skip) = (self, &marked[..], decoding.electrodes, options.skip);
                let sink = &Shared::new(out);
                tiles.over(&parts, |rows, bins, buffers| {
                    dispatch(isa, Part { model, marked, spikes, rows, bins, tiling, skip, buffers, sink });
                });
            }
            None => {
                if let Some(buffers) = &mut tiles.plain {
                    plain::predict(self, (marked, decoding.electrodes), tiling, options, buffers, out);
                }
            }
        }
        Ok(())
    }

    /// The arrays for f64 kernels, if the model was fitted in f64.
    pub(super) fn wide(&self) -> Result<&Wide, InputError> {
        let error = || other_precision("the model was fitted in f32", "a model fitted with Precision::F64");
        self.wide.as_ref().ok_or_else(error)
    }

    /// Checks the arguments, allocates, loads the spikes and initialises the output. Returns the tiling and the parts.
    #[allow(clippy::type_complexity, reason = "a part is a range of rows and one of bins")]
    fn begin<T: Real>(
        &self,
        decoding: &Decoding<'_>,
        options: &Options,
        workspace: &mut Workspace,
        out: &mut [T],
    ) -> Result<(Tiling, Vec<(Range<usize>, Range<usize>)>), InputError> {
        decoding.check(self)?;
        let rows = decoding.time_edges.len();
        length("log_likelihood", out.len(), rows * self.bins, "time edges x bins")?;
        let tiling = self.reserve(decoding, options, workspace)?;
        workspace.single.forget_pairs();
        workspace.double.forget_pairs();
        let _span = span!("decoding spikes");
        for (number, marked) in workspace.marked.iter_mut().enumerate() {
            match options.precision {
                Precision::F32 => marked.take(self, number, decoding),
                Precision::F64 => drop(marked.take_rows(number, decoding)),
            }
        }
        self.start(workspace, rows, out);
        Ok((tiling, self.parts(&workspace.marked, rows, options.threads())))
    }

    /// Allocates the working memory for predictions like this one, so that the first takes no longer than later ones.
    /// Returns the tiling.
    fn reserve(
        &self,
        decoding: &Decoding<'_>,
        options: &Options,
        workspace: &mut Workspace,
    ) -> Result<Tiling, InputError> {
        let (tiling, _) = self.tiling(decoding, options)?;
        workspace.marked.resize_with(self.electrodes.len(), Marked::default);
        for (marked, spikes) in workspace.marked.iter_mut().zip(decoding.electrodes) {
            marked.reserve(spikes, options.precision);
        }
        match options.precision {
            Precision::F32 => workspace.single.reserve(tiling, options, self.dims),
            Precision::F64 => workspace.double.reserve(tiling, options, self.dims),
        }
        Ok(tiling)
    }

    /// A workspace with all memory for predictions like this one, for programs that cannot wait in the first call.
    ///
    /// # Errors
    /// As for [`ClusterlessDecoder::predict`].
    pub fn workspace(&self, decoding: &Decoding<'_>, options: &Options) -> Result<Workspace, InputError> {
        decoding.check(self)?;
        let mut workspace = Workspace::default();
        if options.method != Method::Reference {
            self.reserve(decoding, options, &mut workspace)?;
            workspace.silent.reserve(decoding.time_edges.len());
        }
        Ok(workspace)
    }

    /// Initialises every row: -Lambda, plus the floor for each spike of an electrode without encoding spikes.
    fn start<T: Real>(&self, workspace: &mut Workspace, rows: usize, out: &mut [T]) {
        let Workspace { silent, marked, .. } = workspace;
        silent.clear();
        silent.resize(rows, 0);
        for (_, marked) in self.electrodes.iter().zip(marked).filter(|(electrode, _)| electrode.spikes() == 0) {
            marked.rows.iter().for_each(|&row| silent[row as usize] += 1);
        }
        for (row, &silent) in out.chunks_exact_mut(self.bins).zip(silent.iter()) {
            let floors = f64::from(silent) * LOG_FLOOR;
            row.iter_mut().zip(&self.ground).for_each(|(out, ground)| *out = T::of(floors - ground));
        }
    }

    /// Adds electrodes whose kernels exceed the range of f32.
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

    /// Splits the output for several threads, by bins (each part recomputes the mark kernels) or by rows (each
    /// recomputes the position kernels), whichever costs less.
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

    /// The tiling of a prediction, and its memory independent of block and tile: spikes as f32 (f64 reads them as given)
    /// and counts by row.
    pub(super) fn tiling(&self, decoding: &Decoding<'_>, options: &Options) -> Result<(Tiling, u64), InputError> {
        let wide = options.precision == Precision::F64;
        let values = |s: &Spikes<'_>| s.times.len() * if wide { 1 } else { s.n_features + 1 };
        let spikes: usize = decoding.electrodes.iter().map(values).sum();
        let fixed = 4 * (spikes + decoding.time_edges.len()) as u64;
        let most = decoding.electrodes.iter().map(|spikes| spikes.times.len()).max().unwrap_or(0);
        Ok((options.tiling(most, self.bins, self.dims, fixed)?, fixed))
    }
}

fn other_precision(problem: &str, expected: &str) -> InputError {
    InputError::new("precision", problem, expected)
}
