//! Spans of an implementation at a case: the components of its runs, stored in a line of kind `spans`.
//!
//! They come from separate runs: no time in a [`Measurement`](super::Measurement) was taken while spans were on.

use serde::{Deserialize, Serialize};

use super::{CaseRecord, Outcome};
use crate::implementation::Parallelism;
use crate::stats::median;
use crate::work::Work;

/// The spans recorded in one implementation at one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spans {
    /// The parameter point.
    pub case: CaseRecord,
    /// Name of the implementation.
    pub implementation: String,
    /// Id of the device that it ran on.
    pub device: String,
    /// Number of threads declared for the implementation.
    pub parallelism: Parallelism,
    /// What ran: instruction set, number of threads.
    pub what_ran: String,
    /// Required work of one iteration.
    pub work: Work,
    /// The result; `measured` means that the outputs were correct before and after the recorded iterations.
    pub outcome: Outcome,
    /// Elapsed nanoseconds of each iteration while spans were on. Not a benchmark.
    pub iteration_ns: Vec<f64>,
    /// The components, each after its parent; empty if it has no spans and no records of a device.
    pub nodes: Vec<SpanNode>,
    /// Clock that spans read (`tsc`, `monotonic`).
    pub clock: String,
    /// Cost of a span on this machine, if measured.
    pub cost: Option<SpanCost>,
    /// Spans recorded in these iterations.
    pub spans: u64,
    /// Spans lost because the buffer was full.
    pub dropped: u64,
    /// Spans that were still open when recording stopped.
    pub open: u64,
    /// File next to the record that holds every span, if written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Warnings printed with the table.
    pub warnings: Vec<String>,
}

/// Cost of a span on the machine of the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpanCost {
    /// Nanoseconds while spans are off.
    pub off_ns: f64,
    /// Nanoseconds while spans are on.
    pub on_ns: f64,
    /// Nanoseconds that an empty span measures.
    pub empty_ns: f64,
}

/// The spans of one call site under the same outer spans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct SpanNode {
    /// Names from the outermost span inside the iteration to this one.
    pub path: Vec<String>,
    /// Source file of the call site.
    pub file: String,
    /// Line of the call site, starting at 1.
    pub line: u32,
    /// True if the spans are on the thread that called the implementation, inside its elapsed time; those of other
    /// threads run at the same time.
    pub calling: bool,
    /// Threads that recorded such spans; 0 for what a device did.
    pub lanes: u32,
    /// Calls in all iterations together. The call times below exclude iterations that are [outliers](Spans::outliers).
    pub calls: u64,
    /// Nanoseconds inside, per iteration.
    pub total_ns: Vec<f64>,
    /// Nanoseconds inside but not in a nested span of the same thread, per iteration.
    pub self_ns: Vec<f64>,
    /// Shortest call, in nanoseconds.
    pub call_min_ns: Option<f64>,
    /// Median call, in nanoseconds.
    pub call_median_ns: Option<f64>,
    /// 99th percentile of the calls, in nanoseconds.
    pub call_p99_ns: Option<f64>,
    /// Longest call, in nanoseconds.
    pub call_max_ns: Option<f64>,
    /// Bytes declared in all iterations together; 0 if none were declared.
    pub bytes: u64,
    /// Items declared in all iterations together; 0 if none were declared.
    pub items: u64,
    /// Floating-point operations declared in all iterations together; 0 if none were declared.
    pub flops: f64,
}

/// An outlier exceeds the median by more than this many times the median distance from it.
const FAR_AMONG_DIFFERENT: f64 = 5.0;

impl Spans {
    /// An iteration is an outlier only if it exceeds the median by more than this share of it.
    pub const FAR: f64 = 0.25;

    /// Indices of the iterations that are outliers, in ascending order.
    ///
    /// Without this rule, a pause of milliseconds in iterations of microseconds would make the component it hit the
    /// largest one. An outlier also exceeds the median by a multiple of the median distance from it, so widely
    /// scattered iterations have none.
    pub fn outliers(&self) -> Vec<usize> {
        let Some(middle) = median(&self.iteration_ns) else { return Vec::new() };
        let distances: Vec<f64> = self.iteration_ns.iter().map(|ns| (ns - middle).abs()).collect();
        let far = (Self::FAR * middle).max(FAR_AMONG_DIFFERENT * median(&distances).unwrap_or(0.0));
        (0..self.iteration_ns.len()).filter(|index| self.iteration_ns[*index] > middle + far).collect()
    }

    /// Key of the cell, as for [`Measurement::cell`](super::Measurement::cell).
    pub fn cell(&self) -> String {
        format!("{} {} {}", self.case.id, self.implementation, self.device)
    }
}
