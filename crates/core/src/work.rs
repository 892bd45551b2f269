//! Required work: what every implementation of a case must do.

use serde::{Deserialize, Serialize};

/// The operations and the traffic that the mathematics of a case demands. Bytes count each input once as read and each
/// output once as written; extra traffic of an implementation does not count.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Name of the items processed, in the plural (`vectors`, `elements`, `calls`).
    pub item: String,
    /// Items processed per iteration.
    pub items: u64,
    /// Required floating-point operations per iteration.
    pub flops: f64,
    /// Required bytes read per iteration.
    pub bytes_read: u64,
    /// Required bytes written per iteration.
    pub bytes_written: u64,
    /// Bytes that an iteration uses repeatedly, if that differs from the bytes read and written (several passes over a
    /// small array; an intermediate result larger than the outputs). The working set selects the cache level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<u64>,
    /// True if the operations need f64, for which a CPU has a lower peak.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub double: bool,
    /// True if the operations are bf16 matrix products, for which many devices have matrix units.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bf16: bool,
    /// True for a pointer chase: the address of each load is the result of the previous one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dependent: bool,
    /// True if every array is read or written from beginning to end, so the hardware prefetches and no load waits for
    /// the latency of its cache level.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
    /// True if the arrays already hold 16-bit numbers, so reports do not advise narrower storage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub narrow: bool,
}

impl Work {
    /// Work of `items` items, called `item` in the plural.
    pub fn items(item: &str, items: u64) -> Self {
        Self { item: item.to_string(), items, ..Self::default() }
    }

    /// Adds required floating-point operations.
    #[must_use]
    pub fn flops(mut self, flops: f64) -> Self {
        self.flops = flops;
        self
    }

    /// Declares that the operations need f64 (`true`) or may use f32.
    #[must_use]
    pub fn double(mut self, double: bool) -> Self {
        self.double = double;
        self
    }

    /// Declares that the operations are bf16 matrix products with f32 accumulation.
    #[must_use]
    pub fn bf16(mut self, bf16: bool) -> Self {
        self.bf16 = bf16;
        self
    }

    /// Declares that each load depends on the previous one.
    #[must_use]
    pub fn dependent(mut self, dependent: bool) -> Self {
        self.dependent = dependent;
        self
    }

    /// Declares that every array is read or written from its beginning to its end.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Declares that the arrays hold 16-bit numbers.
    #[must_use]
    pub fn narrow(mut self, narrow: bool) -> Self {
        self.narrow = narrow;
        self
    }

    /// Adds required traffic in bytes.
    #[must_use]
    pub fn bytes(mut self, read: u64, written: u64) -> Self {
        self.bytes_read = read;
        self.bytes_written = written;
        self
    }

    /// Sets the working set in bytes, if it differs from the bytes read and written.
    #[must_use]
    pub fn working_set(mut self, bytes: u64) -> Self {
        self.working_set = Some(bytes);
        self
    }

    /// Bytes that select the cache level: the working set if set, else the required bytes.
    pub fn footprint(&self) -> u64 {
        self.working_set.unwrap_or(self.bytes_total())
    }

    /// Bytes read plus bytes written.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }
}
