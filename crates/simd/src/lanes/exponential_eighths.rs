//! Exponentials by a table of eight powers, for CPUs where a lookup in one register is one instruction and a lookup in
//! memory is a gather.
//!
//! Several vectors go through each step together. A CPU holds about sixty instructions that wait for operands; with one
//! vector after another, four of these chains fill it, and the multipliers are idle half of the time.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "one step for all vectors is one loop over several arrays")]
#![allow(clippy::excessive_precision, reason = "every digit of the f32 that is meant")]

use std::arch::x86_64::*;
use std::f32::consts::{LN_2, LOG2_E};

use super::Simd;
use super::avx2::Avx2;

/// 2^(j/8), minus j in the bit positions where the shifted, rounded argument still contains it.
static POWERS_LESS_INDEX: [f32; 8] = {
    let mut table = [
        1.000000000e+00,
        1.090507746e+00,
        1.189207077e+00,
        1.296839595e+00,
        1.414213538e+00,
        1.542210817e+00,
        1.681792855e+00,
        1.834008098e+00,
    ];
    let mut j = 0;
    while j < 8 {
        table[j] = f32::from_bits(f32::to_bits(table[j]) - ((j as u32) << 20));
        j += 1;
    }
    table
};

/// Adding this rounds to multiples of 1/8; the low bits then hold eight times the value, below twelve zero bits.
const ROUND_TO_8THS: f32 = 1_572_864.0;

/// e^r = 1 + r + r^2 (SQUARE + r / 6) on |r| <= R = ln 2 / 16: replaces the term r^4 / 24 by 2 (sqrt(2) - 1) R^2 r^2 /
/// 24, with an error of 2.6e-8.
const SQUARE: f32 = 0.500_064_8;

/// 2^k for the multiple k of 1/8 in `rounded`, with -126 <= k < 128; 0 for k = -127, infinity for 128.
#[inline(always)]
fn power(s: Avx2, rounded: __m256) -> __m256 {
    let bits = s.bits(rounded);
    // SAFETY: the token proves the instructions, and the table has eight entries.
    unsafe {
        let power = _mm256_permutevar8x32_ps(_mm256_loadu_ps(POWERS_LESS_INDEX.as_ptr()), bits);
        _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(power), _mm256_slli_epi32::<20>(bits)))
    }
}

/// (2^k, e^r - 1) with x = k ln 2 + r for |x| <= 100; for NaN the second is NaN.
#[inline(always)]
fn parts<const N: usize>(s: Avx2, x: [__m256; N]) -> ([__m256; N], [__m256; N]) {
    let (mut rounded, mut r, mut square, mut p) = (x, x, x, x);
    for i in 0..N {
        rounded[i] = s.mul_add(x[i], s.splat(LOG2_E), s.splat(ROUND_TO_8THS));
    }
    for i in 0..N {
        p[i] = s.sub(rounded[i], s.splat(ROUND_TO_8THS));
    }
    for i in 0..N {
        r[i] = s.neg_mul_add(p[i], s.splat(LN_2), x[i]);
    }
    for i in 0..N {
        p[i] = s.mul_add(r[i], s.splat(1.0 / 6.0), s.splat(SQUARE));
        square[i] = s.mul(r[i], r[i]);
    }
    for i in 0..N {
        p[i] = s.mul_add(square[i], p[i], r[i]);
        rounded[i] = power(s, rounded[i]);
    }
    (rounded, p)
}

/// As [`Simd::fast_exp`].
#[inline(always)]
pub(super) fn fast_exp(s: Avx2, x: __m256) -> __m256 {
    // x comes second, because min and max return their second operand for NaN. The limits are those of the exponent:
    // 2^-127 is 0 and 2^128 infinity.
    let ([power], [q]) = parts(s, [s.min(s.splat(88.7), s.max(s.splat(-88.0), x))]);
    s.mul(power, s.add(q, s.splat(1.0)))
}

/// As [`Simd::one_and_exp_minus`].
#[inline(always)]
pub(super) fn one_and_exp_minus<const N: usize>(s: Avx2, mut x: [__m256; N]) -> [__m256; N] {
    // As above with -k and -r. e^r is a single sum, because its last bit does not affect the result.
    for x in &mut x {
        *x = s.min(s.splat(88.0), s.max(s.splat(-88.7), *x));
    }
    let (mut rounded, mut r, mut square, mut p) = (x, x, x, x);
    for i in 0..N {
        rounded[i] = s.mul_add(x[i], s.splat(-LOG2_E), s.splat(ROUND_TO_8THS));
    }
    for i in 0..N {
        p[i] = s.sub(rounded[i], s.splat(ROUND_TO_8THS));
    }
    for i in 0..N {
        r[i] = s.mul_add(p[i], s.splat(LN_2), x[i]);
    }
    for i in 0..N {
        p[i] = s.neg_mul_add(r[i], s.splat(1.0 / 6.0), s.splat(SQUARE));
        square[i] = s.mul(r[i], r[i]);
        r[i] = s.sub(s.splat(1.0), r[i]);
    }
    for i in 0..N {
        p[i] = s.mul_add(square[i], p[i], r[i]);
        rounded[i] = power(s, rounded[i]);
    }
    for i in 0..N {
        p[i] = s.mul_add(rounded[i], p[i], s.splat(1.0));
    }
    p
}

/// Below this, e^x is subnormal or nearly so.
const LEAST: f32 = -87.3;

/// As [`Simd::exp_down`]: 0 below [`LEAST`].
#[inline(always)]
pub(super) fn exp_down(s: Avx2, x: __m256) -> __m256 {
    let ([power], [q]) = parts(s, [x]);
    // SAFETY: the token proves the instructions. The comparison is true for NaN, which is kept.
    unsafe { _mm256_and_ps(s.mul_add(power, q, power), _mm256_cmp_ps::<_CMP_NLT_UQ>(x, s.splat(LEAST))) }
}

/// As [`Simd::exp_down_each`]: without exact handling of subnormals, it needs two operations fewer than [`exp_down`].
#[inline(always)]
pub(super) fn exp_down_each<const N: usize>(s: Avx2, mut x: [__m256; N]) -> [__m256; N] {
    for x in &mut x {
        // x comes second, because max returns its second operand for NaN.
        *x = s.max(s.splat(-88.0), *x);
    }
    let (power, q) = parts(s, x);
    for i in 0..N {
        x[i] = s.mul_add(power[i], q[i], power[i]);
    }
    x
}

/// As [`Simd::exp2_down_each`].
#[inline(always)]
pub(super) fn exp2_down<const N: usize>(s: Avx2, mut x: [__m256; N]) -> [__m256; N] {
    for x in &mut x {
        *x = s.max(*x, s.splat(-127.0));
    }
    exp2(s, x)
}

/// 2^x for -127 <= x <= 127, NaN for NaN; 0 at -127, and any subnormal or 0 below -126.
#[inline(always)]
fn exp2<const N: usize>(s: Avx2, x: [__m256; N]) -> [__m256; N] {
    let (mut rounded, mut r, mut p, mut e) = (x, x, x, x);
    for i in 0..N {
        rounded[i] = s.add(x[i], s.splat(ROUND_TO_8THS));
    }
    for i in 0..N {
        p[i] = s.sub(rounded[i], s.splat(ROUND_TO_8THS));
    }
    for i in 0..N {
        r[i] = s.sub(x[i], p[i]);
    }
    for i in 0..N {
        p[i] = s.mul_add(r[i], s.splat(LN_2 * LN_2 * LN_2 / 6.0), s.splat(SQUARE * LN_2 * LN_2));
    }
    for i in 0..N {
        p[i] = s.mul_add(p[i], r[i], s.splat(LN_2));
    }
    for i in 0..N {
        e[i] = power(s, rounded[i]);
    }
    for i in 0..N {
        r[i] = s.mul(e[i], r[i]);
    }
    for i in 0..N {
        e[i] = s.mul_add(r[i], p[i], e[i]);
    }
    e
}
