//! The terminal table: the default output.

use std::io::Write;

use ellwand_core::record::Basis;

use super::readings::{self, Block};
use super::{columns, comparisons, machines, overview, parts, spans, targets};
use crate::diagnose::{Finding, select};
use crate::grid::{self, Tone};
use crate::model::{Remark, Report, Row, Section, distinct, remarks};
use crate::{Options, ReportError};

/// Maximum number of findings listed under the tables, unless all are requested.
const ADVICE: usize = 5;
/// Maximum number of rows of a section that are printed one by one, unless all are requested ..
const LONG: usize = 12;
/// .. and of all sections together.
const LONG_IN_ALL: usize = 16;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    for (index, run) in report.runs.iter().enumerate() {
        let place = if report.runs.len() > 1 { format!("run {} · ", index + 1) } else { String::new() };
        let load = run.environment.load.map_or_else(String::new, |load| format!(" · load {load:.2}"));
        let line = format!("{place}{}{load} · {} · ellwand {}", run.machine_line(), run.started, run.ellwand);
        report.options.print(Tone::Faint, &line, out)?;
        // Rows measured on a GPU need its name, just as the others need the CPU's.
        let ran_on = |id: &str| {
            let mut rows = report.workloads.iter().flat_map(|section| &section.rows);
            rows.any(|row| row.run == index && row.device == id)
        };
        for (id, about) in run.environment.devices.iter().filter(|(id, _)| id != "cpu" && ran_on(id)) {
            let line = format!("{place}{}: {} (experimental)", crate::units::clean(id), crate::units::clean(about));
            report.options.print(Tone::Faint, &line, out)?;
        }
        report.options.print(Tone::Faint, &run.trust, out)?;
    }
    machines::text(report, out)?;
    verdicts(report, out)?;
    sections(report, out)?;
    if !report.workloads.is_empty() {
        report.options.print(Tone::Faint, &legend(report), out)?;
    }
    targets::text(report, out)?;
    parts::text(report, out)?;
    spans::text(report, out)?;
    for warning in &report.warnings {
        report.options.print(Tone::Plain, &format!("! {warning}"), out)?;
    }
    advice(report, out)
}

/// The tables of results: a single one for all workloads if they are many and similar, otherwise one for each.
fn sections(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let sections: Vec<&Section> =
        report.workloads.iter().filter(|section| report.options.full || !parts::shows(report, section)).collect();
    let rows: usize = sections.iter().map(|section| section.rows.len()).sum();
    let joint = if !report.options.full && rows > LONG_IN_ALL { overview::of_all(report, &sections) } else { None };
    let together = joint.is_some();
    if let Some(overview) = joint {
        let title = [&["all workloads".to_string()], overview.fixed.as_slice()].concat().join(" · ");
        writeln!(out)?;
        overview_block(&title, overview, &sections, Vec::new(), report, out)?;
    }
    let mut shown: Vec<Shown> = Vec::new();
    let mut remarked: Vec<&str> = Vec::new();
    for section in sections.iter().filter(|_| !together) {
        writeln!(out)?;
        results(report, section, out)?;
        readings_of(report, section, &mut shown, out)?;
        for remark in &section.remarks {
            // Print a remark that applies to all rows of several workloads only once.
            if remark.rows == remark.of && remarked.contains(&remark.text.as_str()) {
                continue;
            }
            remarked.push(&remark.text);
            remark_of_rows(&remark.text, &[(*section, remark)], (1, remark.of), report, out)?;
        }
    }
    if together {
        let of: usize = sections.iter().map(|section| section.rows.len()).sum();
        let mut merged: Vec<(String, Vec<(&Section, &Remark)>)> = Vec::new();
        for (section, remark) in
            sections.iter().flat_map(|section| section.remarks.iter().map(move |one| (*section, one)))
        {
            match merged.iter_mut().find_map(|known| Some((remarks::merge_texts(&known.0, &remark.text)?, known))) {
                Some((text, known)) => {
                    known.0 = text;
                    known.1.push((section, remark));
                }
                None => merged.push((remark.text.clone(), vec![(section, remark)])),
            }
        }
        for (text, same) in &merged {
            remark_of_rows(text, same, (sections.len(), of), report, out)?;
        }
    }
    Ok(())
}

/// Maximum number of implementations, and of workloads, that a remark names.
const REMARKED: usize = 3;

/// A remark, with the rows among `of` that have it: a single row by its case, a few by their implementations. A remark on
/// some of several `sections` names its workloads.
fn remark_of_rows(
    text: &str,
    same: &[(&Section, &Remark)],
    (sections, of): (usize, usize),
    report: &Report,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let Some((section, remark)) = same.first() else { return Ok(()) };
    let rows: usize = same.iter().map(|(_, remark)| remark.rows).sum();
    let one = section.rows.iter().find(|row| rows == 1 && row.warnings.contains(&remark.text));
    let names = distinct(same.iter().flat_map(|(_, remark)| remark.implementations.iter().map(String::as_str)));
    let which = match one {
        Some(row) if section.cases.len() > 1 => format!("{}, {}", row.implementation, section.place(row)),
        _ if names.len() <= REMARKED => names.join(", "),
        _ => String::new(),
    };
    let workloads: Vec<&str> = same.iter().map(|(section, _)| section.workload.as_str()).collect();
    let place = match workloads.len() {
        all if all == sections => String::new(),
        few if few <= REMARKED => workloads.join(", "),
        many => format!("{many} of {sections} workloads"),
    };
    let parts: Vec<String> = [place, which].into_iter().filter(|part| !part.is_empty()).collect();
    let which = if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) };
    remark_line(text, (rows, of), &which, report, out)
}

fn remark_line(
    text: &str,
    (rows, of): (usize, usize),
    which: &str,
    report: &Report,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let scope = if rows == of { String::new() } else { format!(" ({rows} of {of} rows{which})") };
    report.options.print(Tone::Plain, &format!("! {text}{scope}"), out)?;
    Ok(())
}

/// What the columns mean, in one line.
fn legend(report: &Report) -> String {
    let rows = || report.workloads.iter().flat_map(|section| &section.rows);
    let fastest = rows().any(|row| row.basis == Some(Basis::Fastest));
    let elapsed = if fastest { "elapsed in the fastest part of each" } else { "elapsed" };
    let cpu = rows().any(|row| row.basis.is_some_and(Basis::is_cpu));
    let cpu = if cpu { ", or CPU time where that accounts for it" } else { "" };
    let mut parts = vec![format!("time: of one iteration, median over slots, {elapsed}{cpu}")];
    if rows().any(|row| row.speedup.ratio.is_some() && !row.speedup.is_baseline) {
        parts.push("speed-up: time of the baseline / time of the row".into());
    }
    if rows().any(|row| row.best || row.tied) {
        parts.push("best: by 5 % and by the 95 % interval; tied: no such difference, within 25 %".into());
    }
    if rows().any(|row| row.held_up.is_some()) {
        parts.push(columns::BOUNDS.into());
    }
    if !report.options.full {
        parts.push("`report --full`: all columns, cases, readings and findings".into());
    }
    parts.join("; ")
}

/// Readings as printed, with the workload that printed them first.
type Shown = (String, Vec<String>, Vec<Vec<String>>);

/// Prints the readings of a section, or a reference to an earlier section with the same readings.
fn readings_of(
    report: &Report,
    section: &Section,
    shown: &mut Vec<Shown>,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let full = report.options.full;
    let mut tables = readings::tables(report, section);
    if !full {
        tables.alike.drop_empty();
    }
    if !tables.alike.is_empty() {
        let cells: Vec<Vec<String>> = tables.alike.columns.iter().map(|column| column.cells.clone()).collect();
        let known = shown.iter().find(|(_, fixed, known)| (fixed, known) == (&tables.alike.fixed, &cells));
        if let Some((first, ..)) = known {
            let line = format!("{} · readings as for {first}", section.workload);
            report.options.print(Tone::Faint, &line, out)?;
        } else {
            writeln!(out)?;
            let what = if tables.shared { "same for all implementations" } else { "readings" };
            shown.push((section.workload.clone(), tables.alike.fixed.clone(), cells));
            readings_block(&format!("{} · {what}", section.workload), tables.alike, report, out)?;
        }
    }
    if full && !tables.implementations.is_empty() {
        writeln!(out)?;
        readings_block(&format!("{} · by implementation", section.workload), tables.implementations, report, out)?;
    }
    Ok(())
}

fn verdicts(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let mut columns = comparisons::columns(report);
    if report.options.full {
        // In each part of a wide table, only the case identifies the row.
        columns.iter_mut().skip_while(|column| column.head != "case").skip(1).for_each(|column| column.rank = 2);
    }
    if columns.is_empty() {
        return Ok(());
    }
    // Few terminals are wide enough for notes, so they follow the table.
    let narrow = !report.options.full && !grid::fits(&columns, report.options.width);
    let cells = |head: &str| columns.iter().find(|column| column.head == head).map(|column| column.cells.clone());
    let (cases, notes) = (cells("case").unwrap_or_default(), cells("note").filter(|_| narrow).unwrap_or_default());
    columns.retain(|column| !(narrow && column.head == "note"));
    report.options.title("verdicts", out)?;
    grid::show(columns, vec![comparisons::legend(report)], &report.options, out)?;
    for note in distinct(notes.iter().filter(|note| !note.is_empty())) {
        let same: Vec<&String> =
            cases.iter().zip(&notes).filter(|(_, one)| *one == note).map(|(case, _)| case).collect();
        match same[..] {
            [case] if notes.len() > 1 => remark_line(&format!("{case}: {note}"), (1, 1), "", report, out)?,
            _ => remark_line(note, (same.len(), notes.len()), "", report, out)?,
        }
    }
    Ok(())
}

fn results(report: &Report, section: &Section, out: &mut dyn Write) -> Result<(), ReportError> {
    let Options { width, full, .. } = report.options;
    let fixed = section.fixed_line();
    let title = if fixed.is_empty() { section.workload.clone() } else { format!("{} · {fixed}", section.workload) };
    let mut notes: Vec<String> = section.following_line().filter(|_| !full).into_iter().collect();
    let all: usize = report.workloads.iter().filter(|one| !parts::shows(report, one)).map(|one| one.rows.len()).sum();
    if !full && section.cases.len() > 1 && (section.rows.len() > LONG || all > LONG_IN_ALL) {
        return overview_block(&title, overview::of_one(report, section), &[section], notes, report, out);
    }
    report.options.print(Tone::Strong, &title, out)?;
    let (mut columns, missing) = columns::columns(report, section, false);
    if columns.iter().any(|column| column.head == "speed-up") {
        notes.push(format!("speed-up over {}", section.baselines.join(", ")));
    }
    if !full {
        let hidden = grid::fit(&mut columns, width);
        // `--full` shows the other columns; but without an axis, several lines would look the same.
        let axes: Vec<String> = hidden.into_iter().filter(|head| section.leading.contains(head)).collect();
        notes.extend(grid::hidden(&axes));
    }
    grid::parts(columns, |row| section.rows.get(row).map_or(Tone::Plain, columns::tone), &report.options, out)?;
    let missing: Vec<String> = missing.into_iter().filter(|why| full || why.starts_with("speed-up")).collect();
    if !missing.is_empty() {
        notes.push(format!("unavailable: {}", missing.join("; ")));
    }
    report.options.print(Tone::Faint, &notes.join(" · "), out)?;
    reasons_of(&[section], report, out)
}

fn reasons_of(sections: &[&Section], report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    for reason in columns::reasons(sections) {
        report.options.print(Tone::Plain, &format!("! {reason}"), out)?;
    }
    Ok(())
}

fn overview_block(
    title: &str,
    overview: overview::Overview,
    sections: &[&Section],
    mut notes: Vec<String>,
    report: &Report,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let Options { width, color, .. } = report.options;
    report.options.print(Tone::Strong, title, out)?;
    let rows = || sections.iter().flat_map(|section| &section.rows);
    if !rows().any(Row::measured) {
        // The table would be empty.
        return reasons_of(sections, report, out);
    }
    let mut columns = overview.columns;
    let hidden = grid::fit(&mut columns, width);
    grid::write(&columns, color, |_| Tone::Plain, out)?;
    if columns.iter().any(|column| column.head == "speed-up") || hidden.iter().any(|head| head == "speed-up") {
        notes.push(format!("speed-up of the fastest over {}", over(sections)));
    }
    let measured = || rows().filter(|row| row.median("time").is_some());
    let on_cpu = measured().filter(|row| row.basis.is_some_and(Basis::is_cpu)).count();
    if on_cpu > 0 {
        notes.push(format!("CPU time in {on_cpu} of {} rows", measured().count()));
    }
    if overview.left_out > 0 {
        notes.push(format!("{} more cases", overview.left_out));
    }
    notes.extend(grid::hidden(&hidden));
    report.options.print(Tone::Faint, &notes.join(" · "), out)?;
    for (why, cases) in &overview.unnamed {
        let cases = if *cases == 1 { "1 case".to_string() } else { format!("{cases} cases") };
        report.options.print(Tone::Plain, &format!("! fastest –: {why} ({cases})"), out)?;
    }
    reasons_of(sections, report, out)
}

/// The baselines of the sections: the most frequent one, and the others with their workloads.
fn over(sections: &[&Section]) -> String {
    let lists = distinct(sections.iter().map(|section| section.baselines.join(", ")));
    let of =
        |list: &String| sections.iter().filter(|section| section.baselines.join(", ") == *list).collect::<Vec<_>>();
    // Of equally frequent ones, the first.
    let most = lists.iter().rev().max_by_key(|list| of(list).len());
    let others = lists.iter().filter(|list| Some(*list) != most).map(|list| {
        let workloads: Vec<&str> = of(list).iter().map(|section| section.workload.as_str()).collect();
        format!("in {} over {list}", workloads.join(", "))
    });
    most.into_iter().cloned().chain(others).collect::<Vec<_>>().join(", ")
}

fn readings_block(title: &str, block: Block, report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let title = [&[title.to_string()], block.fixed.as_slice()].concat().join(" · ");
    report.options.print(Tone::Strong, &title, out)?;
    if block.columns.is_empty() {
        return Ok(());
    }
    Ok(grid::show(block.columns, Vec::new(), &report.options, out)?)
}

fn advice(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let full = report.options.full;
    let chosen = select(&report.findings, if full { usize::MAX } else { ADVICE });
    if chosen.is_empty() {
        return Ok(());
    }
    report.options.title("findings", out)?;
    for finding in &chosen {
        report.options.print(Tone::Plain, &line(report, finding), out)?;
    }
    let more = report.findings.len() - chosen.len();
    if more > 0 {
        let line = format!("{more} more with `report --full`; thresholds and next steps are in the Markdown report");
        report.options.print(Tone::Faint, &line, out)?;
    }
    Ok(())
}

fn line(report: &Report, finding: &Finding) -> String {
    let rows = match finding.cases {
        (_, 0 | 1) => String::new(),
        (hit, all) => format!("; {hit} of {all} rows"),
    };
    format!("- {}: {} ({}{rows})", finding.subject_in(report), finding.title, finding.evidence_line())
}
