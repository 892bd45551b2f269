//! Element-wise gradients: slopes of activations, and differences.
//!
//! The slope f' of x Phi(x), of its tanh form and of x s(x) satisfies f'(x) + f'(-x) = 1, because Phi(x) + Phi(-x) = 1
//! and the logistic function s has the same property. So f'(x) = 1 - h(x) above 0 and h(-x) below, where h(a) = f'(-a)
//! decays exponentially and involves no cancellation.

use crate::line::{Pair, each, pair};
use ellwand_simd::lanes::{Kernel, Simd};

/// erfc(z) = (c1 t + .. + c5 t^5) e^(-z^2) with t = 1 / (1 + p z), within 1.5e-7 for z >= 0 (M. Abramowitz and I. A.
/// Stegun, Handbook of Mathematical Functions, 1964, 7.1.26); the coefficients are halved, for Phi(-a) =
/// erfc(a / sqrt 2) / 2.
const HALF_ERFC: [f32; 5] = [0.127_414_8, -0.142_248_37, 0.710_706_9, -0.726_576, 0.530_702_7];
/// The value p / sqrt 2.
const P: f32 = 0.231_641_9;
/// The density at 0, 1 / sqrt(2 pi).
const DENSITY: f32 = 0.398_942_3;
/// The factor 2 sqrt(2 / pi), and its product with 0.044715.
const TANH: [f32; 2] = [1.595_769, 0.071_354_81];
/// From here on, the exponential of the tanh form is 0.
const TANH_LIMIT: f32 = 16.0;

/// f'(x) from a = |x| and h(a). NaN stays NaN.
#[inline(always)]
fn mirrored<S: Simd>(s: S, x: S::F, h: S::F) -> S::F {
    s.select(s.lt(x, s.splat(0.0)), h, s.sub(s.splat(1.0), h))
}

/// Phi(x) + x phi(x) within 5e-7; NaN for NaN and for infinities.
///
/// h(a) = Phi(-a) - a phi(a) = e^(-a^2 / 2) (erfc's polynomial / 2 - a / sqrt(2 pi)).
#[inline(always)]
fn gelu<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs(x);
    let t = s.div(s.splat(1.0), s.mul_add(a, s.splat(P), s.splat(1.0)));
    let mut q = s.splat(HALF_ERFC[4]);
    for c in [HALF_ERFC[3], HALF_ERFC[2], HALF_ERFC[1], HALF_ERFC[0]] {
        q = s.mul_add(q, t, s.splat(c));
    }
    let e = s.exp_down(s.mul(s.mul(a, a), s.splat(-0.5)));
    let rest = s.neg_mul_add(a, s.splat(DENSITY), s.mul(q, t));
    mirrored(s, x, s.mul(e, rest))
}

/// h of x s(v(x)): with e = e^(-v(a)) and s = 1 / (1 + e), h(a) = e s (1 - a v'(a) s).
#[inline(always)]
fn logistic<S: Simd>(s: S, e: S::F, a_slope: S::F) -> S::F {
    let share = s.div(s.splat(1.0), s.add(e, s.splat(1.0)));
    s.mul(s.mul(e, share), s.neg_mul_add(a_slope, share, s.splat(1.0)))
}

/// The slope of the tanh form within 5e-7; NaN for NaN and for infinities.
#[inline(always)]
fn gelu_tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs_up_to(x, s.splat(TANH_LIMIT));
    let square = s.mul(a, a);
    let inner = s.mul(a, s.mul_add(square, s.splat(TANH[1]), s.splat(TANH[0])));
    let a_slope = s.mul(a, s.mul_add(square, s.splat(3.0 * TANH[1]), s.splat(TANH[0])));
    let h = logistic(s, s.exp_down(s.sub(s.splat(0.0), inner)), a_slope);
    // Adds 0 for a number, and restores NaN and infinities, which the limit removed.
    mirrored(s, x, s.mul_add(x, s.splat(0.0), h))
}

/// s + x s (1 - s) within 5e-7; NaN for NaN and for infinities.
#[inline(always)]
fn swish<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs(x);
    mirrored(s, x, logistic(s, s.exp_down(s.sub(s.splat(0.0), a)), a))
}

pair!(
    /// dy times the slope of GELU at x, in the tanh form if `TANH`.
    GeluSlope<TANH>, s, x, dy,
    each!(x of x, dy of dy => s.mul(dy, if TANH { gelu_tanh(s, x) } else { gelu(s, x) }))
);
pair!(
    /// dy times the slope of Swish at x.
    SwishSlope, s, x, dy, each!(x of x, dy of dy => s.mul(dy, swish(s, x)))
);

/// (x - target) times a constant factor.
#[derive(Clone, Copy)]
pub(super) struct ScaledDifference {
    pub(super) factor: f32,
}

impl Pair for ScaledDifference {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F; N], target: [S::F; N]) -> [S::F; N] {
        each!(x of x, target of target => s.mul(s.sub(x, target), s.splat(self.factor)))
    }
}

/// 2 (x - target) times a separate upstream gradient for each element.
pub(super) struct EachDifference<'a> {
    pub(super) x: &'a [f32],
    pub(super) target: &'a [f32],
    pub(super) upstream: &'a [f32],
    pub(super) y: &'a mut [f32],
    /// Use non-temporal stores; y is then aligned to a vector.
    pub(super) stream: bool,
}

impl Kernel for EachDifference<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if self.stream {
            self.line::<S, true>(s);
            s.fence();
        } else {
            self.line::<S, false>(s);
        }
    }
}

/// The gradient 2 (x - target) dloss.
#[inline(always)]
fn doubled<S: Simd>(s: S, x: S::F, target: S::F, dloss: S::F) -> S::F {
    let difference = s.sub(x, target);
    s.mul(s.add(difference, difference), dloss)
}

impl EachDifference<'_> {
    #[inline(always)]
    fn line<S: Simd, const STREAM: bool>(self, s: S) {
        let inputs = self.x.chunks(S::LANES).zip(self.target.chunks(S::LANES)).zip(self.upstream.chunks(S::LANES));
        for (((x, target), dloss), y) in inputs.zip(self.y.chunks_mut(S::LANES)) {
            if y.len() < S::LANES {
                s.store_part(y, doubled(s, s.load_part(x, 0.0), s.load_part(target, 0.0), s.load_part(dloss, 0.0)));
                return;
            }
            let v = doubled(s, s.load(x), s.load(target), s.load(dloss));
            if STREAM { s.stream(y, v) } else { s.store(y, v) }
        }
    }
}
