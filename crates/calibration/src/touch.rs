//! `first-touch`: maps fresh memory, writes one word in each page and unmaps it: the cost of memory that is not reused.
#![allow(unsafe_code)]

use ellwand_core::{
    Axis, Case, Description, DeviceError, Implementation, InputError, Poison, PrepareError, Prepared, Registry, Tensor,
    Tensors, Tolerance, Work, Workload,
};

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;

struct FirstTouch(Description);

/// Page size of a case, in bytes.
fn page(case: &Case) -> usize {
    if case.text("pages") == Some("huge") { HUGE } else { PAGE }
}

fn region(case: &Case) -> usize {
    case.count("region", 1 << 20).next_multiple_of(page(case))
}

impl Workload for FirstTouch {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, case: &Case) -> u64 {
        2 * case.int("region").unwrap_or(0).unsigned_abs()
    }
    fn inputs(&self, _: &Case, _: u64) -> Result<Tensors, InputError> {
        Ok(Tensors::new())
    }
    fn reference(&self, case: &Case, _: &Tensors) -> Result<Tensors, InputError> {
        Ok(Tensors::new().with("touched", Tensor::vector(&[(region(case) / page(case)) as u64][..])))
    }
    fn work(&self, case: &Case) -> Work {
        let pages = (region(case) / page(case)) as u64;
        // One word per page is required; the cost is that of clearing the page.
        Work::items("pages", pages).bytes(0, 8 * pages)
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Exact
    }
}

struct Ready {
    bytes: usize,
    page: usize,
    touched: u64,
}

impl Prepared for Ready {
    fn run(&mut self) {
        // Room to align the start to a huge page.
        let slack = if self.page == HUGE { HUGE } else { 0 };
        let Some(fresh) = system::Fresh::map(self.bytes + slack, self.page == HUGE) else { return };
        self.touched = fresh.touch(self.page, self.bytes);
    }
    fn poison(&mut self, poison: Poison) {
        self.touched = poison.value();
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("touched", Tensor::vector(&[self.touched][..])))
    }
    fn what_ran(&self) -> String {
        format!("pages of {} KiB requested", self.page / 1024)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::c_void;
    use std::num::NonZero;
    use std::ptr::NonNull;

    use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

    pub(super) const HERE: bool = true;

    /// A separate private mapping, unmapped when dropped.
    pub(super) struct Fresh {
        start: NonNull<c_void>,
        bytes: usize,
    }

    impl Fresh {
        pub(super) fn map(bytes: usize, huge: bool) -> Option<Self> {
            let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            // SAFETY: a new private mapping at an address that the system chooses overlaps no existing memory.
            let start =
                unsafe { mmap_anonymous(None, NonZero::new(bytes)?, protection, MapFlags::MAP_PRIVATE) }.ok()?;
            let fresh = Self { start, bytes };
            let advice = if huge { MmapAdvise::MADV_HUGEPAGE } else { MmapAdvise::MADV_NOHUGEPAGE };
            // SAFETY: the range is the mapping just made; the advice changes no content. A system without huge pages
            // declines, and the fault count then shows small pages.
            let _ = unsafe { madvise(start, bytes, advice) };
            Some(fresh)
        }

        /// Writes the first word of each page in `bytes` bytes from the first page boundary; returns the number of
        /// pages.
        pub(super) fn touch(&self, page: usize, bytes: usize) -> u64 {
            let offset = self.start.as_ptr().cast::<u8>().align_offset(page);
            let pages = bytes.min(self.bytes.saturating_sub(offset)) / page;
            for index in 0..pages {
                // SAFETY: offset + (index + 1) * page is within the mapping, which is writable and exclusively owned.
                unsafe { self.start.as_ptr().cast::<u8>().add(offset + index * page).cast::<u64>().write_volatile(1) };
            }
            pages as u64
        }
    }

    impl Drop for Fresh {
        fn drop(&mut self) {
            // SAFETY: this value owns the mapping, and nothing points into it any more.
            let _ = unsafe { munmap(self.start, self.bytes) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) const HERE: bool = false;
    pub(super) struct Fresh;
    impl Fresh {
        pub(super) fn map(_: usize, _: bool) -> Option<Self> {
            None
        }
        pub(super) fn touch(&self, _: usize, _: usize) -> u64 {
            0
        }
    }
}

pub(super) fn register(registry: &mut Registry) {
    let size = Axis::int("region", "bytes of fresh memory", 4096, 1 << 32, 16 << 20).unit("B");
    let pages = Axis::choice("pages", "kind of pages to request", &["small", "huge"], "small").sweep(["small", "huge"]);
    let about = "writes once to each page of newly mapped memory: the cost of a page fault";
    let description = Description::new("first-touch", about).group("calibration").axes(vec![size, pages]);
    registry.workload(FirstTouch(description.baseline("fresh")));
    let prepared = |case: &Case, _: &Tensors, _: &dyn ellwand_core::Device| {
        if !system::HERE {
            return Err(PrepareError::Unsupported("memory mapping is implemented only for Linux".into()));
        }
        Ok(Box::new(Ready { bytes: region(case), page: page(case), touched: 0 }) as Box<dyn Prepared>)
    };
    registry.implementation(Implementation::cpu(
        "first-touch",
        "fresh",
        "map, write once to each page, unmap",
        prepared,
    ));
}
