//! Tables over all workloads: times next to each other, and the limit of each implementation.

use std::io::{self, Write};

use super::columns::time;
use crate::diagnose::CLOSE;
use crate::grid::{Column, markdown, over};
use crate::model::{Report, Row, Section, distinct};
use crate::units::{self, UNAVAILABLE, human};

/// Time and throughput of workloads that sweep the same axes, case by case.
pub(super) fn side_by_side(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for group in comparable(report) {
        let first = group[0];
        writeln!(out, "## Workloads side by side\n")?;
        let keys = distinct(group.iter().flat_map(|section| &section.rows).map(|row| key(first, row)));
        let mut columns = Column::runs(report.runs.len() > 1, 0, keys.iter().map(|(run, _, _)| *run));
        for (index, axis) in first.swept.iter().enumerate() {
            let cells = keys.iter().map(|(_, values, _)| values[index].clone());
            columns.push(Column::new(axis.name.clone(), axis.numeric, 0, cells));
        }
        columns.push(Column::new("implementation", false, 0, keys.iter().map(|(_, _, name)| name.clone())));
        for section in &group {
            let row =
                |wanted: &(usize, Vec<String>, String)| section.rows.iter().find(|row| key(first, row) == *wanted);
            let cells = keys.iter().map(|key| cell(row(key), section));
            columns.push(Column::new(section.workload.clone(), true, 0, cells));
        }
        markdown(&columns, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Groups of at least two workloads with the same swept axes.
pub(crate) fn comparable(report: &Report) -> Vec<Vec<&Section>> {
    let names = |section: &Section| section.swept.iter().map(|axis| axis.name.clone()).collect::<Vec<_>>();
    let mut groups: Vec<Vec<&Section>> = Vec::new();
    for section in report.workloads.iter().filter(|section| !section.swept.is_empty()) {
        match groups.iter_mut().find(|group| names(group[0]) == names(section)) {
            Some(group) => group.push(section),
            None => groups.push(vec![section]),
        }
    }
    groups.into_iter().filter(|group| group.len() > 1).collect()
}

fn key(section: &Section, row: &Row) -> (usize, Vec<String>, String) {
    let values = section.swept.iter().map(|axis| row.param(&axis.name).unwrap_or_else(|| "–".into())).collect();
    (row.run, values, row.implementation.clone())
}

fn cell(row: Option<&Row>, section: &Section) -> String {
    let Some(row) = row else { return String::new() };
    let rate = match (row.median("throughput"), &section.item) {
        (Some(rate), Some(item)) => format!(", {} {item}/s", units::rate(rate)),
        _ => String::new(),
    };
    format!("{}{rate}", time(row))
}

/// One line per workload and implementation, at its largest case.
pub(super) fn what_limits(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let groups = crate::diagnose::groups(report);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "## What limits each implementation\n\nAt the largest case of each. The diagnosis explains the undisturbed time: the CPU time of one thread, \
         or the fastest parts of the slots for several threads. On a busy machine it is below the median.\n"
    )?;
    let rows: Vec<(&crate::diagnose::Group<'_>, &Row)> =
        groups.iter().filter_map(|group| Some((group, group.largest()?))).collect();
    let column = over(&rows);
    let or_unavailable = |value: Option<String>| value.unwrap_or_else(|| UNAVAILABLE.to_string());
    let columns = [
        column("workload", false, 0, &|(group, _)| group.section.workload.clone()),
        column("implementation", false, 0, &|(group, _)| group.implementation.to_string()),
        column("case", false, 0, &|(group, row)| group.section.place(row)),
        column("median time", true, 0, &|(_, row)| time(row)),
        column("limit", true, 0, &|(_, row)| or_unavailable(row.roof.as_ref().map(|roof| human(roof.limit_s, "s")))),
        column("of ceiling", true, 0, &|(_, row)| {
            or_unavailable(row.median("roofline-fraction").map(|share| human(share, "1")))
        }),
        column("limited by", false, 0, &|(_, row)| {
            or_unavailable(row.roof.as_ref().map(|roof| {
                if roof.memory_bound {
                    format!("{} bandwidth ({})", roof.ceiling.level, human(roof.ceiling.value, "B/s"))
                        .trim_start()
                        .to_string()
                } else {
                    let kind = roof.ceiling.kind.title();
                    format!("{kind} peak ({})", human(roof.ceiling.value, "FLOP/s"))
                }
            }))
        }),
        column("undisturbed time", true, 0, &|(_, row)| {
            let diagnosed = row.diagnosis.as_ref().filter(|_| !row.below_resolution);
            or_unavailable(diagnosed.map(|d| human(d.time_s, "s")))
        }),
        column("diagnosis", false, 0, &|(_, row)| verdict(row)),
    ];
    markdown(&columns, out)?;
    writeln!(out)
}

/// The diagnosis of a row; without one (times from a device's own clock), its share of the ceiling.
fn verdict(row: &Row) -> String {
    if let Some(d) = &row.diagnosis {
        return format!("{}: {}", d.label(), d.description());
    }
    let Some(share) = row.median("roofline-fraction") else { return UNAVAILABLE.to_string() };
    let memory = row.roof.as_ref().is_some_and(|roof| roof.memory_bound);
    match share {
        s if s > 1.05 => "above the ceiling: the ceiling or the work model is wrong",
        s if s >= CLOSE && memory => "memory",
        s if s >= CLOSE => "arithmetic",
        _ => "neither memory nor arithmetic explains most of the time",
    }
    .into()
}
