//! The same tiles in separate steps: `scalar` in loops over f32 that the compiler may vectorise, and `gemm` with the matrix
//! product of a general library between vectorised exponentials and logarithms, as the published optimisation does it.

use ellwand_profile::span;

use super::model::{ClusterlessDecoder, Electrode, LOG_FLOOR, near};
use super::options::{BIN_STEP, CHUNK, Method, Options, Tiling};
use super::reach::{Reach, reaches};
use super::rows::Marked;
use crate::isa::Isa;
use crate::lanes::{Kernel, Simd, dispatch, exp2_down, ln};

/// Working memory.
pub(super) struct Buffers {
    /// `[block, CHUNK]`
    marks: Vec<f32>,
    /// `[CHUNK, tile]`
    places: Vec<f32>,
    /// `[block, tile]`
    sums: Vec<f32>,
    shifts: Vec<f32>,
    reach: Vec<Reach>,
    scratch: Vec<(f64, f64)>,
}

impl Buffers {
    pub(super) fn new(tiling: Tiling) -> Self {
        let Tiling { block, tile } = tiling;
        Self {
            marks: vec![0.0; block * CHUNK],
            places: vec![0.0; CHUNK * tile],
            sums: vec![0.0; block * tile],
            shifts: vec![0.0; block],
            reach: Vec::new(),
            scratch: Vec::new(),
        }
    }
}

impl Buffers {
    /// Bytes that they hold.
    pub(super) fn bytes(&self) -> usize {
        let floats = self.marks.capacity() + self.places.capacity() + self.sums.capacity() + self.shifts.capacity();
        4 * (floats + self.reach.capacity()) + 16 * self.scratch.capacity()
    }
}

/// Adds all spikes to `out`, `[N, B]`.
pub(super) fn predict(
    model: &ClusterlessDecoder,
    marked: &[Marked],
    tiling: Tiling,
    options: &Options,
    buffers: &mut Buffers,
    out: &mut [f32],
) {
    let vectors = match options.method {
        Method::Gemm(isa) => Some(isa),
        _ => None,
    };
    for (electrode, marked) in model.electrodes.iter().zip(marked) {
        if electrode.spikes() == 0 || !electrode.fits_f32 {
            continue;
        }
        for start in (0..model.bins).step_by(tiling.tile) {
            let len = tiling.tile.min(model.bins - start);
            let panels = len.div_ceil(BIN_STEP);
            let Buffers { reach, scratch, .. } = &mut *buffers;
            reaches(model, electrode, (start, panels, BIN_STEP), options.skip, reach, scratch);
            for first in (0..marked.rows.len()).step_by(tiling.block) {
                let block = first..marked.rows.len().min(first + tiling.block);
                let f = electrode.n_features;
                let marks = &marked.marks[block.start * f..block.end * f];
                sum(model, electrode, marks, (start, len), vectors, buffers);
                finish(model, electrode, &marked.rows[block], (start, len), vectors, buffers, out);
            }
        }
    }
}

/// The sums of kernels of a block at a tile.
fn sum(
    model: &ClusterlessDecoder,
    electrode: &Electrode,
    marks: &[f32],
    (start, len): (usize, usize),
    vectors: Option<Isa>,
    buffers: &mut Buffers,
) {
    let rows = marks.len() / electrode.n_features;
    let panels = len.div_ceil(BIN_STEP);
    let Buffers { marks: w, places: p, sums, shifts, reach, .. } = buffers;
    sums[..rows * len].fill(0.0);
    for (y, shift) in marks.chunks_exact(electrode.n_features).zip(shifts.iter_mut()) {
        *shift = (0..electrode.spikes()).map(|i| mark_exponent(electrode, y, i)).fold(f32::MIN, f32::max);
    }
    for (chunk, from) in (0..electrode.spikes()).step_by(CHUNK).enumerate() {
        let n = CHUNK.min(electrode.spikes() - from);
        // One rectangle of bins for the whole chunk: from the first to the last panel that it reaches.
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
                *w = mark_exponent(electrode, y, from + i) - shift;
            }
            powers(&mut w[..n], vectors);
        }
        drop(span);
        let span = span!("positions");
        for (i, p) in p.chunks_exact_mut(bins.len()).take(n).enumerate() {
            place_exponents(model, electrode, from + i, start + bins.start, p);
            powers(p, vectors);
        }
        drop(span);
        let _span = span!("marginal");
        let (w, p, c) = (&w[..], &p[..n * bins.len()], &mut sums[bins.start..rows * len]);
        match vectors {
            Some(_) => gemm((rows, n, bins.len()), (w, CHUNK), p, (c, len)),
            None => product((rows, n, bins.len()), (w, CHUNK), p, (c, len)),
        }
    }
}

fn mark_exponent(electrode: &Electrode, y: &[f32], spike: usize) -> f32 {
    let stride = electrode.stride();
    let square = |(f, y): (usize, &f32)| (y - electrode.marks[f * stride + spike]).powi(2);
    -y.iter().enumerate().map(square).sum::<f32>()
}

fn place_exponents(model: &ClusterlessDecoder, electrode: &Electrode, spike: usize, first: usize, out: &mut [f32]) {
    let (stride, padded) = (electrode.stride(), model.rarity.len());
    for (out, nearest) in out.iter_mut().zip(&electrode.nearest[first..]) {
        *out = -nearest;
    }
    for d in 0..model.dims {
        let x = electrode.places[d * stride + spike];
        for (out, c) in out.iter_mut().zip(&model.grid_units[d * padded + first..]) {
            let distance = near(c - x);
            *out -= distance * distance;
        }
    }
    out.iter_mut().for_each(|exponent| *exponent = exponent.min(0.0));
}

/// c += w p: w `[m, k]` and c `[m, n]` with rows that lie further apart, p `[k, n]`.
fn product(
    (m, k, n): (usize, usize, usize),
    (w, w_stride): (&[f32], usize),
    p: &[f32],
    (c, c_stride): (&mut [f32], usize),
) {
    for row in 0..m {
        let c = &mut c[row * c_stride..][..n];
        for (w, p) in w[row * w_stride..][..k].iter().zip(p.chunks_exact(n)) {
            c.iter_mut().zip(p).for_each(|(c, p)| *c += w * p);
        }
    }
}

/// The same by the library.
#[allow(unsafe_code)]
fn gemm(
    (m, k, n): (usize, usize, usize),
    (w, w_stride): (&[f32], usize),
    p: &[f32],
    (c, c_stride): (&mut [f32], usize),
) {
    assert!(w.len() >= (m - 1) * w_stride + k && p.len() >= k * n && c.len() >= (m - 1) * c_stride + n);
    let (w_stride, c_stride) = (w_stride as isize, c_stride as isize);
    // SAFETY: the three matrices lie inside their slices by the assertion above.
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            w.as_ptr(),
            w_stride,
            1,
            p.as_ptr(),
            n as isize,
            1,
            1.0,
            c.as_mut_ptr(),
            c_stride,
            1,
        );
    }
}

/// 2^x in place.
fn powers(x: &mut [f32], vectors: Option<Isa>) {
    match vectors {
        Some(isa) => dispatch(isa, Map { x, ln: false }),
        None => x.iter_mut().for_each(|x| *x = x.exp2()),
    }
}

/// ln x in place.
fn logarithms(x: &mut [f32], vectors: Option<Isa>) {
    match vectors {
        Some(isa) => dispatch(isa, Map { x, ln: true }),
        None => x.iter_mut().for_each(|x| *x = x.ln()),
    }
}

struct Map<'a> {
    x: &'a mut [f32],
    ln: bool,
}

impl Kernel for Map<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut vectors = self.x.chunks_exact_mut(S::LANES);
        for x in &mut vectors {
            let v = s.load(x);
            s.store(x, if self.ln { ln(s, v) } else { exp2_down(s, v) });
        }
        let rest = vectors.into_remainder();
        let v = s.load_part(rest, 0.0);
        s.store_part(rest, if self.ln { ln(s, v) } else { exp2_down(s, v) });
    }
}

/// The logarithm, the floor and the sum over the spikes of a row.
fn finish(
    model: &ClusterlessDecoder,
    electrode: &Electrode,
    rows: &[u32],
    (start, len): (usize, usize),
    vectors: Option<Isa>,
    buffers: &mut Buffers,
    out: &mut [f32],
) {
    let _span = span!("log and scatter");
    let floor = LOG_FLOOR as f32;
    let scale = electrode.log_scale;
    for ((&row, sums), shift) in rows.iter().zip(buffers.sums.chunks_exact_mut(len)).zip(&buffers.shifts) {
        logarithms(sums, vectors);
        let out = &mut out[row as usize * model.bins + start..][..len];
        let bins = electrode.nearest[start..].iter().zip(&model.rarity[start..]);
        for ((out, sum), (nearest, rarity)) in out.iter_mut().zip(sums).zip(bins) {
            let exponents = f64::from(*nearest) + f64::from(*shift);
            let rest = (scale + rarity + exponents * std::f64::consts::LN_2) as f32;
            // max passes over NaN, which 0 kernels (-infinity) at a bin of occupancy 0 cannot give: both are -infinity.
            *out += (*sum + rest).max(floor);
        }
    }
}
