//! JSON rows with the keys that benchmark scripts read (`operation`, `time_ms`, ..), and those that views of kind `json-form`
//! add for axes.
//!
//! Only measured rows are written, because such scripts add up `time_ms`; other formats give the reasons for missing
//! rows. A missing value is `null`, never 0.

use std::collections::BTreeMap;
use std::io::Write;

use ellwand_core::record::ParamValue;
use ellwand_core::view::JsonForm;
use ellwand_core::{Compared, View};
use serde::Serialize;

use crate::ReportError;
use crate::model::{Report, Row, Section};

#[derive(Serialize)]
struct SeedRow<'a> {
    operation: &'a str,
    implementation: &'a str,
    /// Values of axes: under the keys of the form, otherwise `param_` and the name of the axis.
    #[serde(flatten)]
    axes: BTreeMap<String, Option<ParamValue>>,
    /// Median, in milliseconds.
    time_ms: f64,
    /// Growth of the process's peak memory during the run, in 10^6 bytes.
    memory_mb: Option<f64>,
    /// Calls per second.
    inference_speed: f64,
    /// Share of the device's ceiling in per cent. The name of the key is prescribed; the value is not an efficiency
    /// estimate.
    gpu_efficiency: Option<f64>,
    /// Required bytes per time, in 10^9 bytes per second.
    throughput_gbps: Option<f64>,
    /// Id of the device.
    device: &'a str,
    /// How much of the answer the reference judged, if not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<String>,
}

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let form = report.views.iter().find_map(|view| match view {
        View::JsonForm(form) => Some(form),
        _ => None,
    });
    let sections = report.workloads.iter();
    let rows: Vec<SeedRow<'_>> =
        sections.flat_map(|section| section.rows.iter().filter_map(move |row| seed_row(section, row, form))).collect();
    serde_json::to_writer_pretty(&mut *out, &rows)?;
    writeln!(out)?;
    Ok(())
}

fn seed_row<'a>(section: &'a Section, row: &'a Row, form: Option<&'a JsonForm>) -> Option<SeedRow<'a>> {
    let seconds = row.median("time")?;
    let whole = |axis: &str| row.number(axis).map(|value| ParamValue::Int(value as i64));
    let name = form.and_then(|form| form.operations.iter().find(|(workload, _)| *workload == section.workload));
    Some(SeedRow {
        operation: name.map_or(section.workload.as_str(), |(_, operation)| operation),
        implementation: &row.implementation,
        axes: match form {
            Some(form) => form.axes.iter().map(|(key, axis)| (key.clone(), whole(axis))).collect(),
            None => {
                row.params.iter().map(|param| (format!("param_{}", param.axis), Some(param.value.clone()))).collect()
            }
        },
        time_ms: seconds * 1e3,
        memory_mb: row.reading("peak-memory").map(|bytes| bytes / 1e6),
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
    })
}
