//! Attention without a score matrix (T. Dao et al., FlashAttention, 2022): six queries at a time meet a block of keys,
//! their weights stay in the L1 cache, and sums over values are rescaled when a much larger score occurs.
//!
//! Working memory is linear in the sequence if keys and values are packed once per head, and constant if each block is
//! packed again for every chunk of queries. Results do not depend on the distribution of queries over threads.
#![allow(unsafe_code)]

use std::ops::Range;

use super::deal::Deal;
use super::few::{Few, MAX_PLAIN, plain};
use super::shape::{Layout, Shape};
use super::softmax::{Finish, Strip as Soften};
use ellwand_gemm::{self as gemm, Onto, ROWS, Scratch, Source, Strip, pack, packed_len, strip};
use ellwand_simd::isa::{Isa, Set};
use ellwand_simd::lanes::dispatch;
use ellwand_simd::pool;

/// Queries that share one pass over the keys; their sums over values stay in the L2 cache.
pub(super) const CHUNK: usize = 32 * ROWS;

/// Queries, keys, values and output.
#[derive(Clone, Copy)]
pub(super) struct Core<'a> {
    pub(super) shape: Shape,
    pub(super) lengths: &'a [i64],
    pub(super) q: (*const f32, Layout),
    pub(super) k: (*const f32, Layout),
    pub(super) v: (*const f32, Layout),
    pub(super) out: (*mut f32, Layout),
}

// SAFETY: the addresses are used only within the calls below, whose callers guarantee their validity.
unsafe impl Send for Core<'_> {}
// SAFETY: as above.
unsafe impl Sync for Core<'_> {}

/// Maximum number of queries of a key head that read its `keys` keys and values in place instead of packing them:
/// packing costs more the fewer queries share it and the less the keys fill whole vectors. Measured on Zen 4.
fn most_direct(isa: Isa, keys: usize) -> usize {
    match (isa.set(), keys) {
        #[cfg(target_arch = "x86_64")]
        (Set::Avx512, ..=4) => usize::MAX,
        #[cfg(target_arch = "x86_64")]
        (Set::Avx512, ..=15) => 32,
        #[cfg(target_arch = "x86_64")]
        (Set::Avx512, _) => 12,
        #[cfg(target_arch = "x86_64")]
        (Set::Avx2, _) => 8,
        // Compiling it would take a minute, for processors that few users have.
        (Set::Baseline, _) => 0,
    }
}

/// Number of (query, key, value) products below which waking other threads takes longer than computing them on one.
const LEAST_SHARED: f64 = 8192.0;

/// True if a head has so few (query, key) pairs that vectors do not pay off.
fn is_plain(shape: &Shape) -> bool {
    // With one key the vector form has less parallel work.
    shape.sequence * shape.keys <= MAX_PLAIN || (shape.keys == 1 && shape.sequence <= 2 * MAX_PLAIN)
}

/// How the keys are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Keys per block.
    pub(super) keys: usize,
    /// True if all keys and values of a head are packed at once.
    pub(super) resident: bool,
}

impl Tiling {
    /// Fewest corrections; memory linear in the sequence.
    pub(super) const FAST: Tiling = Tiling { keys: 512, resident: true };
    /// Smallest tiles; memory independent of the sequence.
    pub(super) const SMALL: Tiling = Tiling { keys: 64, resident: false };

    fn block(self, shape: &Shape) -> usize {
        self.keys.min(shape.keys)
    }

    /// Distance between rows of scores; slightly more than a block, so that six rows do not share cache sets.
    fn stride(self, shape: &Shape) -> usize {
        self.block(shape).next_multiple_of(16) + 16
    }

    /// Number of packed values of one block of keys, and of one block of values.
    fn packed(self, shape: &Shape) -> (usize, usize) {
        let (block, head) = (self.block(shape), shape.head());
        (packed_len(head, block), packed_len(block, head))
    }

    /// Working memory of one thread, in values.
    pub(super) fn len(self, shape: &Shape) -> usize {
        let blocks = if self.resident { shape.keys.div_ceil(self.block(shape)) } else { 1 };
        let (keys, values) = self.packed(shape);
        blocks * (keys + values) + ROWS * self.stride(shape) + 2 * CHUNK
    }
}

/// Computes all heads of all sequences on this thread.
///
/// # Safety
/// For every position or key of every head, the layouts must lead to elements that are readable (q, k, v) and writable
/// (out);
/// nothing else may access `out` meanwhile, and it may not overlap the inputs. `scratch` must hold [`Tiling::len`]
/// values.
pub(super) unsafe fn single(isa: Isa, core: &Core<'_>, tiling: Tiling, scratch: &Scratch) {
    let mut work = scratch.borrow();
    let shape = core.shape;
    for b in 0..shape.batch {
        if is_plain(&shape) {
            // SAFETY: the caller's promise.
            unsafe { plain(core, b, 0..shape.heads, 0..shape.sequence) };
            continue;
        }
        for kv in 0..shape.kv_heads {
            // SAFETY: the caller's promise.
            unsafe { rows(isa, core, tiling, b, kv, 0..shape.sequence, &mut work) };
        }
    }
}

/// As [`single`], on all threads of the pool.
///
/// # Safety
/// As for [`single`].
pub(super) unsafe fn parallel(isa: Isa, core: &Core<'_>, tiling: Tiling, scratch: &Scratch) {
    let shape = core.shape;
    if shape.pairs() * shape.dimension as f64 <= LEAST_SHARED {
        // SAFETY: the caller's promise.
        return unsafe { single(isa, core, tiling, scratch) };
    }
    let deal = Deal::of(&shape, pool::threads());
    pool::for_each_chunk(deal.pieces(), |piece| {
        let (head, queries) = deal.piece(piece);
        let mut work = scratch.borrow();
        let (b, kv) = (head / core.shape.kv_heads, head % core.shape.kv_heads);
        // SAFETY: the caller's promise; only this piece accesses these rows.
        unsafe { rows(isa, core, tiling, b, kv, queries, &mut work) };
    });
}

/// Some queries of all heads that share one head of keys and values.
///
/// # Safety
/// As for [`single`], for these rows.
pub(super) unsafe fn rows(
    isa: Isa,
    core: &Core<'_>,
    tiling: Tiling,
    b: usize,
    kv: usize,
    rows: Range<usize>,
    work: &mut [f32],
) {
    let shape = core.shape;
    let queries = shape.sequence * (shape.heads / shape.kv_heads);
    if is_plain(&shape) || queries <= most_direct(isa, shape.keys) {
        // SAFETY: the caller's promise.
        return unsafe { direct(isa, core, tiling, b, kv, rows, work) };
    }
    let block = tiling.block(&shape);
    let (keys_len, values_len) = tiling.packed(&shape);
    let blocks = if tiling.resident { shape.keys.div_ceil(block) } else { 1 };
    let (packed, work) = work.split_at_mut(blocks * (keys_len + values_len));
    let (scores, work) = work.split_at_mut(ROWS * tiling.stride(&shape));
    let (top, sum) = work.split_at_mut(CHUNK);
    let pack_block = |at: usize, packed: &mut [f32]| {
        let _span = ellwand_profile::span!("pack");
        let first = at * block;
        let count = block.min(shape.keys - first);
        let (keys, values) = packed.split_at_mut(keys_len);
        let (k, v) = (core.k.1.at(b, kv, first), core.v.1.at(b, kv, first));
        // SAFETY: keys and values first..first + count exist, as the caller guarantees.
        unsafe {
            let source = Source { at: core.k.0.add(k), stride: core.k.1.row, transposed: true };
            pack(isa, source, shape.head(), count, 1.0, keys);
            let source = Source { at: core.v.0.add(v), stride: core.v.1.row, transposed: false };
            pack(isa, source, count, shape.head(), 1.0, values);
        }
    };
    if tiling.resident && !rows.is_empty() {
        // Keys that no query here sees are not packed.
        let seen = shape.visible(core.lengths, b, rows.end - 1);
        for (at, packed) in packed.chunks_exact_mut(keys_len + values_len).enumerate().take(seen.div_ceil(block)) {
            pack_block(at, packed);
        }
    }
    let group = shape.heads / shape.kv_heads;
    for chunk in rows.clone().step_by(CHUNK) {
        let chunk = chunk..rows.end.min(chunk + CHUNK);
        for head in kv * group..(kv + 1) * group {
            let one = Chunk { isa, core, tiling, b, head, rows: chunk.clone() };
            let (top, sum) = (&mut top[..chunk.len()], &mut sum[..chunk.len()]);
            top.fill(f32::NEG_INFINITY);
            sum.fill(0.0);
            let seen = shape.visible(core.lengths, b, chunk.end - 1);
            for at in 0..seen.div_ceil(block) {
                let slot = if tiling.resident { at } else { 0 };
                let packed = &mut packed[slot * (keys_len + values_len)..][..keys_len + values_len];
                if !tiling.resident {
                    pack_block(at, packed);
                }
                let (keys, values) = packed.split_at(keys_len);
                let first = at * block;
                let met = Block { first, count: block.min(shape.keys - first), keys, values };
                let mut work = Work { scores: &mut *scores, top: &mut *top, sum: &mut *sum };
                // SAFETY: the caller's promise.
                unsafe { one.meet(&met, &mut work) };
            }
            let to = core.out.1.at(b, head, chunk.start);
            // SAFETY: these rows of the output belong to this call alone.
            let rows = unsafe { core.out.0.add(to) };
            dispatch(isa, Finish { rows, stride: core.out.1.row, width: shape.head(), sum });
        }
    }
}

/// As [`rows`], without packed keys and values.
///
/// # Safety
/// As for [`single`], for these rows.
unsafe fn direct(isa: Isa, core: &Core<'_>, tiling: Tiling, b: usize, kv: usize, rows: Range<usize>, work: &mut [f32]) {
    let shape = core.shape;
    let group = shape.heads / shape.kv_heads;
    let heads = kv * group..(kv + 1) * group;
    if is_plain(&shape) {
        // SAFETY: the caller's promise.
        return unsafe { plain(core, b, heads, rows) };
    }
    let (block, stride, factor) = (tiling.block(&shape), tiling.stride(&shape), factor(&shape));
    let (mut queries, mut count, mut left) = ([(0, 0); ROWS], 0, rows.len() * group);
    for head in heads {
        for row in rows.clone() {
            queries[count] = (head, row);
            (count, left) = (count + 1, left - 1);
            if count == ROWS || left == 0 {
                let queries = &queries;
                dispatch(isa, Few { core, b, kv, queries, count, block, scores: &mut *work, stride, factor });
                count = 0;
            }
        }
    }
}

/// Factor of the scores. Weights are powers of two.
fn factor(shape: &Shape) -> f32 {
    (shape.scale() * std::f64::consts::LOG2_E) as f32
}

/// Packed keys and values, from key `first` on.
struct Block<'a> {
    first: usize,
    count: usize,
    keys: &'a [f32],
    values: &'a [f32],
}

/// Buffers, and for each row the score subtracted from its scores and the sum of its weights.
struct Work<'a> {
    scores: &'a mut [f32],
    top: &'a mut [f32],
    sum: &'a mut [f32],
}

/// Some queries of one head.
struct Chunk<'a> {
    isa: Isa,
    core: &'a Core<'a>,
    tiling: Tiling,
    b: usize,
    head: usize,
    rows: Range<usize>,
}

impl Chunk<'_> {
    /// Processes a block of keys.
    ///
    /// # Safety
    /// As for [`single`], for these rows.
    unsafe fn meet(&self, block: &Block<'_>, work: &mut Work<'_>) {
        let shape = self.core.shape;
        for row in self.rows.clone().step_by(ROWS) {
            let visible: [usize; ROWS] = std::array::from_fn(|i| {
                let row = (row + i).min(shape.sequence - 1);
                shape.visible(self.core.lengths, self.b, row).saturating_sub(block.first).min(block.count)
            });
            // SAFETY: the caller's promise.
            unsafe { self.meet_rows(row, visible, block, work) };
        }
    }

    /// The product of `rows` queries from `row` on with the first `used` keys of a block.
    fn scores<'a>(&self, row: usize, [rows, used]: [usize; 2], block: &Block<'a>, scores: &mut [f32]) -> Strip<'a> {
        let (shape, (q, layout)) = (self.core.shape, self.core.q);
        Strip {
            rows,
            depth: shape.head(),
            a: q.wrapping_add(layout.at(self.b, self.head, row)),
            a_stride: layout.row,
            packed: block.keys,
            packed_depth: shape.head(),
            columns: block.count,
            used,
            onto: Onto::Zero,
            c: scores.as_mut_ptr(),
            c_stride: self.tiling.stride(&shape),
            stream: false,
        }
    }

    /// Processes a block of keys for the [`ROWS`] queries from `row` on, which see the first `visible` of them.
    ///
    /// # Safety
    /// As for [`Chunk::meet`].
    #[inline(always)]
    unsafe fn meet_rows(&self, row: usize, visible: [usize; ROWS], block: &Block<'_>, work: &mut Work<'_>) {
        let Chunk { isa, core, .. } = *self;
        let shape = core.shape;
        let rows = ROWS.min(self.rows.end - row);
        let used = visible[rows - 1];
        if used == 0 {
            return;
        }
        let stride = self.tiling.stride(&shape);
        // The factor applies after the sums: rounding the keys once more would cost a third of a millionth.
        let factor = factor(&shape);
        let mut factors = [0.0; ROWS];
        let out = core.out.1.at(self.b, self.head, row);
        let at = row - self.rows.start;
        // SAFETY: `rows` rows of q are readable and of out writable, as the caller guarantees; the scores are a
        // local buffer.
        unsafe {
            strip(isa, self.scores(row, [rows, used], block, work.scores));
            let soften = Soften {
                scores: &mut *work.scores,
                stride,
                used,
                visible,
                top: &mut work.top[at..at + rows],
                sum: &mut work.sum[at..at + rows],
                factors: &mut factors,
                factor,
            };
            dispatch(isa, soften);
            let two = Strip {
                rows,
                depth: used,
                a: work.scores.as_ptr(),
                a_stride: stride,
                packed: block.values,
                packed_depth: block.count,
                columns: shape.head(),
                used: shape.head(),
                onto: if block.first == 0 { Onto::Zero } else { Onto::Scaled(&factors) },
                c: core.out.0.add(out),
                c_stride: core.out.1.row,
                stream: false,
            };
            strip(isa, two);
        }
    }
}

/// Working memory for `threads` threads.
pub(super) fn scratch(threads: usize, shape: &Shape, tiling: Tiling) -> Scratch {
    gemm::Scratch::new(threads, tiling.len(shape))
}
