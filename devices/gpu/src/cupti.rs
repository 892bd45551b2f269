//! NVIDIA CUPTI, loaded at run time: device activity for the timeline of spans.
//!
//! CUPTI returns its buffers on separate threads, through callbacks without a user pointer. The buffers are therefore
//! in a global, and one recording runs at a time.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ellwand_core::device::Activity;
use libloading::{Library, Symbol};

use super::{GpuError, activity};

/// Size of a record buffer in bytes, and its alignment.
const BUFFER: usize = 1 << 20;
const ALIGN: usize = 8;
/// Maximum number of buffers per recording; CUPTI counts and drops later records.
const MAX_BUFFERS: usize = 64;
/// `CUPTI_CB_DOMAIN_DRIVER_API`: names of driver calls.
const DRIVER_CALLS: c_int = 1;

/// Buffers that CUPTI returned, with the number of bytes that hold records.
static FULL: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

fn layout() -> Option<Layout> {
    Layout::from_size_align(BUFFER, ALIGN).ok()
}

/// CUPTI asks for a buffer. Without one it drops records and counts them.
unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    let held = FULL.lock().unwrap_or_else(PoisonError::into_inner).len();
    let room = match layout() {
        // SAFETY: the layout is not empty.
        Some(layout) if held < MAX_BUFFERS => unsafe { alloc(layout) },
        _ => std::ptr::null_mut(),
    };
    // SAFETY: three out-parameters of the library.
    unsafe {
        *buffer = room;
        *size = if room.is_null() { 0 } else { BUFFER };
        *most = 0;
    }
}

/// CUPTI returns a buffer.
unsafe extern "C" fn completed(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    if !buffer.is_null() {
        FULL.lock().unwrap_or_else(PoisonError::into_inner).push((buffer as usize, valid.min(BUFFER)));
    }
}

/// The loaded library.
pub(super) struct Cupti {
    library: Library,
}

impl Cupti {
    /// Loads CUPTI from the file `path`.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn open(path: &Path) -> Result<Self, GpuError> {
        // SAFETY: runs only NVIDIA's initialisers.
        let library = unsafe { Library::new(path) }.map_err(|error| {
            let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
            GpuError::Absent(format!("{}: {error}{cause}", path.display()))
        })?;
        Ok(Self { library })
    }

    /// Looks up a function of the library.
    ///
    /// # Safety
    /// `F` must be its documented type.
    unsafe fn function<F>(&self, name: &str) -> Result<Symbol<'_, F>, GpuError> {
        // SAFETY: the caller guarantees the type.
        unsafe { self.library.get(name.as_bytes()) }
            .map_err(|_| format!("the CUPTI library has no function {name}: it is not CUPTI, or too old"))
            .map_err(GpuError::Absent)
    }

    fn check_status(&self, call: &'static str, code: c_int) -> Result<(), GpuError> {
        let problem = match code {
            0 => return Ok(()),
            // CUPTI_ERROR_INSUFFICIENT_PRIVILEGES.
            35 => {
                "this user is not permitted to (35); see the driver option NVreg_RestrictProfilingToAdminUsers".into()
            }
            other => format!("error {other}{}", self.result_text(other)),
        };
        Err(GpuError::Call { call, problem })
    }

    /// CUPTI's text for an error.
    fn result_text(&self, code: c_int) -> String {
        type Words = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
        // SAFETY: the documented signature.
        let Ok(words) = (unsafe { self.function::<Words>("cuptiGetResultString") }) else { return String::new() };
        let mut text = std::ptr::null();
        // SAFETY: one out-parameter, a static string of the library.
        match unsafe { words(code, &raw mut text) } {
            0 if !text.is_null() => {
                // SAFETY: the string ends with a zero byte.
                format!(" ({})", unsafe { CStr::from_ptr(text) }.to_string_lossy())
            }
            _ => String::new(),
        }
    }

    /// Starts a recording and returns CUPTI's clock, read last.
    ///
    /// # Errors
    /// Why recording is unavailable.
    pub(super) fn begin(&self) -> Result<u64, GpuError> {
        type Request = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
        type Complete = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
        type Register = unsafe extern "C" fn(Request, Complete) -> c_int;
        type Kind = unsafe extern "C" fn(c_int) -> c_int;
        type Now = unsafe extern "C" fn(*mut u64) -> c_int;
        // SAFETY: the documented signatures.
        let (register, enable, disable, now) = unsafe {
            (
                self.function::<Register>("cuptiActivityRegisterCallbacks")?,
                self.function::<Kind>("cuptiActivityEnable")?,
                self.function::<Kind>("cuptiActivityDisable")?,
                self.function::<Now>("cuptiGetTimestamp")?,
            )
        };
        drop(take());
        // SAFETY: the callbacks live as long as the process.
        self.check_status("cuptiActivityRegisterCallbacks", unsafe { register(requested, completed) })?;
        for (index, kind) in activity::KINDS.into_iter().enumerate() {
            // SAFETY: a number.
            let enabled = self.check_status("cuptiActivityEnable", unsafe { enable(kind as c_int) });
            if enabled.is_err() {
                // Kinds that stay enabled would cost time, and nothing would read their records.
                for kind in &activity::KINDS[..index] {
                    // SAFETY: a number.
                    unsafe { disable(*kind as c_int) };
                }
                return enabled.map(|()| 0);
            }
        }
        let mut at = 0;
        // SAFETY: one out-parameter.
        self.check_status("cuptiGetTimestamp", unsafe { now(&raw mut at) })?;
        Ok(at)
    }

    /// Ends the recording and returns its activity; `base` is what [`Cupti::begin`] returned.
    ///
    /// # Errors
    /// The error that CUPTI returned.
    pub(super) fn end(&self, base: u64) -> Result<Vec<Activity>, GpuError> {
        type Kind = unsafe extern "C" fn(c_int) -> c_int;
        type Flush = unsafe extern "C" fn(u32) -> c_int;
        type Next = unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> c_int;
        // SAFETY: the documented signatures.
        let (disable, flush, next) = unsafe {
            (
                self.function::<Kind>("cuptiActivityDisable")?,
                self.function::<Flush>("cuptiActivityFlushAll")?,
                self.function::<Next>("cuptiActivityGetNextRecord")?,
            )
        };
        for kind in activity::KINDS {
            // SAFETY: a number.
            self.check_status("cuptiActivityDisable", unsafe { disable(kind as c_int) })?;
        }
        // SAFETY: flag 1 also flushes buffers that are not full.
        self.check_status("cuptiActivityFlushAll", unsafe { flush(1) })?;
        let mut calls = HashMap::new();
        let mut all = Vec::new();
        for (buffer, valid) in &take().0 {
            let end = buffer + valid;
            let mut record = std::ptr::null_mut::<u8>();
            // SAFETY: the buffer holds `valid` bytes of records; `record` is null or the previous record.
            while unsafe { next(*buffer as *mut u8, *valid, &raw mut record) } == 0 {
                let bytes = (record as usize..end).len();
                // SAFETY: from this record to the end of the buffer.
                let rest = unsafe { std::slice::from_raw_parts(record, bytes) };
                if let Some(number) = activity::call(rest) {
                    calls.entry(number).or_insert_with(|| self.call(number));
                }
                let named = |number: u32| calls.get(&number).cloned().unwrap_or_default();
                all.extend(activity::read(rest, base, &text, &named));
            }
        }
        Ok(all)
    }

    /// CUPTI's name of a driver call.
    fn call(&self, number: u32) -> String {
        type Name = unsafe extern "C" fn(c_int, u32, *mut *const c_char) -> c_int;
        let unknown = || format!("call {number} of the driver");
        // SAFETY: the documented signature.
        let Ok(name) = (unsafe { self.function::<Name>("cuptiGetCallbackName") }) else { return unknown() };
        let mut at = std::ptr::null();
        // SAFETY: one out-parameter, a static string of the library.
        let code = unsafe { name(DRIVER_CALLS, number, &raw mut at) };
        if code == 0 { text(at as u64) } else { unknown() }
    }
}

/// Copies the C string at an address of the library; empty if null.
fn text(at: u64) -> String {
    if at == 0 {
        return "?".into();
    }
    // SAFETY: names of kernels and calls are C strings that live as long as the module or the library.
    unsafe { CStr::from_ptr(at as *const c_char) }.to_string_lossy().into_owned()
}

/// Record buffers, freed on drop.
struct Taken(Vec<(usize, usize)>);

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(layout) = layout() else { return };
        for (buffer, _) in &self.0 {
            // SAFETY: allocated in `requested` with this layout; CUPTI no longer uses it.
            unsafe { dealloc(*buffer as *mut u8, layout) };
        }
    }
}

fn take() -> Taken {
    Taken(std::mem::take(&mut *FULL.lock().unwrap_or_else(PoisonError::into_inner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_wrong_library_is_named() {
        let missing = Cupti::open(Path::new("libellwand-has-none.so")).err().unwrap();
        assert!(missing.to_string().contains("libellwand-has-none.so"), "{missing}");
        let other = Cupti::open(Path::new("libc.so.6")).unwrap();
        assert!(other.begin().unwrap_err().to_string().contains("cuptiActivityRegisterCallbacks"));
        assert!(other.end(0).unwrap_err().to_string().contains("cuptiActivityDisable"));
    }

    /// A mock CUPTI: one call and the kernel that it launched, with the numbers of `cupti_activity.h`. It refuses the
    /// record kind in `refused`.
    const STAND_IN: &str = r#"
        #include <cstdint>
        #include <cstring>
        struct __attribute__((packed, aligned(8))) Api { uint32_t kind, cbid; uint64_t start, end; uint32_t process, thread, correlation, returned; };
        struct __attribute__((packed, aligned(8))) Kernel {
            uint32_t kind; uint8_t cache, config; uint16_t registers; uint32_t requested, executed; uint64_t start, end, completed;
            uint32_t device, context, stream; int32_t grid[3], block[3], shared[2]; uint32_t local[2], correlation; int64_t number;
            const char* name; uint8_t rest[104];
        };
        static_assert(sizeof(Api) == 40 && sizeof(Kernel) == 216, "as in CUDA 13.0");
        static void (*request)(uint8_t**, size_t*, size_t*);
        static void (*complete)(void*, uint32_t, uint8_t*, size_t, size_t);
        static int on;
        extern "C" {
            int refused;
            int enabled() { return on; }
            int cuptiActivityRegisterCallbacks(decltype(request) r, decltype(complete) c) { request = r; complete = c; return 0; }
            int cuptiActivityEnable(int kind) { if (kind == refused) return 35; on |= 1 << kind; return 0; }
            int cuptiActivityDisable(int kind) { on &= ~(1 << kind); return 0; }
            int cuptiGetTimestamp(uint64_t* at) { *at = 1000; return 0; }
            int cuptiGetCallbackName(int domain, uint32_t, const char** name) { *name = "cuLaunchKernel"; return domain == 1 ? 0 : 1; }
            int cuptiActivityFlushAll(uint32_t) {
                uint8_t* buffer; size_t size, most;
                request(&buffer, &size, &most);
                if (!buffer || most) return 1;
                const Api api = {4, 307, 1100, 1200, 1, 9, 77, 0};
                const Kernel kernel = {10, 0, 0, 40, 0, 0, 1300, 1500, 0, 0, 1, 13, {7, 1, 1}, {128, 1, 1}, {256, 0}, {0, 0}, 77, 1, "gelu", {}};
                std::memcpy(buffer, &api, sizeof api);
                std::memcpy(buffer + sizeof api, &kernel, sizeof kernel);
                complete(nullptr, 0, buffer, size, sizeof api + sizeof kernel);
                return 0;
            }
            int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
                uint8_t* next = buffer;
                if (*record) next = *record + (**record == 4 ? sizeof(Api) : sizeof(Kernel));
                if (next >= buffer + valid) return 12;
                *record = next;
                return 0;
            }
        }
    "#;

    #[test]
    fn activities_are_read_and_a_refused_recording_leaves_nothing_enabled() {
        let Some(stand_in) = ellwand_gpu_lab::stand_in("cupti", STAND_IN) else { return };
        let library = Cupti::open(&stand_in).unwrap();
        let base = library.begin().unwrap();
        assert_eq!(base, 1000);
        let activities = library.end(base).unwrap();
        let names: Vec<_> =
            activities.iter().map(|one| (one.name.as_str(), one.start_ns, one.ns, one.corr, one.call)).collect();
        assert_eq!(names, [("cuLaunchKernel", 100, 100, 77, true), ("gelu", 300, 200, 77, false)]);
        assert_eq!(activities[1].lane, "stream 13");
        assert_eq!(activities[1].detail, "7 x 1 x 1 blocks of 128 x 1 x 1 threads, 40 registers, 256 B shared");
        // SAFETY: the types of the mock's variables and functions.
        let (refused, enabled) = unsafe {
            let refused: Symbol<'_, *mut c_int> = library.library.get(b"refused").unwrap();
            (*refused, library.function::<unsafe extern "C" fn() -> c_int>("enabled").unwrap())
        };
        // SAFETY: as above; only this test uses this copy of the library.
        assert_eq!(unsafe { enabled() }, 0);
        for kind in activity::KINDS {
            // SAFETY: as above.
            unsafe { *refused = kind as c_int };
            assert!(library.begin().unwrap_err().to_string().contains("not permitted"));
            // SAFETY: as above.
            assert_eq!(unsafe { enabled() }, 0, "{kind} was refused");
        }
    }

    #[test]
    fn missing_permission_names_the_setting_that_grants_it() {
        let library = Cupti::open(Path::new("libc.so.6")).unwrap();
        assert_eq!(library.check_status("cuptiActivityEnable", 0), Ok(()));
        let refused = library.check_status("cuptiActivityEnable", 35).unwrap_err().to_string();
        assert!(
            refused.contains("not permitted") && refused.contains("NVreg_RestrictProfilingToAdminUsers"),
            "{refused}"
        );
        let other = library.check_status("cuptiActivityEnable", 7).unwrap_err();
        assert_eq!(other.to_string(), "cuptiActivityEnable: error 7", "a library without words for it");
    }
}
