//! Views of kind `targets`: one line per target, with the measured value and whether it meets the target.

use std::io::{self, Write};

use ellwand_core::View;
use ellwand_core::view::{Measure, Target};
use serde::Serialize;

use crate::Options;
use crate::grid::{self, Column, Tone, markdown};
use crate::model::{Bound, Report, Row, Section, distinct};
use crate::units::{capitalized, clean, human, rate};

/// Share of samples that lost the processor above which other programs shape the 10th and 90th percentile.
const SWITCHED: f64 = 0.1;

/// Heading of the column that names the workload of a target.
const WORKLOAD: &str = "workload";

/// A target and the measured value.
#[derive(Debug, Serialize)]
pub(super) struct Judged {
    title: String,
    workload: String,
    target: String,
    limit: f64,
    value: f64,
    /// The value as text.
    measured: String,
    verdict: &'static str,
    /// The row that decides whether the target is met.
    implementation: String,
    place: String,
}

/// `bound`: other programs delayed rows, and without them the value is at least (at most) as good; `high`: upper end of
/// the 95 % interval of a rate or a speed-up.
fn verdict(target: &Target, value: f64, bound: Option<Bound>, high: Option<f64>) -> &'static str {
    let met = match target.measure {
        Measure::Spread => value <= target.limit,
        _ => value >= target.limit,
    };
    match (met, bound) {
        (true, None | Some(Bound::AtLeast)) => "met",
        (false, None) if high.is_some_and(|high| high >= target.limit) => "open: within the 95 % interval",
        (false, None | Some(Bound::AtMost)) => "missed",
        // The undisturbed value may be on the other side of the target.
        _ => "open: other programs ran",
    }
}

fn measured(measure: &Measure, value: f64, bound: Option<Bound>, section: &Section, row: &Row) -> String {
    let item = section.item.as_deref().map_or(String::new(), clean);
    let text = match measure {
        Measure::Throughput => format!("{} {item}/s", rate(value)),
        Measure::Hold => human(value, "1"),
        Measure::Spread => format!("within {}", human(value, "1")),
        Measure::Speedup => format!("{} over {}", human(value, "x"), clean(&row.speedup.baseline)),
        Measure::Reading(_) | Measure::Unknown => human(value, "x"),
    };
    let sign = bound.filter(|_| *measure != Measure::Spread).map_or("", Bound::sign);
    format!("{sign}{text}")
}

/// All targets to which at least one row applies.
pub(super) fn all(report: &Report) -> Vec<Judged> {
    tables(report).into_iter().flat_map(|(_, targets)| targets).collect()
}

/// The tables of a report: title and targets of each view.
fn tables(report: &Report) -> Vec<(String, Vec<Judged>)> {
    let views = report.views.iter().filter_map(|view| match view {
        View::Targets(view) => Some(view),
        _ => None,
    });
    let lines = views.map(|view| {
        let title = clean(&view.title);
        let found: Vec<Judged> = view.targets.iter().filter_map(|target| judge(report, &title, target)).collect();
        (title, found)
    });
    lines.filter(|(_, found)| !found.is_empty()).collect()
}

fn judge<'a>(report: &'a Report, title: &str, target: &Target) -> Option<Judged> {
    let section = report.workloads.iter().find(|section| section.workload == target.workload)?;
    let counts = |row: &&Row| {
        let is = |(axis, value): &(String, String)| row.param(axis).is_some_and(|text| text == *value);
        row.measured() && target.case.iter().all(is)
    };
    let rows: Vec<&Row> = section.rows.iter().filter(counts).collect();
    let throughput = |row: &Row| row.median("throughput");
    let largest = |of: &dyn Fn(&Row) -> Option<f64>| {
        let values = rows.iter().filter_map(|row| Some((of(row).filter(|value| value.is_finite())?, *row)));
        values.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (value, row) = match &target.measure {
        Measure::Throughput => largest(&throughput),
        Measure::Speedup => {
            largest(&|row| row.speedup.shown().filter(|_| !row.speedup.is_baseline).map(|shown| shown.1))
        }
        Measure::Reading(id) => largest(&|row| row.reading(id)),
        Measure::Hold => {
            let (peak, _) = largest(&throughput)?;
            let items = rows.iter().map(|row| row.work.items).max()?;
            if rows.iter().all(|row| row.work.items == items) {
                return None;
            }
            let (last, row) = largest(&|row| throughput(row).filter(|_| row.work.items == items))?;
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
    let at_least = |held: bool| held.then_some(Bound::AtLeast);
    let bound = match target.measure {
        Measure::Reading(_) => None,
        Measure::Spread => at_least(row.held_up.is_some() || switched),
        Measure::Speedup => row.speedup.shown().and_then(|(bound, _)| bound),
        _ => at_least(row.held_up.is_some()),
    };
    let high = match target.measure {
        Measure::Throughput => row.stats("throughput").and_then(|rate| rate.high),
        Measure::Speedup => row.speedup.high,
        _ => None,
    };
    Some(Judged {
        title: title.to_string(),
        workload: target.workload.clone(),
        target: clean(&target.about),
        limit: target.limit,
        value,
        measured: measured(&target.measure, value, bound, section, row),
        verdict: verdict(target, value, bound, high),
        implementation: row.implementation.clone(),
        place: section.place(row),
    })
}

fn columns<'a>(targets: impl Iterator<Item = &'a Judged> + Clone) -> Vec<Column> {
    let cells = |of: &dyn Fn(&'a Judged) -> &'a str| targets.clone().map(|one| of(one).to_string()).collect::<Vec<_>>();
    vec![
        Column::new(WORKLOAD, false, 1, cells(&|one| &one.workload)),
        Column::new("target", false, 0, cells(&|one| &one.target)),
        Column::new("measured", true, 0, cells(&|one| &one.measured)),
        Column::new("", false, 0, cells(&|one| one.verdict)),
        Column::new("by", false, 2, cells(&|one| &one.implementation)),
        Column::new("at", false, 3, cells(&|one| &one.place)),
    ]
}

/// Writes the terminal tables.
pub(super) fn text(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let Options { width, full, .. } = report.options;
    // A full report hides nothing: what is too wide for a table becomes a list.
    let fit = |columns: &mut Vec<Column>| if full { Vec::new() } else { grid::fit(columns, width) };
    for (title, targets) in tables(report) {
        let mut all = columns(targets.iter());
        let hidden = fit(&mut all);
        if grid::fits(&all, width) && !hidden.iter().any(|head| head == WORKLOAD) {
            report.options.title(&title, out)?;
            table(&all, &hidden, report, out)?;
            continue;
        }
        // Targets of several workloads may have the same text, so if the column does not fit, each workload gets a
        // table. All have the shape that the widest needs.
        let mut joint = columns(targets.iter());
        joint.retain(|column| column.head != WORKLOAD);
        let hidden = fit(&mut joint);
        let is_list = !grid::fits(&joint, width);
        for name in distinct(targets.iter().map(|one| one.workload.as_str())) {
            let mine = targets.iter().filter(|one| one.workload == name);
            report.options.title(&format!("{title} · {}", clean(name)), out)?;
            if is_list {
                list(mine, report, out)?;
                continue;
            }
            let mut columns = columns(mine);
            columns.retain(|column| column.head != WORKLOAD && !hidden.contains(&column.head));
            table(&columns, &hidden, report, out)?;
        }
    }
    Ok(())
}

fn table(columns: &[Column], hidden: &[String], report: &Report, out: &mut dyn Write) -> io::Result<()> {
    grid::write(columns, report.options.color, |_| Tone::Plain, out)?;
    report.options.print(Tone::Faint, &grid::hidden(hidden).unwrap_or_default(), out)
}

/// For targets whose narrowest table is too wide.
fn list<'a>(targets: impl Iterator<Item = &'a Judged>, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for Judged { target, measured, verdict, implementation, place, .. } in targets {
        let text = format!("- {target}: {measured}, {verdict} ({implementation}, {place})");
        report.options.print(Tone::Plain, &text, out)?;
    }
    Ok(())
}

/// Writes the section of the Markdown report.
pub(super) fn write_markdown(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for (title, targets) in tables(report) {
        writeln!(out, "## {}\n", capitalized(title))?;
        markdown(&columns(targets.iter()), out)?;
        writeln!(out)?;
    }
    Ok(())
}
