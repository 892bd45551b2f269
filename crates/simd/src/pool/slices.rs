//! Distributes slices over the team, each piece to one thread.
#![allow(unsafe_code)]

use super::for_each_chunk_on;

/// A pointer shared between threads that access disjoint parts of its target.
struct Start<T>(*mut T);

// SAFETY: creating one requires `T: Send`, and the parts handed out are disjoint.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// The elements `[at, at + len)`.
    ///
    /// # Safety
    /// They must lie within one live allocation that nothing else borrows, and no other part may overlap them.
    #[allow(clippy::mut_from_ref, reason = "the caller vouches that the parts are disjoint")]
    unsafe fn part(&self, at: usize, len: usize) -> &mut [T] {
        // SAFETY: guaranteed by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(at), len) }
    }
}

/// Splits `slice` into pieces of `len` elements (the last may be shorter) and calls `work(i, piece)` for each on the
/// team.
pub fn for_each_slice<T: Send>(slice: &mut [T], len: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    for_each_slice_on(usize::MAX, slice, len, work);
}

/// As [`for_each_slice`], on at most `threads` threads.
pub fn for_each_slice_on<T: Send>(threads: usize, slice: &mut [T], len: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    let (all, len) = (slice.len(), len.max(1));
    let start = Start(slice.as_mut_ptr());
    for_each_chunk_on(threads, all.div_ceil(len), |piece| {
        let at = piece * len;
        // SAFETY: each piece is handed out once, pieces do not overlap, and `slice` is borrowed until all are done.
        work(piece, unsafe { start.part(at, len.min(all - at)) });
    });
}

/// Calls `work(i, part)` once for each part on the team, for parts that borrow from several slices.
pub fn for_each_part<T: Send>(parts: Vec<T>, work: impl Fn(usize, T) + Sync) {
    let mut parts: Vec<Option<T>> = parts.into_iter().map(Some).collect();
    for_each_slice(&mut parts, 1, |i, part| part.iter_mut().filter_map(Option::take).for_each(|part| work(i, part)));
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
    fn parts_may_borrow_from_several_slices() {
        let (mut a, mut b) = (vec![0_usize; 10], vec![0_usize; 4]);
        let parts: Vec<_> = a.chunks_mut(3).zip(&mut b).collect();
        for_each_part(parts, |i, (a, b)| {
            a.fill(i + 1);
            *b = a.len();
        });
        assert_eq!(a, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]);
        assert_eq!(b, [3, 3, 3, 1]);
    }
}
