//! The innermost part of a matrix product: a few rows of A times a panel of B, accumulated in registers.
//!
//! Rows of A are read in place, one value broadcast at a time: a row-major A needs no packing, because consecutive
//! values of a row are used one after another. B is packed, so that the vectors of one step are contiguous.
#![allow(unsafe_code)]

use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::{Kernel, Simd, dispatch};

use super::panel::{Panels, most_vectors};

/// Maximum number of rows of a tile. Six rows of four vectors take 24 of 32 registers, and six of two take 12 of 16.
pub const ROWS: usize = 6;

/// Repeats `$body` textually for each row `$i` of `$rows`, at most [`ROWS`]: if a loop over an array of vectors is not
/// unrolled, the array is stored in memory, and writing and rereading 24 sums costs as much as ten steps.
#[macro_export]
macro_rules! each_row {
    ($rows:ident, $i:ident => $body:expr) => {
        $crate::each_row!(@one $rows, $i, 0, $body);
        $crate::each_row!(@one $rows, $i, 1, $body);
        $crate::each_row!(@one $rows, $i, 2, $body);
        $crate::each_row!(@one $rows, $i, 3, $body);
        $crate::each_row!(@one $rows, $i, 4, $body);
        $crate::each_row!(@one $rows, $i, 5, $body);
    };
    (@one $rows:ident, $i:ident, $at:literal, $body:expr) => {
        if const { $rows > $at } {
            const $i: usize = $at;
            $body
        }
    };
}

/// What the sums of a tile are added to.
#[derive(Clone, Copy)]
pub enum Onto<'a> {
    /// Nothing: C is only written.
    Zero,
    /// One value per column.
    Bias(&'a [f32]),
    /// The current values of C.
    Old,
    /// The current values of C, with each row multiplied by a factor.
    Scaled(&'a [f32]),
}

/// A strip of at most [`ROWS`] rows: `C = A B + onto` over the packed columns.
pub struct Strip<'a> {
    /// Number of rows, 1 to [`ROWS`].
    pub rows: usize,
    /// Length of the sums.
    pub depth: usize,
    /// First row of A.
    pub a: *const f32,
    /// Distance between rows of A, in values.
    pub a_stride: usize,
    /// Panels of B as written by [`super::pack`], with `packed_depth` steps each, of which `depth` are used.
    pub packed: &'a [f32],
    /// Steps per packed panel.
    pub packed_depth: usize,
    /// Number of packed columns.
    pub columns: usize,
    /// Number of leading columns to compute.
    pub used: usize,
    /// What the product is added to.
    pub onto: Onto<'a>,
    /// First row of C.
    pub c: *mut f32,
    /// Distance between rows of C, in values.
    pub c_stride: usize,
    /// True to write C with non-temporal stores, if its rows are aligned. [`fence`] makes it visible to other threads.
    pub stream: bool,
}

/// Runs a strip.
///
/// # Safety
/// `a` and `c` must point to `rows` rows, `a_stride` and `c_stride` apart, of which `depth` and `used` values are
/// readable, and for C writable; nothing else may access these rows of C meanwhile.
pub unsafe fn strip(isa: Isa, strip: Strip<'_>) {
    dispatch(isa, strip);
}

/// Makes streamed stores of strips visible to other threads. Waits for memory, so it is called once after many strips.
pub fn fence(isa: Isa) {
    dispatch(isa, Fence);
}

struct Fence;

impl Kernel for Fence {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        s.fence();
    }
}

impl Kernel for Strip<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.rows {
            1 => self.panels::<S, 1>(s),
            2 => self.panels::<S, 2>(s),
            3 => self.panels::<S, 3>(s),
            4 => self.panels::<S, 4>(s),
            5 => self.panels::<S, 5>(s),
            6 => self.panels::<S, 6>(s),
            rows => unreachable!("a strip of {rows} rows"),
        }
    }
}

impl Strip<'_> {
    #[inline(always)]
    fn panels<S: Simd, const M: usize>(&self, s: S) {
        let most = const { most_vectors(S::REGISTERS) };
        let mut packed = self.packed;
        for panel in Panels::new(self.columns, S::LANES, most) {
            let size = self.packed_depth * panel.vectors * S::LANES;
            let b = &packed[..size];
            packed = &packed[size..];
            assert!(self.depth <= self.packed_depth);
            if panel.first >= self.used {
                return;
            }
            let columns = panel.columns.min(self.used - panel.first);
            match panel.vectors {
                1 => self.tile::<S, M, 1>(s, b, panel.first, columns),
                2 if most >= 2 => self.tile::<S, M, 2>(s, b, panel.first, columns),
                3 if most >= 3 => self.tile::<S, M, 3>(s, b, panel.first, columns),
                4 if most >= 4 => self.tile::<S, M, 4>(s, b, panel.first, columns),
                vectors => unreachable!("a panel of {vectors} vectors"),
            }
        }
    }

    /// Computes `M` rows times `N` vectors.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "row and vector are indices of more than one array")]
    fn tile<S: Simd, const M: usize, const N: usize>(&self, s: S, b: &[f32], first: usize, columns: usize) {
        // SAFETY: `strip` guarantees `depth` values of `rows` rows of A; `panels` split `b` into `packed_depth` steps of
        // N vectors and checked that `depth` is no larger.
        let sum = unsafe { tile_products::<S, M, N>(s, self.a, self.a_stride, b.as_ptr(), self.depth) };
        // Streaming requires whole, aligned vectors.
        let aligned = S::LANES == 16 && self.c.addr().is_multiple_of(64) && self.c_stride.is_multiple_of(16);
        let stream = self.stream && aligned;
        if columns == N * S::LANES && matches!(self.onto, Onto::Zero) {
            each_row!(M, I => self.put_whole(s, I, sum[I], first, stream));
        } else {
            each_row!(M, I => self.put(s, I, sum[I], first, columns, stream));
        }
    }

    /// Writes a row of sums that fill their vectors and are added to nothing.
    #[inline(always)]
    fn put_whole<S: Simd, const N: usize>(&self, s: S, i: usize, sum: [S::F; N], first: usize, stream: bool) {
        // SAFETY: these are part of the `used` columns of row i, as guaranteed to `strip`.
        let c = unsafe { std::slice::from_raw_parts_mut(self.c.add(i * self.c_stride + first), N * S::LANES) };
        for j in 0..N {
            let c = &mut c[j * S::LANES..];
            if stream { s.stream(c, sum[j]) } else { s.store(c, sum[j]) }
        }
    }

    /// Writes a row of sums.
    #[inline(always)]
    fn put<S: Simd, const N: usize>(&self, s: S, i: usize, sum: [S::F; N], first: usize, columns: usize, stream: bool) {
        for (j, sum) in sum.into_iter().enumerate() {
            let at = first + j * S::LANES;
            let width = columns.saturating_sub(j * S::LANES).min(S::LANES);
            // SAFETY: `width` columns from `at` on are within `used` of row i, as guaranteed to `strip`.
            let c = unsafe { std::slice::from_raw_parts_mut(self.c.add(i * self.c_stride + at), width) };
            let v = match self.onto {
                Onto::Zero => sum,
                Onto::Bias(bias) => s.add(sum, read(s, &bias[at..at + width])),
                Onto::Old => s.add(sum, read(s, c)),
                Onto::Scaled(factors) => s.mul_add(read(s, c), s.splat(factors[i]), sum),
            };
            if stream && width == S::LANES {
                s.stream(c, v);
            } else if width == S::LANES {
                s.store(c, v);
            } else {
                s.store_part(c, v);
            }
        }
    }
}

/// Computes `M` rows of A times a panel of `N` vectors in registers.
///
/// # Safety
/// `depth` values must be readable in each of `M` rows of A, `a_stride` apart, and `depth` steps of `N` vectors at `b`.
#[inline(always)]
unsafe fn tile_products<S: Simd, const M: usize, const N: usize>(
    s: S,
    a: *const f32,
    a_stride: usize,
    b: *const f32,
    depth: usize,
) -> [[S::F; N]; M] {
    let mut sum = [[s.splat(0.0); N]; M];
    let rows: [*const f32; M] = std::array::from_fn(|i| a.wrapping_add(i * a_stride));
    for k in 0..depth {
        // SAFETY: step k < depth.
        unsafe { step(s, rows, k, b, &mut sum) };
    }
    sum
}

/// # Safety
/// Value `k` of each row and step `k` of the panel at `b` must be readable.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "row and vector are indices of more than one array")]
unsafe fn step<S: Simd, const M: usize, const N: usize>(
    s: S,
    rows: [*const f32; M],
    k: usize,
    b: *const f32,
    sum: &mut [[S::F; N]; M],
) {
    let b = b.wrapping_add(k * N * S::LANES);
    // SAFETY: the caller's promise.
    let right: [S::F; N] = std::array::from_fn(|j| unsafe { s.load_at(b.add(j * S::LANES)) });
    for i in 0..M {
        // SAFETY: the caller's promise.
        let left = s.splat(unsafe { *rows[i].add(k) });
        for j in 0..N {
            sum[i][j] = s.mul_add(left, right[j], sum[i][j]);
        }
    }
}

/// Loads a vector, or a partial one at the end.
#[inline(always)]
fn read<S: Simd>(s: S, x: &[f32]) -> S::F {
    if x.len() == S::LANES { s.load(x) } else { s.load_part(x, 0.0) }
}
