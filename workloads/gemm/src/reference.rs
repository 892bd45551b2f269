//! The product in f64, with which every answer is compared.

use rayon::prelude::*;

use super::workload::Shape;
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::{Kernel, Simd, dispatch};
use ellwand_simd::pool;

/// Rows and columns of C that are summed together: as many sums as fit into registers.
const ROWS: usize = 6;
const COLUMNS: usize = 8;
/// Rows that a thread takes at a time: packing a panel of B for them takes 2 % of the time to multiply it.
const TURN: usize = 8 * ROWS;

/// C in f64, rounded to f32 at the end. Each sum is one plain loop over k, from the first product to the last, whatever
/// else is summed alongside; the product of two f32 is exact in f64. Rows are distributed over threads, because every
/// check uses this.
pub(super) fn reference(shape: Shape, a: &[f32], b: &[f32], c: &mut [f32]) {
    let Shape { n, k, .. } = shape;
    pool::run(|| {
        c.par_chunks_mut(TURN * n).zip(a.par_chunks(TURN * k)).for_each_init(
            || vec![[0.0; COLUMNS]; k],
            |panel, (c, a)| dispatch(Isa::best(), Turn { shape, a, b, c, panel }),
        );
    });
}

/// Some rows of C.
struct Turn<'a> {
    shape: Shape,
    a: &'a [f32],
    b: &'a [f32],
    c: &'a mut [f32],
    /// A few columns of B, row by row.
    panel: &'a mut [[f64; COLUMNS]],
}

impl Kernel for Turn<'_> {
    type Out = ();
    // Only plain loops: the token determines which instructions the compiler may use.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { shape: Shape { n, k, transposed, .. }, a, b, c, panel } = self;
        for first in (0..n).step_by(COLUMNS) {
            let columns = COLUMNS.min(n - first);
            for (step, row) in panel.iter_mut().enumerate() {
                for (j, value) in row.iter_mut().enumerate().take(columns) {
                    *value = f64::from(if transposed { b[(first + j) * k + step] } else { b[step * n + first + j] });
                }
            }
            for (c, a) in c.chunks_mut(ROWS * n).zip(a.chunks(ROWS * k)) {
                // Missing rows repeat the first one.
                let row = |i: usize| if (i + 1) * k <= a.len() { &a[i * k..][..k] } else { &a[..k] };
                let sums = sums(std::array::from_fn(row), panel);
                for (c, sums) in c.chunks_exact_mut(n).zip(sums) {
                    for (c, sum) in c[first..].iter_mut().zip(sums).take(columns) {
                        *c = sum as f32;
                    }
                }
            }
        }
    }
}

/// Products of some rows of A with a panel of B.
#[inline(always)]
fn sums(rows: [&[f32]; ROWS], panel: &[[f64; COLUMNS]]) -> [[f64; COLUMNS]; ROWS] {
    let mut sums = [[0.0_f64; COLUMNS]; ROWS];
    for (step, b) in panel.iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(rows) {
            let a = f64::from(row[step]);
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of very different magnitudes, so that the order of a sum affects its bits.
    fn values(len: usize, mut state: u32) -> Vec<f32> {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
            value * 2.0_f32.powi((state >> 4 & 63) as i32 - 32)
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn every_value_is_that_of_a_plain_loop() {
        for [m, n, k] in [[1, 1, 1], [5, 3, 7], [6, 8, 33], [7, 9, 100], [49, 17, 40], [100, 30, 257]] {
            for transposed in [true, false] {
                let shape = Shape { m, n, k, transposed };
                let (a, b) = (values(m * k, 1), values(k * n, 2));
                let mut c = vec![f32::NAN; m * n];
                reference(shape, &a, &b, &mut c);
                for (at, got) in c.iter().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let mut sum = 0.0_f64;
                    for step in 0..k {
                        let b = if transposed { b[j * k + step] } else { b[step * n + j] };
                        sum += f64::from(a[i * k + step]) * f64::from(b);
                    }
                    assert_eq!(got.to_bits(), (sum as f32).to_bits(), "{shape:?} [{i},{j}]");
                }
            }
        }
    }
}
