//! Components of implementations, in all formats.

use std::io::{self, Write};

use serde::Serialize;

use super::csv::{record, some};
use crate::ReportError;
use crate::grid::{self, Column, Tone, markdown};
use crate::model::{Report, SpanRow, SpanTable};
use crate::units::{UNAVAILABLE, human};

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| UNAVAILABLE.to_string(), |value| human(value, "s"))
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| UNAVAILABLE.to_string(), |value| human(value, "1"))
}

/// A number of calls, without decimals if it is an integer.
fn count(calls: f64) -> String {
    if calls.fract() == 0.0 { format!("{calls}") } else { human(calls, "") }
}

/// A share; tiny ones are printed as a bound.
fn small(share: f64) -> String {
    if share < 1e-4 { "less than 0.01 %".to_string() } else { human(share, "1") }
}

/// The fixed parameters, if this is the first table of its workload.
fn fixed(report: &Report, index: usize) -> Option<&str> {
    let table = &report.spans[index];
    let first = index == 0 || report.spans[index - 1].workload != table.workload;
    Some(table.fixed.as_str()).filter(|fixed| first && !fixed.is_empty())
}

/// Rates of the declared work in one cell, since few components declare all kinds.
fn rates(row: &SpanRow) -> String {
    let rates = [(row.bandwidth, "B/s"), (row.flop_rate, "FLOP/s")];
    let known = rates.iter().filter_map(|(rate, unit)| Some(human((*rate)?, unit)));
    known.chain(row.item_rate.map(|rate| human(rate, "1/s"))).collect::<Vec<_>>().join(", ")
}

/// The columns of a table. `flat` writes full paths, for formats that lose indentation.
pub(super) fn columns(table: &SpanTable, flat: bool) -> Vec<Column> {
    let rows = &table.rows;
    let name = |row: &SpanRow| {
        let outer = &row.path[..row.path.len().saturating_sub(1)];
        let own = table.name_of(row);
        if flat {
            outer.iter().cloned().chain([own]).collect::<Vec<_>>().join(" / ")
        } else {
            format!("{}{own}", "  ".repeat(outer.len()))
        }
    };
    let cells = |cell: &dyn Fn(&SpanRow) -> String, outside: String| -> Vec<String> {
        rows.iter().map(cell).chain([outside]).collect()
    };
    let mut columns = vec![
        Column::new("component", false, 0, cells(&name, "(in no span)".into())),
        Column::new("calls", true, 1, cells(&|row| count(row.calls), String::new())),
        Column::new("time", true, 0, cells(&|row| human(row.time_s, "s"), seconds(table.outside_s))),
        Column::new("share", true, 0, cells(&|row| share(row.share), share(table.outside_share))),
        Column::new("self", true, 2, cells(&|row| human(row.self_s, "s"), seconds(table.outside_s))),
        Column::new("median call", true, 3, cells(&|row| seconds(row.call_median_s), String::new())),
    ];
    if rows.iter().any(|row| row.call_p99_s.is_some()) {
        columns.push(Column::new("p99 call", true, 4, cells(&|row| seconds(row.call_p99_s), String::new())));
    }
    if rows.iter().any(|row| !row.calling) {
        let threads = |row: &SpanRow| match (row.calling, row.threads) {
            (true, _) => "caller".to_string(),
            (false, 0) => "device".to_string(),
            (false, 1) => "1 other".to_string(),
            (false, threads) => format!("{threads} others"),
        };
        columns.push(Column::new("threads", false, 1, cells(&threads, "caller".into())));
    }
    if rows.iter().any(|row| !rates(row).is_empty()) {
        columns.push(Column::new("declared", true, 5, cells(&rates, String::new())));
    }
    columns
}

/// Heading such as `sum · batch 100 · parallel · avx512, 2 threads`.
fn title(table: &SpanTable) -> String {
    let parts = [&table.workload, &table.place, &table.implementation, &table.what_ran];
    parts.into_iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" · ")
}

/// Time of an iteration and the conditions of the recording.
pub(super) fn terms(table: &SpanTable) -> String {
    let of = if table.left_out.is_empty() { String::new() } else { format!(" of {}", table.iterations) };
    let mut parts = vec![format!(
        "{}{of} iterations with spans on, {} each (mean; median {}): not a benchmark",
        table.iterations - table.left_out.len(),
        seconds(table.iteration_s),
        seconds(table.iteration_median_s)
    )];
    if let (Some(spans), Some(cost)) = (table.spans_per_iteration, table.span_cost_s) {
        let added = table.overhead_share.map_or_else(String::new, |share| format!(" ({} of it)", small(share)));
        parts.push(format!("{} spans per iteration at {} per span{added}", count(spans), human(cost, "s")));
    }
    if table.rows.iter().any(|row| !row.calling && row.threads > 0) {
        parts.push("times of other threads are summed over threads and overlap the caller's".to_string());
    }
    if table.rows.iter().any(|row| !row.calling && row.threads == 0) {
        parts.push("times on the device overlap those of the caller, which waits for the device".to_string());
    }
    parts.join(" · ")
}

/// Writes the terminal tables.
pub(super) fn text(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for (index, table) in report.spans.iter().enumerate() {
        writeln!(out)?;
        if let Some(fixed) = fixed(report, index) {
            let line = format!("{} · {fixed}", table.workload);
            report.options.print(Tone::Faint, &line, out)?;
        }
        let run = if report.runs.len() > 1 { format!(" · run {}", table.run + 1) } else { String::new() };
        let title = format!("{} · components{run}", title(table));
        report.options.print(Tone::Strong, &title, out)?;
        if let Some(reason) = &table.status.reason {
            report.options.print(Tone::Plain, &format!("! {}: {reason}", table.status.word), out)?;
            continue;
        }
        if !table.rows.is_empty() {
            grid::show(columns(table, false), vec![terms(table)], &report.options, out)?;
        }
        for note in &table.notes {
            report.options.print(Tone::Plain, &format!("! {note}"), out)?;
        }
    }
    Ok(())
}

/// Writes the section of the Markdown report.
pub(super) fn write_markdown(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if report.spans.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Components\n")?;
    writeln!(
        out,
        "Where the time goes inside implementations, by their spans and, on a device, by its records of kernels and copies. They come from separate runs; no other time in this report was taken while spans were on.\n"
    )?;
    for (index, table) in report.spans.iter().enumerate() {
        if let Some(fixed) = fixed(report, index) {
            writeln!(out, "{}, all tables: {fixed}.\n", table.workload)?;
        }
        let run = if report.runs.len() > 1 { format!(" (run {})", table.run + 1) } else { String::new() };
        writeln!(out, "### {}{run}\n", title(table))?;
        if let Some(reason) = &table.status.reason {
            writeln!(out, "{}: {reason}.\n", table.status.word)?;
            continue;
        }
        if !table.rows.is_empty() {
            markdown(&columns(table, true), out)?;
            writeln!(out, "\n{}.\n", terms(table))?;
        }
        for note in &table.notes {
            writeln!(out, "- {note}")?;
        }
        if !table.notes.is_empty() {
            writeln!(out)?;
        }
        if let Some(trace) = &table.trace {
            writeln!(out, "All spans: [{trace}]({trace}), for Perfetto or another viewer of Chrome traces.\n")?;
        }
    }
    Ok(())
}

type Cell<T> = (&'static str, fn(&Report, &T) -> String);

const OF_TABLE: [Cell<SpanTable>; 10] = [
    ("run_id", |report, table| report.runs[table.run].id.clone()),
    ("workload", |_, table| table.workload.clone()),
    ("case", |_, table| table.case.clone()),
    ("implementation", |_, table| table.implementation.clone()),
    ("device", |_, table| table.device.clone()),
    ("status", |_, table| table.status.word.to_string()),
    ("reason", |_, table| table.status.reason.clone().unwrap_or_default()),
    ("iterations", |_, table| table.iterations.to_string()),
    ("iterations_left_out", |_, table| table.left_out.len().to_string()),
    ("iteration_s", |_, table| some(table.iteration_s)),
];

const OF_ROW: [Cell<SpanRow>; 17] = [
    ("component", |_, row| row.path.join("/")),
    ("at", |_, row| row.at.clone()),
    ("calling_thread", |_, row| row.calling.to_string()),
    ("threads", |_, row| row.threads.to_string()),
    ("calls_per_iteration", |_, row| some(Some(row.calls))),
    ("time_s", |_, row| some(Some(row.time_s))),
    ("time_median_s", |_, row| some(row.time_median_s)),
    ("share", |_, row| some(row.share)),
    ("self_s", |_, row| some(Some(row.self_s))),
    ("self_share", |_, row| some(row.self_share)),
    ("call_min_s", |_, row| some(row.call_min_s)),
    ("call_median_s", |_, row| some(row.call_median_s)),
    ("call_p99_s", |_, row| some(row.call_p99_s)),
    ("call_max_s", |_, row| some(row.call_max_s)),
    ("bandwidth_bytes_per_s", |_, row| some(row.bandwidth)),
    ("compute_flop_per_s", |_, row| some(row.flop_rate)),
    ("throughput_per_s", |_, row| some(row.item_rate)),
];

/// Writes one line per component with exact numbers; components on other threads or on a device are marked.
pub(crate) fn write_csv(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let names = OF_TABLE.iter().map(|(name, _)| *name).chain(OF_ROW.iter().map(|(name, _)| *name));
    record(out, names.map(str::to_string))?;
    for table in &report.spans {
        let place = || OF_TABLE.iter().map(|(_, cell)| cell(report, table));
        if table.rows.is_empty() {
            record(out, place().chain(OF_ROW.map(|_| String::new())))?;
        }
        for row in &table.rows {
            record(out, place().chain(OF_ROW.iter().map(|(_, cell)| cell(report, row))))?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Line<'a> {
    run_id: &'a str,
    machine: &'a str,
    /// The key that distinguishes these lines from those of measurements.
    components: &'a SpanTable,
}

/// Writes one object per implementation and case.
pub(super) fn json_lines(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    for table in &report.spans {
        let run = &report.runs[table.run];
        serde_json::to_writer(&mut *out, &Line { run_id: &run.id, machine: &run.machine, components: table })?;
        writeln!(out)?;
    }
    Ok(())
}
