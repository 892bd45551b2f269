//! f32 and f64 for the loops of `plain.rs`: access to the model, exponential, logarithm and matrix product.

use std::ops::{Add, AddAssign, Mul, Range, Sub};

use super::data::Spikes;
use super::model::{ClusterlessDecoder, Electrode, near};
use super::rows::Marked;
use ellwand_simd::buffer::Plain;
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::{Double, Kernel, Simd, dispatch, exp2_down, exp2_down_f64, ln, ln_f64};

/// A number type to compute with.
pub(super) trait Real:
    Plain + Default + PartialOrd + AddAssign + Add<Output = Self> + Mul<Output = Self> + Sub<Output = Self>
{
    /// The most negative finite number.
    const MIN: Self;
    /// True if fused kernels take coordinates relative to the middle of a panel, to resolve small distances.
    const RELATIVE: bool;

    /// Converts to the nearest number of this type.
    fn of(x: f64) -> Self;
    fn to_f64(self) -> f64;
    /// True if the range of this type holds the kernels of an electrode.
    fn holds(electrode: &Electrode) -> bool;
    /// The marks of the kept spikes `block`.
    fn marks<'a>(marked: &'a Marked, spikes: &'a Spikes<'_>, block: &Range<usize>) -> &'a [Self];
    /// Exponent of 2 of the mark kernel between encoding spike `spike` and mark `y`.
    fn mark_exponent(electrode: &Electrode, y: &[Self], spike: usize) -> Self;
    /// Exponents of 2 of the position kernel of encoding spike `spike` at the bins from `first` on, minus `nearest`
    /// there.
    fn place_exponents(model: &ClusterlessDecoder, electrode: &Electrode, spike: usize, first: usize, out: &mut [Self]);
    /// The value subtracted from the exponents at a bin.
    fn nearest(electrode: &Electrode, bin: usize) -> f64;
    /// Computes 2^x in place.
    fn powers(x: &mut [Self], vectors: Option<Isa>);
    /// Computes ln x in place.
    fn logarithms(x: &mut [Self], vectors: Option<Isa>);
    /// c += w p by the library: w `[m, k]` and c `[m, n]` have strided rows, p is `[k, n]`.
    fn gemm(shape: (usize, usize, usize), w: (&[Self], usize), p: &[Self], c: (&mut [Self], usize));
}

/// Defines the call of the library's matrix product for a type.
macro_rules! gemm {
    ($gemm:path, $type:ty) => {
        #[allow(unsafe_code)]
        fn gemm(
            (m, k, n): (usize, usize, usize),
            (w, w_stride): (&[$type], usize),
            p: &[$type],
            (c, c_stride): (&mut [$type], usize),
        ) {
            assert!(w.len() >= (m - 1) * w_stride + k && p.len() >= k * n && c.len() >= (m - 1) * c_stride + n);
            let (w, p, c, n_stride) = (w.as_ptr(), p.as_ptr(), c.as_mut_ptr(), n as isize);
            let (w_stride, c_stride) = (w_stride as isize, c_stride as isize);
            // SAFETY: the assertion above ensures that the three matrices are inside their slices.
            unsafe { $gemm(m, k, n, 1.0, w, w_stride, 1, p, n_stride, 1, 1.0, c, c_stride, 1) }
        }
    };
}

impl Real for f32 {
    const MIN: f32 = f32::MIN;
    const RELATIVE: bool = true;

    fn of(x: f64) -> f32 {
        x as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn holds(electrode: &Electrode) -> bool {
        electrode.fits_f32
    }
    fn marks<'a>(marked: &'a Marked, spikes: &'a Spikes<'_>, block: &Range<usize>) -> &'a [f32] {
        &marked.marks[block.start * spikes.n_features..block.end * spikes.n_features]
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
    fn nearest(electrode: &Electrode, bin: usize) -> f64 {
        f64::from(electrode.nearest[bin])
    }
    fn powers(x: &mut [f32], vectors: Option<Isa>) {
        match vectors {
            Some(isa) => dispatch(isa, Map { x, ln: false }),
            None => x.iter_mut().for_each(|x| *x = x.exp2()),
        }
    }
    fn logarithms(x: &mut [f32], vectors: Option<Isa>) {
        match vectors {
            Some(isa) => dispatch(isa, Map { x, ln: true }),
            None => x.iter_mut().for_each(|x| *x = x.ln()),
        }
    }
    gemm!(matrixmultiply::sgemm, f32);
}

impl Real for f64 {
    const MIN: f64 = f64::MIN;
    const RELATIVE: bool = false;

    fn of(x: f64) -> f64 {
        x
    }
    fn to_f64(self) -> f64 {
        self
    }
    fn holds(_: &Electrode) -> bool {
        true
    }
    fn marks<'a>(marked: &'a Marked, spikes: &'a Spikes<'_>, block: &Range<usize>) -> &'a [f64] {
        let f = spikes.n_features;
        &spikes.features[(marked.first + block.start) * f..(marked.first + block.end) * f]
    }
    fn mark_exponent(electrode: &Electrode, y: &[f64], spike: usize) -> f64 {
        let (stride, wide) = (electrode.stride(), &electrode.wide);
        let square = |(f, y): (usize, &f64)| ((y - wide.marks[f * stride + spike]) * wide.scale[f]).powi(2);
        -y.iter().enumerate().map(square).sum::<f64>()
    }
    fn place_exponents(model: &ClusterlessDecoder, electrode: &Electrode, spike: usize, first: usize, out: &mut [f64]) {
        let Some(wide) = &model.wide else { return };
        let (stride, padded) = (electrode.stride(), model.rarity.len());
        out.fill(0.0);
        for (d, scale) in wide.scale.iter().enumerate() {
            let x = electrode.wide.places[d * stride + spike];
            for (out, c) in out.iter_mut().zip(&wide.grid[d * padded + first..]) {
                let distance = (c - x) * scale;
                *out -= distance * distance;
            }
        }
    }
    fn nearest(_: &Electrode, _: usize) -> f64 {
        0.0
    }
    fn powers(x: &mut [f64], vectors: Option<Isa>) {
        match vectors {
            Some(isa) => dispatch(isa, MapF64 { x, ln: false }),
            None => x.iter_mut().for_each(|x| *x = x.exp2()),
        }
    }
    fn logarithms(x: &mut [f64], vectors: Option<Isa>) {
        match vectors {
            Some(isa) => dispatch(isa, MapF64 { x, ln: true }),
            None => x.iter_mut().for_each(|x| *x = x.ln()),
        }
    }
    gemm!(matrixmultiply::dgemm, f64);
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

struct MapF64<'a> {
    x: &'a mut [f64],
    ln: bool,
}

impl Kernel for MapF64<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (d, lanes) = (s.double(), <S::Double as Double>::LANES);
        for x in self.x.chunks_mut(lanes) {
            let mut part = [0.0; 8];
            part[..x.len()].copy_from_slice(x);
            let v = d.load(&part);
            d.store(&mut part, if self.ln { ln_f64(d, v) } else { exp2_down_f64(d, v) });
            x.copy_from_slice(&part[..x.len()]);
        }
    }
}
