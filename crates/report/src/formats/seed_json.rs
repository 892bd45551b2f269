//! JSON rows with the keys of common layer-benchmark scripts (`operation`, `batch_size`, `time_ms`, ..).
//!
//! Only measured rows are written, because such scripts add up `time_ms`; other formats give the reasons for missing
//! rows. A missing value is `null`, never 0.

use std::io::Write;

use serde::Serialize;

use crate::ReportError;
use crate::model::{Report, Row, Section};

/// Operation names in these scripts; other workloads keep their own names.
const OPERATIONS: &[(&str, &str)] = &[
    ("layer-norm", "LayerNorm"),
    ("gelu", "GELU"),
    ("swish", "Swish"),
    ("softmax", "Softmax"),
    ("mse-loss", "MSELoss"),
    ("cross-entropy-loss", "CrossEntropyLoss"),
];

#[derive(Serialize)]
struct SeedRow<'a> {
    operation: &'a str,
    implementation: &'a str,
    batch_size: Option<i64>,
    sequence_length: Option<i64>,
    tensor_dimension: Option<i64>,
    /// Median time in milliseconds.
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
}

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let rows: Vec<SeedRow<'_>> = report
        .workloads
        .iter()
        .flat_map(|section| section.rows.iter().filter_map(move |row| seed_row(section, row)))
        .collect();
    serde_json::to_writer_pretty(&mut *out, &rows)?;
    writeln!(out)?;
    Ok(())
}

fn seed_row<'a>(section: &'a Section, row: &'a Row) -> Option<SeedRow<'a>> {
    let seconds = row.median("time")?;
    let whole = |axis: &str| row.number(axis).map(|value| value as i64);
    let name = OPERATIONS.iter().find(|(workload, _)| *workload == section.workload);
    Some(SeedRow {
        operation: name.map_or(section.workload.as_str(), |(_, operation)| operation),
        implementation: &row.implementation,
        batch_size: whole("batch"),
        sequence_length: whole("sequence"),
        tensor_dimension: whole("dimension"),
        time_ms: seconds * 1e3,
        memory_mb: row.reading("peak-memory").map(|bytes| bytes / 1e6),
        inference_speed: 1.0 / seconds,
        gpu_efficiency: row.median("roofline-fraction").map(|share| share * 100.0),
        throughput_gbps: row.median("bandwidth").map(|rate| rate / 1e9),
        device: &row.device,
    })
}
