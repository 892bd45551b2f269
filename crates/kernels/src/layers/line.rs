//! Element by element: activations and sums of two arrays.

use super::gelu::gelu;
use crate::lanes::{Kernel, Simd};

/// A function of one element of each of two arrays. One of a single array leaves the second alone.
pub(super) trait Pair: Copy {
    /// The function, lane by lane. Mark it `#[inline(always)]`.
    fn of<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F;
}

/// y = op(a, b) along the whole arrays.
pub(super) struct Flat<'a, P> {
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    pub(super) y: &'a mut [f32],
    /// Past the caches; y starts on a vector then.
    pub(super) stream: bool,
    pub(super) op: P,
}

impl<P: Pair> Kernel for Flat<'_, P> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if self.stream {
            line::<S, P, true>(s, self.op, self.a, self.b, self.y);
            s.fence();
        } else {
            line::<S, P, false>(s, self.op, self.a, self.b, self.y);
        }
    }
}

/// y = op(a, b) with the one row b for every row of a.
pub(super) struct Rows<'a, P> {
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    pub(super) y: &'a mut [f32],
    /// Past the caches; every row of y starts on a vector then.
    pub(super) stream: bool,
    pub(super) op: P,
}

impl<P: Pair> Kernel for Rows<'_, P> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let d = self.b.len();
        for (a, y) in self.a.chunks(d).zip(self.y.chunks_mut(d)) {
            if self.stream {
                line::<S, P, true>(s, self.op, a, self.b, y);
            } else {
                line::<S, P, false>(s, self.op, a, self.b, y);
            }
        }
        s.fence();
    }
}

#[inline(always)]
fn line<S: Simd, P: Pair, const STREAM: bool>(s: S, op: P, a: &[f32], b: &[f32], y: &mut [f32]) {
    let n = a.len().min(b.len()).min(y.len());
    let whole = n - n % S::LANES;
    let (a, a_rest) = a[..n].split_at(whole);
    let (b, b_rest) = b[..n].split_at(whole);
    let (y, y_rest) = y[..n].split_at_mut(whole);
    let pairs = a.chunks_exact(S::LANES).zip(b.chunks_exact(S::LANES));
    for ((a, b), y) in pairs.zip(y.chunks_exact_mut(S::LANES)) {
        let v = op.of(s, s.load(a), s.load(b));
        if STREAM { s.stream(y, v) } else { s.store(y, v) }
    }
    if !y_rest.is_empty() {
        s.store_part(y_rest, op.of(s, s.load_part(a_rest, 0.0), s.load_part(b_rest, 0.0)));
    }
}

/// x / (1 + e^-x)
#[inline(always)]
fn swish<S: Simd>(s: S, x: S::F) -> S::F {
    let e = s.fast_exp(s.sub(s.splat(0.0), x));
    s.div(x, s.add(e, s.splat(1.0)))
}

macro_rules! pair {
    ($(#[$doc:meta])* $name:ident $(<$form:ident>)?, $s:ident, $a:ident, $b:ident, $body:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name $(<const $form: bool>)?;
        impl $(<const $form: bool>)? Pair for $name $(<$form>)? {
            #[inline(always)]
            fn of<S: Simd>(self, $s: S, $a: S::F, $b: S::F) -> S::F {
                $body
            }
        }
    };
}

pair!(
    /// GELU of the first; the tanh form if so.
    Gelu<TANH>, s, a, _b, gelu::<S, TANH>(s, a)
);
pair!(
    /// GELU of the sum.
    AddGelu<TANH>, s, a, b, gelu::<S, TANH>(s, s.add(a, b))
);
pair!(
    /// Swish of the first.
    Swish, s, a, _b, swish(s, a)
);
pair!(
    /// Swish of the first, times the second.
    SwishTimes, s, a, b, s.mul(swish(s, a), b)
);
pair!(
    /// The sum.
    Add, s, a, b, s.add(a, b)
);
pair!(
    /// The product.
    Multiply, s, a, b, s.mul(a, b)
);
pair!(
    /// The square of the difference.
    SquaredDifference, s, a, b, { let d = s.sub(a, b); s.mul(d, d) }
);
