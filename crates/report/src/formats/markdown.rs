//! Markdown: the full report with setup, results, limits, advice and caveats.

use std::io::{self, Write};

use super::{columns, comparisons, machines, parts, readings, spans, targets};
use crate::diagnose::Finding;
use crate::grid::{Column, markdown, over};
use crate::model::{ComparisonInfo, Report, Row, RunInfo, Section, distinct, distinct_by, settings_line};
use crate::plots::Plot;
use crate::units::{UNAVAILABLE, capitalized, clean, human, range};
use crate::{RULES, ReportError};

mod compare;
mod growth;
mod summary;

/// The first line, by which a report is known again.
pub(crate) const TITLE: &str = "# Ellwand report";

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    with_plots(report, &[], out)
}

/// Writes the report with plots embedded as relative links.
pub(crate) fn with_plots(report: &Report, plots: &[Plot], out: &mut dyn Write) -> Result<(), ReportError> {
    let mut text = Vec::new();
    everything(report, plots, &mut text)?;
    let mut code = false;
    for line in String::from_utf8_lossy(&text).lines() {
        code = if code { !line.trim_start().starts_with("```") } else { line == "```sh" };
        writeln!(out, "{}", if code { line.into() } else { without_tags(line) })?;
    }
    Ok(())
}

/// Escapes a line so that no name (`sort::<u64>`) begins an HTML tag.
fn without_tags(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for (at, c) in line.char_indices() {
        let next = line[at + c.len_utf8()..].chars().next();
        match c {
            '<' if next.is_some_and(|next| next.is_ascii_alphabetic() || "/!?".contains(next)) => out.push_str("&lt;"),
            c => out.push(c),
        }
    }
    out
}

fn everything(report: &Report, plots: &[Plot], out: &mut dyn Write) -> Result<(), ReportError> {
    writeln!(out, "{TITLE}\n")?;
    for warning in &report.warnings {
        writeln!(out, "> **Warning.** {warning}\n")?;
    }
    if !report.workloads.is_empty() {
        summary::in_short(report, out)?;
    }
    for (index, run) in report.runs.iter().enumerate() {
        writeln!(out, "## {}\n", numbered(report, "Run", "Run", index))?;
        let comparisons: Vec<&ComparisonInfo> = report.comparisons.iter().filter(|one| one.run == index).collect();
        about_run(run, &comparisons, out)?;
    }
    for plot in plots.iter().filter(|plot| plot.workload.is_none()) {
        embed(plot, out)?;
    }
    machines::write_markdown(report, out)?;
    verdicts(report, out)?;
    for section in &report.workloads {
        results(report, section, plots, out)?;
    }
    targets::write_markdown(report, out)?;
    parts::write_markdown(report, out)?;
    spans::write_markdown(report, out)?;
    // A report with only components has nothing to compare and no result columns to explain.
    if !report.workloads.is_empty() {
        compare::side_by_side(report, out)?;
        compare::what_limits(report, out)?;
        advice(report, out)?;
        // A long table, so it follows the results that refer to it.
        for (index, run) in report.runs.iter().enumerate() {
            let title = numbered(report, "Ceilings of this machine", "Ceilings of the machine of run", index);
            writeln!(out, "## {title}\n")?;
            ceilings(run, out)?;
        }
        meanings(report, out)?;
    }
    writeln!(out, "## Limits of these numbers\n")?;
    for limit in &report.limits {
        writeln!(out, "- {limit}")?;
    }
    Ok(())
}

/// `one` for a single run, else `many` with the number of the run.
fn numbered(report: &Report, one: &str, many: &str, index: usize) -> String {
    if report.runs.len() > 1 { format!("{many} {}", index + 1) } else { one.to_string() }
}

fn embed(plot: &Plot, out: &mut dyn Write) -> io::Result<()> {
    let form = if plot.png.is_some() { "png" } else { "svg" };
    writeln!(out, "![{}](plots/{}.{form})\n", plot.title, plot.name)
}

fn pairs(rows: &[(&str, String)], out: &mut dyn Write) -> io::Result<()> {
    let known: Vec<&(&str, String)> = rows.iter().filter(|(_, value)| !value.is_empty()).collect();
    let columns = [
        Column::new("", false, 0, known.iter().map(|(name, _)| (*name).to_string())),
        Column::new("", false, 0, known.iter().map(|(_, value)| value.clone())),
    ];
    markdown(&columns, out)?;
    writeln!(out)
}

/// What was measured in a run, and how.
fn measured(run: &RunInfo, comparisons: &[&ComparisonInfo]) -> [(&'static str, String); 3] {
    let of_commands = !comparisons.is_empty() && comparisons.iter().all(|one| one.is_of_commands());
    let none = |count: usize, text: String| if count == 0 { String::new() } else { text };
    let measurements = format!("{} ({} with times)", run.measurements, run.measured);
    [
        // A run with only comparisons has no measurements.
        ("measurements", if comparisons.is_empty() { measurements } else { none(run.measurements, measurements) }),
        ("comparisons", none(comparisons.len(), comparisons.len().to_string())),
        ("instrument", if of_commands { COMMANDS.into() } else { settings_line(&run.settings) }),
    ]
}

/// How commands are timed.
const COMMANDS: &str = "whole runs of the commands in random order, each a new process; none is a warm-up";

fn about_run(run: &RunInfo, comparisons: &[&ComparisonInfo], out: &mut dyn Write) -> io::Result<()> {
    let commands: Vec<&str> = std::iter::once(&run.command).chain(&run.resumed).map(String::as_str).collect();
    writeln!(out, "```sh\n{}\n```\n", commands.join("\n"))?;
    let e = &run.environment;
    let unknown = || UNAVAILABLE.to_string();
    let cache = |cache: &ellwand_core::record::Cache| {
        let shared = if cache.shared_by > 1 { format!(" shared by {}", cache.shared_by) } else { String::new() };
        format!("{} {}{shared}", cache.level, human(cache.bytes as f64, "B"))
    };
    let clock = match (e.clock_cost_ns, e.clock_step_ns) {
        (Some(cost), Some(step)) => {
            format!("{} per pair of readings, smallest step {}", human(cost * 1e-9, "s"), human(step * 1e-9, "s"))
        }
        (Some(cost), None) => format!("{} per pair of readings", human(cost * 1e-9, "s")),
        _ => unknown(),
    };
    let [measurements, compared, instrument] = measured(run, comparisons);
    pairs(
        &[
            ("started", run.started.clone()),
            ("run", run.id.clone()),
            ("Ellwand", format!("{}, {}", run.ellwand, clean(&e.compiler))),
            measurements,
            compared,
            instrument,
            ("seed", run.seed.to_string()),
            ("processor", run.machine_line()),
            ("instruction sets", e.cpu_features.join(" ")),
            ("caches", e.caches.iter().map(cache).collect::<Vec<_>>().join(", ")),
            ("memory", e.memory_bytes.map_or_else(unknown, |bytes| human(bytes as f64, "B"))),
            ("system", format!("{} {}", clean(&e.os), e.architecture)),
            ("load at the start", e.load.map_or_else(unknown, |load| format!("{load:.2}"))),
            ("frequency governor", e.governor.clone().unwrap_or_else(unknown)),
            ("huge pages", e.huge_pages.clone().unwrap_or_else(unknown)),
            ("virtual machine", e.virtualised.map_or_else(unknown, |yes| if yes { "yes" } else { "no" }.to_string())),
            ("clock", clock),
            (
                "devices",
                e.devices.iter().map(|(id, about)| format!("{id}: {}", clean(about))).collect::<Vec<_>>().join("; "),
            ),
        ],
        out,
    )?;
    writeln!(out, "{}.\n", capitalized(run.trust.clone()))?;
    for warning in &run.warnings {
        writeln!(out, "> **Record.** {}\n", clean(warning))?;
    }
    Ok(())
}

fn ceilings(run: &RunInfo, out: &mut dyn Write) -> io::Result<()> {
    let ceilings = &run.environment.ceilings;
    if ceilings.is_empty() {
        return writeln!(out, "Unavailable: not measured in this run.\n");
    }
    let kind = |kind| serde_json::to_value(kind).ok().and_then(|v| v.as_str().map(str::to_string)).unwrap_or_default();
    let unit = |c: &ellwand_core::Ceiling| c.kind.unit();
    let column = over(ceilings);
    let columns = [
        column("what", false, 0, &|c| kind(c.kind)),
        column("level", false, 0, &|c| c.level.clone()),
        column("footprint", true, 0, &|c| match c.footprint_bytes {
            0 => String::new(),
            bytes => human(bytes as f64, "B"),
        }),
        column("threads", false, 0, &|c| format!("{:?}", c.parallelism).to_lowercase()),
        column("implementation", false, 0, &|c| c.implementation.clone()),
        column("limit", true, 0, &|c| human(c.value, unit(c))),
        column("interval", true, 0, &|c| range(c.low, c.high, unit(c))),
        column("origin", false, 0, &|c| crate::model::origin(c.provenance).to_string()),
    ];
    markdown(&columns, out)?;
    writeln!(out)
}

fn verdicts(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let columns = comparisons::columns(report);
    if columns.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Verdicts\n")?;
    markdown(&columns, out)?;
    writeln!(out, "\n{}.\n", comparisons::legend(report))
}

fn results(report: &Report, section: &Section, plots: &[Plot], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "## {}\n", section.workload)?;
    let fixed = section.fixed_line();
    if !fixed.is_empty() {
        writeln!(out, "Fixed: {fixed}.\n")?;
    }
    let (columns, missing) = columns::columns(report, section, true);
    markdown(&columns, out)?;
    writeln!(out)?;
    if columns.iter().any(|column| column.head == "speed-up") {
        writeln!(out, "Speed-up against {}; times and rates are medians.\n", section.baselines.join(", "))?;
    }
    if section.rows.iter().any(|row| row.held_up.is_some()) {
        writeln!(out, "{}.\n", columns::BOUNDS)?;
    }
    if !missing.is_empty() {
        writeln!(out, "Unavailable: {}.\n", missing.join("; "))?;
    }
    for reason in columns::reasons(&[section]) {
        writeln!(out, "- {reason}")?;
    }
    for remark in &section.remarks {
        writeln!(
            out,
            "- {} ({} of {} rows: {})",
            remark.text,
            remark.rows,
            remark.of,
            remark.implementations.join(", ")
        )?;
    }
    if !section.remarks.is_empty() || section.rows.iter().any(|row| !row.measured()) {
        writeln!(out)?;
    }
    let ran = what_ran(section);
    if !ran.is_empty() {
        writeln!(out, "What ran: {}.\n", ran.join("; "))?;
    }
    let agreed = agreement(section);
    if !agreed.is_empty() {
        writeln!(out, "Agreement with the reference: {}.\n", agreed.join("; "))?;
    }
    for plot in plots.iter().filter(|plot| plot.workload.as_ref() == Some(&section.workload)) {
        embed(plot, out)?;
    }
    growth::along_axes(section, report.runs.len() > 1, out)?;
    steadiness(section, out)?;
    let tables = readings::tables(report, section);
    for block in [tables.alike, tables.implementations].iter().filter(|block| !block.is_empty()) {
        writeln!(out, "### {}\n", block.title)?;
        if !block.fixed.is_empty() {
            writeln!(out, "Equal in all cases: {}.\n", block.fixed.join(", "))?;
        }
        if !block.columns.is_empty() {
            markdown(&block.columns, out)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Steadiness of the samples: switches, page faults, first run.
fn steadiness(section: &Section, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<&Row> = section.rows.iter().filter(|row| row.measured()).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let column = |head: &str, cell: &dyn Fn(&Row) -> Option<String>| {
        let cells = rows.iter().map(|row| cell(row).unwrap_or_else(|| UNAVAILABLE.to_string()));
        Column::new(head, true, 0, cells)
    };
    let seconds = |value: f64| human(value, "s");
    let mut columns: Vec<Column> = section
        .swept
        .iter()
        .map(|axis| column(&axis.name, &|row| Some(row.param(&axis.name).unwrap_or_else(|| "–".into()))))
        .collect();
    columns.push(Column::new("implementation", false, 0, rows.iter().map(|row| row.implementation.clone())));
    columns.extend([
        column("samples", &|row| Some(row.samples.to_string())),
        column("smallest time", &|row| row.stats("time").map(|stats| seconds(stats.min))),
        column("largest time", &|row| row.stats("time").map(|stats| seconds(stats.max))),
        column("wall over CPU", &|row| row.wall_over_cpu.map(|ratio| human(ratio, "x"))),
        column("samples with switches", &|row| row.switched_share.map(|share| human(share, "1"))),
        column("page faults per iteration", &|row| row.faults_per_iteration.map(|faults| human(faults, ""))),
        column("first run over steady", &|row| row.first_over_steady.map(|ratio| human(ratio, "x"))),
        column("preparation", &|row| row.prepare_s.map(seconds)),
    ]);
    writeln!(out, "### Steadiness of the samples\n")?;
    markdown(&columns, out)?;
    writeln!(out)
}

fn what_ran(section: &Section) -> Vec<String> {
    let rows = section.rows.iter().filter(|row| !row.what_ran.is_empty());
    distinct(rows.map(|row| format!("{} = {}", row.implementation, row.what_ran)))
}

/// Largest difference of each implementation from the reference, and the case in which it occurred.
fn agreement(section: &Section) -> Vec<String> {
    let mut worst: Vec<(&Row, f64)> = Vec::new();
    for row in &section.rows {
        let Some(error) = row.reading("largest-difference") else { continue };
        match worst.iter_mut().find(|(known, _)| known.implementation == row.implementation) {
            Some(known) if known.1 >= error => {}
            Some(known) => *known = (row, error),
            None => worst.push((row, error)),
        }
    }
    let line = |(row, error): &(&Row, f64)| {
        let how = row.check.as_ref().map_or_else(String::new, |check| clean(&check.detail));
        format!("{} {error:.1e} ({how})", row.implementation)
    };
    worst.iter().map(line).collect()
}

fn advice(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "## Findings and advice\n")?;
    if report.findings.is_empty() {
        writeln!(out, "No rule matched. The rules look for:\n")?;
        for rule in RULES {
            writeln!(out, "- {}: {}", rule.id, rule.about)?;
        }
        return writeln!(out);
    }
    for (index, finding) in report.findings.iter().enumerate() {
        one(index + 1, finding, report, out)?;
    }
    writeln!(out)
}

fn one(number: usize, finding: &Finding, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{number}. **{}: {}**  ", finding.subject_in(report), finding.title)?;
    writeln!(
        out,
        "   {} · rule `{}` ({}) · confidence {}  ",
        finding.class.word(),
        finding.rule,
        finding.threshold,
        finding.confidence.word()
    )?;
    writeln!(out, "   Evidence: {}; {} of {} rows.  ", finding.evidence_line(), finding.cases.0, finding.cases.1)?;
    if let Some(saving) = finding.saving_upper_bound {
        writeln!(out, "   Saves at most {} of the time of this case.  ", human(saving, "1"))?;
    }
    if !finding.alike.is_empty() {
        writeln!(out, "   Also in: {}.  ", finding.alike.join("; "))?;
    }
    writeln!(out, "   Next: {}.", finding.next_experiment)
}

fn meanings(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "## What the columns mean\n")?;
    for metric in report.metrics {
        let direction = crate::model::direction(metric.better);
        let origin = crate::model::origin(metric.provenance);
        writeln!(out, "- **{}**: {} ({origin}; {direction}).", metric.title, metric.about)?;
    }
    writeln!(out, "- **p10–p90**: 10th and 90th percentile; four fifths of the samples are between them.")?;
    writeln!(
        out,
        "- **speed-up**: median time of the baseline divided by that of the row (derived; higher is better); **95 % interval**: from the processes of the run, or from the rounds if there is one process."
    )?;
    for (title, about) in distinct_by(report.workloads.iter().flat_map(readings::meanings), |(title, _)| title.clone())
    {
        writeln!(out, "- **{}**: {about}.", clean(&title))?;
    }
    writeln!(out)
}
