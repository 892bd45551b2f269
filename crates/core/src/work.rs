//! Required work: what any implementation of a case must do, however it does it.

use serde::{Deserialize, Serialize};

/// The operations and the traffic that the mathematics of a case demands. Bytes count each input read once and each
/// output written once; what an implementation moves beyond that is its own affair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// What is processed (`vectors`, `elements`, `calls`).
    pub item: String,
    /// How many of them one iteration processes.
    pub items: u64,
    /// Floating-point operations that must be done.
    pub flops: f64,
    /// Bytes that must be read.
    pub bytes_read: u64,
    /// Bytes that must be written.
    pub bytes_written: u64,
    /// Bytes that an iteration keeps coming back to, where these are not the bytes read and written (several passes over
    /// a small array; an intermediate result that is larger than the outputs). They decide which cache level answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<u64>,
    /// Whether the operations must be done in f64, of which a processor does fewer a second.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub double: bool,
    /// Whether the operations are multiply-adds in products of bf16 matrices, for which many a device has units of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bf16: bool,
    /// Whether the address of each load is the result of the load before, so that none can begin early.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dependent: bool,
}

impl Work {
    /// Work of `items` things called `item`.
    pub fn items(item: &str, items: u64) -> Self {
        Self {
            item: item.to_string(),
            items,
            flops: 0.0,
            bytes_read: 0,
            bytes_written: 0,
            working_set: None,
            double: false,
            bf16: false,
            dependent: false,
        }
    }

    /// Adds required floating-point operations.
    #[must_use]
    pub fn flops(mut self, flops: f64) -> Self {
        self.flops = flops;
        self
    }

    /// States whether the operations must be done in f64 (`true`) or may be done in f32.
    #[must_use]
    pub fn double(mut self, double: bool) -> Self {
        self.double = double;
        self
    }

    /// States whether the operations are products of bf16 matrices with sums in f32.
    #[must_use]
    pub fn bf16(mut self, bf16: bool) -> Self {
        self.bf16 = bf16;
        self
    }

    /// States whether each load needs the one before.
    #[must_use]
    pub fn dependent(mut self, dependent: bool) -> Self {
        self.dependent = dependent;
        self
    }

    /// Adds required traffic.
    #[must_use]
    pub fn bytes(mut self, read: u64, written: u64) -> Self {
        self.bytes_read = read;
        self.bytes_written = written;
        self
    }

    /// States the working set where it is not the bytes read and written.
    #[must_use]
    pub fn working_set(mut self, bytes: u64) -> Self {
        self.working_set = Some(bytes);
        self
    }

    /// Bytes whose place in the cache hierarchy decides the bandwidth: the working set, or the required bytes.
    pub fn footprint(&self) -> u64 {
        self.working_set.unwrap_or(self.bytes_total())
    }

    /// Bytes read and written together.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }
}
