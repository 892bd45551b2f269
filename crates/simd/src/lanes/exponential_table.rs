//! e^x by a table of 32 powers, for CPUs where a table lookup is one instruction.
#![allow(unsafe_code)]
#![allow(clippy::excessive_precision, reason = "every digit of the f32 that is meant")]

use std::arch::x86_64::*;
use std::f32::consts::LN_2;

use super::Simd;
use super::avx512::Avx512;

/// 2^(j/32) as f32.
static POWERS: [f32; 32] = [
    1.000000000e+00,
    1.021897197e+00,
    1.044273734e+00,
    1.067140460e+00,
    1.090507746e+00,
    1.114386797e+00,
    1.138788581e+00,
    1.163724899e+00,
    1.189207077e+00,
    1.215247393e+00,
    1.241857767e+00,
    1.269050956e+00,
    1.296839595e+00,
    1.325236678e+00,
    1.354255557e+00,
    1.383909941e+00,
    1.414213538e+00,
    1.445180774e+00,
    1.476826191e+00,
    1.509164453e+00,
    1.542210817e+00,
    1.575980902e+00,
    1.610490322e+00,
    1.645755529e+00,
    1.681792855e+00,
    1.718619347e+00,
    1.756252170e+00,
    1.794709086e+00,
    1.834008098e+00,
    1.874167681e+00,
    1.915206552e+00,
    1.957144141e+00,
];

/// Adding this rounds to multiples of 1/32, whose fraction is then in the low five bits.
const ROUND_TO_32NDS: f32 = 393_216.0;

/// e^x = 2^(k/32) e^r with |r| <= ln 2 / 64, for tokens whose `scale` takes the floor of its second operand (P. T. P.
/// Tang, Table-driven implementation of the exponential function, 1989, with a shorter polynomial).
#[inline(always)]
pub(super) fn fast_exp<S: Simd>(s: S, x: S::F) -> S::F {
    // x comes second, because min and max return their second operand for NaN.
    let x = s.min(s.splat(100.0), s.max(s.splat(-105.0), x));
    let rounded = s.mul_add(x, s.splat(std::f32::consts::LOG2_E), s.splat(ROUND_TO_32NDS));
    let k = s.sub(rounded, s.splat(ROUND_TO_32NDS));
    let r = s.neg_mul_add(k, s.splat(LN_2), x);
    // e^r - 1; the omitted term is below 6e-10.
    let q = s.mul_add(r, s.splat(1.0 / 6.0), s.splat(0.5));
    let q = s.mul_add(s.mul(q, r), r, r);
    let power = s.look_up(&POWERS, s.bits(rounded));
    s.scale(s.mul_add(power, q, power), k)
}

/// [`POWERS`], minus j in the bit positions where the shifted, rounded argument still contains it.
static POWERS_LESS_INDEX: [f32; 32] = {
    let mut table = POWERS;
    let mut j = 0;
    while j < 32 {
        table[j] = f32::from_bits(POWERS[j].to_bits() - ((j as u32) << 18));
        j += 1;
    }
    table
};

/// Below this, e^x is subnormal or nearly so.
const LEAST: f32 = -87.3;

/// e^r - 1 = r (LINEAR + r / 2) on |r| <= R = ln 2 / 64: replaces the cubic term r^3 / 6 by R^2 r / 8, with an error of
/// 5.3e-8.
const LINEAR: f32 = 1.000_014_7;

/// e^x for x <= 0, 0 below [`LEAST`]. As [`fast_exp`], but adds the exponent as an integer and uses a polynomial one
/// degree lower.
#[inline(always)]
pub(super) fn exp_down(s: Avx512, x: __m512) -> __m512 {
    let rounded = s.mul_add(x, s.splat(std::f32::consts::LOG2_E), s.splat(ROUND_TO_32NDS));
    let k = s.sub(rounded, s.splat(ROUND_TO_32NDS));
    let r = s.neg_mul_add(k, s.splat(LN_2), x);
    let q = s.mul_add(r, s.splat(0.5), s.splat(LINEAR));
    let power = s.look_up(&POWERS_LESS_INDEX, s.bits(rounded));
    // SAFETY: the token proves the instructions. The comparison is true for NaN, which the product keeps.
    unsafe {
        let keep = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, s.splat(LEAST));
        let exponent = _mm512_slli_epi32::<18>(s.bits(rounded));
        let power = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(power), exponent));
        _mm512_maskz_fmadd_ps(keep, s.mul(power, r), q, power)
    }
}
