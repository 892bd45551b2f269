//! The same tiles in separate steps: `scalar` in loops that the compiler may vectorise, `gemm` with the matrix product
//! of a general library between vectorised exponentials and logarithms, like the published optimisation.

use ellwand_profile::span;

use super::data::Spikes;
use super::model::{ClusterlessDecoder, Electrode, LOG_FLOOR};
use super::options::{BIN_STEP, CHUNK, Options, Tiling};
use super::reach::{Reach, reaches};
use super::real::Real;
use super::rows::Marked;
use ellwand_simd::isa::Isa;

/// Working memory of one thread.
pub(super) struct Buffers<T> {
    /// Mark kernels, `[block, CHUNK]`.
    marks: Vec<T>,
    /// Position kernels, `[CHUNK, tile]`.
    places: Vec<T>,
    /// Sums of products, `[block, tile]`.
    sums: Vec<T>,
    shifts: Vec<T>,
    /// ln of all factors that depend only on the bin, at each bin of the tile.
    constants: Vec<f64>,
    reach: Vec<Reach>,
    scratch: Vec<(f64, f64)>,
    /// (Encoding spike, decoding spike, bin) triples summed since this was last reset.
    pub(super) pairs: u64,
}

impl<T: Real> Buffers<T> {
    pub(super) fn new(tiling: Tiling) -> Self {
        let Tiling { block, tile } = tiling;
        Self {
            marks: vec![T::default(); block * CHUNK],
            places: vec![T::default(); CHUNK * tile],
            sums: vec![T::default(); block * tile],
            shifts: vec![T::default(); block],
            constants: vec![0.0; tile],
            reach: Vec::new(),
            scratch: Vec::new(),
            pairs: 0,
        }
    }

    /// Size of the buffers in bytes.
    pub(super) fn bytes(&self) -> usize {
        let numbers = self.marks.capacity() + self.places.capacity() + self.sums.capacity() + self.shifts.capacity();
        size_of::<T>() * numbers
            + 8 * self.constants.capacity()
            + 4 * self.reach.capacity()
            + 16 * self.scratch.capacity()
    }
}

/// Adds all spikes to `out`, `[N, B]`.
pub(super) fn predict<T: Real>(
    model: &ClusterlessDecoder,
    (marked, electrodes): (&[Marked], &[Spikes<'_>]),
    tiling: Tiling,
    options: &Options,
    buffers: &mut Buffers<T>,
    out: &mut [T],
) {
    let vectors = options.method.vectors();
    for ((electrode, marked), spikes) in model.electrodes.iter().zip(marked).zip(electrodes) {
        if electrode.spikes() == 0 || !T::holds(electrode) {
            continue;
        }
        for start in (0..model.bins).step_by(tiling.tile) {
            let len = tiling.tile.min(model.bins - start);
            let panels = len.div_ceil(BIN_STEP);
            let Buffers { reach, scratch, .. } = &mut *buffers;
            let keep = options.skip.then_some(options.precision);
            reaches(model, electrode, (start, panels, BIN_STEP), keep, reach, scratch);
            for (constant, b) in buffers.constants.iter_mut().zip(start..start + len) {
                let nearest = T::nearest(electrode, b) * std::f64::consts::LN_2;
                *constant = electrode.log_scale + model.rarity[b] + nearest;
            }
            for first in (0..marked.rows.len()).step_by(tiling.block) {
                let block = first..marked.rows.len().min(first + tiling.block);
                let marks = T::marks(marked, spikes, &block);
                sum(model, electrode, marks, (start, len), vectors, buffers);
                finish(model, &marked.rows[block], (start, len), vectors, buffers, out);
            }
        }
    }
}

/// Sums the kernels of a block over a tile.
fn sum<T: Real>(
    model: &ClusterlessDecoder,
    electrode: &Electrode,
    marks: &[T],
    (start, len): (usize, usize),
    vectors: Option<Isa>,
    buffers: &mut Buffers<T>,
) {
    let rows = marks.len() / electrode.n_features;
    let panels = len.div_ceil(BIN_STEP);
    let Buffers { marks: w, places: p, sums, shifts, reach, pairs, .. } = buffers;
    sums[..rows * len].fill(T::default());
    for (y, shift) in marks.chunks_exact(electrode.n_features).zip(shifts.iter_mut()) {
        // The marks are too far apart for this type to hold the squared distance: use the floor.
        let exponents = (0..electrode.spikes()).map(|i| T::mark_exponent(electrode, y, i));
        *shift = exponents.fold(T::MIN, |best, exponent| if exponent > best { exponent } else { best });
    }
    for (chunk, from) in (0..electrode.spikes()).step_by(CHUNK).enumerate() {
        let n = CHUNK.min(electrode.spikes() - from);
        // One rectangle of bins for the whole chunk: from the first to the last panel within reach.
        let reached = reach[chunk * panels..][..panels].iter().enumerate().filter(|(_, (low, high))| low < high);
        let (low, high) = reached.fold((panels, 0), |(low, high), (panel, _)| (low.min(panel), high.max(panel + 1)));
        let bins = low.min(high) * BIN_STEP..len.min(high * BIN_STEP);
        if bins.is_empty() {
            continue;
        }
        let span = span!("marks");
        for ((y, w), shift) in
            marks.chunks_exact(electrode.n_features).zip(w.chunks_exact_mut(CHUNK)).zip(shifts.iter())
        {
            for (i, w) in w[..n].iter_mut().enumerate() {
                *w = T::mark_exponent(electrode, y, from + i) - *shift;
            }
            T::powers(&mut w[..n], vectors);
        }
        drop(span);
        let span = span!("positions");
        for (i, p) in p.chunks_exact_mut(bins.len()).take(n).enumerate() {
            T::place_exponents(model, electrode, from + i, start + bins.start, p);
            T::powers(p, vectors);
        }
        drop(span);
        let _span = span!("marginal");
        *pairs += (rows * n * bins.len()) as u64;
        let (w, p, c) = (&w[..], &p[..n * bins.len()], &mut sums[bins.start..rows * len]);
        match vectors {
            Some(_) => T::gemm((rows, n, bins.len()), (w, CHUNK), p, (c, len)),
            None => product((rows, n, bins.len()), (w, CHUNK), p, (c, len)),
        }
    }
}

/// c += w p: w `[m, k]` and c `[m, n]` have strided rows, p is `[k, n]`.
fn product<T: Real>(
    (m, k, n): (usize, usize, usize),
    (w, w_stride): (&[T], usize),
    p: &[T],
    (c, c_stride): (&mut [T], usize),
) {
    for row in 0..m {
        let c = &mut c[row * c_stride..][..n];
        for (w, p) in w[row * w_stride..][..k].iter().zip(p.chunks_exact(n)) {
            c.iter_mut().zip(p).for_each(|(c, p)| *c += *w * *p);
        }
    }
}

/// Applies the logarithm and the floor, and sums over the spikes of a row.
fn finish<T: Real>(
    model: &ClusterlessDecoder,
    rows: &[u32],
    (start, len): (usize, usize),
    vectors: Option<Isa>,
    buffers: &mut Buffers<T>,
    out: &mut [T],
) {
    let _span = span!("log and scatter");
    let floor = T::of(LOG_FLOOR);
    for ((&row, sums), shift) in rows.iter().zip(buffers.sums.chunks_exact_mut(len)).zip(&buffers.shifts) {
        T::logarithms(sums, vectors);
        let out = &mut out[row as usize * model.bins + start..][..len];
        let shift = shift.to_f64() * std::f64::consts::LN_2;
        for ((out, sum), constant) in out.iter_mut().zip(sums).zip(&buffers.constants) {
            let term = *sum + T::of(constant + shift);
            // Never NaN: without kernels both terms are -infinity at a bin of occupancy 0.
            *out += if term > floor { term } else { floor };
        }
    }
}
