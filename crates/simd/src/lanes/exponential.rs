//! e^x by a polynomial, for each lane.
#![allow(clippy::excessive_precision, reason = "the digits as the fit printed them")]

use super::Simd;

/// (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2, from testdata/approximations/fit.py.
const P: [f32; 5] = [5.0e-1, 1.666_657_7e-1, 4.166_655_5e-2, 8.363_173e-3, 1.392_617_6e-3];

/// ln 2 in two parts; the first has few bits, so that its product with an exponent is exact.
const LN2_HIGH: f32 = 0.693_359_375;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// e^x, within 1.5 units in the last place (2 without fused multiply-add); infinity above 88.73, subnormal and
/// eventually 0 below -87.34; NaN stays NaN.
///
/// Method: x = n ln 2 + r with |r| <= ln 2 / 2, and a polynomial for e^r (W. J. Cody and W. Waite, Software Manual for
/// the Elementary Functions, 1980, chapter 6).
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    // x comes second, because min and max return their second operand for NaN.
    let x = s.min(s.splat(100.0), s.max(s.splat(-110.0), x));
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.neg_mul_add(n, s.splat(LN2_LOW), s.neg_mul_add(n, s.splat(LN2_HIGH), x));
    let mut p = s.splat(P[4]);
    for c in [P[3], P[2], P[1], P[0]] {
        p = s.mul_add(p, r, s.splat(c));
    }
    let e = s.add(s.mul_add(s.mul(r, r), p, r), s.splat(1.0));
    s.scale(e, n)
}

/// 2^r on |r| <= 1/2, from testdata/approximations/fit.py.
const Q: [f32; 6] =
    [1.000_000_075, 6.931_471_88e-1, 2.402_210_749e-1, 5.550_357_114e-2, 9.676_031_918e-3, 1.339_086_336e-3];

/// 2^x for x <= 127, within 2.5 units in the last place; below -126 it may be 0, below -149 it is; NaN stays NaN.
/// Cheaper than [`exp`], for softmax weights: their argument is never above 0, and their scale absorbs the factor log2
/// e.
#[inline(always)]
pub fn exp2<S: Simd>(s: S, x: S::F) -> S::F {
    // x comes second, because max returns its second operand for NaN.
    let x = s.max(s.splat(-160.0), x);
    let n = s.round(x);
    let r = s.sub(x, n);
    let mut p = s.splat(Q[5]);
    for c in [Q[4], Q[3], Q[2], Q[1], Q[0]] {
        p = s.mul_add(p, r, s.splat(c));
    }
    s.scale_down(p, n)
}
