//! Dot products of f32 and i16 rows for each instruction set.

use ellwand_simd::lanes::{Kernel, Simd};

/// Number of vectors of independent sums, enough to hide the latency of an addition.
const SUMS: usize = 8;

/// Sum of products in f32, in `SUMS` interleaved vectors of partial sums; may fuse.
pub(super) struct F32<'a> {
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
}

impl Kernel for F32<'_> {
    type Out = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let mut sums = [s.splat(0.0); SUMS];
        let (a, b) = (self.a.chunks_exact(SUMS * S::LANES), self.b.chunks_exact(SUMS * S::LANES));
        let rest = a.remainder().chunks(S::LANES).zip(b.remainder().chunks(S::LANES));
        for (a, b) in a.zip(b) {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = s.mul_add(s.load(&a[i * S::LANES..]), s.load(&b[i * S::LANES..]), *sum);
            }
        }
        for (a, b) in rest {
            let whole = a.len() == S::LANES;
            let [a, b] = if whole { [s.load(a), s.load(b)] } else { [s.load_part(a, 0.0), s.load_part(b, 0.0)] };
            sums[0] = s.mul_add(a, b, sums[0]);
        }
        let mut width = SUMS;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                sums[i] = s.add(sums[i], sums[i + width]);
            }
        }
        s.sum(sums[0])
    }
}

/// Sum of products of i16 in i32; the caller guarantees that it does not overflow.
pub(super) struct I16<'a> {
    pub(super) a: &'a [i16],
    pub(super) b: &'a [i16],
}

impl Kernel for I16<'_> {
    type Out = i32;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> i32 {
        self.a.iter().zip(self.b).map(|(&a, &b)| i32::from(a) * i32::from(b)).fold(0, i32::wrapping_add)
    }
}
