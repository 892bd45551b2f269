//! Slices dealt out to the team, each piece to one thread only.
#![allow(unsafe_code)]

use super::for_each_chunk;

/// A pointer that may travel to other threads, because no two of them use the same part of what it points to.
struct Start<T>(*mut T);

// SAFETY: `T: Send` is asked for where these are made, and the parts handed out are disjoint.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// The elements `[at, at + len)`.
    ///
    /// # Safety
    /// They lie within one live allocation that nobody else borrows, and nobody else gets any of them.
    #[allow(clippy::mut_from_ref, reason = "the caller vouches that the parts are disjoint")]
    unsafe fn part(&self, at: usize, len: usize) -> &mut [T] {
        // SAFETY: as the caller vouches.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(at), len) }
    }
}

/// Cuts `slice` into pieces of `len` elements (the last may be shorter) and calls `work(i, piece)` for each on the team.
pub(crate) fn for_each_slice<T: Send>(slice: &mut [T], len: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    let (all, len) = (slice.len(), len.max(1));
    let start = Start(slice.as_mut_ptr());
    for_each_chunk(all.div_ceil(len), |piece| {
        let at = piece * len;
        // SAFETY: each piece is handed out once, pieces do not overlap, and `slice` is borrowed until all are done.
        work(piece, unsafe { start.part(at, len.min(all - at)) });
    });
}

/// The same for two slices cut at once: pieces of `a_len` elements of `a` and of `b_len` of `b` go together. Pieces beyond
/// the end of the shorter one (in pieces) are left alone, as `zip` does.
#[allow(dead_code, reason = "offered to all workloads; none needs it yet")]
pub(crate) fn for_each_pair<A: Send, B: Send>(
    a: (&mut [A], usize),
    b: (&mut [B], usize),
    work: impl Fn(usize, &mut [A], &mut [B]) + Sync,
) {
    let ((a, a_len), (b, b_len)) = ((a.0, a.1.max(1)), (b.0, b.1.max(1)));
    let (a_all, b_all) = (a.len(), b.len());
    let (a_start, b_start) = (Start(a.as_mut_ptr()), Start(b.as_mut_ptr()));
    for_each_chunk(a_all.div_ceil(a_len).min(b_all.div_ceil(b_len)), |piece| {
        let (a_at, b_at) = (piece * a_len, piece * b_len);
        // SAFETY: as in `for_each_slice`, for each of the two.
        let (a, b) =
            unsafe { (a_start.part(a_at, a_len.min(a_all - a_at)), b_start.part(b_at, b_len.min(b_all - b_at))) };
        work(piece, a, b);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_slice_without_overlap() {
        for (all, len) in [(0, 3), (1, 3), (10, 3), (12, 3), (1000, 7), (5, 0)] {
            let mut slice = vec![0_usize; all];
            for_each_slice(&mut slice, len, |piece, part| {
                assert!(part.len() <= len.max(1));
                part.iter_mut().for_each(|x| *x += piece + 1);
            });
            let expected: Vec<usize> = (0..all).map(|at| at / len.max(1) + 1).collect();
            assert_eq!(slice, expected, "{all} {len}");
        }
    }

    #[test]
    fn pairs_go_together_and_the_shorter_one_ends_it() {
        let (mut a, mut b) = (vec![0_usize; 10], vec![0_usize; 3]);
        for_each_pair((&mut a, 3), (&mut b, 1), |piece, a, b| {
            a.fill(piece + 1);
            b[0] = a.len();
        });
        assert_eq!(a, [1, 1, 1, 2, 2, 2, 3, 3, 3, 0]);
        assert_eq!(b, [3, 3, 3]);
    }
}
