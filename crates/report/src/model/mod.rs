//! The report model: every number that any format prints, computed once from the records.

use ellwand_core::record::{Basis, Param, Settings, Settling};
use ellwand_core::view::{Implementations, View};
use ellwand_core::{Better, Environment, Outcome, Provenance, Reading, Verdict, Work};
use ellwand_core::{Caches, Parallelism, ceiling::Roof};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::diagnose::{Diagnosis, Finding};

mod axes;
mod build;
mod comparison;
mod growth;
mod run;
pub(crate) mod spans;
mod speedup;
mod stats;
mod trust;

pub use axes::AxisInfo;
pub use comparison::ComparisonInfo;
pub use growth::{AlongAxis, Growth};
pub use run::RunInfo;
pub use spans::{SpanRow, SpanTable};
pub use speedup::Speedup;
pub use stats::{MetricInfo, MetricValue, Stats};

/// The place of a row where no axis varies.
pub(crate) const ONLY: &str = "the only case";

/// How a report is to be made and shown. Nothing here changes a measured number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// State speed-ups against this implementation in place of each measurement's own baseline.
    pub baseline: Option<String>,
    /// Columns of the terminal; `None` for no limit.
    pub width: Option<usize>,
    /// Whether the terminal table may use colour. Nothing is said by colour alone.
    pub color: bool,
    /// Whether [`crate::write_all`] draws plots.
    pub plots: bool,
}

/// Everything people read out of records.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of this model; the keys of the JSON format are stable within it.
    pub report_version: u32,
    /// The runs, in the order given. Rows name theirs by index.
    pub runs: Vec<RunInfo>,
    /// What the metrics of the rows mean.
    pub metrics: Vec<MetricInfo>,
    /// Results by workload.
    pub workloads: Vec<Section>,
    /// Verdicts, in the order of the runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<ComparisonInfo>,
    /// Components inside implementations, from runs apart from those that the results come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanTable>,
    /// What limits the implementations and what to try, with evidence; most important first.
    pub findings: Vec<Finding>,
    /// What is odd about the records as a whole.
    pub warnings: Vec<String>,
    /// What the numbers cannot say.
    pub limits: Vec<String>,
    /// What the measured workloads show beyond the common tables.
    #[serde(skip)]
    pub views: Vec<View>,
    /// How it is to be shown.
    #[serde(skip)]
    pub options: Options,
}

impl Report {
    /// What its views say of implementations.
    pub(crate) fn implementations(&self) -> impl Iterator<Item = &Implementations> {
        self.views.iter().filter_map(|view| match view {
            View::Implementations(known) => Some(known),
            _ => None,
        })
    }
}

/// The results of one workload.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// Name of the workload.
    pub workload: String,
    /// Axes with more than one value among the rows.
    pub swept: Vec<AxisInfo>,
    /// Axes with a single value, in declaration order.
    pub fixed: Vec<AxisInfo>,
    /// What is processed (`vectors`), where all rows agree.
    pub item: Option<String>,
    /// Implementations in order of first appearance.
    pub implementations: Vec<String>,
    /// Names of the baselines that speed-ups of these rows are stated against.
    pub baselines: Vec<String>,
    /// Cases in order of first appearance, with the rows that belong to each.
    pub cases: Vec<CaseInfo>,
    /// One row per run, case, implementation and device.
    pub rows: Vec<Row>,
    /// How times grow along each numeric axis that varies.
    pub growth: Vec<Growth>,
    /// Times by the values of each axis, where more than one varies.
    pub along_axes: Vec<AlongAxis>,
    /// What readers must know, each with the number of rows it concerns.
    pub remarks: Vec<Remark>,
}

/// A case of one run: the set of rows that may be compared with one another.
#[derive(Debug, Clone, Serialize)]
pub struct CaseInfo {
    /// Index of the run.
    pub run: usize,
    /// Identity of the case.
    pub id: String,
    /// Indices into [`Section::rows`].
    pub rows: Vec<usize>,
    /// The implementation with the smallest median time.
    pub best: Best,
}

/// Which implementation of a case is best.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Best {
    /// Index into [`Section::rows`]; empty when it cannot be said.
    pub row: Option<usize>,
    /// Why it cannot be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// A remark and how many rows it concerns.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Remark {
    /// The remark, as written in the record.
    pub text: String,
    /// Rows that carry it.
    pub rows: usize,
    /// Rows of the section.
    pub of: usize,
    /// Implementations that carry it.
    pub implementations: Vec<String>,
}

/// What became of a row.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Status {
    /// `measured`, `unsupported`, `wrong` or `failed`.
    pub word: &'static str,
    /// The reason, where it was not measured.
    pub reason: Option<String>,
}

/// One implementation at one case in one run.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Index of the run.
    pub run: usize,
    /// Identity of the case.
    pub case: String,
    /// Axis values in declaration order.
    #[serde(serialize_with = "params_as_map")]
    pub params: Vec<Param>,
    /// Digest of arrays that the user gave.
    pub input: Option<String>,
    /// The implementation.
    pub implementation: String,
    /// The device.
    pub device: String,
    /// How many threads took part.
    pub parallelism: Parallelism,
    /// What its slots found in the caches of the device.
    pub caches: Caches,
    /// What really ran.
    pub what_ran: String,
    /// What became of it.
    pub status: Status,
    /// The judge's words on the outputs.
    pub check: Option<Verdict>,
    /// Required work; of operations those that were counted, where the implementation counted them.
    pub work: Work,
    /// Samples taken.
    pub samples: usize,
    /// Which time of a sample is the time of the row; empty in older records, which state the elapsed time of whole slots.
    pub basis: Option<Basis>,
    /// How its time settles after other arms used the processor, where that was recorded.
    pub settling: Option<Settles>,
    /// Whether the time is too short to be told from nothing. Then no time, rate or ratio is stated.
    pub below_resolution: bool,
    /// Smallest time per iteration that can be told from nothing, in seconds.
    pub resolution_s: Option<f64>,
    /// Time to make it ready, in seconds.
    pub prepare_s: Option<f64>,
    /// Time of the very first run by the clock on the wall, in seconds.
    pub first_run_s: Option<f64>,
    /// First run over the median of the steady state, both on the wall.
    pub first_over_steady: Option<f64>,
    /// One entry per metric, in the order of [`Report::metrics`].
    #[serde(serialize_with = "metrics_as_map")]
    pub metrics: Vec<MetricValue>,
    /// Median wall time over median CPU time of a single-threaded implementation: above 1 it waited for the processor.
    pub wall_over_cpu: Option<f64>,
    /// Share of samples during which the scheduler took the processor away.
    pub switched_share: Option<f64>,
    /// Minor page faults per iteration in the middle one of the samples.
    pub faults_per_iteration: Option<f64>,
    /// Speed-up over the baseline of the same case in the same run.
    pub speedup: Speedup,
    /// The limit that binds the required work, at this machine's measured peaks.
    #[serde(serialize_with = "roof_as_map")]
    pub roof: Option<Roof>,
    /// What bounds it, and what would change most.
    pub diagnosis: Option<Diagnosis>,
    /// Whether it has the smallest median time of its case.
    pub best: bool,
    /// Values of probes and of the workload, and the largest difference from the reference.
    pub readings: Vec<Reading>,
    /// What the check before the measurement said, in words.
    #[serde(skip)]
    pub checked: String,
    /// What the reader must know.
    pub warnings: Vec<String>,
}

/// How the time of a row settles.
#[derive(Debug, Clone, Copy, Serialize, PartialEq)]
pub struct Settles {
    /// Seconds from a switch until it has settled.
    pub seconds: f64,
    /// Time of the first iterations after a switch over that of settled ones.
    pub slower_at_first: f64,
    /// Untimed iterations at the head of each slot.
    pub untimed: u64,
    /// Whether the difference is worth a remark.
    #[serde(skip)]
    pub remarkable: bool,
}

impl Settles {
    pub(super) fn new(settling: &Settling) -> Option<Self> {
        Some(Self {
            seconds: settling.seconds(),
            slower_at_first: settling.slower_at_first()?,
            untimed: settling.untimed,
            remarkable: settling.is_remarkable(),
        })
    }
}

impl Row {
    /// The metric with this key.
    pub fn metric(&self, id: &str) -> Option<&MetricValue> {
        self.metrics.iter().find(|metric| metric.id == id)
    }

    /// The summary of a metric, where it is available.
    pub fn stats(&self, id: &str) -> Option<&Stats> {
        self.metric(id)?.stats.as_ref()
    }

    /// Median of a metric, where it is available.
    pub fn median(&self, id: &str) -> Option<f64> {
        self.stats(id).map(|stats| stats.median)
    }

    /// The value of a reading, where it is available.
    pub fn reading(&self, id: &str) -> Option<f64> {
        self.readings.iter().find(|reading| reading.id == id).and_then(|reading| reading.value)
    }

    /// The value on an axis, as text.
    pub fn param(&self, axis: &str) -> Option<String> {
        self.params.iter().find(|param| param.axis == axis).map(|param| axes::text(&param.value))
    }

    /// The value on an axis, as a number.
    pub fn number(&self, axis: &str) -> Option<f64> {
        self.params.iter().find(|param| param.axis == axis).and_then(|param| axes::number(&param.value))
    }

    /// Whether it has times (even if they are below the resolution).
    pub fn measured(&self) -> bool {
        self.status.reason.is_none()
    }
}

impl Section {
    /// The rows of an implementation in a run, in case order.
    pub fn rows_of<'a>(&'a self, run: usize, implementation: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.run == run && row.implementation == implementation)
    }

    /// The parameter point of a row in words: only the axes that vary (`batch 100`), or `the only case`.
    pub fn place(&self, row: &Row) -> String {
        let parts: Vec<String> = self
            .swept
            .iter()
            .filter_map(|axis| row.param(&axis.name).map(|value| format!("{} {value}", axis.name)))
            .collect();
        if parts.is_empty() { ONLY.to_string() } else { parts.join(", ") }
    }

    /// The fixed parameters in one line (`lattice D4 · q 4`).
    pub fn fixed_line(&self) -> String {
        let axes = self.fixed.iter().map(|axis| format!("{} {}", axis.name, axis.values.join(",")));
        let cold =
            (!self.rows.is_empty() && self.rows.iter().all(|row| !row.caches.is_warm())).then(|| "cold caches".into());
        axes.chain(cold).collect::<Vec<_>>().join(" · ")
    }
}

impl From<&Outcome> for Status {
    fn from(outcome: &Outcome) -> Self {
        Self { word: outcome.word(), reason: outcome.reason().map(crate::units::clean) }
    }
}

fn params_as_map<S: Serializer>(params: &[Param], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(params.len()))?;
    for param in params {
        map.serialize_entry(&param.axis, &param.value)?;
    }
    map.end()
}

fn metrics_as_map<S: Serializer>(metrics: &[MetricValue], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(metrics.len()))?;
    for metric in metrics {
        map.serialize_entry(metric.id, metric)?;
    }
    map.end()
}

fn roof_as_map<S: Serializer>(roof: &Option<Roof>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(roof) = roof else { return serializer.serialize_none() };
    let mut map = serializer.serialize_map(Some(3))?;
    map.serialize_entry("limit_s", &roof.limit_s)?;
    map.serialize_entry("binds", if roof.memory_bound { "memory" } else { "compute" })?;
    map.serialize_entry("ceiling", &roof.ceiling)?;
    map.end()
}

/// Whether a value is better when it is smaller, larger, or neither; in one word.
pub(crate) fn direction(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower is better",
        Better::Higher => "higher is better",
        Better::Neither => "",
    }
}

/// One word for the origin of a value.
pub(crate) fn origin(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Measured => "measured",
        Provenance::Derived => "derived",
        Provenance::Estimated => "estimated",
        Provenance::Unavailable => "unavailable",
    }
}

/// What is read about a machine that a footer needs: processor and cores.
pub(crate) fn machine_line(environment: &Environment) -> String {
    let cpu = if environment.cpu.is_empty() { environment.architecture.clone() } else { environment.cpu.clone() };
    let cpu = crate::units::clean(&cpu);
    let plural = if environment.cores == 1 { "core" } else { "cores" };
    format!("{cpu} · {} {plural}", environment.cores)
}

/// Settings of the instrument in words.
pub(crate) fn settings_line(settings: &Settings) -> String {
    use crate::units::human;
    let seconds = |ns: u64| human(ns as f64 * 1e-9, "s");
    let slots = match settings.caches {
        Caches::Warm => format!("slots of at least {}", seconds(settings.slot_min_ns)),
        Caches::Cold => "slots of one iteration, the caches flushed before each".to_string(),
    };
    format!(
        "{}, at least {} samples in at most {} interleaved rounds, {} an implementation, warm-up {}",
        slots,
        settings.samples_min,
        settings.rounds_max,
        seconds(settings.case_budget_ns),
        seconds(settings.warm_up_ns),
    )
}
