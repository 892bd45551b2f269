//! GELU of vectors, by the method that suits the instruction set: x Phi(x) = max(x, 0) - h(|x|), where h(a) = a Phi(-a)
//! comes from a table if lookups are fast; otherwise Phi(-a) = 2^z(a) with a polynomial z.

#![allow(clippy::needless_range_loop, reason = "one step for all vectors is one loop over several arrays")]

use super::gelu_exponent;
use super::gelu_table::{self, Table};
use ellwand_simd::lanes::Simd;

/// x Phi(x), or its tanh form, of several vectors: within 8e-7 of the exact value for |x| < 8, within 1e-7 (tanh
/// 1.5e-7) for x < -1, and for |x| < 1 within 1e-6 (tanh 2e-6) of the value itself. NaN and -infinity give NaN.
#[inline(always)]
pub(super) fn gelu<S: Simd, const TANH: bool, const N: usize>(s: S, mut x: [S::F; N]) -> [S::F; N] {
    if S::QUICK_LOOK_UP {
        for x in &mut x {
            *x = by_table(s, if TANH { &gelu_table::TANH } else { &gelu_table::EXACT }, *x);
        }
        return x;
    }
    if TANH { by_exponent(s, &gelu_exponent::TANH, x) } else { by_exponent(s, &gelu_exponent::EXACT, x) }
}

/// Adding this rounds to multiples of 1/4; the low bits then hold four times the value.
const ROUND_TO_QUARTERS: f32 = 3_145_728.0;

#[inline(always)]
fn by_table<S: Simd>(s: S, table: &Table, x: S::F) -> S::F {
    // The last segment is 0 and starts at 7.625. NaN and -infinity become NaN through the positive part.
    let a = s.abs_up_to(x, s.splat(7.75));
    let rounded = s.add(a, s.splat(ROUND_TO_QUARTERS));
    let segment = s.bits(rounded);
    let t = s.sub(a, s.sub(rounded, s.splat(ROUND_TO_QUARTERS)));
    let mut h = s.look_up(&table[4], segment);
    for j in [3, 2, 1] {
        h = s.mul_add(h, t, s.look_up(&table[j], segment));
    }
    // The part that does not depend on the sum is computed before it: one addition less in the chain, 5 % of the time
    // in the caches of a Zen 4.
    s.neg_mul_add(h, t, s.sub(s.positive_part(x), s.look_up(&table[0], segment)))
}

#[inline(always)]
fn by_exponent<S: Simd, const C: usize, const N: usize>(s: S, z: &[f32; C], x: [S::F; N]) -> [S::F; N] {
    let mut a = x;
    for i in 0..N {
        a[i] = s.abs(x[i]);
    }
    // Far from 0 the exponent goes to -infinity and the power to 0, whose product with -infinity is NaN.
    let mut p = s.exp2_down_each(polynomial(s, z, a));
    for i in 0..N {
        p[i] = s.by_sign(x[i], p[i], s.sub(s.splat(1.0), p[i]));
    }
    for i in 0..N {
        p[i] = s.mul(x[i], p[i]);
    }
    p
}

/// The polynomial with coefficients `z`, lowest first, by pairs of terms and the square (G. Estrin, Organization of
/// computer systems, 1960): half the chain for one more multiplication.
#[inline(always)]
fn polynomial<S: Simd, const C: usize, const N: usize>(s: S, z: &[f32; C], a: [S::F; N]) -> [S::F; N] {
    let (mut p, mut square, mut q) = (a, a, a);
    for i in 0..N {
        square[i] = s.mul(a[i], a[i]);
    }
    // The highest term is unpaired if their number is odd.
    let top = (C - 1) / 2 * 2;
    for i in 0..N {
        p[i] = if top + 1 < C { s.mul_add(a[i], s.splat(z[top + 1]), s.splat(z[top])) } else { s.splat(z[top]) };
    }
    for c in (0..top / 2).rev() {
        for i in 0..N {
            q[i] = s.mul_add(a[i], s.splat(z[2 * c + 1]), s.splat(z[2 * c]));
        }
        for i in 0..N {
            p[i] = s.mul_add(p[i], square[i], q[i]);
        }
    }
    p
}
