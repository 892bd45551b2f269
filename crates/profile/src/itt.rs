//! Spans as tasks of Intel's ITT interface, for VTune and other collectors that read it.
//!
//! The environment variable `INTEL_LIBITTNOTIFY64` names the collector's library before the program starts; without one
//! a span costs an additional load and branch. A task begins and ends with its guard, whether a profiler records or
//! not.

use std::cell::Cell;
use std::ffi::CString;
use std::ptr::{addr_of, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use ittapi_sys::{
    ___itt_domain, ___itt_id, ___itt_string_handle, __itt_domain_create_ptr__3_0, __itt_string_handle_create_ptr__3_0,
    __itt_task_begin_ptr__3_0, __itt_task_end_ptr__3_0,
};

use crate::site::Site;

type Begin = unsafe extern "C" fn(*const ___itt_domain, ___itt_id, ___itt_id, *mut ___itt_string_handle);
type End = unsafe extern "C" fn(*const ___itt_domain);

struct Collector {
    domain: *const ___itt_domain,
    name: unsafe extern "C" fn(*const std::ffi::c_char) -> *mut ___itt_string_handle,
    begin: Begin,
    end: End,
}

// SAFETY: the interface guarantees that a domain lives as long as the program and may be used by every thread.
unsafe impl Send for Collector {}
// SAFETY: as above.
unsafe impl Sync for Collector {}

/// Tasks without ids: the collector nests them by thread.
const NO_ID: ___itt_id = ___itt_id { d1: 0, d2: 0, d3: 0 };

/// The collector of this process, if there is one.
fn collector() -> Option<&'static Collector> {
    static COLLECTOR: OnceLock<Option<Collector>> = OnceLock::new();
    COLLECTOR.get_or_init(attach).as_ref()
}

fn attach() -> Option<Collector> {
    // SAFETY: these pointers are set when the library is linked. The first call looks for a collector; the interface locks
    // meanwhile, and afterwards the pointers no longer change.
    unsafe {
        let create = (*addr_of!(__itt_domain_create_ptr__3_0))?;
        let domain = create(c"ellwand".as_ptr());
        if domain.is_null() {
            return None;
        }
        Some(Collector {
            domain,
            name: (*addr_of!(__itt_string_handle_create_ptr__3_0))?,
            begin: (*addr_of!(__itt_task_begin_ptr__3_0))?,
            end: (*addr_of!(__itt_task_end_ptr__3_0))?,
        })
    }
}

/// The collector's handle for a name, once requested.
#[derive(Debug)]
pub(crate) struct Handle(AtomicPtr<___itt_string_handle>);

impl Handle {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    fn get(&self, name: &str, collector: &Collector) -> *mut ___itt_string_handle {
        let known = self.0.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        let text = CString::new(name.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the text ends with 0 and the collector copies it. The same name always has the same handle.
        let handle = unsafe { (collector.name)(text.as_ptr()) };
        self.0.store(handle, Relaxed);
        handle
    }
}

pub(crate) fn is_attached() -> bool {
    collector().is_some()
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// While this lives, spans of this thread are not ITT tasks.
pub(crate) struct Quiet(());

impl Quiet {
    pub(crate) fn begin() -> Self {
        QUIET.set(true);
        Self(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.set(false);
    }
}

/// Begins a task on this thread; false without a collector.
#[inline]
pub(crate) fn begin(site: &Site) -> bool {
    let Some(collector) = collector().filter(|_| !QUIET.get()) else { return false };
    // SAFETY: domain and handle are the collector's own.
    unsafe { (collector.begin)(collector.domain, NO_ID, NO_ID, site.handle.get(site.name, collector)) };
    true
}

/// Ends the innermost task of this thread.
#[cold]
pub(crate) fn end() {
    if let Some(collector) = collector() {
        // SAFETY: the domain is the collector's own.
        unsafe { (collector.end)(collector.domain) };
    }
}
