//! Distribution of heads and their queries over threads.

use std::ops::Range;

use super::fused::CHUNK;
use super::shape::Shape;
use ellwand_gemm::ROWS;

/// Whole heads first, because each piece packs the keys and values of its head; the last heads in parts, so that no
/// thread waits for another's whole head. A head here is one of keys and values, with all query heads that share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deal {
    sequence: usize,
    /// Number of heads distributed whole, and number of the following heads that are split.
    whole: usize,
    cut: usize,
    /// Queries per part.
    step: usize,
}

impl Deal {
    pub(super) fn of(shape: &Shape, threads: usize) -> Self {
        let (heads, sequence) = (shape.batch * shape.kv_heads, shape.sequence);
        // The same number of whole heads for every thread; the last round and the remainder are split.
        let whole = (heads - heads % threads).saturating_sub(threads);
        let cut = heads - whole;
        let parts = (4 * threads).div_ceil(cut).clamp(1, sequence.div_ceil(CHUNK));
        // Parts start where a strip of the whole head starts, so that results do not depend on the split.
        Self { sequence, whole, cut, step: sequence.div_ceil(parts).next_multiple_of(ROWS) }
    }

    /// Number of pieces.
    pub(super) fn pieces(self) -> usize {
        self.whole + self.cut * self.sequence.div_ceil(self.step)
    }

    /// Head and queries of a piece.
    pub(super) fn piece(self, piece: usize) -> (usize, Range<usize>) {
        let Some(part) = piece.checked_sub(self.whole) else { return (piece, 0..self.sequence) };
        // The last queries of all heads come first. Under a causal mask they see the most keys, so the longest pieces
        // start first.
        let from = (self.sequence.div_ceil(self.step) - 1 - part / self.cut) * self.step;
        (self.whole + part % self.cut, from..self.sequence.min(from + self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::Mask;
    use super::*;

    fn deal(batch: usize, heads: usize, sequence: usize, threads: usize) -> Deal {
        let shape = Shape {
            batch,
            sequence,
            keys: sequence,
            dimension: 64 * heads,
            heads,
            kv_heads: heads,
            mask: Mask::None,
            seen: None,
        };
        Deal::of(&shape, threads)
    }

    #[test]
    fn every_query_of_every_head_is_dealt_out_once_and_parts_begin_with_a_strip() {
        for (batch, heads) in [(1, 1), (1, 3), (2, 4), (5, 5), (1, 97)] {
            for sequence in [1, 6, 200, 256, 1000] {
                for threads in [1, 2, 3, 16, 200] {
                    let deal = deal(batch, heads, sequence, threads);
                    let mut seen = vec![0; batch * heads * sequence];
                    for piece in 0..deal.pieces() {
                        let (head, queries) = deal.piece(piece);
                        assert!(!queries.is_empty() && queries.start.is_multiple_of(ROWS), "{deal:?} {piece}");
                        queries.for_each(|query| seen[head * sequence + query] += 1);
                    }
                    assert!(seen.iter().all(|times| *times == 1), "{deal:?}");
                }
            }
        }
    }

    /// Queries of the busiest thread if each takes the next piece when it is free and all queries take the same time.
    fn most(deal: Deal, threads: usize) -> usize {
        let mut done = vec![0; threads];
        for piece in 0..deal.pieces() {
            let least = done.iter_mut().min().unwrap();
            *least += deal.piece(piece).1.len();
        }
        done.into_iter().max().unwrap()
    }

    #[test]
    fn threads_end_together() {
        // Eight heads of 256 on two threads, in parts of 132 and 124: a thread with all the longer parts would have 3 %
        // more.
        assert_eq!(most(deal(1, 8, 256, 2), 2), 4 * 256);
        assert_eq!(deal(1, 8, 256, 2).pieces(), 6 + 2 * 2, "few heads are packed twice");
        for (batch, heads, threads) in [(1, 8, 3), (4, 12, 2), (4, 12, 16), (1, 9, 2), (1, 3, 2)] {
            let mean = batch * heads * 1024 / threads;
            let most = most(deal(batch, heads, 1024, threads), threads);
            assert!(most * 100 <= mean * 115, "{batch} {heads} on {threads}: {most} of {mean}");
        }
    }
}
