//! The record: what a run wrote down. Facts and raw samples only; every derived number is recomputed from it.
//!
//! A record file is JSON lines: a [`Run`] first, then one [`Measurement`], [`Comparison`] or [`Spans`] a line, each flushed when it is
//! complete.

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
mod samples;
mod settling;
mod spans;

pub use basis::{Basis, LONG_RUN_S, cpu_is_time};
pub use certificate::{Certificate, Planted, SlowMode};
pub use comparison::{Arm, BlockValues, Comparison, Ended};
pub use read::{Record, RecordError, line, parse};
pub use settling::Settling;
pub use spans::{SpanCost, SpanNode, Spans};

/// Version of the record format that this crate writes. It reads this one and every earlier one.
pub const VERSION: u32 = 1;

/// The first line of a record: who measured what, where and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Format of the record ([`VERSION`]).
    pub version: u32,
    /// Identity of the run: its start and a random part.
    pub id: String,
    /// The command line that made it.
    pub command: Vec<String>,
    /// Start, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Version of Ellwand.
    pub ellwand: String,
    /// Seed from which inputs and the order of rounds are drawn.
    pub seed: u64,
    /// The machine.
    pub environment: Environment,
    /// Settings of the instrument.
    pub settings: Settings,
    /// The last self-check of this machine when the run began; records before it was kept have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// What the measured workloads show beyond the common tables; older records have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<View>,
}

/// Settings of the instrument, as used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Shortest slot (iterations timed together), in nanoseconds.
    pub slot_min_ns: u64,
    /// Fewest samples of an implementation, however slow it is.
    pub samples_min: u32,
    /// Most interleaved rounds of a case.
    pub rounds_max: u32,
    /// Time for the samples of one implementation at one case, in nanoseconds.
    pub case_budget_ns: u64,
    /// Warm-up of one implementation, in nanoseconds.
    pub warm_up_ns: u64,
    /// What slots find in the caches; in records before there was a choice they are warm.
    #[serde(default, skip_serializing_if = "Caches::is_warm")]
    pub caches: Caches,
}

/// The machine at the start of a run. What could not be read is empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Environment {
    /// Operating system and kernel release.
    pub os: String,
    /// Architecture (`x86_64`).
    pub architecture: String,
    /// Processor as it names itself.
    pub cpu: String,
    /// Instruction-set extensions that matter to kernels (`avx2`, `avx512f`).
    pub cpu_features: Vec<String>,
    /// Logical processors this process may use.
    pub cores: u32,
    /// Main memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Data and unified caches, smallest first.
    pub caches: Vec<Cache>,
    /// Load average over one minute at the start.
    pub load: Option<f64>,
    /// Frequency governor.
    pub governor: Option<String>,
    /// Transparent huge pages (`madvise`).
    pub huge_pages: Option<String>,
    /// Whether a hypervisor is underneath.
    pub virtualised: Option<bool>,
    /// Clock: cost of one pair of readings, in nanoseconds.
    pub clock_cost_ns: Option<f64>,
    /// Clock: smallest step seen, in nanoseconds.
    pub clock_step_ns: Option<f64>,
    /// What taking one slot costs beside what runs in it (readings of the clocks and the system calls around it), in
    /// nanoseconds; almost all of it lies outside the slot's times. Records of earlier versions do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_cost_ns: Option<f64>,
    /// Compiler that built this program.
    pub compiler: String,
    /// Devices found, with their descriptions.
    pub devices: Vec<(String, String)>,
    /// Measured limits of this machine.
    pub ceilings: Vec<Ceiling>,
}

/// One cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// `L1`, `L2`, ...
    pub level: String,
    /// Size in bytes.
    pub bytes: u64,
    /// How many processors share it.
    pub shared_by: u32,
}

impl Environment {
    /// What identifies the machine for comparisons: results of machines with different fingerprints do not belong side by side.
    pub fn fingerprint(&self) -> String {
        let mut hash = crate::case::Fnv::new();
        for text in [&self.os, &self.architecture, &self.cpu] {
            hash.text(text);
        }
        hash.text(&self.cores.to_string());
        self.cpu_features.iter().for_each(|feature| hash.text(feature));
        format!("{:016x}", hash.finish())
    }

    /// The cache level in which `bytes` fit when they are spread over all processors (`many`) or lie with one: caches that
    /// processors have for themselves add up.
    pub fn level_of_threads(&self, bytes: u64, many: bool) -> String {
        let copies = |cache: &Cache| if many { u64::from(self.cores / cache.shared_by.max(1)).max(1) } else { 1 };
        self.caches
            .iter()
            .find(|cache| bytes <= cache.bytes * copies(cache))
            .map_or_else(|| "DRAM".to_string(), |cache| cache.level.clone())
    }

    /// The cache level in which `bytes` fit, or `DRAM`.
    pub fn level_of(&self, bytes: u64) -> String {
        self.level_of_threads(bytes, false)
    }
}

/// A parameter point as written in a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseRecord {
    /// [`Case::id`], which says everything; the rest is for readers that do not want to parse it.
    pub id: String,
    /// Workload.
    pub workload: String,
    /// Axis values in declaration order.
    pub params: Vec<Param>,
    /// Values of the axes that joined the workload later and stand where they change nothing
    /// ([`crate::Axis::neutral`]): no part of the identity, for readers who see them vary elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neutral: Vec<Param>,
    /// Digest of arrays that the user gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

/// An axis and its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Param {
    /// Axis.
    pub axis: String,
    /// Unit of the axis.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Value.
    pub value: ParamValue,
}

/// A value as JSON writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// A switch.
    Flag(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A word.
    Text(String),
}

impl From<&Value> for ParamValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::Int(v) => ParamValue::Int(*v),
            Value::Float(v) => ParamValue::Float(*v),
            Value::Text(v) => ParamValue::Text(v.clone()),
            Value::Flag(v) => ParamValue::Flag(*v),
        }
    }
}

impl From<&ParamValue> for Value {
    fn from(value: &ParamValue) -> Self {
        match value {
            ParamValue::Int(v) => Value::Int(*v),
            ParamValue::Float(v) => Value::Float(*v),
            ParamValue::Text(v) => Value::Text(v.clone()),
            ParamValue::Flag(v) => Value::Flag(*v),
        }
    }
}

impl CaseRecord {
    /// The case as written, with the units of its axes.
    pub fn new(case: &Case, unit: impl Fn(&str) -> &'static str) -> Self {
        let param = |(axis, value): &(String, Value)| Param {
            axis: axis.clone(),
            unit: unit(axis).to_string(),
            value: value.into(),
        };
        Self {
            id: case.id(),
            workload: case.workload.clone(),
            params: case.params.iter().map(param).collect(),
            neutral: Vec::new(),
            input: case.input.clone(),
        }
    }

    /// Adds the values of those of the workload's `axes` that the case leaves out because they change nothing.
    #[must_use]
    pub fn with_neutral(mut self, axes: &[Axis]) -> Self {
        let absent = axes.iter().filter(|axis| self.params.iter().all(|param| param.axis != axis.name));
        let value = |axis: &Axis| {
            let value = axis.neutral.as_ref()?.into();
            Some(Param { axis: axis.name.to_string(), unit: axis.unit.to_string(), value })
        };
        self.neutral = absent.filter_map(value).collect();
        self
    }

    /// The value on an axis.
    pub fn value(&self, axis: &str) -> Option<Value> {
        self.params.iter().find(|param| param.axis == axis).map(|param| (&param.value).into())
    }
}

/// `iterations` runs timed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Process the sample was taken in.
    pub block: u32,
    /// Interleaved pass over the implementations.
    pub round: u32,
    /// Place in the order of that pass.
    pub position: u32,
    /// Runs timed together.
    pub iterations: u64,
    /// Elapsed time of all of them.
    pub wall_ns: u64,
    /// Processor time of all of them.
    pub cpu_ns: Option<u64>,
    /// Processor time that other threads of the process spent meanwhile; `None` if `cpu_ns` is that of all threads.
    pub others_ns: Option<u64>,
    /// Time on the device's clock.
    pub device_ns: Option<u64>,
    /// Involuntary context switches meanwhile.
    pub switches: Option<u64>,
    /// Minor page faults meanwhile.
    pub faults: Option<u64>,
    /// Times that a thread of it gave up the processor to wait (voluntary context switches) meanwhile.
    pub waits: Option<u64>,
    /// Equal parts that were timed one by one inside the slot.
    pub parts: Option<u64>,
    /// Elapsed time of the fastest of these parts.
    pub fastest_ns: Option<u64>,
    /// The device right behind the slot.
    pub state: SlotState,
}

/// State of a device right behind a slot; what it does not tell is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SlotState {
    /// Clock frequency.
    pub clock_hz: Option<u64>,
    /// Power draw, in thousandths of a watt.
    pub power_mw: Option<u64>,
    /// Memory in use on the device.
    pub device_bytes: Option<u64>,
    /// Why it slowed itself down, as the sum of [`crate::device::slowed`]'s numbers; 0 where it did not.
    pub slowed_by: Option<u64>,
}

impl Sample {
    /// Elapsed seconds of one iteration over the whole slot, on the device's clock where there is one.
    pub fn wall_seconds(&self) -> f64 {
        self.device_ns.unwrap_or(self.wall_ns) as f64 * 1e-9 / self.iterations.max(1) as f64
    }

    /// Seconds of one iteration in the fastest part of the slot, where the slot was timed in parts. A preemption that hits
    /// the slot hits one or two of its parts, so that this value hardly knows how busy the machine was.
    pub fn fastest_seconds(&self) -> Option<f64> {
        let iterations = self.iterations as f64 / self.parts? as f64;
        Some(self.fastest_ns? as f64 * 1e-9 / iterations.max(1.0))
    }

    /// Processor seconds of one iteration.
    pub fn cpu_seconds(&self) -> Option<f64> {
        Some(self.cpu_ns? as f64 * 1e-9 / self.iterations.max(1) as f64)
    }
}

/// What became of an implementation at a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Outcome {
    /// Right before and after, and timed.
    Measured,
    /// It cannot run here or for this case.
    Unsupported {
        /// The reason.
        why: String,
    },
    /// Its answer was judged wrong; it was not timed, or its times were thrown away.
    Wrong {
        /// What the judge said.
        verdict: Verdict,
    },
    /// It broke.
    Failed {
        /// Its last words.
        error: String,
    },
}

impl Outcome {
    /// Whether there are times.
    pub fn is_measured(&self) -> bool {
        matches!(self, Outcome::Measured)
    }

    /// One word: `measured`, `unsupported`, `wrong`, `failed`.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Measured => "measured",
            Outcome::Unsupported { .. } => "unsupported",
            Outcome::Wrong { .. } => "wrong",
            Outcome::Failed { .. } => "failed",
        }
    }

    /// The reason, where there is one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Outcome::Measured => None,
            Outcome::Unsupported { why } => Some(why),
            Outcome::Wrong { verdict } => Some(&verdict.detail),
            Outcome::Failed { error } => Some(error),
        }
    }
}

/// One implementation at one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The parameter point.
    pub case: CaseRecord,
    /// The implementation.
    pub implementation: String,
    /// The device it ran on.
    pub device: String,
    /// How many threads it uses.
    pub parallelism: Parallelism,
    /// What its slots found in the caches of the device.
    #[serde(default, skip_serializing_if = "Caches::is_warm")]
    pub caches: Caches,
    /// What really ran (instruction set, threads).
    pub what_ran: String,
    /// Name of the implementation that speed-ups are stated against unless the reader chooses another.
    pub baseline: String,
    /// Required work.
    pub work: Work,
    /// What became of it.
    pub outcome: Outcome,
    /// The judge's words on the outputs before timing; empty when there were none.
    pub check: Option<Verdict>,
    /// Time to make it ready.
    pub prepare_ns: Option<u64>,
    /// Time of the very first run, by the clock on the wall.
    pub first_run_ns: Option<u64>,
    /// Raw samples.
    #[serde(with = "samples")]
    pub samples: Vec<Sample>,
    /// Which time of a sample is the time of this measurement; records without it state elapsed time of whole slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// How its time settles after other arms used the processor, where that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<Settling>,
    /// Smallest time per iteration that this measurement can tell from nothing, in nanoseconds.
    pub resolution_ns: Option<f64>,
    /// Values of probes and of the workload.
    pub readings: Vec<Reading>,
    /// What the reader must know.
    pub warnings: Vec<String>,
    /// Which command of the record made it, 0 for the one that began it. It is not written: the lines of runs before this
    /// one say it. Rounds of different commands are not the same rounds, whatever their numbers.
    #[serde(skip)]
    pub session: usize,
}

impl Measurement {
    /// Key of the cell: the same case, implementation and device again is the same cell.
    pub fn cell(&self) -> String {
        format!("{} {} {}", self.case.id, self.implementation, self.device)
    }

    /// How many threads took part in a run: what the implementation says of the case, or what it is declared to use.
    pub fn ran_on(&self) -> Parallelism {
        match self.reading(Reading::THREADS).and_then(|reading| reading.value) {
            Some(threads) if threads <= 1.0 => Parallelism::Single,
            // Before there was a reading, the words alone told.
            None if self.what_ran.split(", ").any(|part| part.starts_with("1 thread")) => Parallelism::Single,
            _ => self.parallelism,
        }
    }

    /// The reading with this key.
    pub fn reading(&self, id: &str) -> Option<&Reading> {
        self.readings.iter().find(|reading| reading.id == id)
    }

    /// The work with the operations that were counted, where the implementation counted them, and as required otherwise.
    pub fn work_done(&self) -> Cow<'_, Work> {
        match self.reading(Reading::OPERATIONS).and_then(|reading| reading.value) {
            Some(flops) => Cow::Owned(self.work.clone().flops(flops)),
            None => Cow::Borrowed(&self.work),
        }
    }

    /// Takes the samples, and chooses the basis of their times.
    pub fn sampled(&mut self, samples: Vec<Sample>) {
        self.basis = Some(Basis::of(&[&samples], &[self.parallelism]).of_slots());
        self.samples = samples;
    }

    /// Seconds of one iteration in `sample`, by the basis of this measurement.
    pub fn seconds(&self, sample: &Sample) -> f64 {
        self.basis.unwrap_or(Basis::Wall).seconds(sample)
    }

    /// Seconds of one iteration in every sample, by the basis of this measurement.
    pub fn all_seconds(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| self.seconds(sample)).collect()
    }

    /// Whether the time of an iteration is too short to be told from nothing: its median is below the resolution.
    pub fn below_resolution(&self) -> bool {
        let seconds = self.all_seconds();
        match (crate::stats::median(&seconds), self.resolution_ns) {
            (Some(median), Some(resolution)) => median < resolution * 1e-9,
            _ => false,
        }
    }
}
