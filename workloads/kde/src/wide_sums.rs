//! Sums of kernels in f64: occupancy and ground process of a fit, and densities at one position and mark.

use super::model::{BIN_PADDING, Electrode, Wide};
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::{Double, Kernel, Simd, dispatch, exp2_down_f64};

/// Kernel centres, `[dims, n padded]`, as given.
#[derive(Clone, Copy)]
pub(super) struct Points<'a> {
    pub(super) places: &'a [f64],
    pub(super) n: usize,
    /// Marks of these points and their scales; both empty if marks are not used.
    pub(super) marks: &'a [f64],
    pub(super) mark_scale: &'a [f64],
}

impl<'a> Points<'a> {
    /// The samples of the track.
    pub(super) fn track(wide: &'a Wide, n: usize) -> Self {
        Self { places: &wide.track, n, marks: &[], mark_scale: &[] }
    }

    /// The encoding spikes of an electrode, without their marks.
    pub(super) fn places(electrode: &'a Electrode) -> Self {
        Self { places: &electrode.wide.places, n: electrode.spikes(), marks: &[], mark_scale: &[] }
    }

    /// The encoding spikes of an electrode with their marks.
    pub(super) fn marked(electrode: &'a Electrode) -> Self {
        Self { marks: &electrode.wide.marks, mark_scale: &electrode.wide.scale, ..Self::places(electrode) }
    }

    /// Exponent of 2 of the kernel at point `i`.
    fn exponent(&self, scale: &[f64], at: &[f64], mark: &[f64], i: usize) -> f64 {
        let square = |points: &[f64], scale: &[f64], at: &[f64]| -> f64 {
            let stride = points.len() / at.len().max(1);
            let distance = |d: usize| (points[d * stride + i] - at[d]) * scale[d];
            (0..at.len()).map(|d| distance(d) * distance(d)).sum()
        };
        -square(self.places, scale, at) - square(self.marks, self.mark_scale, mark)
    }

    /// The sum of kernels (1 at their centre) at a position and mark, as (factor, exponent): factor x 2^exponent.
    pub(super) fn sum(&self, scale: &[f64], at: &[f64], mark: &[f64], vectors: Option<Isa>) -> (f64, f64) {
        let over = |shift: Option<f64>| match vectors {
            Some(isa) => dispatch(isa, Reduce { points: self, scale, at, mark, shift }),
            None => {
                let exponents = (0..self.n).map(|i| self.exponent(scale, at, mark, i));
                match shift {
                    Some(shift) => exponents.map(|exponent| (exponent - shift).exp2()).sum(),
                    None => exponents.fold(f64::NEG_INFINITY, f64::max),
                }
            }
        };
        // Some kernel is nearly always near; the largest term is factored out only if none is.
        let sum = over(Some(0.0));
        if sum > 1e-200 || self.n == 0 {
            return (sum, 0.0);
        }
        let shift = over(None).max(f64::MIN);
        (over(Some(shift)), shift)
    }
}

/// The sum of 2^(exponent - shift), or the largest exponent if there is no shift.
struct Reduce<'a> {
    points: &'a Points<'a>,
    scale: &'a [f64],
    at: &'a [f64],
    mark: &'a [f64],
    shift: Option<f64>,
}

impl Kernel for Reduce<'_> {
    type Out = f64;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let (d, lanes) = (s.double(), <S::Double as Double>::LANES);
        let n = self.points.n;
        let shift = d.splat(self.shift.unwrap_or(0.0));
        let (mut sum, mut best) = (d.splat(0.0), d.splat(f64::NEG_INFINITY));
        let mut rest = 0.0;
        for i in (0..n).step_by(lanes) {
            let places = add_squares(d, d.splat(0.0), self.points.places, self.scale, self.at, i);
            let exponent = add_squares(d, places, self.points.marks, self.points.mark_scale, self.mark, i);
            if self.shift.is_none() {
                // The padding repeats a point.
                best = d.max(best, exponent);
                continue;
            }
            let term = exp2_down_f64(d, d.sub(exponent, shift));
            if i + lanes <= n {
                sum = d.add(sum, term);
            } else {
                let mut terms = [0.0; 8];
                d.store(&mut terms, term);
                rest = terms[..n - i].iter().sum();
            }
        }
        if self.shift.is_some() { d.sum(sum) + rest } else { d.largest(best) }
    }
}

/// Subtracts from `exponent` the squared distances to one vector of `points`, `[dims, n padded]`, starting at point
/// `i`.
#[inline(always)]
fn add_squares<D: Double>(d: D, exponent: D::F, points: &[f64], scale: &[f64], at: &[f64], i: usize) -> D::F {
    let stride = points.len() / at.len().max(1);
    let mut exponent = exponent;
    for ((axis, x), scale) in at.iter().enumerate().zip(scale) {
        let distance = d.mul(d.sub(d.load(&points[axis * stride + i..]), d.splat(*x)), d.splat(*scale));
        exponent = d.neg_mul_add(distance, distance, exponent);
    }
    exponent
}

/// Sums of kernels and largest exponents at a panel of bins.
pub(super) struct Panel {
    pub(super) sum: [f64; BIN_PADDING],
    pub(super) best: [f64; BIN_PADDING],
}

/// Sums the kernels of `points` at the bins starting at `at`, in plain loops if `vectors` is `None`.
pub(super) fn at_panel(wide: &Wide, points: Points<'_>, at: usize, vectors: Option<Isa>) -> Panel {
    let mut panel = Panel { sum: [0.0; BIN_PADDING], best: [f64::MIN; BIN_PADDING] };
    match vectors {
        Some(isa) => dispatch(isa, Add { wide, points, at, panel: &mut panel }),
        None => plain(wide, points, at, &mut panel),
    }
    panel
}

fn plain(wide: &Wide, points: Points<'_>, at: usize, panel: &mut Panel) {
    let dims = wide.scale.len();
    let (stride, bins) = (points.places.len() / dims, wide.grid.len() / dims);
    for i in 0..points.n {
        for b in 0..BIN_PADDING {
            let mut exponent = 0.0;
            for (d, scale) in wide.scale.iter().enumerate() {
                let distance = (wide.grid[d * bins + at + b] - points.places[d * stride + i]) * scale;
                exponent -= distance * distance;
            }
            panel.best[b] = panel.best[b].max(exponent);
            panel.sum[b] += exponent.exp2();
        }
    }
}

struct Add<'a> {
    wide: &'a Wide,
    points: Points<'a>,
    at: usize,
    panel: &'a mut Panel,
}

impl Kernel for Add<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.wide.scale.len() {
            1 => self.over::<S::Double, 1>(s.double()),
            2 => self.over::<S::Double, 2>(s.double()),
            _ => self.over::<S::Double, 0>(s.double()),
        }
    }
}

/// Number of vectors whose exponentials hide each other's latency.
const TOGETHER: usize = 4;

impl Add<'_> {
    /// `DIMS` is the number of dimensions if known at compile time, else 0.
    #[inline(always)]
    fn over<D: Double, const DIMS: usize>(self, d: D) {
        let Add { wide, points, at, panel } = self;
        let dims = if DIMS > 0 { DIMS } else { wide.scale.len() };
        let (stride, bins) = (points.places.len() / dims, wide.grid.len() / dims);
        for first in (0..BIN_PADDING).step_by(TOGETHER * D::LANES) {
            let mut sum = [d.splat(0.0); TOGETHER];
            let mut best = [d.splat(f64::MIN); TOGETHER];
            for i in 0..points.n {
                let mut exponent = [d.splat(0.0); TOGETHER];
                for axis in 0..dims {
                    let (x, scale) = (d.splat(points.places[axis * stride + i]), d.splat(wide.scale[axis]));
                    for (v, exponent) in exponent.iter_mut().enumerate() {
                        let bin = d.load(&wide.grid[axis * bins + at + first + v * D::LANES..]);
                        let distance = d.mul(d.sub(bin, x), scale);
                        *exponent = d.neg_mul_add(distance, distance, *exponent);
                    }
                }
                for v in 0..TOGETHER {
                    best[v] = d.max(best[v], exponent[v]);
                    sum[v] = d.add(sum[v], exp2_down_f64(d, exponent[v]));
                }
            }
            for v in 0..TOGETHER {
                d.store(&mut panel.sum[first + v * D::LANES..], sum[v]);
                d.store(&mut panel.best[first + v * D::LANES..], best[v]);
            }
        }
    }
}
