//! Memory with an explicit page policy, which often matters more than the kernel does.
//!
//! The first touch of a 4 KiB page costs about as much as moving 40 KiB. `Heap` uses the program's allocator, which
//! returns large blocks to the system at once and faults them in again; `Huge` requests 2 MiB pages, each of which
//! takes one fault instead of 512 and needs fewer TLB entries.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::num::NonZero;
use std::ptr::NonNull;

use ellwand_core::tensor::ALIGNMENT;

/// Size of a huge page in bytes.
const HUGE_PAGE: usize = 2 << 20;

/// The source of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// The program's allocator.
    Heap,
    /// A separate mapping, on huge pages if the system grants them.
    Huge,
}

/// A plain number type for buffers.
///
/// # Safety
/// Every bit pattern of this size must be a valid value.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

// SAFETY: any four bytes are an f32.
unsafe impl Plain for f32 {}
// SAFETY: any eight bytes are an f64.
unsafe impl Plain for f64 {}
// SAFETY: any two bytes are a u16.
unsafe impl Plain for u16 {}

/// Values whose start is aligned to [`ALIGNMENT`].
#[derive(Debug)]
pub struct Buffer<T: Plain = f32> {
    start: NonNull<T>,
    len: usize,
    /// What to free: the layout of a heap block, or the bytes of a mapping.
    held: Held,
}

#[derive(Debug)]
enum Held {
    Nothing,
    Block(Layout),
    #[cfg(target_os = "linux")]
    Mapping {
        start: NonNull<std::ffi::c_void>,
        bytes: usize,
    },
}

// SAFETY: a buffer owns its memory, as a Vec does.
unsafe impl<T: Plain> Send for Buffer<T> {}
// SAFETY: shared access is to a slice of plain values only.
unsafe impl<T: Plain> Sync for Buffer<T> {}

impl<T: Plain> Buffer<T> {
    /// `len` values with unspecified contents: a benchmark of allocation must not pay for zeroing.
    ///
    /// # Safety
    /// Every value must be written before it is read.
    ///
    /// # Panics
    /// If the allocator runs out of memory, like `Vec`.
    pub unsafe fn unwritten(len: usize, pages: Pages) -> Self {
        let bytes = len.checked_mul(size_of::<T>()).expect("the planner refuses what cannot be addressed");
        if bytes == 0 {
            return Self { start: NonNull::dangling(), len: 0, held: Held::Nothing };
        }
        #[cfg(target_os = "linux")]
        if pages == Pages::Huge
            && let Some(buffer) = Self::mapped(len, bytes)
        {
            return buffer;
        }
        let _ = pages;
        let layout = Layout::from_size_align(bytes, ALIGNMENT).expect("the planner refuses what cannot be addressed");
        // SAFETY: the layout is not empty.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }.cast::<T>()) else {
            std::alloc::handle_alloc_error(layout)
        };
        Self { start, len, held: Held::Block(layout) }
    }

    #[cfg(target_os = "linux")]
    fn mapped(len: usize, bytes: usize) -> Option<Self> {
        use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};
        // Room to align the start to a huge page.
        let whole = bytes.checked_add(2 * HUGE_PAGE)? / HUGE_PAGE * HUGE_PAGE;
        let (rights, private) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        // SAFETY: a new anonymous mapping aliases nothing.
        let mapping = unsafe { mmap_anonymous(None, NonZero::new(whole)?, rights, private) }.ok()?;
        // SAFETY: the range is the mapping just made; the advice does not change its contents. A system that declines
        // leaves small pages, which work too.
        let _ = unsafe { madvise(mapping, whole, MmapAdvise::MADV_HUGEPAGE) };
        let skip = mapping.cast::<u8>().as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: skip < HUGE_PAGE, and `whole` holds `bytes` beyond it.
        let start = unsafe { mapping.cast::<u8>().add(skip) }.cast::<T>();
        Some(Self { start, len, held: Held::Mapping { start: mapping, bytes: whole } })
    }

    /// Frees the memory and allocates the same amount again, in this order, like a program that allocates in a loop.
    ///
    /// # Safety
    /// As for [`Buffer::unwritten`].
    pub unsafe fn renew(&mut self, pages: Pages) {
        let len = self.len;
        *self = Self::default();
        // SAFETY: the caller's promise.
        *self = unsafe { Self::unwritten(len, pages) };
    }

    /// A copy of `values`.
    pub fn of(values: &[T], pages: Pages) -> Self {
        // SAFETY: all of it is written here.
        let mut buffer = unsafe { Self::unwritten(values.len(), pages) };
        buffer.copy_from_slice(values);
        buffer
    }

    /// A buffer of `len` copies of `value`, with every page touched.
    pub fn filled(len: usize, value: T, pages: Pages) -> Self {
        // SAFETY: all of it is written here.
        let mut buffer = unsafe { Self::unwritten(len, pages) };
        buffer.fill(value);
        buffer
    }
}

impl<T: Plain> Default for Buffer<T> {
    fn default() -> Self {
        Self { start: NonNull::dangling(), len: 0, held: Held::Nothing }
    }
}

impl<T: Plain> std::ops::Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `start` points to `len` values that this buffer owns and that were written before being read.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Plain> std::ops::DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Plain> Drop for Buffer<T> {
    fn drop(&mut self) {
        match self.held {
            Held::Nothing => {}
            // SAFETY: the block came from `alloc` with this layout.
            Held::Block(layout) => unsafe { dealloc(self.start.as_ptr().cast::<u8>(), layout) },
            #[cfg(target_os = "linux")]
            // SAFETY: the mapping belongs to this buffer and nothing borrows from it any more. Unmapping all of it
            // cannot fail.
            Held::Mapping { start, bytes } => drop(unsafe { nix::sys::mman::munmap(start, bytes) }),
        }
    }
}

/// A slice whose disjoint pieces are written by several threads.
pub struct Shared<'a, T: Plain = f32> {
    start: *mut T,
    len: usize,
    life: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: `piece` is the only access, and its callers keep pieces disjoint.
unsafe impl<T: Plain> Sync for Shared<'_, T> {}

impl<'a, T: Plain> Shared<'a, T> {
    /// Shares `values` between threads that each write a different part.
    pub fn new(values: &'a mut [T]) -> Self {
        Self { start: values.as_mut_ptr(), len: values.len(), life: std::marker::PhantomData }
    }

    /// The values at `from..to`, clipped to the slice.
    ///
    /// # Safety
    /// No two pieces that are alive at the same time may overlap.
    #[allow(clippy::mut_from_ref, reason = "the caller keeps pieces apart")]
    pub unsafe fn piece(&self, from: usize, to: usize) -> &mut [T] {
        let (from, to) = (from.min(self.len), to.min(self.len));
        // SAFETY: within the slice, and exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), to.saturating_sub(from)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_hold_what_was_put_in_and_start_on_the_alignment() {
        // Miri does not support advice about pages.
        let all = [Pages::Heap, Pages::Huge];
        for pages in all.into_iter().take(if cfg!(miri) { 1 } else { 2 }) {
            // Miri is a thousand times slower.
            for len in [0, 1, 17, if cfg!(miri) { 2_000 } else { 600_000 }] {
                let values: Vec<f32> = (0..len).map(|i| i as f32).collect();
                let buffer = Buffer::of(&values, pages);
                assert_eq!(&buffer[..], &values[..]);
                assert!(len == 0 || buffer.as_ptr().addr().is_multiple_of(ALIGNMENT), "{pages:?} {len}");
                assert!(Buffer::filled(len, 3.0, pages).iter().all(|value| *value == 3.0));
            }
        }
    }

    #[test]
    fn pieces_are_clipped_to_the_slice() {
        let mut values = vec![0.0_f32; 10];
        let shared = Shared::new(&mut values);
        // SAFETY: the pieces do not overlap.
        let (a, b, c) = unsafe { (shared.piece(0, 4), shared.piece(4, 20), shared.piece(30, 40)) };
        a.fill(1.0);
        b.fill(2.0);
        assert_eq!((a.len(), b.len(), c.len()), (4, 6, 0));
        assert_eq!(values, [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
    }
}
