//! Buffers that start on an alignment boundary, in safe code: the vector has room for an offset to the boundary.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Alignment of every buffer in bytes: two cache lines, for any vector width and the adjacent-line prefetcher.
pub const ALIGNMENT: usize = 128;

/// A fixed number of values that start on an [`ALIGNMENT`] boundary.
#[derive(Default)]
pub struct Buffer<T> {
    /// Never grows, so that its memory does not move.
    held: Vec<T>,
    start: usize,
}

impl<T: Copy + Default> Buffer<T> {
    /// `len` copies of `value`, written to memory, so the pages are mapped.
    pub fn filled(len: usize, value: T) -> Self {
        let mut buffer = Self::room(len);
        buffer.held.resize(buffer.start + len, value);
        buffer
    }

    /// A copy of `values`.
    pub fn of(values: &[T]) -> Self {
        let mut buffer = Self::room(values.len());
        buffer.held.extend_from_slice(values);
        buffer
    }

    /// An empty vector with capacity for the offset and `len` values.
    fn room(len: usize) -> Self {
        let size = size_of::<T>().max(1);
        let mut held: Vec<T> = Vec::with_capacity(len.saturating_add(ALIGNMENT.div_ceil(size)));
        let start = if len == 0 { 0 } else { held.as_ptr().addr().wrapping_neg() % ALIGNMENT / size };
        held.resize(start, T::default());
        Self { held, start }
    }
}

impl<T> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.held.get(self.start..).unwrap_or_default()
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.held.get_mut(self.start..).unwrap_or_default()
    }
}

impl<T: Copy + Default> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self::of(self)
    }
}

impl<T: fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_any_length_are_aligned_and_hold_their_values() {
        for len in (0..300).chain([4096, 100_001]) {
            let values: Vec<u16> = (0..len).map(|at| at as u16).collect();
            let mut buffer = Buffer::of(&values);
            let copy = buffer.clone();
            assert_eq!(buffer[..], values[..]);
            for buffer in [&buffer, &copy] {
                assert!(len == 0 || buffer.as_ptr().addr().is_multiple_of(ALIGNMENT), "{len}");
            }
            buffer.fill(1);
            assert_eq!(copy[..], values[..], "a copy has its own memory");
            assert_eq!(Buffer::filled(len, 0.5)[..], vec![0.5; len][..]);
        }
    }
}
