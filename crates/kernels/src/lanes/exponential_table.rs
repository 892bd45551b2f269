//! e^x by a table of 32 powers, where a table lookup is one instruction.
#![allow(clippy::excessive_precision, reason = "every digit of the f32 that is meant")]

use super::Simd;

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

/// Adding this rounds to multiples of 1/32, whose fraction then stands in the low five bits.
const ROUND_TO_32NDS: f32 = 393_216.0;

/// e^x = 2^(k/32) e^r with |r| <= ln 2 / 64, for a token whose `scale` takes the floor of its second operand
/// (P. T. P. Tang, Table-driven implementation of the exponential function, 1989, with a smaller polynomial).
#[inline(always)]
pub(super) fn fast_exp<S: Simd>(s: S, x: S::F) -> S::F {
    // The operand that is returned for NaN stands second.
    let x = s.min(s.splat(100.0), s.max(s.splat(-105.0), x));
    let rounded = s.mul_add(x, s.splat(std::f32::consts::LOG2_E), s.splat(ROUND_TO_32NDS));
    let k = s.sub(rounded, s.splat(ROUND_TO_32NDS));
    let r = s.neg_mul_add(k, s.splat(std::f32::consts::LN_2), x);
    // e^r - 1; the term that is left out is below 6e-10.
    let q = s.mul_add(r, s.splat(1.0 / 6.0), s.splat(0.5));
    let q = s.mul_add(s.mul(q, r), r, r);
    let power = s.look_up(&POWERS, s.bits(rounded));
    s.scale(s.mul_add(power, q, power), k)
}
