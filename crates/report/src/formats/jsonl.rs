//! JSON lines: one object per measurement, for tools that read line by line.

use std::io::Write;

use serde::Serialize;

use crate::model::Row;
use crate::{Report, ReportError};

#[derive(Serialize)]
struct Line<'a> {
    run_id: &'a str,
    machine: &'a str,
    workload: &'a str,
    #[serde(flatten)]
    row: &'a Row,
}

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    for section in &report.workloads {
        for row in &section.rows {
            let run = &report.runs[row.run];
            let line = Line { run_id: &run.id, machine: &run.machine, workload: &section.workload, row };
            serde_json::to_writer(&mut *out, &line)?;
            writeln!(out)?;
        }
    }
    super::spans::json_lines(report, out)
}
