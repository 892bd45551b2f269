//! Views of kind `targets`: one line per target, with the measured value and whether it meets the target.

use std::io::{self, Write};

use ellwand_core::View;
use ellwand_core::view::{Measure, Target};
use serde::Serialize;

use crate::Options;
use crate::grid::{self, Column, Tone, markdown};
use crate::model::{Report, Row, Section, distinct};
use crate::units::{capital, clean, human};

/// Share of samples that lost the processor above which other programs shape the 10th and 90th percentile.
const SWITCHED: f64 = 0.1;

/// Heading of the column that names the workload of a target.
const WORKLOAD: &str = "workload";

/// A target to which at least one row applies.
#[derive(Clone, Copy)]
struct Line<'a> {
    target: &'a Target,
    value: f64,
    /// True if other programs held the row up: its rates are lower bounds.
    bound: bool,
    /// Upper end of the 95 % interval of a rate or a speed-up.
    high: Option<f64>,
    /// The row that decides whether the target is met.
    row: &'a Row,
    section: &'a Section,
}

impl Line<'_> {
    fn verdict(&self) -> &'static str {
        let met = match self.target.measure {
            Measure::Spread => self.value <= self.target.limit,
            _ => self.value >= self.target.limit,
        };
        match (met, self.bound) {
            (true, _) => "met",
            // A bound below the target leaves it open.
            (false, true) => "open: other programs ran",
            (false, false) if self.high.is_some_and(|high| high >= self.target.limit) => {
                "open: within the 95 % interval"
            }
            (false, false) => "missed",
        }
    }

    fn measured(&self) -> String {
        let item = self.section.item.as_deref().map_or(String::new(), clean);
        let value = match &self.target.measure {
            Measure::Throughput => {
                let rate = human(self.value, "1/s");
                format!("{} {item}/s", rate.trim_end_matches("/s").trim_end())
            }
            Measure::Hold => human(self.value, "1"),
            Measure::Spread => format!("within {}", human(self.value, "1")),
            Measure::Speedup => format!("{} over {}", human(self.value, "x"), clean(&self.row.speedup.baseline)),
            Measure::Reading(_) | Measure::Unknown => human(self.value, "x"),
        };
        let least = if self.bound && self.target.measure != Measure::Spread { "≥" } else { "" };
        format!("{least}{value}")
    }
}

/// The tables of a report: title and lines of each view.
fn tables(report: &Report) -> Vec<(String, Vec<Line<'_>>)> {
    let views = report.views.iter().filter_map(|view| match view {
        View::Targets(view) => Some(view),
        _ => None,
    });
    let lines = views.map(|view| {
        let found: Vec<Line<'_>> = view.targets.iter().filter_map(|target| line(report, target)).collect();
        (clean(&view.title), found)
    });
    lines.filter(|(_, found)| !found.is_empty()).collect()
}

fn line<'a>(report: &'a Report, target: &'a Target) -> Option<Line<'a>> {
    let section = report.workloads.iter().find(|section| section.workload == target.workload)?;
    let counts = |row: &&Row| {
        let is = |(axis, value): &(String, String)| row.param(axis).is_some_and(|text| text == *value);
        row.measured() && target.case.iter().all(is)
    };
    let rows: Vec<&Row> = section.rows.iter().filter(counts).collect();
    let rate = |row: &Row| row.median("throughput");
    let largest = |of: &dyn Fn(&Row) -> Option<f64>| {
        let values = rows.iter().filter_map(|row| Some((of(row).filter(|value| value.is_finite())?, *row)));
        values.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (value, row) = match &target.measure {
        Measure::Throughput => largest(&rate),
        Measure::Speedup => largest(&|row| row.speedup.ratio.filter(|_| !row.speedup.is_baseline)),
        Measure::Reading(id) => largest(&|row| row.reading(id)),
        Measure::Hold => {
            let (peak, _) = largest(&rate)?;
            let items = rows.iter().map(|row| row.work.items).max()?;
            if rows.iter().all(|row| row.work.items == items) {
                return None;
            }
            let (last, row) = largest(&|row| rate(row).filter(|_| row.work.items == items))?;
            Some((last / peak, row))
        }
        Measure::Spread => {
            let fastest = section.cases.iter().filter_map(|case| section.fastest(case)).filter(|row| counts(row));
            let spread = |row: &'a Row| {
                let time = row.stats("time")?;
                Some(((time.p90 - time.p10) / time.median, row))
            };
            fastest.filter_map(spread).max_by(|a, b| a.0.total_cmp(&b.0))
        }
        Measure::Unknown => None,
    }?;
    let switched = row.switched_share.is_some_and(|share| share >= SWITCHED);
    // Other programs change times but not readings, and they change the spread of times before the median.
    let bound = match target.measure {
        Measure::Reading(_) => false,
        Measure::Spread => row.held_up.is_some() || switched,
        _ => row.held_up.is_some(),
    };
    let high = match target.measure {
        Measure::Throughput => row.stats("throughput").and_then(|rate| rate.high),
        Measure::Speedup => row.speedup.high,
        _ => None,
    };
    Some(Line { target, value, bound, high, row, section })
}

/// A target and the measured value, in JSON form.
#[derive(Debug, Serialize)]
pub(super) struct Judged {
    title: String,
    workload: String,
    target: String,
    limit: f64,
    value: f64,
    /// The value as the other formats print it.
    measured: String,
    verdict: &'static str,
    implementation: String,
    place: String,
}

/// All targets to which at least one row applies.
pub(super) fn judged(report: &Report) -> Vec<Judged> {
    let of = |title: &str, line: &Line<'_>| Judged {
        title: title.to_string(),
        workload: line.target.workload.clone(),
        target: clean(&line.target.about),
        limit: line.target.limit,
        value: line.value,
        measured: line.measured(),
        verdict: line.verdict(),
        implementation: line.row.implementation.clone(),
        place: line.section.place(line.row),
    };
    tables(report).iter().flat_map(|(title, lines)| lines.iter().map(|line| of(title, line))).collect()
}

fn columns(lines: &[Line<'_>]) -> Vec<Column> {
    let cells = |of: &dyn Fn(&Line<'_>) -> String| lines.iter().map(of).collect::<Vec<_>>();
    vec![
        Column::new(WORKLOAD, false, 1, cells(&|line| line.target.workload.clone())),
        Column::new("target", false, 0, cells(&|line| clean(&line.target.about))),
        Column::new("measured", true, 0, cells(&|line| line.measured())),
        Column::new("", false, 0, cells(&|line| line.verdict().to_string())),
        Column::new("by", false, 2, cells(&|line| line.row.implementation.clone())),
        Column::new("at", false, 3, cells(&|line| line.section.place(line.row))),
    ]
}

/// Writes the terminal tables.
pub(super) fn text(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let Options { width, full, .. } = report.options;
    // A full report hides nothing: what is too wide for a table becomes a list.
    let fit = |columns: &mut Vec<Column>| if full { Vec::new() } else { grid::fit(columns, width) };
    for (title, lines) in tables(report) {
        let mut all = columns(&lines);
        let hidden = fit(&mut all);
        if grid::fits(&all, width) && !hidden.iter().any(|head| head == WORKLOAD) {
            table(&title, &lines, (&all, &hidden), report, out)?;
            continue;
        }
        // Targets of several workloads may have the same text, so if the column does not fit, each workload gets a
        // table.
        for name in distinct(lines.iter().map(|line| line.target.workload.as_str())) {
            let mine: Vec<Line<'_>> = lines.iter().filter(|line| line.target.workload == name).copied().collect();
            let mut columns = columns(&mine);
            columns.retain(|column| column.head != WORKLOAD);
            let hidden = fit(&mut columns);
            table(&format!("{title} · {}", clean(name)), &mine, (&columns, &hidden), report, out)?;
        }
    }
    Ok(())
}

/// A table, or a list if its narrowest form is too wide.
fn table(
    title: &str,
    lines: &[Line<'_>],
    (columns, hidden): (&[Column], &[String]),
    report: &Report,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Options { width, color, .. } = report.options;
    report.options.title(title, out)?;
    if !grid::fits(columns, width) {
        for line in lines {
            let (about, of, place) =
                (clean(&line.target.about), &line.row.implementation, line.section.place(line.row));
            let text = format!("- {about}: {}, {} ({of}, {place})", line.measured(), line.verdict());
            report.options.print(Tone::Plain, &text, out)?;
        }
        return Ok(());
    }
    grid::write(columns, color, |_| Tone::Plain, out)?;
    report.options.print(Tone::Faint, &grid::hidden(hidden).unwrap_or_default(), out)
}

/// Writes the section of the Markdown report.
pub(super) fn write_markdown(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for (title, lines) in tables(report) {
        writeln!(out, "## {}\n", capital(title))?;
        markdown(&columns(&lines), out)?;
        writeln!(out)?;
    }
    Ok(())
}
