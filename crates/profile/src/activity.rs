//! What a device did while spans were recorded.

/// One thing that a device did, or that its driver was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The kernel, copy or call.
    pub name: String,
    /// Where: a stream of the device, or a thread that called the driver.
    pub lane: String,
    /// Start, in nanoseconds since the recording began.
    pub start_ns: i64,
    /// Duration in nanoseconds.
    pub ns: u64,
    /// Number that a call shares with what it started; 0 is none.
    pub corr: u32,
    /// Whether it is a call, not what it started.
    pub call: bool,
    /// What else is known of it, in words.
    pub detail: String,
}
