//! ln x by a polynomial, for each lane.
#![allow(clippy::excessive_precision, reason = "the digits as the fit printed them")]

use super::Simd;

/// (ln(1 + f) - f + f^2/2) / f^3 on sqrt(1/2) <= 1 + f <= sqrt 2, from testdata/approximations/fit.py.
const Q: [f32; 9] = [
    3.333_333_1e-1,
    -2.499_999_7e-1,
    2.000_071_6e-1,
    -1.666_780_2e-1,
    1.424_905_8e-1,
    -1.242_568_7e-1,
    1.168_542e-1,
    -1.147_973_4e-1,
    6.971_611_5e-2,
];

const LN2_HIGH: f32 = 0.693_359_375;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// ln x, within 1.5 units in the last place; -infinity at 0, NaN for negative x, infinity at infinity. NaN stays NaN.
///
/// Method: x = 2^n (1 + f), then a polynomial in f (Cody and Waite, 1980, chapter 5).
#[inline(always)]
pub fn ln<S: Simd>(s: S, x: S::F) -> S::F {
    let (m, n) = s.split(x);
    let upper = s.lt(s.splat(std::f32::consts::SQRT_2), m);
    let m = s.select(upper, s.mul(m, s.splat(0.5)), m);
    let n = s.select(upper, s.add(n, s.splat(1.0)), n);
    let f = s.sub(m, s.splat(1.0));
    let mut q = s.splat(Q[8]);
    for c in [Q[7], Q[6], Q[5], Q[4], Q[3], Q[2], Q[1], Q[0]] {
        q = s.mul_add(q, f, s.splat(c));
    }
    let square = s.mul(f, f);
    let tail = s.mul_add(n, s.splat(LN2_LOW), s.mul(s.mul(square, f), q));
    let tail = s.neg_mul_add(square, s.splat(0.5), tail);
    let y = s.mul_add(n, s.splat(LN2_HIGH), s.add(f, tail));
    let y = s.select(s.lt(s.splat(0.0), x), y, s.splat(f32::NAN));
    let y = s.select(s.eq(x, s.splat(0.0)), s.splat(f32::NEG_INFINITY), y);
    s.select(s.eq(x, s.splat(f32::INFINITY)), x, y)
}
