//! A product or a series of them, on one thread or all.
#![allow(unsafe_code)]

use ellwand_simd::isa::Isa;
use ellwand_simd::{pool, stores};

use super::panel::{Source, pack, packed_len};
use super::scratch::Scratch;
use super::tile::{Onto, ROWS, Strip, fence, strip};

/// Values of B that are packed together: 384 KB, which leaves most of a 1 MB L2 cache to A and C.
const BLOCK: usize = 384 * 256;
/// Minimum number of columns of B that are packed together. Few columns allow long sums: every block of steps except
/// the first reads C again, whereas the rows of A that each block of columns rereads are only 24 of the 280 bytes per
/// step.
const COLUMNS: usize = 128;

/// A product, given by the addresses of its parts. Element (i, k) of A is at `a + i a_stride + k`; C is analogous.
#[derive(Clone, Copy)]
pub struct Product<'a> {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// First element of A.
    pub a: *const f32,
    /// Distance between rows of A, in values.
    pub a_stride: usize,
    /// The matrix B.
    pub b: Source,
    /// Factor of the product.
    pub alpha: f32,
    /// One value per column, added to every row.
    pub bias: Option<&'a [f32]>,
    /// First element of C.
    pub c: *mut f32,
    /// Distance between rows of C, in values.
    pub c_stride: usize,
    /// True if C, or all outputs of a series of products together, exceeds the caches ([`streams`]).
    pub stream: bool,
}

/// True if `values` f32 that are written once, by one thread or by all, should use non-temporal stores, by the threshold
/// of this machine. Inputs stay in the caches or are small compared with the outputs, so only the outputs count.
pub fn streams(values: usize, all_threads: bool) -> bool {
    4 * values as u64 >= stores::threshold(all_threads).bytes
}

// SAFETY: the addresses are used only within the calls below, whose callers guarantee their validity.
unsafe impl Send for Product<'_> {}
// SAFETY: as above.
unsafe impl Sync for Product<'_> {}

/// Number of steps and columns per block of B.
///
/// A narrow product (attention's weighted sum) takes many steps, so that rows of A are read in long runs; a flat one
/// (attention's scores) takes many columns, so that rows of C are written in long runs.
pub(super) fn blocks(n: usize, k: usize) -> (usize, usize) {
    let longest = BLOCK / n.clamp(64, COLUMNS);
    let depth = k.div_ceil(k.div_ceil(longest).max(1)).max(1);
    (depth, (BLOCK / depth / 64 * 64).clamp(COLUMNS, 2048))
}

/// Working memory of one thread for products of `n` columns with sums of length `k`, in values.
pub fn scratch_len(n: usize, k: usize) -> usize {
    let (depth, columns) = blocks(n, k);
    packed_len(depth, columns.min(n))
}

/// Working memory of such products for `threads` threads.
pub(super) fn scratch(threads: usize, n: usize, k: usize) -> Scratch {
    Scratch::new(threads, scratch_len(n, k))
}

/// Computes a product on one thread.
///
/// # Safety
/// All elements of A and B must be readable and those of C writable; nothing else may access C meanwhile, and C may not
/// overlap A or B.
pub unsafe fn product(isa: Isa, p: &Product<'_>, scratch: &Scratch) {
    let mut packed = scratch.borrow();
    let (_, columns) = blocks(p.n, p.k);
    for first in (0..p.n).step_by(columns) {
        // SAFETY: the caller's promise, for a part of C.
        unsafe { block(isa, p, 0..p.m, first..p.n.min(first + columns), &mut packed) };
    }
}

/// Computes `count` products with the same m, n and k on all threads of the pool. The results do not depend on the
/// number of threads.
///
/// # Safety
/// As for [`product`], for all of them together.
pub unsafe fn products<'a>(isa: Isa, count: usize, of: impl Fn(usize) -> Product<'a> + Sync, scratch: &Scratch) {
    if count == 0 {
        return;
    }
    let Product { m, n, k, .. } = of(0);
    let (rows, columns) = cut(count, m, n, blocks(n, k).1, 8 * pool::threads());
    let (down, across) = (m.div_ceil(rows), n.div_ceil(columns));
    pool::for_each_chunk(count * down * across, |job| {
        let (one, part) = (job / (down * across), job % (down * across));
        let (row, column) = (part / across * rows, part % across * columns);
        let mut packed = scratch.borrow();
        let p = of(one);
        // SAFETY: the caller's promise, for a part of C that no other job has.
        unsafe { block(isa, &p, row..m.min(row + rows), column..n.min(column + columns), &mut packed) };
    });
}

/// Number of threads that one product of this shape keeps busy in [`products`].
pub(super) fn threads(m: usize, n: usize, k: usize) -> usize {
    let (rows, columns) = cut(1, m, n, blocks(n, k).1, 8 * pool::threads());
    (m.div_ceil(rows) * n.div_ceil(columns)).clamp(1, pool::threads())
}

/// Rows and columns per job for about `wanted` jobs. Every job packs its part of B, which costs 0.5 % of the work for
/// 768 rows and 4 % for 96 rows, and rereads its rows of A for every split of columns, which costs less. Columns are
/// therefore split first, and rows only if there are still too few jobs.
pub(super) fn cut(count: usize, m: usize, n: usize, widest: usize, wanted: usize) -> (usize, usize) {
    let (mut rows, mut columns) = (m, widest);
    let jobs = |rows: usize, columns: usize| count * m.div_ceil(rows) * n.div_ceil(columns);
    let halved = |rows: usize| rows.div_ceil(2).next_multiple_of(ROWS);
    while jobs(rows, columns) < wanted && columns >= 128 {
        columns = (columns / 2).next_multiple_of(64);
    }
    while jobs(rows, columns) < wanted && rows >= 1536 {
        rows = halved(rows);
    }
    while jobs(rows, columns) < wanted.div_ceil(4) && rows >= 192 {
        rows = halved(rows);
    }
    (rows.max(1), columns)
}

/// Computes some rows and columns of C; at most as many columns as [`blocks`] returns.
///
/// # Safety
/// As for [`product`], for these rows and columns.
unsafe fn block(
    isa: Isa,
    p: &Product<'_>,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
    packed: &mut [f32],
) {
    let (depth, width) = (blocks(p.n, p.k).0, columns.len());
    let bias = p.bias.map(|bias| &bias[columns.clone()]);
    let mut from = 0;
    loop {
        let depth = depth.min(p.k - from);
        let (along, across) = if p.b.transposed { (1, p.b.stride) } else { (p.b.stride, 1) };
        let b = Source { at: p.b.at.wrapping_add(from * along + columns.start * across), ..p.b };
        // SAFETY: these elements of B exist.
        unsafe { pack(isa, b, depth, width, p.alpha, packed) };
        let onto = match bias {
            _ if from > 0 => Onto::Old,
            Some(bias) => Onto::Bias(bias),
            None => Onto::Zero,
        };
        for row in rows.clone().step_by(ROWS) {
            let one = Strip {
                rows: ROWS.min(rows.end - row),
                depth,
                a: p.a.wrapping_add(row * p.a_stride + from),
                a_stride: p.a_stride,
                packed,
                packed_depth: depth,
                columns: width,
                used: width,
                onto,
                c: p.c.wrapping_add(row * p.c_stride + columns.start),
                c_stride: p.c_stride,
                // Values that are written once and exceed the caches need not be read into them first.
                stream: p.stream && depth == p.k,
            };
            // SAFETY: these rows of A and this part of C exist, and only the caller accesses this C.
            unsafe { strip(isa, one) };
        }
        from += depth;
        if from >= p.k {
            if p.stream {
                fence(isa);
            }
            return;
        }
    }
}
