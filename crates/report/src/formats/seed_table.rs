//! The comparison that benchmark scripts print: one table per operation, with the values of `seed-json`.

use std::io::Write;

use super::columns::BOUND;
use super::seed_json::{SeedRow, rows};
use crate::grid::{self, Column, Tone, paint};
use crate::units::UNAVAILABLE;
use crate::{Options, Report, ReportError};

const LEGEND: &str = "time: of one iteration; memory: inputs, outputs and working memory; speed: calls a second, 1000 / \
                      time; efficiency: share of the measured ceiling";

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let Options { width, color, full, .. } = report.options;
    let rows = rows(report);
    for (index, group) in rows.chunk_by(|a, b| a.workload == b.workload).enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let title = if group[0].operation == group[0].workload {
            group[0].workload.to_string()
        } else {
            format!("{} ({})", group[0].operation, group[0].workload)
        };
        writeln!(out, "{}", paint(&title, Tone::Strong, color))?;
        let mut columns = columns(group);
        let hidden = if full { Vec::new() } else { grid::fit(&mut columns, width) };
        grid::write(&columns, color, |_| Tone::Plain, out)?;
        report.options.print(Tone::Faint, &grid::hidden(&hidden).unwrap_or_default(), out)?;
    }
    if rows.is_empty() {
        let reasons = report.workloads.iter().any(|section| !section.rows.is_empty());
        writeln!(out, "no measured row{}", if reasons { "; the format table gives the reasons" } else { "" })?;
    } else {
        let held = rows.iter().any(|row| row.held_up.is_some());
        let held = if held { format!("; {HELD_UP}") } else { String::new() };
        let above = rows.iter().any(|row| row.gpu_efficiency.is_some_and(|share| share > 105.0));
        let above = if above { ABOVE } else { "" };
        report.options.print(Tone::Faint, &format!("{LEGEND}{above}{held}"), out)?;
    }
    Ok(())
}

/// Explains a share above 105 %.
const ABOVE: &str = " (above 105 %: part of the data is in a faster cache, or the ceiling was measured on a busier machine: measure it again with `machine`)";
/// Explains the sign of a bound.
const HELD_UP: &str =
    "≤: an upper bound, because other programs held the row up; the other numbers of its row follow from it";

fn columns(rows: &[SeedRow<'_>]) -> Vec<Column> {
    let text = |of: &dyn Fn(&SeedRow<'_>) -> String| rows.iter().map(of).collect::<Vec<_>>();
    let differs = |cells: &[String]| cells.iter().any(|cell| *cell != cells[0]);
    let mut columns = Vec::new();
    let runs = text(&|row| row.run.map_or_else(String::new, |run| run.to_string()));
    if differs(&runs) {
        columns.push(Column::new("run", true, 1, runs));
    }
    for key in rows[0].axes.keys() {
        let cells = text(&|row| match row.axes.get(key) {
            Some(Some(value)) => crate::model::text(value),
            _ => UNAVAILABLE.to_string(),
        });
        if cells.iter().any(|cell| cell != UNAVAILABLE) {
            columns.push(Column::new(key.clone(), true, 0, cells));
        }
    }
    columns.push(Column::new("implementation", false, 0, text(&|row| row.implementation.to_string())));
    let devices = text(&|row| row.device.to_string());
    if differs(&devices) {
        columns.push(Column::new("device", false, 0, devices));
    }
    let number = |value: Option<f64>, least: usize, digits: usize| {
        value.map_or_else(|| UNAVAILABLE.into(), |v| format!("{v:.*}", places(v, least, digits)))
    };
    let time = |row: &SeedRow<'_>| {
        format!("{}{}", if row.held_up.is_some() { BOUND } else { "" }, number(Some(row.time_ms), 4, 4))
    };
    let compared = text(&|row| row.compared.clone().unwrap_or_default());
    // The scripts' own columns are never hidden.
    columns.extend([
        Column::new("time (ms)", true, 0, text(&time)),
        Column::new("memory (MB)", true, 0, text(&|row| number(row.memory_mb, 2, 2))),
        Column::new("speed (calls/s)", true, 0, text(&|row| number(Some(row.inference_speed), 1, 2))),
        Column::new("efficiency (%)", true, 0, text(&|row| number(row.gpu_efficiency, 1, 2))),
        Column::new("throughput (GB/s)", true, 4, text(&|row| number(row.throughput_gbps, 1, 2))),
    ]);
    if compared.iter().any(|cell| !cell.is_empty()) {
        columns.push(Column::new("compared", false, 5, compared));
    }
    columns
}

/// Number of decimals: as many as the scripts print, or as its significant digits need.
fn places(value: f64, least: usize, digits: usize) -> usize {
    if value > 0.0 { (digits as f64 - 1.0 - value.log10().floor()).clamp(least as f64, 12.0) as usize } else { least }
}
