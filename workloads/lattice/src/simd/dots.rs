//! Plain dot products of f32 and i16 rows, written so that the compiler vectorizes them for each instruction set.

use ellwand_simd::lanes::{Kernel, Simd};

/// Number of independent sums, enough to hide the latency of an addition.
const SUMS: usize = 64;

/// Sum of products in f32, in `SUMS` interleaved partial sums; may fuse.
pub(super) struct F32<'a> {
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
}

impl Kernel for F32<'_> {
    type Out = f32;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f32 {
        let mut sums = [0.0f32; SUMS];
        let (a_blocks, a_rest) = self.a.as_chunks::<SUMS>();
        let (b_blocks, b_rest) = self.b.as_chunks::<SUMS>();
        for (a, b) in a_blocks.iter().zip(b_blocks) {
            for k in 0..SUMS {
                sums[k] = if S::FUSES { a[k].mul_add(b[k], sums[k]) } else { a[k] * b[k] + sums[k] };
            }
        }
        let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
        let mut width = SUMS;
        while width > 1 {
            width /= 2;
            for k in 0..width {
                sums[k] += sums[k + width];
            }
        }
        sums[0] + rest
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
