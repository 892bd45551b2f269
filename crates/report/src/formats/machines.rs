//! Several machines compared, as a table for terminal and Markdown.

use std::io::Write;

use super::columns::{binding, time};
use crate::ReportError;
use crate::grid::{self, Column, Tone};
use crate::model::{MachineRow, Machines, Report, Row, Section};
use crate::units::{UNAVAILABLE, capitalized, human, range};

const MEANING: &str = "of its ceiling: share of the peak that was measured on the row's own machine. Times of different \
     machines say nothing about the code; these shares show how well it uses each machine";

pub(super) fn text(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let Some(machines) = &report.machines else { return Ok(()) };
    report.options.title("across machines", out)?;
    if let Some(why) = &machines.unavailable {
        report.options.print(Tone::Plain, why, out)?;
        return Ok(());
    }
    Ok(grid::show(columns(report, machines), notes(machines), &report.options, out)?)
}

pub(super) fn write_markdown(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let Some(machines) = &report.machines else { return Ok(()) };
    writeln!(out, "## Across machines\n")?;
    if let Some(why) = &machines.unavailable {
        writeln!(out, "{}.\n", capitalized(why.clone()))?;
        return Ok(());
    }
    grid::markdown(&columns(report, machines), out)?;
    writeln!(out, "\n{}.\n", notes(machines).join(". "))?;
    Ok(())
}

fn notes(machines: &Machines) -> Vec<String> {
    let mut notes = vec![MEANING.to_string()];
    if machines.alone > 0 {
        notes.push(format!("{} rows of one machine only are not in this table", machines.alone));
    }
    notes
}

fn columns(report: &Report, machines: &Machines) -> Vec<Column> {
    let column = |head: &str, right: bool, rank: u8, cell: &dyn Fn(&Section, &Row, &MachineRow) -> String| {
        let cells = machines.rows.iter().map(|entry| {
            let (section, row) = entry.of(report);
            cell(section, row, entry)
        });
        Column::new(head, right, rank, cells)
    };
    vec![
        column("workload", false, 3, &|section, _, _| section.workload.clone()),
        column("case", false, 2, &|section, row, _| section.place(row)),
        column("implementation", false, 0, &|_, row, _| row.implementation.clone()),
        column("device", false, 5, &|_, row, _| row.device.clone()),
        column("machine", false, 0, &|_, _, entry| machines.machines[entry.machine].name.clone()),
        column("time", true, 0, &|_, row, _| time(row)),
        column("p10–p90", true, 4, &|_, row, _| {
            row.stats("time").map_or_else(String::new, |stats| range(stats.p10, stats.p90, "s"))
        }),
        column("of its ceiling", true, 0, &|_, row, _| {
            let share = row.median("roofline-fraction");
            share.map_or_else(|| UNAVAILABLE.to_string(), |share| format!("{}{}", human(share, "1"), binding(row)))
        }),
        column("ceiling", true, 1, &|_, row, _| {
            row.roof.as_ref().map_or_else(String::new, |roof| {
                human(roof.ceiling.value, if roof.memory_bound { "B/s" } else { "FLOP/s" })
            })
        }),
    ]
}
