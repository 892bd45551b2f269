//! Views: what a domain shows of its results beyond the tables that every workload has. A view is data: names of
//! workloads, axes and readings, texts and thresholds. It is registered with its workloads and stored in the record, so
//! reports need no knowledge of any domain.

use serde::{Deserialize, Serialize};

/// A view. The report has one renderer or check for each kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum View {
    /// A table of workloads that are the parts of a whole.
    Parts(Parts),
    /// A plot of one reading over another.
    Curve(Curve),
    /// A finding if a few items dominate a mean.
    Outliers(Outliers),
    /// The JSON keys that scripts expect.
    JsonForm(JsonForm),
    /// Implementations that several workloads have under the same names.
    Implementations(Implementations),
    /// Targets that results meet or miss.
    Targets(Targets),
    /// Readings with a column in the table of results.
    Columns(Columns),
    /// A kind from a later version; this version skips it.
    #[serde(other)]
    Unknown,
}

/// Workloads measured separately that form a whole, with the share of each in the sum of their times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Title of the table, in lower case.
    pub title: String,
    /// Workloads in the order in which the whole computes them, each with its name in the table.
    pub parts: Vec<(String, String)>,
    /// An implementation that fuses several parts.
    pub fused: Option<Fused>,
    /// The workload that computes all parts: `run` of it measures the parts too.
    #[serde(default)]
    pub whole: Option<Whole>,
}

/// The whole of several parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Whole {
    /// Name of the workload.
    pub workload: String,
    /// The implementation of the parts that is measured with it.
    pub implementation: String,
}

/// One implementation of several parts whose intermediate results never reach memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fused {
    /// The workloads it replaces.
    pub parts: Vec<String>,
    /// The smallest share of the total time that it must save to be recommended.
    pub worth: f64,
    /// The recommendation, without a full stop.
    pub advice: String,
}

/// A plot of one reading over another, with a point per setting and a series per word of the first axis of words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Workloads with these readings.
    pub workloads: Vec<String>,
    /// Last part of the file name.
    pub id: String,
    /// What is plotted, in a few words.
    pub title: String,
    /// The x axis: a reading and the axis label.
    pub x: (String, String),
    /// The y axis, likewise.
    pub y: (String, String),
    /// A series of another method on the same data: its name, its x reading and its y reading.
    pub rival: Option<[String; 3]>,
    /// A line through the origin that no point can exceed.
    #[serde(default)]
    pub bound: Option<Slope>,
}

/// A line `y = slope x`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slope {
    /// Name in the legend.
    pub title: String,
    /// Growth of y per unit of x.
    pub slope: f64,
}

/// A rule for means over items with a few outliers, which account for `1 - inside (1 - share) / mean` of the mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outliers {
    /// Workloads with these readings.
    pub workloads: Vec<String>,
    /// Key of the rule.
    pub id: String,
    /// What the rule looks for, with its threshold.
    pub about: String,
    /// The finding in one line.
    pub title: String,
    /// Reading of the mean over all items.
    pub mean: String,
    /// Reading of the mean over the items that are not outliers.
    pub inside: String,
    /// Readings of the share of outliers, each with the next experiment to try; the first one that a row has counts.
    pub share: Vec<(String, String)>,
    /// Largest share of outliers that still counts as few.
    pub few: f64,
    /// Smallest share of the mean that counts as most.
    pub most: f64,
}

/// Keys of the JSON rows that scripts read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JsonForm {
    /// Workloads, each with the operation name that scripts use.
    pub operations: Vec<(String, String)>,
    /// Keys, each with the axis whose value it holds.
    pub axes: Vec<(String, String)>,
}

/// Implementations that several workloads have under the same names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Implementations {
    /// Names in the order of their looks: the same position means the same colour and marker in every plot. Empty
    /// positions are free.
    pub looks: Vec<String>,
    /// Multithreaded implementations, each with its single-threaded counterpart.
    pub threaded: Vec<(String, String)>,
}

/// Targets, each a line that says whether the results meet it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Targets {
    /// Title of the table, in lower case.
    pub title: String,
    /// The targets; those without a matching row are omitted.
    pub targets: Vec<Target>,
}

/// A limit on a metric of the rows that it selects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// What is asked for, in a few words with the limit (`at least 100 k vectors/s`).
    pub about: String,
    /// The workload whose rows count.
    pub workload: String,
    /// Axes with the values as text that a row must have.
    pub case: Vec<(String, String)>,
    /// What is compared with the limit.
    pub measure: Measure,
    /// The limit, in the unit of the measure.
    pub limit: f64,
}

/// What a target limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", content = "id", rename_all = "kebab-case", try_from = "StoredMeasure")]
pub enum Measure {
    /// The largest throughput of any row, items a second; at least the limit.
    Throughput,
    /// The largest speed-up over the baseline; at least the limit.
    Speedup,
    /// The largest value of a reading; at least the limit.
    Reading(String),
    /// The throughput of the fastest row at the most items, as a share of the largest throughput; at least the limit.
    Hold,
    /// The width from the 10th to the 90th percentile of the time of the fastest row of a case, as a share of its
    /// median, in the worst case; at most the limit.
    Spread,
    /// A measure from a later version.
    Unknown,
}

/// A measure as its members.
#[derive(Deserialize)]
struct StoredMeasure {
    of: String,
    id: Option<String>,
}

impl TryFrom<StoredMeasure> for Measure {
    type Error = &'static str;

    fn try_from(stored: StoredMeasure) -> Result<Self, Self::Error> {
        Ok(match stored.of.as_str() {
            "throughput" => Measure::Throughput,
            "speedup" => Measure::Speedup,
            "reading" => Measure::Reading(stored.id.ok_or("the measure \"reading\" lacks its id")?),
            "hold" => Measure::Hold,
            "spread" => Measure::Spread,
            _ => Measure::Unknown,
        })
    }
}

/// Readings shown next to the time, each in a column of the table of results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// Workloads with these readings.
    pub workloads: Vec<String>,
    /// Keys of the readings, in the order of the columns.
    pub readings: Vec<String>,
}

impl View {
    /// True if the view concerns this workload. JSON forms and implementations concern all workloads.
    pub fn is_about(&self, workload: &str) -> bool {
        let lists = |workloads: &[String]| workloads.iter().any(|one| one == workload);
        match self {
            View::Parts(view) => view.parts.iter().any(|(part, _)| part == workload),
            View::Curve(view) => lists(&view.workloads),
            View::Outliers(view) => lists(&view.workloads),
            View::Columns(view) => lists(&view.workloads),
            View::Targets(view) => view.targets.iter().any(|target| target.workload == workload),
            View::JsonForm(_) | View::Implementations(_) => true,
            View::Unknown => false,
        }
    }

    /// Adds `more` to `views` without duplicates.
    pub fn join(views: &mut Vec<View>, more: &[View]) {
        for view in more {
            if !views.contains(view) {
                views.push(view.clone());
            }
        }
    }
}
