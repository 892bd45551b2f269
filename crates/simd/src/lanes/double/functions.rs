//! 2^x and ln x in f64.
#![allow(clippy::excessive_precision, clippy::approx_constant, reason = "the digits as the fit printed them")]

use super::Double;

/// (2^r - 1) / r on |r| <= 1/2, from testdata/approximations/fit.py: 2^r to 2.0e-17.
const P: [f64; 11] = [
    6.931_471_805_599_452_86e-1,
    2.402_265_069_591_009_72e-1,
    5.550_410_866_482_159_70e-2,
    9.618_129_107_606_888_25e-3,
    1.333_355_814_641_693_56e-3,
    1.540_353_044_173_604_99e-4,
    1.525_273_382_983_611_92e-5,
    1.321_544_258_792_168_93e-6,
    1.017_806_244_584_577_37e-7,
    7.072_585_949_269_223_39e-9,
    4.454_960_598_186_518_56e-10,
];

/// (ln(1 + f) - 2 s) / s with s = f / (2 + f), a polynomial in s^2 within 2^-58.45 of it (FreeBSD's msun, e_log.c).
const L: [f64; 7] = [
    6.666_666_666_666_735_130e-1,
    3.999_999_999_940_941_908e-1,
    2.857_142_874_366_239_149e-1,
    2.222_219_843_214_978_396e-1,
    1.818_357_216_161_805_012e-1,
    1.531_383_769_920_937_332e-1,
    1.479_819_860_511_658_591e-1,
];

/// The upper part of ln 2, with trailing zeros so that its product with an exponent is exact; and the remainder.
const LN2_HIGH: f64 = 6.931_471_803_691_238_164_90e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_700_02e-10;

/// 2^x for x <= 0 (also correct up to 1), within 1.5 units in the last place (2 without fused multiply-add); subnormal
/// and eventually 0 below -1022.
#[inline(always)]
pub fn exp2_down<D: Double>(d: D, x: D::F) -> D::F {
    let x = d.max(x, d.splat(-1150.0));
    let n = d.round(x);
    let r = d.sub(x, n);
    let mut p = d.splat(P[10]);
    for c in P[..10].iter().rev() {
        p = d.mul_add(p, r, d.splat(*c));
    }
    d.scale(d.mul_add(p, r, d.splat(1.0)), n)
}

/// ln x, within 1.5 units in the last place, for x >= 0; -infinity at 0.
///
/// Method: x = 2^n (1 + f) with sqrt(1/2) <= 1 + f < sqrt 2, then 2 artanh(f / (2 + f)).
#[inline(always)]
pub fn ln<D: Double>(d: D, x: D::F) -> D::F {
    let (m, n) = d.split(x);
    let upper = d.lt(d.splat(std::f64::consts::SQRT_2), m);
    let m = d.select(upper, d.mul(m, d.splat(0.5)), m);
    let n = d.select(upper, d.add(n, d.splat(1.0)), n);
    let f = d.sub(m, d.splat(1.0));
    let s = d.div(f, d.add(f, d.splat(2.0)));
    let z = d.mul(s, s);
    let mut r = d.splat(L[6]);
    for c in L[..6].iter().rev() {
        r = d.mul_add(r, z, d.splat(*c));
    }
    r = d.mul(r, z);
    let half = d.mul(d.mul(f, f), d.splat(0.5));
    let tail = d.mul_add(s, d.add(half, r), d.mul(n, d.splat(LN2_LOW)));
    let y = d.mul_add(n, d.splat(LN2_HIGH), d.sub(f, d.sub(half, tail)));
    d.select(d.eq(x, d.splat(0.0)), d.splat(f64::NEG_INFINITY), y)
}
