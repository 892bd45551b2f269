//! The report model: every number that a format prints, computed once from the records.

use ellwand_core::record::{Basis, Param, Settings, Settling};
use ellwand_core::view::{Implementations, View};
use ellwand_core::{Better, Metric, Outcome, Provenance, Reading, Verdict, Work};
use ellwand_core::{Caches, Parallelism, ceiling::Roof};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::diagnose::{Diagnosis, Finding, Limit};

mod axes;
mod best;
mod build;
mod comparison;
#[cfg(any(feature = "page", feature = "plots"))]
pub(crate) mod curves;
mod growth;
pub(crate) mod load;
mod machines;
pub(crate) mod remarks;
#[cfg(any(feature = "page", feature = "plots"))]
pub(crate) mod roofline;
mod run;
pub(crate) mod spans;
mod speedup;
mod stats;
mod trust;

pub use axes::AxisInfo;
pub(crate) use axes::text;
pub use best::Best;
pub use comparison::{Beside, ComparisonInfo};
pub use growth::{AlongAxis, Growth};
pub use load::HeldUp;
pub use machines::{MachineInfo, MachineRow, Machines};
pub use run::RunInfo;
pub use spans::{SpanRow, SpanTable};
pub use speedup::{Bound, Speedup};
pub(crate) use speedup::{bounded, mean};
pub use stats::{MetricValue, Stats};

/// The place of a row if no axis varies.
pub(crate) const ONLY: &str = "the only case";

/// Options for building and showing a report. They do not change measured numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Baseline of speed-ups, instead of each measurement's own baseline.
    pub baseline: Option<String>,
    /// Columns of the terminal; `None` for unlimited.
    pub width: Option<usize>,
    /// True if the terminal table may use colour. Colour never carries information alone.
    pub color: bool,
    /// True if the terminal table shows every column, case, reading and finding.
    pub full: bool,
    /// True if [`crate::write_all`] draws plots.
    pub plots: bool,
    /// True to show the records of several machines side by side.
    pub across_machines: bool,
}

/// Everything that a report shows.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of this model; the keys of the JSON format are stable within a version.
    pub report_version: u32,
    /// The runs in the order given; rows refer to them by index.
    pub runs: Vec<RunInfo>,
    /// Descriptions of the metrics of the rows.
    pub metrics: &'static [Metric],
    /// Results, one section per workload.
    pub workloads: Vec<Section>,
    /// Verdicts of comparisons, in the order of the runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<ComparisonInfo>,
    /// Components inside implementations, from runs separate from those of the results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanTable>,
    /// Comparison of several machines, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<Machines>,
    /// Findings with evidence and advice, most important first.
    pub findings: Vec<Finding>,
    /// Defects that concern the records as a whole.
    pub warnings: Vec<String>,
    /// Limits on what the numbers show.
    pub limits: Vec<String>,
    /// What the measured workloads show beyond the common tables.
    #[serde(skip)]
    pub views: Vec<View>,
    /// The options of the report.
    #[serde(skip)]
    pub options: Options,
}

impl Report {
    /// The views of kind `implementations`.
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
    /// Axes with more than one value in the rows.
    pub swept: Vec<AxisInfo>,
    /// Names of the varying axes that distinguish the cases: of those that vary together, the first.
    #[serde(skip)]
    pub leading: Vec<String>,
    /// Axes with a single value, in the order declared.
    pub fixed: Vec<AxisInfo>,
    /// Name of the items processed (`vectors`), if all rows agree.
    pub item: Option<String>,
    /// Implementations in order of first appearance.
    pub implementations: Vec<String>,
    /// Baselines of the speed-ups of these rows.
    pub baselines: Vec<String>,
    /// Cases in order of first appearance, with their rows.
    pub cases: Vec<CaseInfo>,
    /// One row per run, case, implementation and device.
    pub rows: Vec<Row>,
    /// Scaling along each numeric axis that varies.
    pub growth: Vec<Growth>,
    /// Times by the values of each axis, if more than one varies.
    pub along_axes: Vec<AlongAxis>,
    /// Remarks on the results, each with the number of rows it applies to.
    pub remarks: Vec<Remark>,
}

/// A case of one run; its rows may be compared with each other.
#[derive(Debug, Clone, Serialize)]
pub struct CaseInfo {
    /// Index into [`Report::runs`].
    pub run: usize,
    /// Id of the case.
    pub id: String,
    /// Indices into [`Section::rows`].
    pub rows: Vec<usize>,
    /// The fastest implementation.
    pub best: Best,
}

/// A remark and the number of rows it applies to.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Remark {
    /// The remark, as written in the record.
    pub text: String,
    /// Rows with the remark.
    pub rows: usize,
    /// Rows in the section.
    pub of: usize,
    /// Implementations with the remark.
    pub implementations: Vec<String>,
}

/// Whether a row was measured.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Status {
    /// `measured`, `unsupported`, `wrong` or `failed`.
    pub word: &'static str,
    /// The reason, unless the row was measured.
    pub reason: Option<String>,
}

/// One implementation at one case in one run.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Index into [`Report::runs`].
    pub run: usize,
    /// Id of the case.
    pub case: String,
    /// Axis values in the order declared.
    #[serde(serialize_with = "params_as_map")]
    pub params: Vec<Param>,
    /// Digest of the user's own arrays, if given.
    pub input: Option<String>,
    /// Name of the implementation.
    pub implementation: String,
    /// Id of the device.
    pub device: String,
    /// Number of threads that took part.
    pub parallelism: Parallelism,
    /// State of the caches when a slot starts.
    pub caches: Caches,
    /// What ran: instruction set, number of threads.
    pub what_ran: String,
    /// Whether the row was measured, and why if not.
    pub status: Status,
    /// Result of the check before timing.
    pub check: Option<Verdict>,
    /// Required work; counted operations replace the required ones if the implementation counted them.
    pub work: Work,
    /// Number of samples.
    pub samples: usize,
    /// The time that is reported; empty in older records, which use the elapsed time of whole slots.
    pub basis: Option<Basis>,
    /// Settling after other arms used the CPU, if recorded.
    pub settling: Option<Settles>,
    /// True if the median is below the timer resolution; time, rate and ratio are then unavailable.
    pub below_resolution: bool,
    /// Timer resolution per iteration, in seconds.
    pub resolution_s: Option<f64>,
    /// Time to prepare the implementation, in seconds.
    pub prepare_s: Option<f64>,
    /// Elapsed time of the first run, in seconds.
    pub first_run_s: Option<f64>,
    /// First run divided by the median of the later ones, both in elapsed time.
    pub first_over_steady: Option<f64>,
    /// One entry per metric, in the order of [`Report::metrics`].
    #[serde(serialize_with = "metrics_as_map")]
    pub metrics: Vec<MetricValue>,
    /// Median wall time divided by median CPU time, for single-threaded implementations; above 1 it waited for the CPU.
    pub wall_over_cpu: Option<f64>,
    /// Share of samples with an involuntary context switch.
    pub switched_share: Option<f64>,
    /// What other programs took from the row; empty if its time is undisturbed.
    pub held_up: Option<HeldUp>,
    /// Minor page faults per iteration: the mean over the middle half of the samples.
    pub faults_per_iteration: Option<f64>,
    /// Speed-up over the baseline at the same case in the same run.
    pub speedup: Speedup,
    /// The limit of the required work at this machine's measured peaks.
    #[serde(serialize_with = "roof_as_map")]
    pub roof: Option<Roof>,
    /// What limits the row, and which change would help most.
    pub diagnosis: Option<Diagnosis>,
    /// True if the row is the fastest of its case by more than the interval.
    pub best: bool,
    /// True if it may be the fastest, but the samples do not separate it from another.
    pub tied: bool,
    /// Values of probes and of the workload, plus the largest difference from the reference.
    pub readings: Vec<Reading>,
    /// Warnings for this row.
    pub warnings: Vec<String>,
}

/// The settling of a row after other arms used the CPU.
#[derive(Debug, Clone, Copy, Serialize, PartialEq)]
pub struct Settles {
    /// Seconds from a switch until the times have settled; `None` if they had not when the curve ended.
    pub seconds: Option<f64>,
    /// Time of the first iterations after a switch divided by the settled time.
    pub slower_at_first: f64,
    /// Untimed iterations at the head of each slot.
    pub untimed: u64,
    /// True if the times only fell; otherwise a curve that had not settled is noise.
    #[serde(skip)]
    pub falls: bool,
    /// True if the ratio is large enough for a remark.
    #[serde(skip)]
    pub remarkable: bool,
}

impl Settles {
    pub(super) fn new(settling: &Settling) -> Option<Self> {
        Some(Self {
            seconds: (!settling.unsettled).then(|| settling.seconds()),
            slower_at_first: settling.slower_at_first()?,
            untimed: settling.untimed,
            falls: settling.falls(),
            remarkable: settling.is_remarkable(),
        })
    }
}

impl Row {
    /// The metric with key `id`.
    pub fn metric(&self, id: &str) -> Option<&MetricValue> {
        self.metrics.iter().find(|metric| metric.id == id)
    }

    /// The summary of a metric, if available.
    pub fn stats(&self, id: &str) -> Option<&Stats> {
        self.metric(id)?.stats.as_ref()
    }

    /// The median of a metric, if available.
    pub fn median(&self, id: &str) -> Option<f64> {
        self.stats(id).map(|stats| stats.median)
    }

    /// Median CPU time of an iteration over whole slots, if the printed time is that of their fastest parts.
    pub(crate) fn whole_slots_s(&self) -> Option<f64> {
        let of_parts = self.basis == Some(Basis::Fastest) && self.parallelism == Parallelism::Single;
        self.median("cpu-time").filter(|_| of_parts && self.device == "cpu")
    }

    /// The value of a reading, if available.
    pub fn reading(&self, id: &str) -> Option<f64> {
        self.readings.iter().find(|reading| reading.id == id).and_then(|reading| reading.value)
    }

    /// The value on an axis as text.
    pub fn param(&self, axis: &str) -> Option<String> {
        self.params.iter().find(|param| param.axis == axis).map(|param| axes::text(&param.value))
    }

    /// The values on axes: `batch 100, width 8`.
    pub(crate) fn values<'a>(&self, axes: impl Iterator<Item = &'a AxisInfo>) -> String {
        let value = |axis: &AxisInfo| Some(format!("{} {}", axis.name, self.param(&axis.name)?));
        axes.filter_map(value).collect::<Vec<_>>().join(", ")
    }

    /// The value on an axis as a number; `None` for words.
    pub fn number(&self, axis: &str) -> Option<f64> {
        self.params.iter().find(|param| param.axis == axis).and_then(|param| param.value.number())
    }

    /// Share of the printed time that a limit alone would take; for [`Limit::Compute`] and [`Limit::Memory`] this is
    /// the utilisation of the peak. `None` if no such ceiling was measured or the limit is irrelevant.
    pub fn utilisation(&self, limit: Limit) -> Option<f64> {
        let seconds = self.diagnosis.as_ref()?.seconds(limit);
        Some(seconds / self.median("time")?).filter(|share| *share > 0.0 && share.is_finite())
    }

    /// Share of the time that its limit explains: the utilisation of the peak, or else the diagnosis's share, which
    /// refers to the undisturbed time. A row that other programs held up uses that share too.
    pub fn limit_share(&self) -> Option<f64> {
        let diagnosis = self.diagnosis.as_ref()?;
        let peak = matches!(diagnosis.limit, Limit::Compute | Limit::Memory) && self.held_up.is_none();
        self.utilisation(diagnosis.limit).filter(|_| peak).or(Some(diagnosis.share))
    }

    /// True if the row was measured, even if its time is below the timer resolution.
    pub fn measured(&self) -> bool {
        self.status.reason.is_none()
    }
}

impl Section {
    /// The rows of an implementation in a run, in case order.
    pub fn rows_of<'a>(&'a self, run: usize, implementation: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.run == run && row.implementation == implementation)
    }

    /// The fastest row of a case, or the first of those that are tied.
    pub(crate) fn fastest(&self, case: &CaseInfo) -> Option<&Row> {
        let index = case.best.row.or(case.best.tied.first().copied())?;
        self.rows.get(index)
    }

    /// The varying axes that distinguish the cases.
    pub(crate) fn leading(&self) -> impl Iterator<Item = &AxisInfo> {
        self.swept.iter().filter(|axis| self.leading.contains(&axis.name))
    }

    /// The values of the other varying axes, which have one value for each value of a leading axis.
    pub(crate) fn following_line(&self) -> Option<String> {
        let others = self.swept.iter().filter(|axis| !self.leading.contains(&axis.name));
        let others: Vec<String> = others.map(AxisInfo::text).collect();
        (!others.is_empty()).then(|| format!("varying together: {}", others.join(" · ")))
    }

    /// The values of the leading axes (`batch 100`), or `the only case`.
    pub fn place(&self, row: &Row) -> String {
        let values = row.values(self.leading());
        if values.is_empty() { ONLY.to_string() } else { values }
    }

    /// The fixed parameters on one line (`lattice D4 · q 4`).
    pub fn fixed_line(&self) -> String {
        let axes = self.fixed.iter().map(AxisInfo::text);
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
    serializer.collect_map(params.iter().map(|param| (&param.axis, &param.value)))
}

fn metrics_as_map<S: Serializer>(metrics: &[MetricValue], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(metrics.iter().map(|metric| (metric.id, metric)))
}

fn roof_as_map<S: Serializer>(roof: &Option<Roof>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(roof) = roof else { return serializer.serialize_none() };
    let mut map = serializer.serialize_map(Some(3))?;
    map.serialize_entry("limit_s", &roof.limit_s)?;
    map.serialize_entry("binds", if roof.memory_bound { "memory" } else { "compute" })?;
    map.serialize_entry("ceiling", &roof.ceiling)?;
    map.end()
}

/// Each value once, in order of first appearance.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// The first value with each key.
pub(crate) fn distinct_by<T, K: PartialEq>(values: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for value in values {
        if !seen.iter().any(|known| key(known) == key(&value)) {
            seen.push(value);
        }
    }
    seen
}

/// Direction of a metric for a legend; empty for values without a better direction.
pub(crate) fn direction(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower is better",
        Better::Higher => "higher is better",
        Better::Neither => "",
    }
}

/// Origin of a value, as printed.
pub(crate) fn origin(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Measured => "measured",
        Provenance::Derived => "derived",
        Provenance::Estimated => "estimated",
        Provenance::Unavailable => "unavailable",
    }
}

/// The timing settings on one line.
pub(crate) fn settings_line(settings: &Settings) -> String {
    use crate::units::human;
    let seconds = |ns: u64| human(ns as f64 * 1e-9, "s");
    let slots = match settings.caches {
        Caches::Warm => format!("slots of at least {}", seconds(settings.slot_min_ns)),
        Caches::Cold => "slots of one iteration, the caches flushed before each".to_string(),
    };
    format!(
        "{}, at least {} samples in at most {} interleaved rounds, {} per implementation, warm-up {}",
        slots,
        settings.samples_min,
        settings.rounds_max,
        seconds(settings.case_budget_ns),
        seconds(settings.warm_up_ns),
    )
}
