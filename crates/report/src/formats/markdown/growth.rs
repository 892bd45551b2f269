//! The sweep along one axis at a time: scaling of the times, and the fastest implementation at each value.

use std::io::{self, Write};

use super::columns::{at_most, time};
use crate::grid::{Column, markdown, over};
use crate::model::{AlongAxis, CaseInfo, Section, bounded, distinct};
use crate::units::{UNAVAILABLE, ratio};

/// Maximum number of cases listed one by one; above that the tables by axis count them.
const LISTED: usize = 40;

pub(super) fn along_axes(section: &Section, several_runs: bool, out: &mut dyn Write) -> io::Result<()> {
    exponents(section, several_runs, out)?;
    for axis in &section.swept {
        let rows: Vec<&AlongAxis> = section.along_axes.iter().filter(|row| row.axis == axis.name).collect();
        by_value(&axis.name, &rows, &section.baselines, several_runs, out)?;
    }
    best_by_shape(section, several_runs, out)
}

/// Writes the exponents by implementation and axis.
fn exponents(section: &Section, several_runs: bool, out: &mut dyn Write) -> io::Result<()> {
    if section.growth.is_empty() {
        return Ok(());
    }
    let rows = &section.growth;
    let mut columns = Column::runs(several_runs, 0, rows.iter().map(|row| row.run));
    let column = over(rows);
    columns.push(column("implementation", false, 0, &|row| row.implementation.clone()));
    columns.push(column("axis", false, 0, &|row| row.axis.clone()));
    columns.push(column("exponent", true, 0, &|row| format!("{:.2}", row.exponent)));
    columns.push(column("95 % interval", true, 0, &|row| format!("{:.2} – {:.2}", row.low, row.high)));
    columns.push(column("cases", true, 0, &|row| row.cases.to_string()));
    writeln!(out, "### Scaling of the time\n")?;
    markdown(&columns, out)?;
    writeln!(
        out,
        "\nTime grows as the axis value to the power of this exponent, with the other axes fixed. 0: a fixed cost dominates; 1: each item costs the same; \
         above 1: larger sizes leave a cache, or the work itself grows faster. Rows that other programs disturbed are omitted, and so are exponents that are not known to 0.5.\n"
    )
}

/// Writes the implementations next to each other at each value of one axis.
fn by_value(
    axis: &str,
    rows: &[&AlongAxis],
    baselines: &[String],
    several_runs: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let keys: Vec<(usize, &str)> = distinct(rows.iter().map(|row| (row.run, row.value.as_str())));
    let names: Vec<&str> = distinct(rows.iter().map(|row| row.implementation.as_str()));
    if keys.len() < 2 {
        return Ok(());
    }
    let find = |key: &(usize, &str), name: &str| {
        rows.iter().find(|row| (row.run, row.value.as_str()) == *key && row.implementation == name)
    };
    let mut columns = Column::runs(several_runs, 0, keys.iter().map(|(run, _)| *run));
    columns.push(Column::new(axis, true, 0, keys.iter().map(|(_, value)| (*value).to_string())));
    let cases =
        |key: &(usize, &str)| rows.iter().find(|row| (row.run, row.value.as_str()) == *key).map_or(0, |row| row.cases);
    columns.push(Column::new("cases", true, 0, keys.iter().map(|key| cases(key).to_string())));
    for name in &names {
        let cell = |key: &(usize, &str)| {
            let Some(row) = find(key, name) else { return String::new() };
            let speed = row.speedup.map(|speed| format!(" ({})", bounded(row.bound, speed))).unwrap_or_default();
            format!("{}{speed}", at_most(row.held_up, row.time_s))
        };
        columns.push(Column::new(*name, true, 0, keys.iter().map(cell)));
    }
    let fastest = |key: &(usize, &str)| {
        let first: Vec<&AlongAxis> = names.iter().filter_map(|name| find(key, name)).copied().collect();
        first_in(first, cases(key))
    };
    columns.push(Column::new("fastest", false, 0, keys.iter().map(fastest)));
    writeln!(out, "### By {axis}\n")?;
    markdown(&columns, out)?;
    writeln!(
        out,
        "\nGeometric means over the cases in which every implementation was measured; in parentheses the speed-up over {}. \
         fastest: with the number of cases in which it is the fastest or tied for it.\n",
        baselines.join(", ")
    )
}

/// The implementations that are fastest, or tied for it, in most of the cases, each with the number of these cases
/// unless it is all of them.
fn first_in(mut rows: Vec<&AlongAxis>, cases: usize) -> String {
    let count = |row: &AlongAxis| row.best_in + row.tied_in;
    rows.retain(|row| count(row) > 0);
    rows.sort_by(|a, b| count(b).cmp(&count(a)).then(a.time_s.total_cmp(&b.time_s)));
    if rows.iter().all(|row| count(row) == cases) {
        return rows.iter().map(|row| row.implementation.as_str()).collect::<Vec<_>>().join(" = ");
    }
    rows.iter().map(|row| format!("{} {}", row.implementation, count(row))).collect::<Vec<_>>().join(", ")
}

/// Writes the fastest implementation of each case, with its lead.
fn best_by_shape(section: &Section, several_runs: bool, out: &mut dyn Write) -> io::Result<()> {
    if section.along_axes.is_empty() || section.implementations.len() < 2 || section.cases.len() > LISTED {
        return Ok(());
    }
    let cases: Vec<_> = section.cases.iter().filter(|case| !case.rows.is_empty()).collect();
    let mut columns = Column::runs(several_runs, 0, cases.iter().map(|case| case.run));
    for axis in &section.swept {
        let value = |case: &&CaseInfo| section.rows[case.rows[0]].param(&axis.name).unwrap_or_else(|| "–".into());
        columns.push(Column::new(axis.name.clone(), axis.numeric, 0, cases.iter().map(value)));
    }
    let best = |case: &&CaseInfo| {
        let named = case.best.row.iter().chain(&case.best.tied);
        let named: Vec<&str> = named.map(|row| section.rows[*row].implementation.as_str()).collect();
        if named.is_empty() { "–".to_string() } else { named.join(" = ") }
    };
    columns.push(Column::new("fastest", false, 0, cases.iter().map(best)));
    let of_best = |case: &&CaseInfo| section.fastest(case).map_or(UNAVAILABLE.to_string(), time);
    columns.push(Column::new("time", true, 0, cases.iter().map(of_best)));
    columns.push(Column::new("lead over the next", true, 0, cases.iter().map(|case| lead(section, case))));
    writeln!(out, "### Fastest implementation by case\n")?;
    markdown(&columns, out)?;
    writeln!(out)?;
    let unnamed = || cases.iter().filter(|case| case.best.row.is_none() && case.best.tied.is_empty());
    for why in distinct(unnamed().filter_map(|case| case.best.unavailable.as_deref())) {
        let count = unnamed().filter(|case| case.best.unavailable.as_deref() == Some(why)).count();
        writeln!(out, "- fastest –: {why} ({count} of {} cases)", cases.len())?;
    }
    if unnamed().next().is_some() { writeln!(out) } else { Ok(()) }
}

/// The time of the next row divided by that of the fastest.
fn lead(section: &Section, case: &CaseInfo) -> String {
    if !case.best.tied.is_empty() {
        return "tied".to_string();
    }
    let own = case.best.row.and_then(|row| section.rows[row].median("time"));
    let others = case.rows.iter().filter(|row| Some(**row) != case.best.row);
    let others = others.filter_map(|row| section.rows[*row].median("time"));
    match (own, others.min_by(f64::total_cmp)) {
        (Some(own), Some(next)) => ratio(next / own),
        _ => UNAVAILABLE.to_string(),
    }
}
