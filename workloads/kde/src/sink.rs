//! The output array while several threads write disjoint parts of it.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;

/// `[rows, width]` f32 or f64, shared by parts that write disjoint rectangles.
pub(super) struct Sink<'a, T> {
    start: *mut T,
    rows: usize,
    width: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it represents a `&mut [T]`, and `row` is unsafe: its callers ensure that no two threads hold the same
// element.
unsafe impl<T: Send> Sync for Sink<'_, T> {}

impl<'a, T> Sink<'a, T> {
    pub(super) fn new(out: &'a mut [T], width: usize) -> Self {
        Self { start: out.as_mut_ptr(), rows: out.len() / width.max(1), width, borrow: PhantomData }
    }

    /// Some bins of a row.
    ///
    /// # Safety
    /// No other reference to any of these bins of this row may exist at the same time.
    #[allow(clippy::mut_from_ref, reason = "the caller vouches that the parts are disjoint")]
    pub(super) unsafe fn row(&self, row: usize, bins: Range<usize>) -> &mut [T] {
        assert!(row < self.rows && bins.end <= self.width);
        // SAFETY: in bounds by the assertion, and not aliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.width + bins.start), bins.len()) }
    }
}
