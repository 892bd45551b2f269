//! Spans of an implementation at a case: the components inside its runs. A line of kind `spans`.
//!
//! They come from runs of their own: no time in a [`Measurement`](super::Measurement) was taken while spans were on.

use serde::{Deserialize, Serialize};

use super::{CaseRecord, Outcome};
use crate::implementation::Parallelism;
use crate::work::Work;

/// What was recorded inside one implementation at one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spans {
    /// The parameter point.
    pub case: CaseRecord,
    /// The implementation.
    pub implementation: String,
    /// The device it ran on.
    pub device: String,
    /// How many threads it uses.
    pub parallelism: Parallelism,
    /// What really ran (instruction set, threads).
    pub what_ran: String,
    /// Required work of an iteration.
    pub work: Work,
    /// What became of it; `measured` means that its answer was right before and after, and spans were on in between.
    pub outcome: Outcome,
    /// Wall time of each iteration while spans were on, in nanoseconds. Not a benchmark.
    pub iteration_ns: Vec<f64>,
    /// The components, each below what it lies in; empty when the implementation has no spans.
    pub nodes: Vec<SpanNode>,
    /// The clock that spans read (`tsc`, `monotonic`).
    pub clock: String,
    /// What spans cost here.
    pub cost: Option<SpanCost>,
    /// Spans recorded in these iterations.
    pub spans: u64,
    /// Spans that found no room and are missing.
    pub dropped: u64,
    /// Spans that had not ended when recording did.
    pub open: u64,
    /// File beside the record that holds every span, where one was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// What the reader must know.
    pub warnings: Vec<String>,
}

/// Cost of a span on the machine of the run, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpanCost {
    /// While spans are off.
    pub off_ns: f64,
    /// While they are on.
    pub on_ns: f64,
    /// What a span around nothing reads as.
    pub empty_ns: f64,
}

/// The spans of one call site under the same outer spans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpanNode {
    /// Names from the outermost span inside the iteration to this one.
    pub path: Vec<String>,
    /// Source file.
    pub file: String,
    /// Line.
    pub line: u32,
    /// Whether they lie on the thread that called the implementation, inside its wall time. Those of other threads run
    /// beside it.
    pub calling: bool,
    /// Threads that recorded some.
    pub lanes: u32,
    /// Spans in all iterations together.
    pub calls: u64,
    /// Time inside, in nanoseconds, for each iteration.
    pub total_ns: Vec<f64>,
    /// Time inside and not inside a nested span of the same thread, for each iteration.
    pub self_ns: Vec<f64>,
    /// Shortest call.
    pub call_min_ns: Option<f64>,
    /// Median call.
    pub call_median_ns: Option<f64>,
    /// The duration that 99 % of the calls do not exceed.
    pub call_p99_ns: Option<f64>,
    /// Longest call.
    pub call_max_ns: Option<f64>,
    /// Declared bytes, in all iterations together; 0 where none were declared.
    pub bytes: u64,
    /// Declared things processed, likewise.
    pub items: u64,
    /// Declared floating-point operations, likewise.
    pub flops: f64,
}

impl Spans {
    /// Key of the cell, as of a measurement.
    pub fn cell(&self) -> String {
        format!("{} {} {}", self.case.id, self.implementation, self.device)
    }
}
