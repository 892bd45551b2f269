//! GELU of a vector, in the way that suits the instructions: x Phi(x) = max(x, 0) - h(|x|), where h(a) = a Phi(-a) comes from a
//! table where look-ups are quick, and from the fourth power of a polynomial on AVX2.
#![allow(clippy::excessive_precision, reason = "the digits as the fit printed them")]

use super::gelu_table::{self, Table};
use crate::lanes::Simd;

/// x Phi(x), or its tanh form: within 8e-7 of the exact value for |x| < 8, and within 1e-7 where x < -1. NaN and -infinity give NaN.
#[inline(always)]
pub(super) fn gelu<S: Simd, const TANH: bool>(s: S, x: S::F) -> S::F {
    match (S::TABLES, TANH) {
        (true, false) => by_table(s, &gelu_table::EXACT, x),
        (true, true) => by_table(s, &gelu_table::TANH, x),
        (false, false) => by_power(s, &EXACT, x),
        (false, true) => by_power(s, &TANH_FORM, x),
    }
}

/// Adding this rounds to multiples of 1/4, four times which then stand in the low bits.
const ROUND_TO_QUARTERS: f32 = 3_145_728.0;

#[inline(always)]
fn by_table<S: Simd>(s: S, table: &Table, x: S::F) -> S::F {
    // The last segment is 0 and begins at 7.625. NaN and -infinity become NaN by the part that grows.
    let a = s.abs_up_to(x, s.splat(7.75));
    let rounded = s.add(a, s.splat(ROUND_TO_QUARTERS));
    let segment = s.bits(rounded);
    let t = s.sub(a, s.sub(rounded, s.splat(ROUND_TO_QUARTERS)));
    let mut h = s.look_up(&table[4], segment);
    for j in [3, 2, 1] {
        h = s.mul_add(h, t, s.look_up(&table[j], segment));
    }
    // What does not depend on the sum is ready before it: the processor holds too few waiting instructions to hide one more in
    // the chain of sums.
    s.neg_mul_add(h, t, s.sub(s.positive_part(x), s.look_up(&table[0], segment)))
}

/// Phi(-a) = p^4 with p = w r(w - middle) + w / 8, w = max(limit - a, 0), as testdata/approximations/gelu_power.py printed it.
struct Power<const N: usize> {
    limit: f32,
    middle: f32,
    /// The coefficients of r, lowest first.
    r: [f32; N],
}

/// The error of a p^4 is at most 3.4e-7, and 2.8e-8 from a = 1 on.
static EXACT: Power<9> = Power {
    limit: 6.125,
    middle: 3.375,
    r: [
        -5.577362329e-02,
        3.230409697e-02,
        2.607461996e-03,
        -1.622674870e-03,
        -3.069362137e-04,
        3.400256537e-05,
        1.667966353e-05,
        -7.004799158e-07,
        -2.816893812e-07,
    ],
};

/// With the tanh form in place of Phi; the error is at most 6.1e-7, and 3.9e-8 from a = 1 on.
static TANH_FORM: Power<12> = Power {
    limit: 5.75,
    middle: 3.5,
    r: [
        -3.025992215e-02,
        3.562740609e-02,
        -1.718755928e-03,
        -1.913129701e-03,
        -4.731751687e-06,
        1.015686485e-05,
        5.537113452e-07,
        5.531168881e-06,
        4.496772306e-07,
        -3.661256187e-07,
        -2.661359666e-08,
        2.018173184e-09,
    ],
};

#[inline(always)]
fn by_power<S: Simd, const N: usize>(s: S, power: &Power<N>, x: S::F) -> S::F {
    let zero = s.splat(0.0);
    let limit = s.splat(power.limit);
    // |x| below 0, at most the limit above. -infinity gives infinity, whose product with p^4 = 0 is NaN; NaN gives the limit, since
    // the operand that is returned for NaN stands second here and last.
    let a = s.max(s.sub(zero, x), s.min(x, limit));
    let w = s.max(s.sub(limit, a), zero);
    // p is near w / 8 where its error counts most, four times. That part is exact, so that p is as good as rounded once.
    let p = s.mul_add(w, polynomial(s, &power.r, s.sub(w, s.splat(power.middle))), s.mul(w, s.splat(0.125)));
    let square = s.mul(p, p);
    s.neg_mul_add(a, s.mul(square, square), s.max(zero, x))
}

/// The polynomial with coefficients `c`, lowest first, at `t`: four terms at a time (G. Estrin, Organization of computer systems,
/// 1960), because one after the other takes twice the time on two units that add and multiply.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, c: &[f32; N], t: S::F) -> S::F {
    let square = s.mul(t, t);
    let fourth = s.mul(square, square);
    let four = |c: &[f32]| match c {
        [a] => s.splat(*a),
        [a, b] => s.mul_add(s.splat(*b), t, s.splat(*a)),
        [a, b, c] => s.mul_add(s.splat(*c), square, s.mul_add(s.splat(*b), t, s.splat(*a))),
        [a, b, c, d, ..] => {
            s.mul_add(s.mul_add(s.splat(*d), t, s.splat(*c)), square, s.mul_add(s.splat(*b), t, s.splat(*a)))
        }
        [] => s.splat(0.0),
    };
    let mut from = N.saturating_sub(1) / 4 * 4;
    let mut sum = four(&c[from..]);
    while from > 0 {
        from -= 4;
        sum = s.mul_add(sum, fourth, four(&c[from..from + 4]));
    }
    sum
}
