//! The product in the inner loop of the fused kernels: a few rows of weights times a panel of two vectors, summed in
//! registers. One macro serves f32 and f64, whose vector types have the same functions but no common trait.
#![allow(unsafe_code)]

/// Defines `row_step` and `multiply_rows` for vectors of a trait whose registers hold at most `$widest` numbers.
macro_rules! product {
    ($vectors:ident, $number:ty, $widest:literal) => {
        use crate::options::{CHUNK, ROW_STEP};
        use ellwand_simd::lanes::$vectors;

        /// Decoding spikes whose sums fit into registers: 12 rows of two vectors with 32 registers, else 6.
        #[inline(always)]
        pub(crate) fn row_step<S: $vectors>(left: usize) -> usize {
            let most = if S::LANES == $widest { ROW_STEP } else { ROW_STEP / 2 };
            match left {
                n if n >= most => most,
                n if n >= 8 => 8,
                n if n >= 4 => 4,
                n if n >= 2 => 2,
                _ => 1,
            }
        }

        /// As `multiply`, for the number of rows from `row_step`.
        #[inline(always)]
        pub(crate) fn multiply_rows<S: $vectors>(
            s: S,
            rows: usize,
            w: &[$number],
            p: &[$number],
            c: &mut [$number],
            add: bool,
        ) {
            match rows {
                12 => multiply::<S, 12>(s, w, p, c, add),
                8 => multiply::<S, 8>(s, w, p, c, add),
                6 => multiply::<S, 6>(s, w, p, c, add),
                4 => multiply::<S, 4>(s, w, p, c, add),
                2 => multiply::<S, 2>(s, w, p, c, add),
                _ => multiply::<S, 1>(s, w, p, c, add),
            }
        }

        /// c (+)= w p for `R` rows: w `[R, CHUNK]` from its first column on, p `[n, 2 LANES]`, c `[R, 2 LANES]`.
        #[inline(always)]
        fn multiply<S: $vectors, const R: usize>(s: S, w: &[$number], p: &[$number], c: &mut [$number], add: bool) {
            let width = 2 * S::LANES;
            let n = p.len() / width;
            assert!(w.len() >= (R - 1) * CHUNK + n && p.len() >= n * width && c.len() >= R * width);
            let mut sum = [[s.splat(0.0); 2]; R];
            // SAFETY: the lengths were checked above; k < n, r < R.
            unsafe {
                let (w, p) = (w.as_ptr(), p.as_ptr());
                for k in 0..n {
                    let p0 = s.load_at(p.add(k * width));
                    let p1 = s.load_at(p.add(k * width + S::LANES));
                    for (r, sum) in sum.iter_mut().enumerate() {
                        let w = s.splat(*w.add(r * CHUNK + k));
                        sum[0] = s.mul_add(w, p0, sum[0]);
                        sum[1] = s.mul_add(w, p1, sum[1]);
                    }
                }
            }
            for (sum, c) in sum.iter().zip(c.chunks_exact_mut(width)) {
                for v in 0..2 {
                    let new = if add { s.add(s.load(&c[v * S::LANES..]), sum[v]) } else { sum[v] };
                    s.store(&mut c[v * S::LANES..], new);
                }
            }
        }
    };
}

pub(super) mod narrow {
    product!(Simd, f32, 16);
}

pub(super) mod wide {
    product!(Double, f64, 8);
}
