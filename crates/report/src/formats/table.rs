//! The terminal table: the default output.

use std::io::Write;

use super::readings::{self, Block};
use super::{columns, comparisons, parts, spans};
use crate::diagnose::{Finding, select};
use crate::grid::{self, Tone, paint, wrap};
use crate::model::{Report, Section};
use crate::{Options, ReportError};

/// Most findings listed under the tables.
const ADVICE: usize = 5;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let Options { width, color, .. } = report.options;
    for (index, run) in report.runs.iter().enumerate() {
        let place = if report.runs.len() > 1 { format!("run {} · ", index + 1) } else { String::new() };
        let load = run.environment.load.map_or_else(String::new, |load| format!(" · load {load:.2}"));
        let line = format!("{place}{}{load} · {} · ellwand {}", run.machine_line(), run.started, run.ellwand);
        writeln!(out, "{}", paint(&wrap(&line, width, 2), Tone::Faint, color))?;
        // Rows measured on a GPU need its name, just as the others need the CPU's.
        let ran_on = |id: &str| {
            let mut rows = report.workloads.iter().flat_map(|section| &section.rows);
            rows.any(|row| row.run == index && row.device == id)
        };
        for (id, about) in run.environment.devices.iter().filter(|(id, _)| id != "cpu" && ran_on(id)) {
            let line = format!("{place}{}: {}", crate::units::clean(id), crate::units::clean(about));
            writeln!(out, "{}", paint(&wrap(&line, width, 2), Tone::Faint, color))?;
        }
        writeln!(out, "{}", paint(&wrap(&run.trust, width, 2), Tone::Faint, color))?;
    }
    verdicts(report, out)?;
    for section in &report.workloads {
        writeln!(out)?;
        results(report, section, out)?;
        let tables = readings::tables(report, section);
        if !tables.alike.is_empty() {
            writeln!(out)?;
            let what = if tables.shared { "same for all implementations" } else { "readings" };
            readings_block(&format!("{} · {what}", section.workload), tables.alike, report, out)?;
        }
        // One line per row would double the length of the page for values that few users need first.
        let own = tables.implementations.titles;
        if !own.is_empty() {
            let line = format!("per implementation, in the Markdown report: {}", own.join(", "));
            writeln!(out, "{}", paint(&wrap(&line, width, 2), Tone::Faint, color))?;
        }
        for remark in &section.remarks {
            let scope = if remark.rows == remark.of {
                String::new()
            } else {
                format!(" ({} of {} rows)", remark.rows, remark.of)
            };
            writeln!(out, "{}", wrap(&format!("! {}{scope}", remark.text), width, 2))?;
        }
    }
    parts::text(report, out)?;
    spans::text(report, out)?;
    for warning in &report.warnings {
        writeln!(out, "{}", wrap(&format!("! {warning}"), width, 2))?;
    }
    advice(report, out)
}

fn verdicts(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let Options { width, color, .. } = report.options;
    let mut columns = comparisons::columns(report);
    if columns.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint("verdicts", Tone::Strong, color))?;
    let left_out = grid::fit(&mut columns, width);
    grid::write(&columns, color, |_| Tone::Plain, out)?;
    let mut notes = vec![comparisons::legend(report)];
    if !left_out.is_empty() {
        notes.push(format!("hidden at this width: {}", left_out.join(", ")));
    }
    writeln!(out, "{}", paint(&wrap(&notes.join(" · "), width, 2), Tone::Faint, color))?;
    Ok(())
}

fn results(report: &Report, section: &Section, out: &mut dyn Write) -> Result<(), ReportError> {
    let Options { width, color, .. } = report.options;
    let fixed = section.fixed_line();
    let title = if fixed.is_empty() { section.workload.clone() } else { format!("{} · {fixed}", section.workload) };
    writeln!(out, "{}", paint(&wrap(&title, width, 2), Tone::Strong, color))?;
    let (mut columns, missing) = columns::columns(report, section, false);
    let left_out = grid::fit(&mut columns, width);
    grid::write(&columns, color, |row| section.rows.get(row).map_or(Tone::Plain, columns::tone), out)?;
    let mut notes = vec!["times are measured, other values derived".to_string()];
    if columns.iter().any(|column| column.head == "speed-up") {
        notes.push(format!("speed-up against {}", section.baselines.join(", ")));
    }
    if !left_out.is_empty() {
        notes.push(format!("hidden at this width: {}", left_out.join(", ")));
    }
    if !missing.is_empty() {
        notes.push(format!("unavailable: {}", missing.join("; ")));
    }
    writeln!(out, "{}", paint(&wrap(&notes.join(" · "), width, 2), Tone::Faint, color))?;
    for reason in columns::reasons(section) {
        writeln!(out, "{}", wrap(&format!("! {reason}"), width, 2))?;
    }
    Ok(())
}

fn readings_block(title: &str, mut block: Block, report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let Options { width, color, .. } = report.options;
    let title = [&[title.to_string()], block.fixed.as_slice()].concat().join(" · ");
    writeln!(out, "{}", paint(&wrap(&title, width, 2), Tone::Strong, color))?;
    if block.columns.is_empty() {
        return Ok(());
    }
    let left_out = grid::fit(&mut block.columns, width);
    grid::write(&block.columns, color, |_| Tone::Plain, out)?;
    if !left_out.is_empty() {
        let line = format!("hidden at this width: {}", left_out.join(", "));
        writeln!(out, "{}", paint(&wrap(&line, width, 2), Tone::Faint, color))?;
    }
    Ok(())
}

fn advice(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let Options { width, color, .. } = report.options;
    let chosen = select(&report.findings, ADVICE);
    if chosen.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint("findings", Tone::Strong, color))?;
    for finding in &chosen {
        writeln!(out, "{}", wrap(&line(report, finding), width, 2))?;
    }
    let more = report.findings.len() - chosen.len();
    if more > 0 {
        let line = format!("{more} more in the Markdown report, with thresholds and next steps");
        writeln!(out, "{}", paint(&wrap(&line, width, 2), Tone::Faint, color))?;
    }
    Ok(())
}

fn line(report: &Report, finding: &Finding) -> String {
    let cases = match finding.cases {
        (_, 0 | 1) => String::new(),
        (hit, all) => format!("; {hit} of {all} cases"),
    };
    format!("- {}: {} ({}{cases})", finding.subject_in(report), finding.title, finding.evidence_line())
}
