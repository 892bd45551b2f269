//! GELU of a vector: x Phi(x) = max(x, 0) - h(|x|), where h(a) = a Phi(-a) comes from a table.

use super::gelu_table::{self, Table};
use crate::lanes::Simd;

/// x Phi(x), or its tanh form: within 8e-7 of the exact value for |x| < 8, and within 1e-7 where x < -1. NaN and -infinity give NaN.
#[inline(always)]
pub(super) fn gelu<S: Simd, const TANH: bool>(s: S, x: S::F) -> S::F {
    by_table(s, if TANH { &gelu_table::TANH } else { &gelu_table::EXACT }, x)
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
    // What does not depend on the sum is ready before it: one addition less in the chain, 5 % of the time in the caches of a Zen 4.
    s.neg_mul_add(h, t, s.sub(s.positive_part(x), s.look_up(&table[0], segment)))
}
