//! Views: what a domain shows of its results beyond the tables that every workload has. A view is data: names of workloads, axes
//! and readings, texts and thresholds. It is registered beside its workloads and travels in the record, so that reports know no
//! domain and need nothing but the record.

use serde::{Deserialize, Serialize};

/// A view. Each kind is drawn or checked by one place in the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum View {
    /// A table of workloads that are parts of one whole.
    Parts(Parts),
    /// A plot of one reading against another.
    Curve(Curve),
    /// A finding where a few items make most of a mean.
    Outliers(Outliers),
    /// The keys that scripts expect in JSON.
    JsonForm(JsonForm),
    /// Implementations that several workloads have under the same names.
    Implementations(Implementations),
    /// A kind from a later version, which this one skips.
    #[serde(other)]
    Unknown,
}

/// Workloads that are measured separately and together make a whole, with the share of each in the sum of their times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Title of the table, in lower case.
    pub title: String,
    /// Workloads in the order in which the whole computes them, each with its name in the table.
    pub parts: Vec<(String, String)>,
    /// Another way of computing several parts at once.
    pub fused: Option<Fused>,
}

/// One implementation of several parts, whose intermediate results never reach memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fused {
    /// The workloads that it replaces.
    pub parts: Vec<String>,
    /// The share of the total that it must be able to save before it is recommended.
    pub worth: f64,
    /// The recommendation, without a full stop.
    pub advice: String,
}

/// A plot of one reading against another: a point for each setting, a series for each word of the first axis of words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Workloads that have it.
    pub workloads: Vec<String>,
    /// Last part of the file's name.
    pub id: String,
    /// What is plotted, in a few words.
    pub title: String,
    /// To the right: a reading and the label of the axis.
    pub x: (String, String),
    /// Upwards, in the same way.
    pub y: (String, String),
    /// A series of another method on the same data: its name, and its readings to the right and upwards.
    pub rival: Option<[String; 3]>,
}

/// A rule for means over items of which a few are outliers. These make `1 - inside (1 - share) / mean` of the mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outliers {
    /// Workloads that have the readings.
    pub workloads: Vec<String>,
    /// Key of the rule.
    pub id: String,
    /// What the rule looks for, with its threshold.
    pub about: String,
    /// What was found.
    pub title: String,
    /// Reading of the mean over all items.
    pub mean: String,
    /// Reading of the mean over the items that are no outliers.
    pub inside: String,
    /// Readings of the share of outliers, each with the next experiment to try; the first that a row has counts.
    pub share: Vec<(String, String)>,
    /// The largest share of outliers that the rule calls few.
    pub few: f64,
    /// The smallest share of the mean that it calls most.
    pub most: f64,
}

/// Keys of the rows that scripts read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JsonForm {
    /// Workloads, each with the operation that scripts call it.
    pub operations: Vec<(String, String)>,
    /// Keys, each with the axis whose value it holds.
    pub axes: Vec<(String, String)>,
}

/// Implementations that several workloads have under the same names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Implementations {
    /// Names in the order of their looks: the same place is the same colour and marker in every plot. An empty place is free.
    pub looks: Vec<String>,
    /// Implementations on several threads, each with the one that computes in the same way on one thread.
    pub threaded: Vec<(String, String)>,
}

impl View {
    /// Whether it is about the workload. Forms and implementations are about all.
    pub fn is_about(&self, workload: &str) -> bool {
        let lists = |workloads: &[String]| workloads.iter().any(|one| one == workload);
        match self {
            View::Parts(view) => view.parts.iter().any(|(part, _)| part == workload),
            View::Curve(view) => lists(&view.workloads),
            View::Outliers(view) => lists(&view.workloads),
            View::JsonForm(_) | View::Implementations(_) => true,
            View::Unknown => false,
        }
    }

    /// Adds `more` to `views`, each once.
    pub fn join(views: &mut Vec<View>, more: &[View]) {
        for view in more {
            if !views.contains(view) {
                views.push(view.clone());
            }
        }
    }
}
