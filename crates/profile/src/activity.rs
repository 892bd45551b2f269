//! What a device did while spans were recorded.

/// One operation of a device, or one call to its driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Name of the kernel, copy or call.
    pub name: String,
    /// The stream of the device, or the thread that called the driver.
    pub lane: String,
    /// Start in nanoseconds since the recording began.
    pub start_ns: i64,
    /// Duration in nanoseconds.
    pub ns: u64,
    /// Correlation number shared by a call and the operation it started; 0 for none.
    pub corr: u32,
    /// True for a driver call, false for an operation of the device.
    pub call: bool,
    /// Further details as text, such as grid and block size.
    pub detail: String,
}
