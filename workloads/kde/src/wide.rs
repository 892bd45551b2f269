//! The fused kernel in f64: the same tiles as in `tiles.rs`, for results within 1e-11 of the reference.
//!
//! The measures for the range and resolution of f32 are unnecessary here: position kernels are not rescaled (below
//! 2^-1074 they are 0 in the reference too), and differences use values as given. The largest mark kernel of a decoding
//! spike is factored out as in the reference. Sums run over the encoding spikes in the same fixed order of chunks.
#![allow(unsafe_code)]

use std::f64::consts::LN_2;
use std::ops::Range;

use ellwand_profile::span;

use super::buffers::{Buffers, by_features};
use super::model::{Electrode, LOG_FLOOR, Wide};
use super::options::{CHUNK, Precision, STRIP};
use super::product::wide::{multiply_rows, row_step};
use super::reach::{reaches, union};
use super::tiles::Part;
use ellwand_simd::lanes::{Double, Kernel, Simd, exp2_down_f64, ln_f64};

impl Kernel for Part<'_, f64> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let (d, width) = (s.double(), 2 * <S::Double as Double>::LANES);
        let electrodes = self.model.electrodes.iter().zip(self.marked).zip(self.spikes);
        for ((electrode, marked), spikes) in electrodes {
            let kept = marked.of_rows(&self.rows);
            if kept.is_empty() || electrode.spikes() == 0 {
                continue;
            }
            for start in (self.bins.start..self.bins.end).step_by(self.tiling.tile) {
                let tile = start..self.bins.end.min(start + self.tiling.tile);
                let panels = tile.len().div_ceil(width);
                let Buffers { reach, scratch, constants, .. } = &mut *self.buffers;
                let keep = self.skip.then_some(Precision::F64);
                reaches(self.model, electrode, (tile.start, panels, width), keep, reach, scratch);
                let rarity = &self.model.rarity[tile.start..];
                constants.iter_mut().zip(rarity).for_each(|(out, rarity)| *out = electrode.log_scale + rarity);
                for first in kept.clone().step_by(self.tiling.block) {
                    let block = first..kept.end.min(first + self.tiling.block);
                    let f = electrode.n_features;
                    let marks = &spikes.features[(marked.first + block.start) * f..(marked.first + block.end) * f];
                    self.block(d, electrode, marks, &marked.rows[block], tile.clone());
                }
            }
        }
    }
}

impl Part<'_, f64> {
    #[inline(always)]
    fn block<D: Double>(&mut self, d: D, electrode: &Electrode, marks: &[f64], rows: &[u32], tile: Range<usize>) {
        let width = 2 * D::LANES;
        let panels = tile.len().div_ceil(width);
        let (n, f) = (electrode.spikes(), electrode.n_features);
        for (y, shift) in marks.chunks_exact(f).zip(&mut self.buffers.shifts) {
            *shift = by_features!(D, f, largest(d, electrode, y));
        }
        self.buffers.touched[..panels].fill(false);
        for (chunk, start) in (0..n).step_by(CHUNK).enumerate() {
            let Buffers { reach, marks: w, shifts, .. } = &mut *self.buffers;
            let needed = union(&reach[chunk * panels..][..panels]);
            if needed.is_empty() {
                continue;
            }
            let span = span!("marks");
            for ((y, w), shift) in marks.chunks_exact(f).zip(w.chunks_exact_mut(CHUNK)).zip(shifts.iter()) {
                by_features!(D, f, mark_row(d, electrode, y, *shift, start, w, needed.clone()));
            }
            drop(span);
            for strip in (0..panels).step_by(STRIP / width) {
                let strip = strip..panels.min(strip + STRIP / width);
                self.strip(d, electrode, (chunk, start), &tile, (strip, panels), rows.len());
            }
        }
        self.finish(d, rows, &tile);
    }

    /// Processes one chunk of encoding spikes and one strip of panels for all rows of the block.
    #[inline(always)]
    fn strip<D: Double>(
        &mut self,
        d: D,
        electrode: &Electrode,
        (chunk, start): (usize, usize),
        tile: &Range<usize>,
        (strip, panels): (Range<usize>, usize),
        rows: usize,
    ) {
        let width = 2 * D::LANES;
        // A model without it was rejected earlier.
        let Some(wide) = &self.model.wide else { return };
        let Buffers { marks, places, sums, touched, reach, pairs, .. } = &mut *self.buffers;
        let reached = |panel: usize| {
            let (low, high) = reach[chunk * panels + panel];
            usize::from(low)..usize::from(high)
        };
        let span = span!("positions");
        for panel in strip.clone() {
            let p = &mut places[(panel - strip.start) * CHUNK * width..][..CHUNK * width];
            let range = reached(panel);
            let spikes = start + range.start..start + range.end;
            match self.model.dims {
                1 => place_rows::<D, 1>(d, wide, electrode, tile.start + panel * width, spikes, p),
                2 => place_rows::<D, 2>(d, wide, electrode, tile.start + panel * width, spikes, p),
                _ => place_rows::<D, 0>(d, wide, electrode, tile.start + panel * width, spikes, p),
            }
        }
        drop(span);
        let _span = span!("marginal");
        let mut row = 0;
        while row < rows {
            let step = row_step::<D>(rows - row);
            for panel in strip.clone() {
                let Range { start: low, end: high } = reached(panel);
                if low == high {
                    continue;
                }
                let w = &marks[row * CHUNK + low..(row + step - 1) * CHUNK + high];
                let p = &places[(panel - strip.start) * CHUNK * width..][..(high - low) * width];
                let c = &mut sums[(panel * rows + row) * width..][..step * width];
                multiply_rows(d, step, w, p, c, touched[panel]);
            }
            row += step;
        }
        for panel in strip {
            touched[panel] |= !reached(panel).is_empty();
            *pairs += (rows * reached(panel).len() * width.min(tile.len() - panel * width)) as u64;
        }
    }

    /// Applies the logarithm and the floor, and sums over the spikes of a row.
    #[inline(always)]
    fn finish<D: Double>(&mut self, d: D, rows: &[u32], tile: &Range<usize>) {
        let _span = span!("log and scatter");
        let width = 2 * D::LANES;
        let Buffers { sums, shifts, constants, touched, .. } = &mut *self.buffers;
        let floor = d.splat(LOG_FLOOR);
        for (j, &row) in rows.iter().enumerate() {
            let shift = d.splat(shifts[j] * LN_2);
            let start = row as usize * self.model.bins;
            // SAFETY: only this part writes these rows and bins while it runs.
            let out = unsafe { self.sink.piece(start + tile.start, start + tile.end) };
            for (v, out) in out.chunks_mut(D::LANES).enumerate() {
                let (panel, at) = (v / 2, v % 2 * D::LANES);
                let term = if touched[panel] {
                    let sum = d.load(&sums[(panel * rows.len() + j) * width + at..]);
                    let rest = d.add(d.load(&constants[v * D::LANES..]), shift);
                    d.max(d.add(ln_f64(d, sum), rest), floor)
                } else {
                    floor
                };
                if out.len() == D::LANES {
                    let new = d.add(d.load(out), term);
                    d.store(out, new);
                } else {
                    let mut terms = [0.0; 8];
                    d.store(&mut terms, term);
                    out.iter_mut().zip(terms).for_each(|(out, term)| *out += term);
                }
            }
        }
    }
}

/// Exponents of the mark kernels between mark `y` and one vector of encoding spikes starting at `from`.
#[inline(always)]
pub(super) fn mark_exponent<D: Double, const F: usize>(d: D, electrode: &Electrode, y: &[f64], from: usize) -> D::F {
    let (features, stride) = (if F > 0 { F } else { y.len() }, electrode.stride());
    let mut exponent = d.splat(0.0);
    for (f, y) in y[..features].iter().enumerate() {
        let difference = d.sub(d.load(&electrode.wide.marks[f * stride + from..]), d.splat(*y));
        let distance = d.mul(difference, d.splat(electrode.wide.scale[f]));
        exponent = d.neg_mul_add(distance, distance, exponent);
    }
    exponent
}

#[inline(always)]
fn largest<D: Double, const F: usize>(d: D, electrode: &Electrode, y: &[f64]) -> f64 {
    let mut best = d.splat(f64::NEG_INFINITY);
    for from in (0..electrode.stride()).step_by(D::LANES) {
        best = d.max(best, mark_exponent::<D, F>(d, electrode, y, from));
    }
    // The marks are too far apart for f64 to hold the squared distance: use the floor.
    d.largest(best).max(f64::MIN)
}

/// A row of W for the encoding spikes `start + needed`, rounded out to whole vectors.
#[inline(always)]
fn mark_row<D: Double, const F: usize>(
    d: D,
    electrode: &Electrode,
    y: &[f64],
    shift: f64,
    start: usize,
    w: &mut [f64],
    needed: Range<usize>,
) {
    let shift = d.splat(shift);
    for k in (needed.start / D::LANES * D::LANES..needed.end).step_by(D::LANES) {
        let exponent = mark_exponent::<D, F>(d, electrode, y, start + k);
        d.store(&mut w[k..], exp2_down_f64(d, d.sub(exponent, shift)));
    }
}

/// A panel of P for the bins starting at `at` and the encoding spikes of `range`.
#[inline(always)]
fn place_rows<D: Double, const DIMS: usize>(
    d: D,
    wide: &Wide,
    electrode: &Electrode,
    at: usize,
    range: Range<usize>,
    p: &mut [f64],
) {
    let dims = if DIMS > 0 { DIMS } else { wide.scale.len() };
    let (stride, padded) = (electrode.stride(), wide.grid.len() / dims);
    for (k, p) in range.zip(p.chunks_exact_mut(2 * D::LANES)) {
        for (v, p) in p.chunks_exact_mut(D::LANES).enumerate() {
            let mut exponent = d.splat(0.0);
            for axis in 0..dims {
                let bin = d.load(&wide.grid[axis * padded + at + v * D::LANES..]);
                let difference = d.sub(bin, d.splat(electrode.wide.places[axis * stride + k]));
                let distance = d.mul(difference, d.splat(wide.scale[axis]));
                exponent = d.neg_mul_add(distance, distance, exponent);
            }
            d.store(p, exp2_down_f64(d, exponent));
        }
    }
}
