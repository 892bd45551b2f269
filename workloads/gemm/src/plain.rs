//! The dot product of `scalar` and `naive`: plain Rust, in the form that the compiler vectorises.

/// Sum of a b, in sixteen interleaved sums: the compiler may not reorder a single one, which costs the latency of an
/// addition for every product.
#[inline]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a.iter().zip(b) {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += a[i] * b[i];
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}
