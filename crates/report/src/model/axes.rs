//! Splits the parameters of a section into those that vary and those that are fixed.

use std::collections::BTreeSet;

use ellwand_core::Value;
use ellwand_core::record::{CaseRecord, Param};
use serde::Serialize;

use super::distinct;

/// An axis and its values in the rows of a section.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct AxisInfo {
    /// Name of the axis.
    pub name: String,
    /// Unit of the values; may be empty.
    pub unit: String,
    /// Values as text: numbers in ascending order, words in order of first appearance.
    pub values: Vec<String>,
    /// True if every value is a number.
    pub numeric: bool,
}

impl AxisInfo {
    /// The axis with its values: `batch 1,10`.
    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.name, self.values.join(","))
    }
}

/// A parameter value as text.
pub(crate) fn text(value: &Value) -> String {
    crate::units::clean(&value.to_string())
}

/// The cases, with an axis that a case omits at its neutral value added if another case has that axis.
pub(super) fn completed<'a>(cases: impl Iterator<Item = &'a CaseRecord> + Clone) -> Vec<CaseRecord> {
    let names: BTreeSet<&str> = cases.clone().flat_map(|case| &case.params).map(|param| param.axis.as_str()).collect();
    let mut seen = BTreeSet::new();
    let once = cases.filter(|case| seen.insert(&case.id));
    let complete = |case: &CaseRecord| {
        let mut case = case.clone();
        let named = case.neutral.iter().filter(|param| names.contains(param.axis.as_str())).cloned();
        case.params.extend(named.collect::<Vec<_>>());
        case
    };
    once.map(complete).collect()
}

/// Names of the varying axes that distinguish the cases: omits an axis that varies together with an earlier one, as
/// axes of named sizes do.
pub(super) fn leading(cases: &[CaseRecord], swept: &[AxisInfo]) -> Vec<String> {
    let value = |case: &CaseRecord, axis: &str| {
        case.params.iter().find(|param| param.axis == axis).map(|param| text(&param.value))
    };
    let together = |a: &str, b: &str| {
        let pairs: BTreeSet<_> = cases.iter().map(|case| (value(case, a), value(case, b))).collect();
        let firsts: BTreeSet<_> = pairs.iter().map(|(a, _)| a).collect();
        let seconds: BTreeSet<_> = pairs.iter().map(|(_, b)| b).collect();
        pairs.len() == firsts.len() && pairs.len() == seconds.len()
    };
    let mut kept: Vec<String> = Vec::new();
    for axis in swept {
        if !kept.iter().any(|known| together(known, &axis.name)) {
            kept.push(axis.name.clone());
        }
    }
    kept
}

/// Splits the axes of the cases of one workload into varying and fixed ones. An axis that only some cases have (it was
/// added to the workload later) varies.
pub(super) fn split(cases: &[CaseRecord]) -> (Vec<AxisInfo>, Vec<AxisInfo>) {
    let names = distinct(cases.iter().flat_map(|case| &case.params).map(|param| param.axis.as_str()));
    names.iter().map(|name| axis(name, cases)).partition(|axis| {
        let absent = cases.iter().any(|case| !case.params.iter().any(|param| param.axis == axis.name));
        axis.values.len() > 1 || absent
    })
}

fn axis(name: &str, cases: &[CaseRecord]) -> AxisInfo {
    let mut params: Vec<&Param> = Vec::new();
    for param in cases.iter().flat_map(|case| &case.params).filter(|param| param.axis == name) {
        if !params.iter().any(|known| known.value == param.value) {
            params.push(param);
        }
    }
    let numeric = params.iter().all(|param| param.value.number().is_some());
    if numeric {
        let key = |param: &Param| param.value.number().unwrap_or(f64::NAN);
        params.sort_by(|a, b| key(a).total_cmp(&key(b)));
    }
    AxisInfo {
        name: name.to_string(),
        unit: params.first().map(|param| param.unit.clone()).unwrap_or_default(),
        values: params.iter().map(|param| text(&param.value)).collect(),
        numeric,
    }
}
