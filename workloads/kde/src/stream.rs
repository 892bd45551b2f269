//! Decodes one time bin at a time, for closed-loop use.
//!
//! With few spikes per bin, each position kernel is used only once. On an evenly spaced grid in one dimension, a
//! Gaussian advances from bin to bin by two multiplications (g *= r, r *= q), so only every 16th bin needs an
//! exponential; 16 encoding spikes occupy the lanes of a vector, and the sums of 16 bins the registers. All pairs of
//! spikes and bins within reach are still computed. Other grids use the kernels of [`ClusterlessDecoder::predict`].

use std::ops::Range;

use ellwand_core::InputError;

use super::buffers::Buffers;
use super::error::{self, finite, length};
use super::model::{ClusterlessDecoder, Electrode, LOG_FLOOR, near};
use super::options::{CHUNK, Method, Options, Precision};
use super::reach::{Reach, reaches};
use super::rows::Marked;
use super::tiles::{Part, mark_row, shifts};
use super::{exact, options::Tiling};
use ellwand_simd::buffer::Shared;
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::{Kernel, Simd, dispatch, exp2_down, ln};

/// Bins between two exponentials.
const SEGMENT: usize = 16;

/// Longest span of the recurrence, in units of the position kernel: what underflows at one end is still below the floor
/// at the other.
const LONGEST: f64 = 4.0;

/// A spike that has just arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Index of its electrode.
    pub electrode: usize,
    /// Its mark, one value per feature of the electrode.
    pub mark: &'a [f64],
}

/// A decoder for one time bin at a time. It owns its buffers and allocates nothing once it has seen its busiest bin.
pub struct Stream {
    model: ClusterlessDecoder,
    isa: Isa,
    /// Distance between neighbouring bins in units of the kernel, if the grid is even.
    spacing: Option<f64>,
    /// For each electrode, the reach of its chunks and segments; empty if the recurrence does not apply.
    reach: Vec<Vec<Reach>>,
    /// Sums, `[bins padded]`.
    sums: Vec<f32>,
    weights: Vec<f32>,
    marked: Vec<Marked>,
    buffers: Buffers<f32>,
    tiling: Tiling,
    row: Vec<f64>,
}

impl ClusterlessDecoder {
    /// Converts into a decoder for one time bin at a time.
    pub fn into_stream(self, isa: Isa) -> Stream {
        let spacing = self.even_spacing().filter(|h| h * SEGMENT as f64 <= LONGEST);
        let mut scratch = Vec::new();
        let reach: Vec<Vec<Reach>> = self
            .electrodes
            .iter()
            .map(|electrode| {
                let mut reach = Vec::new();
                // Far from all encoding spikes, the kernels of `predict` factor out the largest term; the recurrence
                // would underflow.
                let near = electrode.nearest[..self.bins].iter().all(|exponent| *exponent > -40.0);
                if spacing.is_some() && electrode.fits_f32 && near {
                    let segments = self.bins.div_ceil(SEGMENT);
                    let keep = Some(Precision::F32);
                    reaches(&self, electrode, (0, segments, SEGMENT), keep, &mut reach, &mut scratch);
                }
                reach
            })
            .collect();
        // One spike at a time: the smallest buffers that the kernels accept.
        let plain = Options { block: Some(1), ..Options::new(Method::Simd(isa)) };
        let tiling = plain.tiling(1, self.bins, self.dims, 0).unwrap_or(Tiling { block: 12, tile: 32 });
        Stream {
            isa,
            spacing,
            reach,
            sums: vec![0.0; self.rarity.len()],
            weights: vec![0.0; CHUNK],
            marked: self.electrodes.iter().map(|_| Marked::default()).collect(),
            buffers: Buffers::new(tiling, self.dims),
            tiling,
            row: vec![0.0; self.bins],
            model: self,
        }
    }

    /// The distance between neighbouring bins in units of the kernel, if it is constant in one dimension.
    fn even_spacing(&self) -> Option<f64> {
        if self.dims != 1 || self.bins < 2 {
            return None;
        }
        let grid = &self.grid_units[..self.bins];
        let h = (grid[self.bins - 1] - grid[0]) / (self.bins - 1) as f64;
        let even = grid.iter().enumerate().all(|(b, c)| (c - grid[0] - b as f64 * h).abs() <= 1e-9 * h.abs().max(1e-9));
        even.then_some(h)
    }
}

impl Stream {
    /// The log likelihood at each bin, `[B]`, of a time bin with the given `spikes`.
    ///
    /// # Errors
    /// If a spike does not fit the model, or `out` does not have length B.
    pub fn bin(&mut self, spikes: &[Arrival<'_>], out: &mut [f32]) -> Result<(), InputError> {
        length("log_likelihood", out.len(), self.model.bins, "one per bin")?;
        let mut silent = 0;
        self.buffers.pairs = 0;
        self.marked.iter_mut().for_each(Marked::clear);
        for spike in spikes {
            let electrodes = self.model.electrodes.len();
            let Some(electrode) = self.model.electrodes.get(spike.electrode) else {
                return Err(error::electrodes(spike.electrode + 1, electrodes));
            };
            error::features(spike.electrode, spike.mark.len(), electrode.n_features)?;
            finite("mark", spike.mark)?;
            silent += usize::from(electrode.spikes() == 0);
            self.marked[spike.electrode].push(electrode, spike.mark);
        }
        let base = silent as f64 * LOG_FLOOR;
        out.iter_mut().zip(&self.model.ground).for_each(|(out, ground)| *out = (base - ground) as f32);
        let isa = self.isa;
        for number in 0..self.marked.len() {
            if self.reach[number].is_empty() {
                continue;
            }
            let electrode = &self.model.electrodes[number];
            let marks = std::mem::take(&mut self.marked[number].marks);
            for mark in marks.chunks_exact(electrode.n_features) {
                dispatch(isa, One { stream: self, number, mark, out: &mut *out });
            }
            self.marked[number].marks = marks;
            self.marked[number].clear();
        }
        let Self { model, marked, buffers, tiling, row, .. } = self;
        if marked.iter().all(|marked| marked.rows.is_empty()) {
            return Ok(());
        }
        {
            let sink = Shared::new(out);
            let (rows, bins): (Range<usize>, _) = (0..1, 0..model.bins);
            dispatch(
                isa,
                Part { model, marked, spikes: &[], rows, bins, tiling: *tiling, skip: true, buffers, sink: &sink },
            );
        }
        for spike in spikes {
            let electrode = &model.electrodes[spike.electrode];
            if !electrode.fits_f32 && electrode.spikes() > 0 {
                row.fill(0.0);
                exact::add_mark(model, electrode, spike.mark, row);
                out.iter_mut().zip(row.iter()).for_each(|(out, l)| *out += *l as f32);
            }
        }
        Ok(())
    }

    /// The fitted model.
    pub fn decoder(&self) -> &ClusterlessDecoder {
        &self.model
    }

    /// (Encoding spike, spike, bin) triples that the last time bin summed, given the electrodes of its spikes. Excludes
    /// values outside the range of f32, which are computed by the reference's formula.
    pub(super) fn pairs(&self, electrodes: impl Iterator<Item = usize>) -> u64 {
        // No reach where the kernels of `predict` count.
        let spikes = electrodes.flat_map(|electrode| &self.reach[electrode]);
        spikes.map(|reach| (whole_vectors(*reach).len() * SEGMENT) as u64).sum::<u64>() + self.buffers.pairs
    }

    /// Number of electrodes decoded by the recurrence; the others use the kernels of [`ClusterlessDecoder::predict`].
    pub fn recurring(&self) -> usize {
        self.reach.iter().filter(|reach| !reach.is_empty()).count()
    }
}

/// The spikes of a reach in whole vectors: extra spikes on either side are merely further away.
#[inline(always)]
fn whole_vectors((low, high): Reach) -> Range<usize> {
    if low < high { usize::from(low) / 16 * 16..usize::from(high).next_multiple_of(16) } else { 0..0 }
}

/// One spike of one electrode.
struct One<'a> {
    stream: &'a mut Stream,
    number: usize,
    mark: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for One<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Stream { model, spacing, reach, sums, weights, .. } = self.stream;
        let electrode = &model.electrodes[self.number];
        let reach = &reach[self.number][..];
        let h = spacing.unwrap_or(0.0);
        let segments = model.bins.div_ceil(SEGMENT);
        let mut shift = [0.0];
        shifts(s, electrode, self.mark, &mut shift);
        sums.fill(0.0);
        for (chunk, start) in (0..electrode.spikes()).step_by(CHUNK).enumerate() {
            let len = CHUNK.min(electrode.spikes() - start);
            mark_row(s, electrode, self.mark, shift[0], start, weights, 0..len);
            // Slots after the last spike have weight 0.
            weights[len..len.next_multiple_of(16)].fill(0.0);
            for segment in 0..segments {
                let range = whole_vectors(reach[chunk * segments + segment]);
                if !range.is_empty() {
                    let at = segment * SEGMENT;
                    add_segment(s, model, electrode, (start, at), range, h, weights, &mut sums[at..at + SEGMENT]);
                }
            }
        }
        let constant = electrode.log_scale + f64::from(shift[0]) * std::f64::consts::LN_2;
        finish(s, sums, &model.rarity, constant, self.out);
    }
}

/// Adds the encoding spikes `start + range` at the 16 bins starting at `at`.
#[inline(always)]
#[allow(
    clippy::too_many_arguments,
    reason = "the innermost loop of the stream, without a struct between it and its registers"
)]
fn add_segment<S: Simd>(
    s: S,
    model: &ClusterlessDecoder,
    electrode: &Electrode,
    (start, at): (usize, usize),
    range: Range<usize>,
    h: f64,
    weights: &[f32],
    sums: &mut [f32],
) {
    let first = model.grid_units[at];
    let step = s.splat(h as f32);
    // 2^-(u + h)^2 = 2^-u^2 r with r = 2^-(2 u h + h^2), and each r is smaller than the last by the factor q = 2^-2h^2.
    let q = s.splat((-2.0 * h * h).exp2() as f32);
    let most = s.splat(100.0);
    let mut sum = [s.splat(0.0); SEGMENT];
    let mut distance = [0.0_f32; 16];
    for k in range.step_by(S::LANES) {
        let places = &electrode.places[start + k..][..S::LANES];
        distance[..S::LANES].iter_mut().zip(places).for_each(|(distance, x)| *distance = near(first - x));
        let u = s.load(&distance);
        let mut g = s.mul(s.load(&weights[k..]), exp2_down(s, s.neg_mul_add(u, u, s.splat(0.0))));
        let exponent = s.neg_mul_add(s.add(s.mul(u, s.splat(2.0)), step), step, s.splat(0.0));
        let mut r = exp2_down(s, s.min(exponent, most));
        for sum in &mut sum {
            *sum = s.add(*sum, g);
            g = s.mul(g, r);
            r = s.mul(r, q);
        }
    }
    for (total, sum) in sums.iter_mut().zip(sum) {
        *total += s.sum(sum);
    }
}

/// Applies the logarithm and the floor.
#[inline(always)]
fn finish<S: Simd>(s: S, sums: &[f32], rarity: &[f64], constant: f64, out: &mut [f32]) {
    let floor = s.splat(LOG_FLOOR as f32);
    for at in (0..out.len()).step_by(S::LANES) {
        let mut rest = [0.0_f32; 16];
        rest[..S::LANES].iter_mut().zip(&rarity[at..]).for_each(|(rest, rarity)| *rest = (constant + rarity) as f32);
        let term = s.max(s.add(ln(s, s.load(&sums[at..])), s.load(&rest)), floor);
        let out = &mut out[at..];
        if out.len() >= S::LANES {
            let new = s.add(s.load(out), term);
            s.store(out, new);
        } else {
            let new = s.add(s.load_part(out, 0.0), term);
            s.store_part(out, new);
        }
    }
}
