//! A long table on one screen: one line per case, one column per implementation.

use std::collections::BTreeSet;

use super::columns::{limit, time};
use super::readings;
use crate::grid::{Column, over};
use crate::model::{CaseInfo, Report, Row, Section, distinct, distinct_by};

/// Maximum number of cases in an overview of one workload.
const CASES: usize = 11;
/// Maximum number of lines in an overview of several workloads; each workload has at least two.
const LINES: usize = 36;
/// Minimum number of workloads in such an overview: fewer tables fit on a screen, with their readings.
const WORKLOADS: usize = 5;
/// Maximum number of implementations with a column in it.
const IMPLEMENTATIONS: usize = 6;
/// Ranks of columns that a narrow terminal hides first: axes that distinguish no cases of a workload, implementations
/// of only one of several workloads, limits, intervals.
const FOLLOWING: u8 = 14;
const RARE: u8 = 13;
const LIMIT: u8 = 12;
const INTERVAL: u8 = 11;
/// Ranks of columns that it hides last: the time of the fastest, the axes that identify the case, the speed-up, another
/// time or reading.
const TIME: u8 = 1;
const LEADING: u8 = 2;
const SPEEDUP: u8 = 3;
const ANOTHER: u8 = 4;

/// A line of an overview.
struct Line<'a> {
    section: &'a Section,
    case: &'a CaseInfo,
}

impl<'a> Line<'a> {
    fn rows(&self) -> impl Iterator<Item = &'a Row> {
        let section = self.section;
        self.case.rows.iter().map(|index| &section.rows[*index])
    }

    /// The fastest row; if rows are tied, the first, which has the shortest time.
    fn first(&self) -> Option<&'a Row> {
        self.section.fastest(self.case)
    }

    /// Why no fastest row is named.
    fn why_no_fastest(&self) -> Option<&'a str> {
        let best = &self.case.best;
        best.unavailable.as_deref().filter(|_| best.row.is_none() && best.tied.is_empty())
    }

    fn fastest(&self) -> String {
        let name = |index: &usize| self.section.rows[*index].implementation.as_str();
        match (&self.case.best.row, self.case.best.tied.as_slice()) {
            (Some(index), _) => name(index).to_string(),
            (None, []) => "–".to_string(),
            (None, tied) if tied.len() > 3 => format!("{} tied", tied.len()),
            (None, tied) => tied.iter().map(name).collect::<Vec<_>>().join(" = "),
        }
    }
}

/// An overview, and the facts that its title and the note below it need.
pub(super) struct Overview {
    pub(super) columns: Vec<Column>,
    /// Number of omitted cases.
    pub(super) left_out: usize,
    /// Axes with the same value in all lines that have them (`batch 8`).
    pub(super) fixed: Vec<String>,
    /// Why lines name no fastest row, each reason with the number of lines.
    pub(super) unnamed: Vec<(String, usize)>,
}

/// The overview of one workload.
pub(super) fn of_one(report: &Report, section: &Section) -> Overview {
    let lines: Vec<Line<'_>> = spread(&section.cases, CASES).into_iter().map(|case| Line { section, case }).collect();
    let mut columns = Column::runs(report.runs.len() > 1, 1, lines.iter().map(|line| line.case.run));
    columns.extend(section.leading().map(|axis| axis_column(&axis.name, axis.numeric, LEADING, &lines)));
    columns.extend(results(&lines, &ran(&[section])));
    let beside = readings::beside_time(report, section);
    let bests: Vec<Option<&Row>> = lines.iter().map(Line::first).collect();
    let beside = readings::columns_of(&beside, &bests);
    columns.extend(beside.into_iter().map(|column| Column { rank: ANOTHER, ..column }));
    columns.push(limits(&lines));
    columns.retain(filled);
    Overview {
        columns,
        left_out: section.cases.len() - lines.len(),
        fixed: Vec::new(),
        unnamed: reasons_without_fastest(&lines),
    }
}

/// The overview of several workloads in one table; `None` if they have too little in common for one.
pub(super) fn of_all(report: &Report, sections: &[&Section]) -> Option<Overview> {
    let names = ran(sections);
    let shared = |name: &&String| sections.iter().filter(|section| section.implementations.contains(name)).count() > 1;
    if sections.len() < WORKLOADS || names.len() > IMPLEMENTATIONS || !names.iter().any(shared) {
        return None;
    }
    let most = (LINES / sections.len()).max(2);
    let lines: Vec<Line<'_>> = sections
        .iter()
        .flat_map(|section| spread(&section.cases, most).into_iter().map(|case| Line { section, case }))
        .collect();
    let mut columns = Column::runs(report.runs.len() > 1, 1, lines.iter().map(|line| line.case.run));
    columns.push(Column::new("workload", false, 0, lines.iter().map(|line| line.section.workload.clone())));
    let mut fixed = Vec::new();
    let axes = sections.iter().flat_map(|section| section.leading().chain(&section.fixed));
    for axis in distinct_by(axes, |axis| &axis.name) {
        let values: BTreeSet<String> = lines.iter().filter_map(|line| value(line, &axis.name)).collect();
        match values.first() {
            Some(only) if values.len() == 1 => fixed.push(format!("{} {only}", axis.name)),
            _ => {
                let leads = sections.iter().any(|section| section.leading.contains(&axis.name));
                let rank = if leads { LEADING } else { FOLLOWING };
                columns.push(axis_column(&axis.name, axis.numeric, rank, &lines));
            }
        }
    }
    columns.extend(results(&lines, &names));
    columns.push(limits(&lines));
    columns.retain(filled);
    let cases: usize = sections.iter().map(|section| section.cases.len()).sum();
    Some(Overview { columns, left_out: cases - lines.len(), fixed, unnamed: reasons_without_fastest(&lines) })
}

/// Why lines with measured rows name no fastest one. The reasons for rows that were not measured are printed elsewhere.
fn reasons_without_fastest(lines: &[Line<'_>]) -> Vec<(String, usize)> {
    let measured = |line: &&Line<'_>| line.rows().any(Row::measured);
    let all: Vec<&str> = lines.iter().filter(measured).filter_map(Line::why_no_fastest).collect();
    let count = |why: &str| all.iter().filter(|other| **other == why).count();
    distinct(all.iter().copied()).into_iter().map(|why| (why.to_string(), count(why))).collect()
}

fn filled(column: &Column) -> bool {
    column.cells.iter().any(|cell| !cell.is_empty())
}

/// Names of the implementations with a measured row. The note below the table explains why others have none.
fn ran<'a>(sections: &[&'a Section]) -> Vec<&'a String> {
    let measured = |section: &'a Section| {
        let has = |name: &&String| section.rows.iter().any(|row| row.implementation == **name && row.measured());
        section.implementations.iter().filter(has)
    };
    distinct(sections.iter().copied().flat_map(measured))
}

fn value(line: &Line<'_>, axis: &str) -> Option<String> {
    line.rows().next().and_then(|row| row.param(axis))
}

fn axis_column(name: &str, numeric: bool, rank: u8, lines: &[Line<'_>]) -> Column {
    Column::new(name, numeric, rank, lines.iter().map(|line| value(line, name).unwrap_or("–".into())))
}

/// The times of each implementation, the fastest, and its speed-up.
fn results(lines: &[Line<'_>], names: &[&String]) -> Vec<Column> {
    let column = over(lines);
    let of = |name: &String| {
        let name = name.clone();
        move |line: &Line<'_>| line.rows().find(|row| row.implementation == name).map_or_else(String::new, time)
    };
    let sections: BTreeSet<&str> = lines.iter().map(|line| line.section.workload.as_str()).collect();
    // The implementation that is fastest most often stays longest, then the baselines, which speed-ups refer to.
    // Registration goes from plain to fast, so the first of the others are the least interesting.
    let wins =
        |name: &&&String| lines.iter().filter_map(Line::first).filter(|row| row.implementation == ***name).count();
    let fastest = names.iter().max_by_key(wins);
    let rank = |index: usize, name: &String| {
        if fastest.is_some_and(|fastest| *fastest == name) {
            return TIME;
        }
        if lines.iter().any(|line| line.section.baselines.contains(name)) {
            return ANOTHER;
        }
        let has = |line: &&Line<'_>| line.section.implementations.contains(name);
        let of: BTreeSet<&str> = lines.iter().filter(has).map(|line| line.section.workload.as_str()).collect();
        if sections.len() > 1 && of.len() == 1 {
            RARE
        } else {
            INTERVAL.saturating_sub(index as u8 + 1).max(ANOTHER + 1)
        }
    };
    let times = names.iter().enumerate().map(|(index, name)| column(name, true, rank(index, name), &of(name)));
    let mut columns: Vec<Column> = times.collect();
    let speed = |line: &Line<'_>| line.first().and_then(|row| row.speedup.text()).unwrap_or_default();
    let interval = |line: &Line<'_>| line.first().map_or_else(String::new, super::columns::interval);
    columns.push(column("fastest", false, 0, &|line: &Line<'_>| line.fastest()));
    columns.push(column("speed-up", true, SPEEDUP, &speed));
    columns.push(column("95 % interval", true, INTERVAL, &interval));
    columns
}

fn limits(lines: &[Line<'_>]) -> Column {
    let bound = |line: &Line<'_>| line.first().filter(|row| row.diagnosis.is_some()).map_or_else(String::new, limit);
    Column::new("its limit", false, LIMIT, lines.iter().map(bound))
}

/// At most `most` of the cases: the first, the last, and others at even distances. If only one more remains, it takes
/// the line that would count it.
fn spread(cases: &[CaseInfo], most: usize) -> Vec<&CaseInfo> {
    if cases.len() <= most + 1 {
        return cases.iter().collect();
    }
    (0..most).map(|i| &cases[i * (cases.len() - 1) / (most - 1)]).collect()
}
