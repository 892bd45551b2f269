//! The fused kernel: mark kernels times position kernels, summed over encoding spikes in registers, then the logarithm
//! and the sum over the spikes of a time row. No array of size (encoding spikes x decoding spikes), (encoding spikes x
//! bins) or (decoding spikes x bins) is stored in memory.
//!
//! It is a matrix product W P whose factors are computed as needed. A block of decoding spikes and a tile of bins are
//! processed in chunks of 256 encoding spikes: for each chunk, W for the whole block and P for strips of 128 bins (both
//! in the L2 cache), then 12 spikes x 2 vectors of bins in registers. The sum over encoding spikes has one fixed order,
//! chunk after chunk, for every block, tile and thread, so results do not depend on them.
//!
//! Ranges: W is scaled by its largest term over the encoding spikes (per decoding spike), P likewise (per bin), so that
//! both are in [0, 1] with maximum 1, and anything that underflows is below the floor.
#![allow(unsafe_code)]

use std::ops::Range;

use ellwand_profile::span;

use super::buffers::{Buffers, by_features};
use super::data::Spikes;
use super::model::{ClusterlessDecoder, Electrode, LOG_FLOOR, near};
use super::options::{CHUNK, Precision, STRIP, Tiling};
use super::product::narrow::{multiply_rows, row_step};
use super::reach::{reaches, union};
use super::real::Real;
use super::rows::Marked;
use ellwand_simd::buffer::Shared;
use ellwand_simd::lanes::{Kernel, Simd, exp2_down, ln};

/// All electrodes for some rows and bins, in f32 or f64 (`wide.rs`).
pub(super) struct Part<'a, T: Real> {
    pub(super) model: &'a ClusterlessDecoder,
    pub(super) marked: &'a [Marked],
    /// The decoding spikes; f64 reads their marks.
    pub(super) spikes: &'a [Spikes<'a>],
    pub(super) rows: Range<usize>,
    /// Starts at a multiple of the widest panel.
    pub(super) bins: Range<usize>,
    pub(super) tiling: Tiling,
    pub(super) skip: bool,
    pub(super) buffers: &'a mut Buffers<T>,
    /// The output `[rows, bins of the model]`; parts write disjoint rectangles of it.
    pub(super) sink: &'a Shared<'a, T>,
}

impl Kernel for Part<'_, f32> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        for (electrode, marked) in self.model.electrodes.iter().zip(self.marked) {
            let spikes = marked.of_rows(&self.rows);
            if spikes.is_empty() || electrode.spikes() == 0 || !electrode.fits_f32 {
                continue;
            }
            for start in (self.bins.start..self.bins.end).step_by(self.tiling.tile) {
                let tile = start..self.bins.end.min(start + self.tiling.tile);
                let panels = tile.len().div_ceil(2 * S::LANES);
                {
                    let Buffers { reach, scratch, .. } = &mut *self.buffers;
                    let keep = self.skip.then_some(Precision::F32);
                    reaches(self.model, electrode, (tile.start, panels, 2 * S::LANES), keep, reach, scratch);
                }
                constants(self.model, electrode, &tile, &mut self.buffers.constants);
                for first in spikes.clone().step_by(self.tiling.block) {
                    let block = first..spikes.end.min(first + self.tiling.block);
                    self.block(s, electrode, marked, block, tile.clone());
                }
            }
        }
    }
}

/// ln of all factors that depend only on the bin.
fn constants(model: &ClusterlessDecoder, electrode: &Electrode, tile: &Range<usize>, out: &mut [f32]) {
    for (out, b) in out.iter_mut().zip(tile.clone()) {
        let nearest = f64::from(electrode.nearest[b]) * std::f64::consts::LN_2;
        *out = (electrode.log_scale + model.rarity[b] + nearest) as f32;
    }
}

impl Part<'_, f32> {
    #[inline(always)]
    fn block<S: Simd>(
        &mut self,
        s: S,
        electrode: &Electrode,
        marked: &Marked,
        block: Range<usize>,
        tile: Range<usize>,
    ) {
        let width = 2 * S::LANES;
        let (rows, panels) = (block.len(), tile.len().div_ceil(width));
        let f = electrode.n_features;
        let marks = &marked.marks[block.start * f..block.end * f];
        shifts(s, electrode, marks, &mut self.buffers.shifts);
        self.buffers.touched[..panels].fill(false);
        let n = electrode.spikes();
        for (chunk, start) in (0..n).step_by(CHUNK).enumerate() {
            let Buffers { reach, marks: w, shifts, .. } = &mut *self.buffers;
            let needed = union(&reach[chunk * panels..][..panels]);
            if needed.is_empty() {
                continue;
            }
            let span = span!("marks");
            for ((y, w), shift) in marks.chunks_exact(f).zip(w.chunks_exact_mut(CHUNK)).zip(shifts.iter()) {
                mark_row(s, electrode, y, *shift, start, w, needed.clone());
            }
            drop(span);
            for strip in (0..panels).step_by(STRIP / width) {
                let strip = strip..panels.min(strip + STRIP / width);
                self.strip(s, electrode, (chunk, start), &tile, (strip, panels), rows);
            }
        }
        self.finish(s, &marked.rows[block], &tile);
    }

    /// Processes one chunk of encoding spikes and one strip of panels for all rows of the block.
    #[inline(always)]
    fn strip<S: Simd>(
        &mut self,
        s: S,
        electrode: &Electrode,
        (chunk, start): (usize, usize),
        tile: &Range<usize>,
        (strip, panels): (Range<usize>, usize),
        rows: usize,
    ) {
        let width = 2 * S::LANES;
        let Buffers { marks, places, sums, middle, touched, reach, pairs, .. } = &mut *self.buffers;
        let span = span!("positions");
        for panel in strip.clone() {
            let (low, high) = reach[chunk * panels + panel];
            let p = &mut places[(panel - strip.start) * CHUNK * width..][..CHUNK * width];
            let at = tile.start + panel * width;
            place_panel(s, self.model, electrode, at, start + usize::from(low)..start + usize::from(high), middle, p);
        }
        drop(span);
        let _span = span!("marginal");
        let mut row = 0;
        while row < rows {
            let step = row_step::<S>(rows - row);
            for panel in strip.clone() {
                let (low, high) = reach[chunk * panels + panel];
                let (low, high) = (usize::from(low), usize::from(high));
                if low == high {
                    continue;
                }
                let w = &marks[row * CHUNK + low..(row + step - 1) * CHUNK + high];
                let p = &places[(panel - strip.start) * CHUNK * width..][..(high - low) * width];
                let c = &mut sums[(panel * rows + row) * width..][..step * width];
                multiply_rows(s, step, w, p, c, touched[panel]);
            }
            row += step;
        }
        for panel in strip {
            let (low, high) = reach[chunk * panels + panel];
            touched[panel] |= low < high;
            *pairs += (rows * usize::from(high - low) * width.min(tile.len() - panel * width)) as u64;
        }
    }

    /// Applies the logarithm and the floor, and sums over the spikes of a row.
    #[inline(always)]
    fn finish<S: Simd>(&mut self, s: S, rows: &[u32], tile: &Range<usize>) {
        let _span = span!("log and scatter");
        let width = 2 * S::LANES;
        let panels = tile.len().div_ceil(width);
        let Buffers { sums, shifts, constants, touched, .. } = &mut *self.buffers;
        let floor = s.splat(LOG_FLOOR as f32);
        for (j, &row) in rows.iter().enumerate() {
            let shift = s.splat((f64::from(shifts[j]) * std::f64::consts::LN_2) as f32);
            let start = row as usize * self.model.bins;
            // SAFETY: only this part writes these rows and bins while it runs.
            let out = unsafe { self.sink.piece(start + tile.start, start + tile.end) };
            for panel in 0..panels {
                for v in 0..2 {
                    let at = panel * width + v * S::LANES;
                    if at >= out.len() {
                        continue;
                    }
                    let term = if touched[panel] {
                        let sum = s.load(&sums[(panel * rows.len() + j) * width + v * S::LANES..]);
                        let rest = if at + S::LANES <= out.len() {
                            s.load(&constants[at..])
                        } else {
                            s.load_part(&constants[at..out.len()], 0.0)
                        };
                        s.max(s.add(ln(s, sum), s.add(rest, shift)), floor)
                    } else {
                        floor
                    };
                    if at + S::LANES <= out.len() {
                        let old = s.load(&out[at..]);
                        s.store(&mut out[at..], s.add(old, term));
                    } else {
                        let old = s.load_part(&out[at..], 0.0);
                        s.store_part(&mut out[at..], s.add(old, term));
                    }
                }
            }
        }
    }
}

/// Exponents of the mark kernels between mark `y` and one vector of encoding spikes starting at `from`.
#[inline(always)]
fn mark_exponent<S: Simd, const F: usize>(s: S, electrode: &Electrode, stride: usize, y: &[f32], from: usize) -> S::F {
    let features = if F > 0 { F } else { y.len() };
    let mut exponent = s.splat(0.0);
    for (f, y) in y[..features].iter().enumerate() {
        let distance = s.sub(s.load(&electrode.marks[f * stride + from..]), s.splat(*y));
        exponent = s.neg_mul_add(distance, distance, exponent);
    }
    exponent
}

#[inline(always)]
pub(super) fn shifts<S: Simd>(s: S, electrode: &Electrode, marks: &[f32], out: &mut [f32]) {
    for (y, out) in marks.chunks_exact(electrode.n_features).zip(out) {
        *out = by_features!(S, electrode.n_features, largest(s, electrode, y));
    }
}

#[inline(always)]
fn largest<S: Simd, const F: usize>(s: S, electrode: &Electrode, y: &[f32]) -> f32 {
    let stride = electrode.stride();
    let mut best = s.splat(f32::NEG_INFINITY);
    for from in (0..stride).step_by(S::LANES) {
        best = s.max(best, mark_exponent::<S, F>(s, electrode, stride, y, from));
    }
    // The marks are too far apart for f32 to hold the squared distance: use the floor.
    s.largest(best).max(f32::MIN)
}

/// A row of W for the encoding spikes `start + needed`, rounded out to whole vectors.
#[inline(always)]
pub(super) fn mark_row<S: Simd>(
    s: S,
    electrode: &Electrode,
    y: &[f32],
    shift: f32,
    start: usize,
    w: &mut [f32],
    needed: Range<usize>,
) {
    by_features!(S, electrode.n_features, mark_row_of(s, electrode, y, shift, start, w, needed.clone()));
}

#[inline(always)]
fn mark_row_of<S: Simd, const F: usize>(
    s: S,
    electrode: &Electrode,
    y: &[f32],
    shift: f32,
    start: usize,
    w: &mut [f32],
    needed: Range<usize>,
) {
    let (stride, shift) = (electrode.stride(), s.splat(shift));
    for k in (needed.start / S::LANES * S::LANES..needed.end).step_by(S::LANES) {
        let exponent = mark_exponent::<S, F>(s, electrode, stride, y, start + k);
        s.store(&mut w[k..], exp2_down(s, s.sub(exponent, shift)));
    }
}

/// A panel of P for the bins starting at `at` and the encoding spikes of `range`.
#[inline(always)]
fn place_panel<S: Simd>(
    s: S,
    model: &ClusterlessDecoder,
    electrode: &Electrode,
    at: usize,
    range: Range<usize>,
    scratch: &mut [f32],
    p: &mut [f32],
) {
    if range.is_empty() {
        return;
    }
    let (dims, stride, padded, width) = (model.dims, electrode.stride(), model.rarity.len(), 2 * S::LANES);
    let (samples, bins) = scratch.split_at_mut(dims * CHUNK);
    for d in 0..dims {
        // Coordinates relative to the middle of the panel, so that f32 resolves small distances anywhere.
        let grid = &model.grid_units[d * padded + at..][..width];
        let centre = grid[width / 2];
        bins[d * width..].iter_mut().zip(grid).for_each(|(bin, c)| *bin = near(c - centre));
        let places = &electrode.places[d * stride..][range.clone()];
        samples[d * CHUNK..].iter_mut().zip(places).for_each(|(sample, x)| *sample = near(x - centre));
    }
    let nearest = &electrode.nearest[at..][..width];
    match dims {
        1 => place_rows::<S, 1>(s, 1, range.len(), samples, bins, nearest, p),
        2 => place_rows::<S, 2>(s, 2, range.len(), samples, bins, nearest, p),
        _ => place_rows::<S, 0>(s, dims, range.len(), samples, bins, nearest, p),
    }
}

#[inline(always)]
fn place_rows<S: Simd, const D: usize>(
    s: S,
    dims: usize,
    n: usize,
    samples: &[f32],
    bins: &[f32],
    nearest: &[f32],
    p: &mut [f32],
) {
    let dims = if D > 0 { D } else { dims };
    let width = 2 * S::LANES;
    let shift = [s.load(nearest), s.load(&nearest[S::LANES..])];
    for (k, p) in p.chunks_exact_mut(width).take(n).enumerate() {
        for v in 0..2 {
            let mut exponent = s.splat(0.0);
            for d in 0..dims {
                let bin = s.load(&bins[d * width + v * S::LANES..]);
                let distance = s.sub(bin, s.splat(samples[d * CHUNK + k]));
                exponent = s.neg_mul_add(distance, distance, exponent);
            }
            // Rounding may lift the nearest spike slightly above its own maximum.
            let exponent = s.min(s.sub(exponent, shift[v]), s.splat(0.0));
            s.store(&mut p[v * S::LANES..], exp2_down(s, exponent));
        }
    }
}
