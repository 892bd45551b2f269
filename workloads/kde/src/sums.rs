//! Sums of position kernels at bins, for occupancy and ground process: in f32 with f64 accumulation, or entirely in
//! f64.

use ellwand_profile::span;

use super::model::{BIN_PADDING, ClusterlessDecoder, FLOOR, Wide, log_norm, near};
use super::options::CHUNK;
use super::wide_sums::{Points, at_panel};
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::{Kernel, Simd, dispatch, exp2_down};

/// Neighbouring bins and the values computed there.
pub(super) struct Piece {
    pub(super) start: usize,
    /// Number of bins.
    pub(super) len: usize,
    /// Occupancy at each bin.
    pub(super) occupancy: Vec<f64>,
    /// Ground process at each bin.
    pub(super) ground: Vec<f64>,
    /// `[E, bins padded]`: the largest exponent at each bin.
    pub(super) nearest: Vec<f32>,
    sum: Vec<f64>,
}

impl Piece {
    pub(super) fn new(start: usize, len: usize) -> Self {
        let padded = len.next_multiple_of(BIN_PADDING);
        let zeros = || vec![0.0; padded];
        Self { start, len, occupancy: zeros(), ground: zeros(), nearest: Vec::new(), sum: zeros() }
    }

    /// Number of bins including padding.
    pub(super) fn padded(&self) -> usize {
        self.sum.len()
    }
}

/// Computes one piece. `samples` is the track in units of the kernel, `[dims, T padded]`.
pub(super) fn at_bins(model: &ClusterlessDecoder, samples: &[f64], vectors: Option<Isa>, piece: &mut Piece) {
    let norm = log_norm(&model.position_std).exp();
    let padded = piece.padded();
    let t = model.track_time.len();
    let mut nearest = vec![0.0; padded * (1 + model.electrodes.len())];
    let (_, rows) = nearest.split_at_mut(padded);
    let mut unused = vec![0.0; padded];
    let span = span!("occupancy");
    let wide = model.wide.as_ref().map(|wide| (wide, Points::track(wide, t)));
    sum(model, Samples { places: samples, n: t, wide }, vectors, piece, &mut unused);
    for (pi, sum) in piece.occupancy.iter_mut().zip(&piece.sum) {
        *pi = norm * sum / t as f64;
    }
    drop(span);
    let _span = span!("ground process");
    for (electrode, nearest) in model.electrodes.iter().zip(rows.chunks_exact_mut(padded)) {
        let n = electrode.spikes();
        let wide = model.wide.as_ref().map(|wide| (wide, Points::places(electrode)));
        sum(model, Samples { places: &electrode.places, n, wide }, vectors, piece, nearest);
        for ((ground, sum), pi) in piece.ground.iter_mut().zip(&piece.sum).zip(&piece.occupancy) {
            let density = if n == 0 { 0.0 } else { norm * sum / n as f64 };
            *ground += ground_at(*pi, electrode.mean_rate, density);
        }
    }
    piece.nearest = nearest.split_off(padded);
}

/// The ground process at a bin from the kernel densities (step 6 of section 2.1 of the published reference).
fn ground_at(pi: f64, mean_rate: f64, density: f64) -> f64 {
    let ratio = if pi > 0.0 { density / pi } else { FLOOR };
    (mean_rate * ratio).max(FLOOR)
}

/// Kernel centres, `[dims, n padded]`.
#[derive(Clone, Copy)]
struct Samples<'a> {
    places: &'a [f64],
    n: usize,
    /// The same centres for a fit in f64.
    wide: Option<(&'a Wide, Points<'a>)>,
}

/// Sets `piece.sum` to the sum of kernels (1 at their centre) at each bin, and `nearest` to the largest exponent.
fn sum(model: &ClusterlessDecoder, samples: Samples<'_>, vectors: Option<Isa>, piece: &mut Piece, nearest: &mut [f32]) {
    piece.sum.fill(0.0);
    if samples.n == 0 {
        return nearest.fill(0.0);
    }
    if let Some((wide, points)) = samples.wide {
        for first in (0..piece.padded()).step_by(BIN_PADDING) {
            let panel = at_panel(wide, points, piece.start + first, vectors);
            piece.sum[first..first + BIN_PADDING].copy_from_slice(&panel.sum);
            nearest[first..].iter_mut().zip(panel.best).for_each(|(near, best)| *near = (best as f32).max(f32::MIN));
        }
        return;
    }
    let stride = samples.places.len() / model.dims;
    let bins = model.rarity.len();
    for first in (0..piece.padded()).step_by(BIN_PADDING) {
        let at = piece.start + first;
        let mut panel =
            Panel { best: [f32::MIN; BIN_PADDING], sum: [0.0; BIN_PADDING], bins: Vec::new(), samples: Vec::new() };
        // Coordinates relative to the middle of the panel, so that f32 resolves small distances anywhere.
        let centre = |d: usize| model.grid_units[d * bins + at + BIN_PADDING / 2];
        for d in 0..model.dims {
            let grid = &model.grid_units[d * bins + at..][..BIN_PADDING];
            panel.bins.extend(grid.iter().map(|c| near(c - centre(d))));
        }
        for start in (0..samples.n).step_by(CHUNK) {
            let len = CHUNK.min(samples.n - start);
            panel.samples.clear();
            for d in 0..model.dims {
                let row = &samples.places[d * stride + start..][..len];
                panel.samples.extend(row.iter().map(|x| near(x - centre(d))));
            }
            match vectors {
                None => panel.plain(model.dims),
                Some(isa) => dispatch(isa, Add { panel: &mut panel, dims: model.dims }),
            }
            for (sum, part) in piece.sum[first..].iter_mut().zip(&panel.sum) {
                *sum += f64::from(*part);
            }
        }
        nearest[first..first + BIN_PADDING].copy_from_slice(&panel.best);
    }
}

/// A panel of bins and a chunk of samples, relative to the middle of the panel.
struct Panel {
    best: [f32; BIN_PADDING],
    sum: [f32; BIN_PADDING],
    /// Bin coordinates, `[dims, BIN_PADDING]`.
    bins: Vec<f32>,
    /// Sample coordinates, `[dims, n]`.
    samples: Vec<f32>,
}

impl Panel {
    fn plain(&mut self, dims: usize) {
        let n = self.samples.len() / dims;
        self.sum = [0.0; BIN_PADDING];
        for k in 0..n {
            for b in 0..BIN_PADDING {
                let mut exponent = 0.0_f32;
                for d in 0..dims {
                    let distance = self.bins[d * BIN_PADDING + b] - self.samples[d * n + k];
                    exponent -= distance * distance;
                }
                self.best[b] = self.best[b].max(exponent);
                self.sum[b] += plain_exp2(exponent);
            }
        }
    }
}

/// 2^x, or 0 if the result is subnormal, because the library computes subnormal results slowly.
pub(super) fn plain_exp2(x: f32) -> f32 {
    if x < -126.0 { 0.0 } else { x.exp2() }
}

struct Add<'a> {
    panel: &'a mut Panel,
    dims: usize,
}

impl Kernel for Add<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // A whole panel at once hides the latency of the exponential.
        if const { S::LANES == 16 } { self.over::<S, 2>(s) } else { self.over::<S, 4>(s) }
    }
}

impl Add<'_> {
    #[inline(always)]
    fn over<S: Simd, const V: usize>(self, s: S) {
        match self.dims {
            1 => add::<S, 1, V>(s, self.panel, 1),
            2 => add::<S, 2, V>(s, self.panel, 2),
            dims => add::<S, 0, V>(s, self.panel, dims),
        }
    }
}

/// `D` is the number of dimensions if known at compile time, else 0; `V` vectors form a panel.
#[inline(always)]
fn add<S: Simd, const D: usize, const V: usize>(s: S, panel: &mut Panel, dims: usize) {
    assert_eq!(V * S::LANES, BIN_PADDING, "bins outside the vectors would keep their old sums");
    let dims = if D > 0 { D } else { dims };
    let n = panel.samples.len() / dims;
    let mut best: [S::F; V] = std::array::from_fn(|v| s.load(&panel.best[v * S::LANES..]));
    let mut sum = [s.splat(0.0); V];
    let bin = |d: usize, v: usize| s.load(&panel.bins[d * BIN_PADDING + v * S::LANES..]);
    for k in 0..n {
        let mut exponent = [s.splat(0.0); V];
        for d in 0..dims {
            let x = s.splat(panel.samples[d * n + k]);
            for (v, exponent) in exponent.iter_mut().enumerate() {
                let distance = s.sub(bin(d, v), x);
                *exponent = s.neg_mul_add(distance, distance, *exponent);
            }
        }
        for v in 0..V {
            best[v] = s.max(best[v], exponent[v]);
            sum[v] = s.add(sum[v], exp2_down(s, exponent[v]));
        }
    }
    for v in 0..V {
        s.store(&mut panel.best[v * S::LANES..], best[v]);
        s.store(&mut panel.sum[v * S::LANES..], sum[v]);
    }
}
