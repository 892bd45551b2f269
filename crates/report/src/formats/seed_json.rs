//! JSON rows with the keys that benchmark scripts read (`operation`, `time_ms`, ..), and those that views of kind `json-form`
//! add for axes.
//!
//! Only measured rows are written, because such scripts add up `time_ms`; other formats give the reasons for missing
//! rows. A missing value is `null`, never 0.

use std::collections::BTreeMap;
use std::io::Write;

use ellwand_core::view::JsonForm;
use ellwand_core::{Compared, Reading, Value, View};
use serde::Serialize;

use super::readings::METER_BYTES;
use crate::ReportError;
use crate::model::{Report, Row, Section};

/// A measured row, with the keys that scripts use.
#[derive(Serialize)]
pub(super) struct SeedRow<'a> {
    pub(super) operation: &'a str,
    /// Name of the workload, because several workloads may share an operation.
    pub(super) workload: &'a str,
    pub(super) implementation: &'a str,
    /// Number of the run from 1, if the report has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<usize>,
    /// Values of axes: under the keys of the form, and each other varying axis under its name.
    #[serde(flatten)]
    pub(super) axes: BTreeMap<String, Option<Value>>,
    /// Median, in milliseconds.
    pub(super) time_ms: f64,
    /// Inputs, outputs and working memory, or growth of the process's peak memory during the run, in 10^6 bytes.
    pub(super) memory_mb: Option<f64>,
    /// Calls per second.
    pub(super) inference_speed: f64,
    /// Share of the device's ceiling in per cent. The name of the key is prescribed; the value is not an efficiency
    /// estimate.
    pub(super) gpu_efficiency: Option<f64>,
    /// Required bytes per time, in 10^9 bytes per second.
    pub(super) throughput_gbps: Option<f64>,
    /// Id of the device.
    pub(super) device: &'a str,
    /// How much of the answer the reference judged, if not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compared: Option<String>,
    /// If other programs held the row up: states that the time is an upper bound, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held_up: Option<String>,
}

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    serde_json::to_writer_pretty(&mut *out, &rows(report))?;
    writeln!(out)?;
    Ok(())
}

/// The measured rows of a report.
pub(super) fn rows(report: &Report) -> Vec<SeedRow<'_>> {
    let form = report.views.iter().find_map(|view| match view {
        View::JsonForm(form) => Some(form),
        _ => None,
    });
    let sections = report.workloads.iter();
    sections
        .flat_map(|section| section.rows.iter().filter_map(move |row| seed_row(report, section, row, form)))
        .collect()
}

fn seed_row<'a>(
    report: &Report,
    section: &'a Section,
    row: &'a Row,
    form: Option<&'a JsonForm>,
) -> Option<SeedRow<'a>> {
    let seconds = row.median("time")?;
    let name = form.and_then(|form| form.operations.iter().find(|(workload, _)| *workload == section.workload));
    Some(SeedRow {
        operation: name.map_or(section.workload.as_str(), |(_, operation)| operation),
        workload: &section.workload,
        implementation: &row.implementation,
        run: (report.runs.len() > 1).then_some(row.run + 1),
        axes: axes(section, row, form),
        time_ms: seconds * 1e3,
        memory_mb: memory(section, row).map(|bytes| bytes / 1e6),
        inference_speed: 1.0 / seconds,
        gpu_efficiency: row.median("roofline-fraction").map(|share| share * 100.0),
        throughput_gbps: row.median("bandwidth").map(|rate| rate / 1e9),
        device: &row.device,
        compared: row
            .check
            .as_ref()
            .and_then(|check| check.compared)
            .filter(Compared::is_partial)
            .map(|c| c.to_string()),
        held_up: row.held_up.map(|held| format!("time_ms is an upper bound: {held}")),
    })
}

/// The memory that all implementations of the workload report, otherwise what the meter resolves, because the rows of a
/// column are compared with each other.
fn memory(section: &Section, row: &Row) -> Option<f64> {
    let stated = |row: &Row| row.reading(Reading::TOTAL_MEMORY);
    if section.rows.iter().filter(|row| row.measured()).all(|row| stated(row).is_some()) {
        return stated(row);
    }
    row.reading("peak-memory").filter(|bytes| *bytes >= METER_BYTES)
}

/// The axes of a row: those of the form as whole numbers, and each other axis that varies; without a form, every axis.
fn axes(section: &Section, row: &Row, form: Option<&JsonForm>) -> BTreeMap<String, Option<Value>> {
    let known = form.map_or(&[][..], |form| form.axes.as_slice());
    let whole = |axis: &str| row.number(axis).map(|value| Value::Int(value as i64));
    let mut axes: BTreeMap<String, Option<Value>> =
        known.iter().map(|(key, axis)| (key.clone(), whole(axis))).collect();
    let varies = |axis: &str| form.is_none() || section.swept.iter().any(|swept| swept.name == axis);
    for param in row.params.iter().filter(|param| varies(&param.axis)) {
        if !known.iter().any(|(_, axis)| *axis == param.axis) {
            axes.insert(own_key(&param.axis), Some(param.value.clone()));
        }
    }
    axes
}

/// The key of an axis that the form does not name: its name, or `param_` and its name if the row has a member of that
/// name.
fn own_key(axis: &str) -> String {
    const MEMBERS: [&str; 12] = [
        "operation",
        "workload",
        "implementation",
        "run",
        "time_ms",
        "memory_mb",
        "inference_speed",
        "gpu_efficiency",
        "throughput_gbps",
        "device",
        "compared",
        "held_up",
    ];
    let key = axis.replace('-', "_");
    if MEMBERS.contains(&key.as_str()) { format!("param_{key}") } else { key }
}
