//! Local prediction: the log likelihood of each time bin at the animal's own position (the published code's `is_local`).
//!
//! No grid: only the density over position and mark at each decoding spike, and occupancy and ground process at each
//! edge. Positions are pairs of f32, which resolve small distances anywhere on a long track.

use std::f64::consts::LN_2;

use ellwand_profile::span;

use ellwand_core::InputError;

use super::data::Track;
use super::error::length;
use super::model::{ClusterlessDecoder, Electrode, FAR, LOG_FLOOR, Wide, log_norm};
use super::options::{Method, Options, Precision};
use super::real::Real;
use super::rows::{Decoding, Marked};
use super::{exact, sums, wide_sums};
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::{Kernel, Simd, dispatch, exp2_down};
use ellwand_simd::pool;

/// Memory that local prediction reuses between calls.
#[derive(Default)]
pub(super) struct LocalWorkspace {
    marked: Vec<Marked>,
    /// ln of the rate at each spike of each electrode.
    terms: Vec<f64>,
    /// Ground process at each edge.
    ground: Vec<f64>,
    sums: Vec<f64>,
}

/// Spikes or edges that a thread processes at once.
const PIECE: usize = 64;

/// Coordinates `[dims, n padded]` in units of the kernel as pairs of f32 `[dims, 2, n padded]`; their sum is exact to
/// 48 bits.
pub(super) fn pairs(places: &[f64], dims: usize) -> Vec<f32> {
    let stride = places.len() / dims;
    let mut pairs = vec![0.0; 2 * places.len()];
    for (row, out) in places.chunks_exact(stride.max(1)).zip(pairs.chunks_exact_mut(2 * stride.max(1))) {
        let (high, low) = out.split_at_mut(stride);
        for ((x, high), low) in row.iter().zip(high).zip(low) {
            (*high, *low) = pair(*x);
        }
    }
    pairs
}

fn pair(x: f64) -> (f32, f32) {
    let most = f64::from(FAR);
    let x = x.clamp(-most, most);
    (x as f32, (x - f64::from(x as f32)) as f32)
}

impl ClusterlessDecoder {
    /// The local log likelihood `[N, 1]`; `track` is the animal's position during decoding. Edges outside its time
    /// range are extrapolated linearly, as in the published code.
    ///
    /// # Errors
    /// If the spikes or the track do not fit the model.
    pub fn predict_local(
        &self,
        track: Track<'_>,
        decoding: &Decoding<'_>,
        how: impl Into<Options>,
    ) -> Result<Vec<f32>, InputError> {
        let mut out = vec![0.0; decoding.time_edges.len()];
        let how = Options { precision: Precision::F32, ..how.into() };
        self.local_into(track, decoding, &how, &mut LocalWorkspace::default(), &mut out)?;
        Ok(out)
    }

    /// As [`ClusterlessDecoder::predict_local`], computed in f64 by the reference.
    ///
    /// # Errors
    /// As for [`ClusterlessDecoder::predict_local`].
    pub fn predict_local_exactly(&self, track: Track<'_>, decoding: &Decoding<'_>) -> Result<Vec<f64>, InputError> {
        self.check_local(track, decoding)?;
        Ok(exact::local(self, track, decoding))
    }

    fn check_local(&self, track: Track<'_>, decoding: &Decoding<'_>) -> Result<(), InputError> {
        decoding.check(self)?;
        track.check("dec_position_time", "dec_position")?;
        length("dimensions of dec_position", track.dims, self.dims, "the dimensions of position")
    }

    /// Predicts in the precision `T`.
    pub(super) fn local_into<T: Real>(
        &self,
        track: Track<'_>,
        decoding: &Decoding<'_>,
        options: &Options,
        workspace: &mut LocalWorkspace,
        out: &mut [T],
    ) -> Result<(), InputError> {
        let vectors = options.method.vectors();
        self.check_local(track, decoding)?;
        let edges = decoding.time_edges;
        length("local_log_likelihood", out.len(), edges.len(), "one per time edge")?;
        if options.method == Method::Reference {
            let exact = self.predict_local_exactly(track, decoding)?;
            out.iter_mut().zip(exact).for_each(|(out, exact)| *out = T::of(exact));
            return Ok(());
        }
        let wide = match options.precision {
            Precision::F32 => None,
            Precision::F64 => Some(self.wide()?),
        };
        let LocalWorkspace { marked, terms, ground, sums } = workspace;
        marked.resize_with(self.electrodes.len(), Marked::default);
        for (number, marked) in marked.iter_mut().enumerate() {
            marked.take(self, number, decoding);
        }
        let span = span!("ground process");
        ground.resize(edges.len(), 0.0);
        in_pieces(options, ground, |first, ground| {
            let mut at = vec![0.0; self.dims];
            for (ground, &t) in ground.iter_mut().zip(&edges[first..]) {
                track.interpolate(t, &mut at);
                *ground = match wide {
                    None => self.ground_here(&at, vectors),
                    Some(wide) => self.ground_f64(wide, &at, vectors),
                };
            }
        });
        drop(span);
        let _span = span!("marks and positions");
        sums.clear();
        sums.extend(ground.iter().map(|ground| -ground));
        for (number, marked) in marked.iter().enumerate() {
            let spikes = &decoding.electrodes[number];
            let kept = decoding.rows_of(spikes).0;
            terms.resize(marked.rows.len(), 0.0);
            in_pieces(options, terms, |first, terms| {
                let mut at = vec![0.0; self.dims];
                for (i, term) in terms.iter_mut().enumerate() {
                    let spike = kept.start + first + i;
                    track.interpolate(spikes.times[spike], &mut at);
                    let electrode = &self.electrodes[number];
                    let f = electrode.n_features;
                    *term = if let Some(wide) = wide {
                        self.term_f64(wide, electrode, &at, &spikes.features[spike * f..][..f], vectors)
                    } else if electrode.fits_f32 {
                        self.term(electrode, &at, &marked.marks[(first + i) * f..][..f], vectors)
                    } else {
                        exact::term(self, electrode, &at, &spikes.features[spike * f..][..f])
                    };
                }
            });
            marked.rows.iter().zip(terms.iter()).for_each(|(&row, term)| sums[row as usize] += term);
        }
        out.iter_mut().zip(sums.iter()).for_each(|(out, sum)| *out = T::of(*sum));
        Ok(())
    }

    /// ln of the occupancy at a position.
    fn log_occupancy(&self, at: &[f64], vectors: Option<Isa>) -> f64 {
        let samples = Points { places: &self.track_pairs, n: self.track_time.len(), marks: &[] };
        samples.log_sum(&self.place(at), &[], vectors) + log_norm(&self.position_std)
            - (self.track_time.len() as f64).ln()
    }

    fn place(&self, at: &[f64]) -> Vec<(f32, f32)> {
        at.iter().zip(&self.position_std).map(|(x, w)| pair(x * (super::model::UNIT / w))).collect()
    }

    /// The sum of mu gamma / pi over the electrodes at a position.
    fn ground_here(&self, at: &[f64], vectors: Option<Isa>) -> f64 {
        let log_pi = self.log_occupancy(at, vectors);
        // Below the smallest f64, the occupancy and the rate are 0 in the reference too.
        if log_pi < f64::MIN_POSITIVE.ln() {
            return 0.0;
        }
        let place = self.place(at);
        let rate = |electrode: &Electrode| {
            let points = Points { places: &electrode.place_pairs, n: electrode.spikes(), marks: &[] };
            let log_gamma = points.log_sum(&place, &[], vectors) + log_norm(&self.position_std);
            // mu / Ne = 1 / T.
            (log_gamma - log_pi).exp() / self.track_time.len() as f64
        };
        self.electrodes.iter().filter(|electrode| electrode.spikes() > 0).map(rate).sum()
    }

    /// As [`Self::ground_here`] in f64. Occupancies and densities below the smallest number are 0, as in the reference.
    fn ground_f64(&self, wide: &Wide, at: &[f64], vectors: Option<Isa>) -> f64 {
        let samples = self.track_time.len();
        let (pi, exponent) = wide_sums::Points::track(wide, samples).sum(&wide.scale, at, &[], vectors);
        let log_norm = log_norm(&self.position_std);
        if pi.ln() + exponent * LN_2 + log_norm - (samples as f64).ln() < f64::MIN_POSITIVE.ln() {
            return 0.0;
        }
        let rate = |electrode: &Electrode| {
            let (gamma, other) = wide_sums::Points::places(electrode).sum(&wide.scale, at, &[], vectors);
            // mu / Ne = 1 / T, which cancels with the 1 / T of the occupancy; so do the kernel constants.
            gamma / pi * (other - exponent).exp2()
        };
        self.electrodes.iter().filter(|electrode| electrode.spikes() > 0).map(rate).sum()
    }

    /// ln of the rate at a spike's position and mark, in f64.
    fn term_f64(&self, wide: &Wide, electrode: &Electrode, at: &[f64], mark: &[f64], vectors: Option<Isa>) -> f64 {
        let samples = self.track_time.len();
        let (pi, exponent) = wide_sums::Points::track(wide, samples).sum(&wide.scale, at, &[], vectors);
        let log_pi = pi.ln() + exponent * LN_2 + log_norm(&self.position_std) - (samples as f64).ln();
        if electrode.spikes() == 0 || log_pi < f64::MIN_POSITIVE.ln() {
            return LOG_FLOOR;
        }
        let (sum, exponent) = wide_sums::Points::marked(electrode).sum(&wide.scale, at, mark, vectors);
        (sum.ln() + exponent * LN_2 + electrode.log_scale - log_pi).max(LOG_FLOOR)
    }

    /// ln of the rate at a spike's position and mark.
    fn term(&self, electrode: &Electrode, at: &[f64], mark: &[f32], vectors: Option<Isa>) -> f64 {
        let log_pi = self.log_occupancy(at, vectors);
        if electrode.spikes() == 0 || log_pi < f64::MIN_POSITIVE.ln() {
            return LOG_FLOOR;
        }
        let points = Points { places: &electrode.place_pairs, n: electrode.spikes(), marks: &electrode.marks };
        (points.log_sum(&self.place(at), mark, vectors) + electrode.log_scale - log_pi).max(LOG_FLOOR)
    }
}

/// Calls `work(first, piece)` for pieces of `out`, on several threads if `options` allows.
fn in_pieces(options: &Options, out: &mut [f64], work: impl Fn(usize, &mut [f64]) + Sync) {
    if options.threads() == 1 {
        return work(0, out);
    }
    pool::for_each_slice_on(options.threads(), out, PIECE, |i, piece| work(i * PIECE, piece));
}

/// Kernel centres: positions `[dims, 2, n padded]` and, optionally, marks `[F, n padded]`.
struct Points<'a> {
    places: &'a [f32],
    n: usize,
    marks: &'a [f32],
}

impl Points<'_> {
    /// ln of the sum of kernels (1 at their centre) at a position and mark.
    fn log_sum(&self, at: &[(f32, f32)], mark: &[f32], vectors: Option<Isa>) -> f64 {
        if self.n == 0 {
            return f64::NEG_INFINITY;
        }
        // Some kernel is nearly always near; the largest term is factored out only if none is.
        let mut shift = 0.0;
        let mut sum = self.sum(at, mark, shift, vectors);
        if sum < 1e-25 {
            shift = self.largest(at, mark, vectors).max(f32::MIN);
            sum = self.sum(at, mark, shift, vectors);
        }
        f64::from(sum).ln() + f64::from(shift) * std::f64::consts::LN_2
    }

    fn sum(&self, at: &[(f32, f32)], mark: &[f32], shift: f32, vectors: Option<Isa>) -> f32 {
        match vectors {
            None => (0..self.n).map(|i| sums::plain_exp2(self.exponent(at, mark, i) - shift)).sum(),
            Some(isa) => dispatch(isa, Reduce { points: self, at, mark, shift: Some(shift) }),
        }
    }

    fn largest(&self, at: &[(f32, f32)], mark: &[f32], vectors: Option<Isa>) -> f32 {
        match vectors {
            None => (0..self.n).map(|i| self.exponent(at, mark, i)).fold(f32::MIN, f32::max),
            Some(isa) => dispatch(isa, Reduce { points: self, at, mark, shift: None }),
        }
    }

    fn exponent(&self, at: &[(f32, f32)], mark: &[f32], i: usize) -> f32 {
        let stride = self.places.len() / (2 * at.len());
        let mut exponent = 0.0;
        for (d, (high, low)) in at.iter().enumerate() {
            let row = &self.places[2 * d * stride..];
            let distance = (row[i] - high) + (row[stride + i] - low);
            exponent -= distance * distance;
        }
        for (f, y) in mark.iter().enumerate() {
            let distance = self.marks[f * stride + i] - y;
            exponent -= distance * distance;
        }
        exponent
    }
}

/// The sum of 2^(exponent - shift), or the largest exponent if there is no shift.
struct Reduce<'a> {
    points: &'a Points<'a>,
    at: &'a [(f32, f32)],
    mark: &'a [f32],
    shift: Option<f32>,
}

impl Kernel for Reduce<'_> {
    type Out = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        match (self.at.len(), self.mark.len()) {
            (1, 0) => self.over::<S, 1, 0>(s),
            (2, 0) => self.over::<S, 2, 0>(s),
            (1, 2) => self.over::<S, 1, 2>(s),
            (1, 4) => self.over::<S, 1, 4>(s),
            (2, 4) => self.over::<S, 2, 4>(s),
            _ => self.over::<S, 0, 0>(s),
        }
    }
}

impl Reduce<'_> {
    /// `D` dimensions and `F` features; `D` = 0 means that neither is known at compile time.
    #[inline(always)]
    fn over<S: Simd, const D: usize, const F: usize>(self, s: S) -> f32 {
        let (dims, features) = if D > 0 { (D, F) } else { (self.at.len(), self.mark.len()) };
        let stride = self.points.places.len() / (2 * dims);
        let row = |d: usize| &self.points.places[2 * d * stride..][..2 * stride];
        let (mut sum, mut best) = (s.splat(0.0), s.splat(f32::MIN));
        let shift = s.splat(self.shift.unwrap_or(0.0));
        for i in (0..stride).step_by(S::LANES) {
            let mut exponent = s.splat(0.0);
            for d in 0..dims {
                let high = s.sub(s.load(&row(d)[i..]), s.splat(self.at[d].0));
                let low = s.sub(s.load(&row(d)[stride + i..]), s.splat(self.at[d].1));
                let distance = s.add(high, low);
                exponent = s.neg_mul_add(distance, distance, exponent);
            }
            for f in 0..features {
                let distance = s.sub(s.load(&self.points.marks[f * stride + i..]), s.splat(self.mark[f]));
                exponent = s.neg_mul_add(distance, distance, exponent);
            }
            if self.shift.is_some() {
                sum = s.add(sum, exp2_down(s, s.sub(exponent, shift)));
            } else {
                best = s.max(best, exponent);
            }
        }
        if self.shift.is_some() { s.sum(sum) } else { s.largest(best) }
    }
}
