//! The record: the file that a run writes. It holds facts and raw samples only; every derived number is recomputed from
//! it.
//!
//! A record file is JSON lines: first a [`Run`], then one [`Measurement`], [`Comparison`] or [`Spans`] per line. Each
//! line is flushed when it is complete, and ends with a checksum ([`seal()`]).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::axis::Axis;
use crate::case::{Case, Value};
use crate::ceiling::Ceiling;
use crate::device::Caches;
use crate::implementation::Parallelism;
use crate::reading::Reading;
use crate::verdict::Verdict;
use crate::view::View;
use crate::work::Work;

mod basis;
mod certificate;
mod comparison;
mod read;
mod revision;
mod samples;
mod seal;
mod settings;
mod settling;
mod shard;
mod spans;
mod threads;

pub use basis::{Basis, LONG_RUN_S, LONG_S};
pub use certificate::{Certificate, Planted, SlowMode};
pub use comparison::{Arm, BlockValues, Centre, Comparison, Curve, Ended, Stakes, slot_share};
pub use read::{Entry, Record, RecordError, line, parse};
pub use revision::Revision;
pub use seal::seal;
pub use settings::{Allowed, Counts, Settings};
pub use settling::Settling;
pub use shard::Shard;
pub use spans::{SpanCost, SpanNode, Spans};
pub use threads::share_of_others;

/// Version of the record format that this crate writes. Ellwand reads this version and every earlier one.
pub const VERSION: u32 = 1;

/// The first line of a record: the command, the machine and the settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the record format ([`VERSION`]).
    pub version: u32,
    /// Id of the run: its start time and a random part.
    pub id: String,
    /// The command line.
    pub command: Vec<String>,
    /// Start in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Version of Ellwand that wrote the record.
    pub ellwand: String,
    /// Seed of the inputs and of the round order.
    pub seed: u64,
    /// The machine at the start of the run.
    pub environment: Environment,
    /// The timing settings in effect.
    pub settings: Settings,
    /// The last commit of the repository in which the command ran; `None` outside of one, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// The machine's last self-check when the run began; `None` if there was none, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// What the measured workloads show beyond the common tables; older records have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<View>,
    /// The part of a sweep that the run measured, if it was one; older records have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

/// The machine at the start of a run. A value that could not be read is empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Environment {
    /// Operating system and kernel release.
    pub os: String,
    /// CPU architecture (`x86_64`).
    pub architecture: String,
    /// CPU model name as the CPU reports it.
    pub cpu: String,
    /// Instruction-set extensions that matter to kernels (`avx2`, `avx512f`).
    pub cpu_features: Vec<String>,
    /// Logical CPUs that this process may use.
    pub cores: u32,
    /// Main memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Data and unified caches, smallest first.
    pub caches: Vec<Cache>,
    /// Load average over one minute at the start of the run.
    pub load: Option<f64>,
    /// Frequency governor of the CPU (`performance`).
    pub governor: Option<String>,
    /// Transparent huge page setting (`madvise`).
    pub huge_pages: Option<String>,
    /// True if the system runs under a hypervisor.
    pub virtualised: Option<bool>,
    /// Cost of one pair of clock readings, in nanoseconds.
    pub clock_cost_ns: Option<f64>,
    /// Smallest step of the clock that was observed, in nanoseconds.
    pub clock_step_ns: Option<f64>,
    /// Overhead of one slot (clock readings and system calls), in nanoseconds. Almost all of it lies outside the
    /// measured times. Missing in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_cost_ns: Option<f64>,
    /// Compiler that built Ellwand.
    pub compiler: String,
    /// Devices found: id and description.
    pub devices: Vec<(String, String)>,
    /// Measured limits of the machine.
    pub ceilings: Vec<Ceiling>,
}

/// One cache level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Name of the level (`L1`, `L2`, ..).
    pub level: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Logical CPUs that share one such cache.
    pub shared_by: u32,
}

impl Environment {
    /// Digest of the properties that identify a machine. Results with different fingerprints are not comparable.
    pub fn fingerprint(&self) -> String {
        let mut hash = crate::case::Fnv::new();
        for text in [&self.os, &self.architecture, &self.cpu] {
            hash.text(text);
        }
        hash.text(&self.cores.to_string());
        self.cpu_features.iter().for_each(|feature| hash.text(feature));
        format!("{:016x}", hash.finish())
    }

    /// The smallest cache level that holds `bytes`, or `DRAM`: divided over all threads (`many`), where private caches add
    /// up, or used by one.
    pub fn level_of_threads(&self, bytes: u64, many: bool) -> String {
        self.caches
            .iter()
            .find(|cache| bytes <= self.held(cache, many))
            .map_or_else(|| "DRAM".to_string(), |cache| cache.level.clone())
    }

    /// False if a working set of `bytes` is more than a quarter larger than the cache level in which `ceiling` was
    /// measured, counting the caches of all its threads; up to that size most of it is still read from that level. True
    /// in main memory, on a device, and if the caches are unknown.
    pub fn holds(&self, ceiling: &Ceiling, bytes: u64) -> bool {
        let level = self.caches.iter().find(|cache| ceiling.device == "cpu" && cache.level == ceiling.level);
        level.is_none_or(|cache| {
            let held = self.held(cache, ceiling.parallelism == Parallelism::Many);
            bytes <= held.saturating_add(held / 4)
        })
    }

    /// Bytes that all caches of a level hold together (`many`), or one of them.
    pub fn held(&self, cache: &Cache, many: bool) -> u64 {
        let copies = if many { u64::from(self.cores / cache.shared_by.max(1)).max(1) } else { 1 };
        cache.bytes.saturating_mul(copies)
    }
}

/// A case as stored in a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseRecord {
    /// [`Case::id`]; it implies the other fields, which save readers from parsing it.
    pub id: String,
    /// Name of the workload.
    pub workload: String,
    /// Axis values in declaration order.
    pub params: Vec<Param>,
    /// Axes added to the workload later, at the value that changes nothing ([`crate::Axis::neutral`]). They are not
    /// part of the id; they let readers compare this case with others that vary the axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neutral: Vec<Param>,
    /// Digest of the user's own arrays, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

/// An axis and its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Param {
    /// Name of the axis.
    pub axis: String,
    /// Unit of the axis; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Value on the axis.
    pub value: Value,
}

impl CaseRecord {
    /// Converts `case`; `unit` gives the unit of each axis.
    pub fn new(case: &Case, unit: impl Fn(&str) -> &'static str) -> Self {
        let param = |(axis, value): &(String, Value)| Param {
            axis: axis.clone(),
            unit: unit(axis).to_string(),
            value: value.clone(),
        };
        Self {
            id: case.id(),
            workload: case.workload.clone(),
            params: case.params.iter().map(param).collect(),
            neutral: Vec::new(),
            input: case.input.clone(),
        }
    }

    /// Adds the neutral values of those `axes` that the case omits.
    #[must_use]
    pub fn with_neutral(mut self, axes: &[Axis]) -> Self {
        let absent = axes.iter().filter(|axis| self.params.iter().all(|param| param.axis != axis.name));
        let value = |axis: &Axis| {
            let value = axis.neutral.clone()?;
            Some(Param { axis: axis.name.to_string(), unit: axis.unit.to_string(), value })
        };
        self.neutral = absent.filter_map(value).collect();
        self
    }

    /// The value on `axis`, if the case has it.
    pub fn value(&self, axis: &str) -> Option<Value> {
        self.params.iter().find(|param| param.axis == axis).map(|param| param.value.clone())
    }
}

/// One slot: `iterations` runs timed together. Workers answer with it; records hold columns instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Index of the process that took the sample. Older workers leave its place to the parent.
    #[serde(default)]
    pub block: u32,
    /// Index of the interleaved pass over the implementations.
    #[serde(default)]
    pub round: u32,
    /// Position of the implementation in that pass.
    #[serde(default)]
    pub position: u32,
    /// Runs timed together.
    pub iterations: u64,
    /// Elapsed time of all iterations, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of all iterations, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// CPU time of the process's other threads during the slot, in nanoseconds. Where several threads are declared, `cpu_ns`
    /// includes it, and older records lack it.
    pub others_ns: Option<u64>,
    /// Time of all iterations on the device's clock, in nanoseconds.
    pub device_ns: Option<u64>,
    /// Involuntary context switches during the slot.
    pub switches: Option<u64>,
    /// Minor page faults during the slot.
    pub faults: Option<u64>,
    /// Voluntary context switches during the slot: a thread gave up the CPU to wait.
    pub waits: Option<u64>,
    /// Number of equal parts of the slot that were timed separately.
    pub parts: Option<u64>,
    /// Elapsed time of the fastest part, in nanoseconds.
    pub fastest_ns: Option<u64>,
    /// State of the device right after the slot.
    pub state: SlotState,
}

/// State of a device right after a slot; a value that the device does not report is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SlotState {
    /// Clock frequency in hertz.
    pub clock_hz: Option<u64>,
    /// Power draw in milliwatts.
    pub power_mw: Option<u64>,
    /// Memory in use on the device, in bytes.
    pub device_bytes: Option<u64>,
    /// Throttling reasons as a sum of the constants in [`crate::device::slowed`]; 0 if the device was not throttled.
    pub slowed_by: Option<u64>,
}

impl Sample {
    /// Elapsed seconds per iteration over the whole slot, on the device's clock if there is one.
    pub fn wall_seconds(&self) -> f64 {
        self.device_ns.unwrap_or(self.wall_ns) as f64 * 1e-9 / self.iterations.max(1) as f64
    }

    /// Seconds per iteration in the fastest part of the slot, if the slot was timed in parts. A preemption hits one or
    /// two parts, so this value hardly depends on the load of the machine.
    pub fn fastest_seconds(&self) -> Option<f64> {
        let iterations = self.iterations as f64 / self.parts? as f64;
        Some(self.fastest_ns? as f64 * 1e-9 / iterations.max(1.0))
    }

    /// CPU seconds per iteration.
    pub fn cpu_seconds(&self) -> Option<f64> {
        Some(self.cpu_ns? as f64 * 1e-9 / self.iterations.max(1) as f64)
    }
}

/// Result of an implementation at a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case", try_from = "StoredOutcome")]
pub enum Outcome {
    /// Timed; its outputs were correct before and after.
    Measured,
    /// It cannot run on this machine or for this case.
    Unsupported {
        /// The reason, as shown to the user.
        why: String,
    },
    /// Its outputs were wrong: it was not timed, or its times were discarded.
    Wrong {
        /// The failed check.
        verdict: Verdict,
    },
    /// It failed to prepare or run.
    Failed {
        /// The error message.
        error: String,
    },
}

/// The members of all outcomes. Reading a plain structure compiles to a fraction of the code of reading a tagged
/// enumeration.
#[derive(Deserialize)]
struct StoredOutcome {
    status: String,
    why: Option<String>,
    verdict: Option<Verdict>,
    error: Option<String>,
}

impl TryFrom<StoredOutcome> for Outcome {
    type Error = String;

    fn try_from(stored: StoredOutcome) -> Result<Self, String> {
        let StoredOutcome { status, why, verdict, error } = stored;
        let outcome = match status.as_str() {
            "measured" => Some(Outcome::Measured),
            "unsupported" => why.map(|why| Outcome::Unsupported { why }),
            "wrong" => verdict.map(|verdict| Outcome::Wrong { verdict }),
            "failed" => error.map(|error| Outcome::Failed { error }),
            _ => None,
        };
        outcome.ok_or_else(|| format!("the status \"{status}\" is unknown or lacks its reason"))
    }
}

impl Outcome {
    /// True for [`Outcome::Measured`].
    pub fn is_measured(&self) -> bool {
        matches!(self, Outcome::Measured)
    }

    /// The status as printed and stored: `measured`, `unsupported`, `wrong` or `failed`.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Measured => "measured",
            Outcome::Unsupported { .. } => "unsupported",
            Outcome::Wrong { .. } => "wrong",
            Outcome::Failed { .. } => "failed",
        }
    }

    /// The reason, unless the outcome is `Measured`.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Outcome::Measured => None,
            Outcome::Unsupported { why } => Some(why),
            Outcome::Wrong { verdict } => Some(&verdict.detail),
            Outcome::Failed { error } => Some(error),
        }
    }
}

/// The result of one implementation at one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The parameter point.
    pub case: CaseRecord,
    /// Name of the implementation.
    pub implementation: String,
    /// Id of the device that it ran on.
    pub device: String,
    /// Number of threads declared for the implementation.
    pub parallelism: Parallelism,
    /// State of the caches when a slot starts.
    #[serde(default, skip_serializing_if = "Caches::is_warm")]
    pub caches: Caches,
    /// What ran: instruction set, number of threads.
    pub what_ran: String,
    /// The default baseline of speed-ups.
    pub baseline: String,
    /// Required work of one iteration.
    pub work: Work,
    /// Whether the implementation was measured, and why if not.
    pub outcome: Outcome,
    /// Result of the check before timing; `None` if there were no outputs.
    pub check: Option<Verdict>,
    /// Time to prepare the implementation, in nanoseconds.
    pub prepare_ns: Option<u64>,
    /// Elapsed time of the first run, in nanoseconds.
    pub first_run_ns: Option<u64>,
    /// Raw samples in the order taken.
    #[serde(with = "samples")]
    pub samples: Vec<Sample>,
    /// The time that is reported; records without it use the elapsed time of whole slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// Settling after other arms used the CPU, if recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<Settling>,
    /// Shortest time per iteration that the clock can resolve, in nanoseconds.
    pub resolution_ns: Option<f64>,
    /// Values from probes and from the workload.
    pub readings: Vec<Reading>,
    /// Warnings printed with the result.
    pub warnings: Vec<String>,
    /// Index of the command that made it, 0 for the first. Not stored: the `Run` lines before it give the number.
    /// Rounds of different commands are never paired, even with equal numbers.
    #[serde(skip)]
    pub session: usize,
}

impl Measurement {
    /// Key of the cell: case, implementation and device. A later measurement of the same cell replaces an earlier one.
    pub fn cell(&self) -> String {
        format!("{} {} {}", self.case.id, self.implementation, self.device)
    }

    /// The reading with key `id`.
    pub fn reading(&self, id: &str) -> Option<&Reading> {
        self.readings.iter().find(|reading| reading.id == id)
    }

    /// The required work, with the operations replaced by the counted ones if the implementation counted them.
    pub fn work_done(&self) -> Cow<'_, Work> {
        match self.reading(Reading::OPERATIONS).and_then(|reading| reading.value) {
            Some(flops) => Cow::Owned(self.work.clone().flops(flops)),
            None => Cow::Borrowed(&self.work),
        }
    }

    /// Stores the samples and chooses the basis of their times.
    pub fn sampled(&mut self, samples: Vec<Sample>) {
        self.basis = Some(Basis::of(&samples, self.parallelism).of_slots());
        self.samples = samples;
    }

    /// Seconds per iteration of `sample`, on this measurement's basis.
    pub fn seconds(&self, sample: &Sample) -> f64 {
        self.basis.unwrap_or(Basis::Wall).seconds(sample)
    }

    /// Seconds per iteration of every sample, on this measurement's basis.
    pub fn all_seconds(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| self.seconds(sample)).collect()
    }

    /// True if the median time per iteration is below the timer resolution; no time, rate or ratio is reported then.
    pub fn below_resolution(&self) -> bool {
        let seconds = self.all_seconds();
        match (crate::stats::median(&seconds), self.resolution_ns) {
            (Some(median), Some(resolution)) => median < resolution * 1e-9,
            _ => false,
        }
    }
}
