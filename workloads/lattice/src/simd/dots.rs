//! Plain dot products of f32 and i16 rows, written so that the compiler vectorizes them in the functions of the parent
//! module that enable instruction sets.

/// Number of independent sums, enough to hide the latency of an addition.
const SUMS: usize = 64;

/// Sum of products in f32, in `SUMS` interleaved partial sums; may fuse.
#[inline(always)]
pub(super) fn f32_dot<const FUSE: bool>(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; SUMS];
    let (a_blocks, a_rest) = a.as_chunks::<SUMS>();
    let (b_blocks, b_rest) = b.as_chunks::<SUMS>();
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for k in 0..SUMS {
            sums[k] = if FUSE { a[k].mul_add(b[k], sums[k]) } else { a[k] * b[k] + sums[k] };
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

/// Sum of products of i16 in i32; the caller guarantees that it does not overflow.
#[inline(always)]
pub(super) fn i16_dot(a: &[i16], b: &[i16]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).fold(0, i32::wrapping_add)
}
