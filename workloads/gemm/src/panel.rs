//! Division of the columns of B into panels of a few vectors, and packing of a panel.
#![allow(unsafe_code)]

use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::{Kernel, Simd, dispatch};

/// Vectors of the widest panel: with six rows they leave registers for a step of B and a value of A.
pub const fn most_vectors(registers: usize) -> usize {
    match registers {
        32.. => 4,
        16.. => 2,
        _ => 1,
    }
}

/// A few adjacent columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Panel {
    /// Index of its first column.
    pub(super) first: usize,
    /// Number of actual columns; the vectors may hold more.
    pub(super) columns: usize,
    /// Number of vectors.
    pub(super) vectors: usize,
}

/// The panels of `columns` columns, as equal as possible: 5 vectors become 3 + 2, not 4 + 1, because a narrow panel is
/// bound by loads.
pub(super) struct Panels {
    columns: usize,
    lanes: usize,
    first: usize,
    vectors_left: usize,
    panels_left: usize,
}

impl Panels {
    /// The panels of `columns` columns for vectors of `lanes` values, each of at most `most` vectors.
    #[inline(always)]
    pub(super) fn new(columns: usize, lanes: usize, most: usize) -> Self {
        let vectors = columns.div_ceil(lanes);
        Self { columns, lanes, first: 0, vectors_left: vectors, panels_left: vectors.div_ceil(most) }
    }
}

impl Iterator for Panels {
    type Item = Panel;
    #[inline(always)]
    fn next(&mut self) -> Option<Panel> {
        if self.panels_left == 0 {
            return None;
        }
        let vectors = self.vectors_left.div_ceil(self.panels_left);
        let first = self.first;
        self.first += vectors * self.lanes;
        self.vectors_left -= vectors;
        self.panels_left -= 1;
        Some(Panel { first, columns: (self.columns - first).min(vectors * self.lanes), vectors })
    }
}

/// B in memory: element (k, n) is at `k stride + n`, or at `n stride + k` if transposed.
#[derive(Clone, Copy)]
pub struct Source {
    /// Address of its first element.
    pub at: *const f32,
    /// Distance between rows, in values.
    pub stride: usize,
    /// True if rows are columns of the product (a weight matrix [out, in], or attention's keys).
    pub transposed: bool,
}

/// Values of `depth` steps of `columns` columns after packing, for any instruction set: at most 15 are added.
pub fn packed_len(depth: usize, columns: usize) -> usize {
    depth * columns.next_multiple_of(16)
}

/// Packs `depth` steps of `columns` columns of B, times `factor`, into panels; columns that fill the last vector are
/// zero. The factor costs one multiplication per value of B here, instead of one per value of C after the sums.
///
/// # Safety
/// All elements (k < depth, n < columns) of `from` must be readable.
pub unsafe fn pack(isa: Isa, from: Source, depth: usize, columns: usize, factor: f32, to: &mut [f32]) {
    dispatch(isa, Pack { from, depth, columns, factor, to });
}

struct Pack<'a> {
    from: Source,
    depth: usize,
    columns: usize,
    factor: f32,
    to: &'a mut [f32],
}

impl Kernel for Pack<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Pack { from, depth, columns, factor, mut to } = self;
        for panel in Panels::new(columns, S::LANES, most_vectors(S::REGISTERS)) {
            let width = panel.vectors * S::LANES;
            let (here, rest) = to.split_at_mut(depth * width);
            // SAFETY: the panel's columns are columns of `from`, as guaranteed to `pack`.
            unsafe {
                if from.transposed {
                    turned(s, from.at.add(panel.first * from.stride), from.stride, depth, panel.columns, width, here);
                } else {
                    straight(s, from.at.add(panel.first), from.stride, depth, panel.columns, width, here);
                }
            }
            if factor != 1.0 {
                for step in here.chunks_exact_mut(S::LANES) {
                    s.store(step, s.mul(s.load(step), s.splat(factor)));
                }
            }
            to = rest;
        }
    }
}

/// Rows of B become steps.
///
/// # Safety
/// `depth` rows of `columns` values, `stride` apart, must be readable at `from`.
#[inline(always)]
unsafe fn straight<S: Simd>(
    s: S,
    from: *const f32,
    stride: usize,
    depth: usize,
    columns: usize,
    width: usize,
    to: &mut [f32],
) {
    for (k, step) in to.chunks_exact_mut(width).take(depth).enumerate() {
        // SAFETY: row k < depth.
        let row = unsafe { std::slice::from_raw_parts(from.add(k * stride), columns) };
        for (from, to) in row.chunks(S::LANES).zip(step.chunks_mut(S::LANES)) {
            s.store(to, if from.len() == S::LANES { s.load(from) } else { s.load_part(from, 0.0) });
        }
    }
}

/// Columns of the transposed B become steps, square by square.
///
/// # Safety
/// `columns` rows of `depth` values, `stride` apart, must be readable at `from`.
#[inline(always)]
unsafe fn turned<S: Simd>(
    s: S,
    from: *const f32,
    stride: usize,
    depth: usize,
    columns: usize,
    width: usize,
    to: &mut [f32],
) {
    assert!(to.len() >= depth * width && columns <= width);
    let whole = depth / S::LANES * S::LANES;
    for n in (0..width).step_by(S::LANES) {
        let squares = if n + S::LANES <= columns { whole } else { 0 };
        for k in (0..squares).step_by(S::LANES) {
            // SAFETY: LANES rows from n on are rows of B, and LANES values from k on are within depth; in the panel,
            // steps k to k + LANES exist and n + LANES <= width.
            unsafe {
                s.transpose_at(from.add(n * stride + k), stride, to.as_mut_ptr().add(k * width + n), width);
            }
        }
        for k in squares..depth {
            for j in n..n + S::LANES {
                // SAFETY: row j is read only if it exists.
                to[k * width + j] = if j < columns { unsafe { *from.add(j * stride + k) } } else { 0.0 };
            }
        }
    }
}
