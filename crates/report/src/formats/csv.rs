//! CSV: one line per measurement, one column per quantity, units in the column names. An empty cell means unavailable.

use std::io::Write;

use ellwand_core::Reading;

use crate::diagnose::Limit;
use crate::model::{Report, Row, Section, distinct, distinct_by};
use crate::{ReportError, model};

type Cell<'a> = dyn Fn(&Section, &Row) -> String + 'a;

/// The name of a column, and its cell in a row.
type Column<'a> = (String, Box<Cell<'a>>);

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    // One file holds one table; if there are both, `spans.csv` holds the other.
    if report.workloads.is_empty() && !report.spans.is_empty() {
        return super::spans::write_csv(report, out);
    }
    let columns = columns(report);
    record(out, columns.iter().map(|(name, _)| name.clone()))?;
    for section in &report.workloads {
        for row in &section.rows {
            record(out, columns.iter().map(|(_, cell)| cell(section, row)))?;
        }
    }
    Ok(())
}

/// Writes a line; a cell with a comma, a quote or a line break is quoted (RFC 4180).
pub(super) fn record(out: &mut dyn Write, cells: impl Iterator<Item = String>) -> std::io::Result<()> {
    let quoted = |cell: String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    };
    writeln!(out, "{}", cells.map(quoted).collect::<Vec<String>>().join(","))
}

/// The shortest text that parses to the same bits.
fn exact(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { String::new() }
}

pub(super) fn some(value: Option<f64>) -> String {
    value.map(exact).unwrap_or_default()
}

fn column<'a>(name: impl Into<String>, cell: impl Fn(&Section, &Row) -> String + 'a) -> Column<'a> {
    (name.into(), Box::new(cell))
}

fn columns(report: &Report) -> Vec<Column<'_>> {
    let mut columns = vec![
        column("run_id", |_, row: &Row| report.runs[row.run].id.clone()),
        column("started_utc", |_, row| report.runs[row.run].started.clone()),
        column("machine", |_, row| report.runs[row.run].machine.clone()),
        column("cpu", |_, row| report.runs[row.run].machine_line()),
        column("workload", |section, _| section.workload.clone()),
    ];
    let parameters = columns.len();
    columns.extend([
        column("input", |_, row: &Row| row.input.clone().unwrap_or_default()),
        column("implementation", |_, row| row.implementation.clone()),
        column("device", |_, row| row.device.clone()),
        column("caches", |_, row| row.caches.word().to_string()),
        column("parallelism", |_, row| format!("{:?}", row.parallelism).to_lowercase()),
        column("what_ran", |_, row| row.what_ran.clone()),
        column("status", |_, row| row.status.word.to_string()),
        column("reason", |_, row| row.status.reason.clone().unwrap_or_default()),
        column("best", |_, row| row.best.to_string()),
        column("tied", |_, row| row.tied.to_string()),
        // Other programs held the row up: its time is an upper bound, its speed-up a lower one.
        column("held_up", |_, row| row.held_up.is_some().to_string()),
        column("below_resolution", |_, row| row.below_resolution.to_string()),
        column("resolution_s", |_, row| some(row.resolution_s)),
        column("basis", |_, row| row.basis.map_or("", |basis| if basis.is_cpu() { "cpu" } else { "elapsed" }).into()),
        column("item", |_, row| row.work.item.clone()),
        column("items", |_, row| row.work.items.to_string()),
        column("flops", |_, row| exact(row.work.flops)),
        column("bytes_read", |_, row| row.work.bytes_read.to_string()),
        column("bytes_written", |_, row| row.work.bytes_written.to_string()),
        column("samples", |_, row| row.samples.to_string()),
        column("prepare_s", |_, row| some(row.prepare_s)),
        column("first_run_s", |_, row| some(row.first_run_s)),
        column("first_over_steady", |_, row| some(row.first_over_steady)),
    ]);
    for metric in report.metrics {
        type Part = fn(&model::Stats) -> Option<f64>;
        let parts: [(&str, Part); 7] = [
            ("median", |s| Some(s.median)),
            ("low", |s| s.low),
            ("high", |s| s.high),
            ("min", |s| Some(s.min)),
            ("p10", |s| Some(s.p10)),
            ("p90", |s| Some(s.p90)),
            ("max", |s| Some(s.max)),
        ];
        for (part, get) in parts {
            let name = with_unit(&format!("{}_{part}", plain(metric.id)), metric.unit);
            columns.push(column(name, move |_, row| some(row.stats(metric.id).and_then(get))));
        }
    }
    columns.extend([
        column("baseline", |_, row: &Row| row.speedup.baseline.clone()),
        column("speedup", |_, row| some(row.speedup.ratio)),
        column("speedup_low", |_, row| some(row.speedup.ends().0)),
        column("speedup_high", |_, row| some(row.speedup.ends().1)),
        column("speedup_pairs", |_, row| row.speedup.pairs.to_string()),
        column("speedup_unavailable", |_, row| row.speedup.unavailable.clone().unwrap_or_default()),
        column("wall_over_cpu", |_, row| some(row.wall_over_cpu)),
        column("switched_share", |_, row| some(row.switched_share)),
        column("faults_per_iteration", |_, row| some(row.faults_per_iteration)),
        column("limit", |_, row| row.diagnosis.as_ref().map(|d| d.label()).unwrap_or_default()),
        column("limit_share", |_, row| some(row.limit_share())),
        column("compute_utilisation", |_, row| some(row.utilisation(Limit::Compute))),
        column("bandwidth_utilisation", |_, row| some(row.utilisation(Limit::Memory))),
    ]);
    for reading in readings(report) {
        let name = with_unit(&format!("reading_{}", plain(&reading.id)), &reading.unit);
        columns.push(column(name, move |_, row| some(row.reading(&reading.id))));
    }
    columns.push(column("warnings", |_, row: &Row| row.warnings.join("; ")));
    for axis in axes(report).into_iter().rev() {
        // An axis may have the name of a column; its own column is then marked as an axis.
        let taken = columns.iter().any(|(name, _)| name == axis);
        let name = if taken { format!("param_{axis}") } else { axis.to_string() };
        columns.insert(parameters, column(name, move |_, row| row.param(axis).unwrap_or_default()));
    }
    columns
}

fn axes(report: &Report) -> Vec<&str> {
    let params = report.workloads.iter().flat_map(|section| &section.rows).flat_map(|row| &row.params);
    distinct(params.map(|param| param.axis.as_str()))
}

fn readings(report: &Report) -> Vec<&Reading> {
    let readings = report.workloads.iter().flat_map(|section| &section.rows).flat_map(|row| &row.readings);
    distinct_by(readings, |reading| &reading.id)
}

fn plain(id: &str) -> String {
    id.replace(|c: char| !c.is_alphanumeric(), "_")
}

/// Appends the unit: `time_median` and `s` give `time_median_s`; a fraction or a pure number has none.
fn with_unit(name: &str, unit: &str) -> String {
    match unit {
        "" | "1" | "x" | "ratio" => name.to_string(),
        "1/s" => format!("{name}_per_s"),
        "B" => format!("{name}_bytes"),
        "B/s" => format!("{name}_bytes_per_s"),
        "FLOP/s" => format!("{name}_flop_per_s"),
        other => format!("{name}_{}", plain(&other.replace('/', "_per_"))),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_is_read_back_by_another_reader() {
        let cells = ["plain", "", "a,b", "say \"no\"", "two\nlines", "\r", " spaces "];
        let mut text = Vec::new();
        super::record(&mut text, cells.iter().map(ToString::to_string)).unwrap();
        let mut reader = ::csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_slice());
        assert_eq!(reader.records().next().unwrap().unwrap().iter().collect::<Vec<_>>(), cells);
    }
}
