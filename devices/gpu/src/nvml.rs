//! GPU state from NVML, NVIDIA's management library, which comes with the driver and is loaded at run time.
//!
//! Ellwand needs only a few functions of the C interface; all but one name have been stable since 2013. The nvml-wrapper
//! crate would add nine dependencies for them.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};

use cudarc::driver::sys;
use ellwand_core::device::slowed;
use ellwand_core::record::SlotState;
use libloading::{Library, Symbol};

use super::GpuError;

/// File name as the driver installs it.
const NAME: &str = "libnvidia-ml.so.1";

/// `NVML_CLOCK_SM`.
const CLOCK_SM: c_int = 1;
/// Throttle reasons that the user did not choose: power cap and power brake, temperature (software, hardware), hardware
/// slowdown. Not included: idle, clocks set by the user, boost in step with other cards.
const SLOWED: [(c_ulonglong, u64); 3] =
    [(0x4 | 0x80, slowed::POWER), (0x20 | 0x40, slowed::HEAT), (0x8, slowed::HARDWARE)];

/// Maps NVML's reasons to Ellwand's.
fn slowed_by(reasons: c_ulonglong) -> u64 {
    SLOWED.iter().filter(|(theirs, _)| reasons & theirs != 0).map(|(_, ours)| ours).sum()
}

/// PCI bus address of a device, by which NVML finds it.
pub(super) fn bus(device: sys::CUdevice) -> Option<CString> {
    let mut text = [0_i8; 32];
    // SAFETY: writes at most 32 bytes, with a zero at the end.
    unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), 32, device) }.result().ok()?;
    CString::new(text.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect::<Vec<u8>>()).ok()
}

/// One device as NVML knows it.
pub(super) struct Nvml {
    library: Library,
    device: *mut c_void,
}

// SAFETY: NVML documents its functions as thread-safe; the handle is an address inside the library.
unsafe impl Send for Nvml {}
// SAFETY: as above.
unsafe impl Sync for Nvml {}

impl Nvml {
    /// Opens the device at a PCI bus address (`0000:01:00.0`).
    ///
    /// # Errors
    /// Why the state is unavailable.
    pub(super) fn open(bus: &CStr) -> Result<Self, GpuError> {
        Self::from(NAME, bus)
    }

    fn from(name: &str, bus: &CStr) -> Result<Self, GpuError> {
        type Init = unsafe extern "C" fn() -> c_int;
        type Find = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
        // SAFETY: runs only NVIDIA's initialisers.
        let library = unsafe { Library::new(name) }.map_err(|error| {
            let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
            GpuError::Absent(format!("{name}: {error}{cause}"))
        })?;
        let lacks = |function: &str| {
            GpuError::Absent(format!(
                "{name} has no function {function}: it is not NVIDIA's library, or older than 2013"
            ))
        };
        let mut device = std::ptr::null_mut();
        {
            // SAFETY: the documented signature.
            let init: Symbol<'_, Init> = unsafe { library.get(b"nvmlInit_v2\0") }.map_err(|_| lacks("nvmlInit_v2"))?;
            // SAFETY: the documented signature.
            let find: Symbol<'_, Find> = unsafe { library.get(b"nvmlDeviceGetHandleByPciBusId_v2\0") }
                .map_err(|_| lacks("nvmlDeviceGetHandleByPciBusId_v2"))?;
            // SAFETY: may be called any number of times.
            check_status("nvmlInit", unsafe { init() })?;
            // SAFETY: a string that ends with zero, and one out-parameter.
            check_status("nvmlDeviceGetHandleByPciBusId", unsafe { find(bus.as_ptr(), &raw mut device) })?;
        }
        Ok(Self { library, device })
    }

    /// Calls `function(device, &mut value)`; `None` if the card or the user's permissions do not allow it.
    fn value<T: Default>(&self, function: &[u8]) -> Option<T> {
        type Get<T> = unsafe extern "C" fn(*mut c_void, *mut T) -> c_int;
        // SAFETY: the callers below name functions of this signature.
        let get: Symbol<'_, Get<T>> = unsafe { self.library.get(function) }.ok()?;
        let mut value = T::default();
        // SAFETY: the library returned the handle; one out-parameter.
        (unsafe { get(self.device, &raw mut value) } == 0).then_some(value)
    }

    fn clock_mhz(&self) -> Option<c_uint> {
        type Get = unsafe extern "C" fn(*mut c_void, c_int, *mut c_uint) -> c_int;
        // SAFETY: the documented signature.
        let get: Symbol<'_, Get> = unsafe { self.library.get(b"nvmlDeviceGetClockInfo\0") }.ok()?;
        let mut clock = 0;
        // SAFETY: as above.
        (unsafe { get(self.device, CLOCK_SM, &raw mut clock) } == 0).then_some(clock)
    }

    /// Clock, power and throttling. The driver reports memory.
    pub(super) fn state(&self) -> SlotState {
        // The first name is used since 2023; CUDA 14 drops the second.
        let reasons: Option<c_ulonglong> = self
            .value(b"nvmlDeviceGetCurrentClocksEventReasons\0")
            .or_else(|| self.value(b"nvmlDeviceGetCurrentClocksThrottleReasons\0"));
        SlotState {
            clock_hz: self.clock_mhz().map(|mhz| u64::from(mhz) * 1_000_000),
            slowed_by: reasons.map(slowed_by),
            power_mw: self.value::<c_uint>(b"nvmlDeviceGetPowerUsage\0").map(u64::from),
            device_bytes: None,
        }
    }
}

fn check_status(call: &str, code: c_int) -> Result<(), GpuError> {
    if code == 0 { Ok(()) } else { Err(GpuError::Absent(format!("{call} gives error {code}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_the_user_chose_do_not_slow_a_card_down() {
        // Idle, application clocks, boost in step, display clocks.
        assert_eq!(slowed_by(0x1 | 0x2 | 0x10 | 0x100), 0);
        assert_eq!(slowed_by(0x4), slowed::POWER);
        assert_eq!(slowed_by(0x84 | 0x20 | 0x1), slowed::POWER + slowed::HEAT);
        assert_eq!(slowed::names(slowed_by(0x8 | 0x40)), "heat, its hardware");
    }

    #[test]
    fn a_missing_or_wrong_library_is_named() {
        let missing = Nvml::from("libellwand-has-none.so", c"0000:01:00.0").err().unwrap().to_string();
        assert!(missing.contains("libellwand-has-none.so"), "{missing}");
        // A library that loads but has none of the functions.
        let other = Nvml::from("libc.so.6", c"0000:01:00.0").err().unwrap().to_string();
        assert!(other.contains("nvmlInit_v2"), "{other}");
    }
}
