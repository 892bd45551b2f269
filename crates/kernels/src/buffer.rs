//! Memory for f32 with an explicit policy: whose pages they are decides more than any kernel does.
//!
//! A first touch of a 4 KiB page costs the system about as long as moving 40 KiB does. `Heap` is what the allocator of the
//! program gives, which hands large blocks back to the system at once and faults them in again; `Huge` asks the system for
//! pages of 2 MiB, which fault once for 512 small ones and need fewer entries of the translation cache.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::num::NonZero;
use std::ptr::NonNull;

use ellwand_core::tensor::ALIGNMENT;

/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Where the memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// The program's allocator.
    Heap,
    /// A mapping of its own, on huge pages where the system grants them.
    Huge,
}

/// f32 that start on an [`ALIGNMENT`] boundary.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<f32>,
    len: usize,
    /// What to give back: the layout of a block of the allocator, or the bytes of a mapping.
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
unsafe impl Send for Buffer {}
// SAFETY: shared access is to a slice of f32 only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` values that are about to be written: what stands there before is anything.
    ///
    /// # Panics
    /// Where the allocator has no memory, as `Vec` does.
    pub(crate) fn unwritten(len: usize, pages: Pages) -> Buffer {
        let bytes = len.checked_mul(size_of::<f32>()).expect("the planner refuses what cannot be addressed");
        if bytes == 0 {
            return Buffer { start: NonNull::dangling(), len: 0, held: Held::Nothing };
        }
        #[cfg(target_os = "linux")]
        if pages == Pages::Huge
            && let Some(buffer) = Buffer::mapped(len, bytes)
        {
            return buffer;
        }
        let _ = pages;
        let layout = Layout::from_size_align(bytes, ALIGNMENT).expect("the planner refuses what cannot be addressed");
        // SAFETY: the layout is not empty.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }.cast::<f32>()) else {
            std::alloc::handle_alloc_error(layout)
        };
        Buffer { start, len, held: Held::Block(layout) }
    }

    #[cfg(target_os = "linux")]
    fn mapped(len: usize, bytes: usize) -> Option<Buffer> {
        use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};
        // Room to start on a huge page.
        let whole = bytes.checked_add(2 * HUGE_PAGE)? / HUGE_PAGE * HUGE_PAGE;
        let (rights, private) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        // SAFETY: a new anonymous mapping aliases nothing.
        let mapping = unsafe { mmap_anonymous(None, NonZero::new(whole)?, rights, private) }.ok()?;
        // SAFETY: the range is the mapping just made; advice about page sizes changes no contents. A system that
        // declines leaves small pages, which are right too.
        let _ = unsafe { madvise(mapping, whole, MmapAdvise::MADV_HUGEPAGE) };
        let skip = mapping.cast::<u8>().as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: skip < HUGE_PAGE, and `whole` holds `bytes` beyond it.
        let start = unsafe { mapping.cast::<u8>().add(skip) }.cast::<f32>();
        Some(Buffer { start, len, held: Held::Mapping { start: mapping, bytes: whole } })
    }

    /// A buffer that holds `values`.
    pub(crate) fn of(values: &[f32], pages: Pages) -> Buffer {
        let mut buffer = Buffer::unwritten(values.len(), pages);
        buffer.copy_from_slice(values);
        buffer
    }

    /// A buffer of `len` times `value`, every page touched.
    pub(crate) fn filled(len: usize, value: f32, pages: Pages) -> Buffer {
        let mut buffer = Buffer::unwritten(len, pages);
        buffer.fill(value);
        buffer
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer::unwritten(0, Pages::Heap)
    }
}

impl std::ops::Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        // SAFETY: `start` points to `len` f32 of this buffer's own; any bits are an f32, and whoever makes an unwritten
        // buffer writes before it reads.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.held {
            Held::Nothing => {}
            // SAFETY: the block came from `alloc` with this layout.
            Held::Block(layout) => unsafe { dealloc(self.start.as_ptr().cast::<u8>(), layout) },
            #[cfg(target_os = "linux")]
            // SAFETY: the mapping is this buffer's own and nothing borrows from it any more. It cannot fail on a whole mapping.
            Held::Mapping { start, bytes } => drop(unsafe { nix::sys::mman::munmap(start, bytes) }),
        }
    }
}

/// A slice of which several threads write pieces that do not overlap.
pub(crate) struct Shared<'a> {
    start: *mut f32,
    len: usize,
    life: std::marker::PhantomData<&'a mut [f32]>,
}

// SAFETY: `piece` is the only access, and its caller keeps pieces apart.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    pub(crate) fn new(values: &'a mut [f32]) -> Self {
        Self { start: values.as_mut_ptr(), len: values.len(), life: std::marker::PhantomData }
    }

    /// The values at `from..to`, clipped to what there is.
    ///
    /// # Safety
    /// No two pieces that live at the same time overlap.
    #[allow(clippy::mut_from_ref, reason = "the caller keeps pieces apart")]
    pub(crate) unsafe fn piece(&self, from: usize, to: usize) -> &mut [f32] {
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
        for pages in [Pages::Heap, Pages::Huge] {
            for len in [0, 1, 17, 600_000] {
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
