//! Element-wise operations: activations and operations on two arrays.

#![allow(clippy::needless_range_loop, reason = "one step for all vectors is one loop over several arrays")]

use super::gelu::gelu;
use ellwand_simd::lanes::{Kernel, Simd};

/// A function of one element of each of two arrays. A function of a single array ignores the second.
pub(super) trait Pair: Copy {
    /// The function, lane by lane, of several vectors at once. Mark it `#[inline(always)]`.
    fn of<S: Simd, const N: usize>(self, s: S, a: [S::F; N], b: [S::F; N]) -> [S::F; N];
}

/// y = op(a, b); a shorter b is one row, for every row of a.
pub(super) struct Flat<'a, P> {
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    pub(super) y: &'a mut [f32],
    /// Use non-temporal stores; every row of y is then aligned to a vector.
    pub(super) stream: bool,
    pub(super) op: P,
}

impl<P: Pair> Kernel for Flat<'_, P> {
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
        if self.stream {
            s.fence();
        }
    }
}

/// Vectors passed to a function together.
const TOGETHER: usize = 4;

#[inline(always)]
fn line<S: Simd, P: Pair, const STREAM: bool>(s: S, op: P, a: &[f32], b: &[f32], y: &mut [f32]) {
    let n = a.len().min(b.len()).min(y.len());
    let (a, b, y) = (&a[..n], &b[..n], &mut y[..n]);
    let groups = n - n % (TOGETHER * S::LANES);
    vectors::<S, P, STREAM, TOGETHER>(s, op, &a[..groups], &b[..groups], &mut y[..groups]);
    let whole = n - n % S::LANES;
    vectors::<S, P, STREAM, 1>(s, op, &a[groups..whole], &b[groups..whole], &mut y[groups..whole]);
    if whole < n {
        let [v] = op.of(s, [s.load_part(&a[whole..], 0.0)], [s.load_part(&b[whole..], 0.0)]);
        s.store_part(&mut y[whole..], v);
    }
}

/// Applies the function to slices whose length is a multiple of N vectors.
#[inline(always)]
fn vectors<S: Simd, P: Pair, const STREAM: bool, const N: usize>(s: S, op: P, a: &[f32], b: &[f32], y: &mut [f32]) {
    let n = N * S::LANES;
    for ((a, b), y) in a.chunks_exact(n).zip(b.chunks_exact(n)).zip(y.chunks_exact_mut(n)) {
        let (mut of, mut and) = ([s.splat(0.0); N], [s.splat(0.0); N]);
        for i in 0..N {
            of[i] = s.load(&a[i * S::LANES..]);
            and[i] = s.load(&b[i * S::LANES..]);
        }
        let v = op.of(s, of, and);
        for i in 0..N {
            let y = &mut y[i * S::LANES..];
            if STREAM { s.stream(y, v[i]) } else { s.store(y, v[i]) }
        }
    }
}

/// Swish, x / (1 + e^-x).
#[inline(always)]
fn swish<S: Simd, const N: usize>(s: S, mut x: [S::F; N]) -> [S::F; N] {
    let divisor = s.one_and_exp_minus(x);
    for i in 0..N {
        x[i] = s.div(x[i], divisor[i]);
    }
    x
}

/// Runs `body` for each of N pairs of vectors. A closure would do if it were always inlined; otherwise each of its vector
/// instructions becomes a call, and the kernel takes 50 times as long.
macro_rules! each {
    ($a:ident of $all_a:expr, $b:ident of $all_b:expr => $body:expr) => {{
        let (mut all, others) = ($all_a, $all_b);
        for i in 0..N {
            let ($a, $b) = (all[i], others[i]);
            all[i] = $body;
        }
        all
    }};
}

pub(super) use each;

macro_rules! pair {
    ($(#[$doc:meta])* $name:ident $(<$form:ident>)?, $s:ident, $a:ident, $b:ident, $body:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name $(<const $form: bool>)?;
        impl $(<const $form: bool>)? Pair for $name $(<$form>)? {
            #[inline(always)]
            fn of<S: Simd, const N: usize>(self, $s: S, $a: [S::F; N], $b: [S::F; N]) -> [S::F; N] {
                $body
            }
        }
    };
}

pub(super) use pair;

pair!(
    /// GELU of the first, in the tanh form if `TANH`.
    Gelu<TANH>, s, a, _b, gelu::<S, TANH, N>(s, a)
);
pair!(
    /// GELU of the sum.
    AddGelu<TANH>, s, a, b, gelu::<S, TANH, N>(s, each!(a of a, b of b => s.add(a, b)))
);
pair!(
    /// Swish of the first.
    Swish, s, a, _b, swish(s, a)
);
pair!(
    /// Swish of the first, times the second.
    SwishTimes, s, a, b, each!(a of swish(s, a), b of b => s.mul(a, b))
);
pair!(
    /// The sum of both.
    Add, s, a, b, each!(a of a, b of b => s.add(a, b))
);
pair!(
    /// The product of both.
    Multiply, s, a, b, each!(a of a, b of b => s.mul(a, b))
);
pair!(
    /// The square of the difference.
    SquaredDifference, s, a, b, each!(a of a, b of b => { let d = s.sub(a, b); s.mul(d, d) })
);
