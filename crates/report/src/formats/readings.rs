//! Tables of readings. Readings shared by all implementations of a case (error, rate, compression) take one line per
//! case; readings that differ (memory) take one line per row.

use ellwand_core::{Provenance, Reading, View};

use super::columns::axis_column;
use crate::grid::Column;
use crate::model::{Report, Row, Section, distinct_by};
use crate::units::{UNAVAILABLE, clean, human};

/// Readings from the resident set of a process.
const METERED: [&str; 2] = ["peak-memory", "peak-working-memory"];
/// Bytes that they do not resolve.
pub(super) const METER_BYTES: f64 = Reading::RESIDENT_STEP;

/// Readings of one kind: a table of those that vary, and a line of those that do not.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) title: &'static str,
    /// Readings with the same value in every row, as text: `overload 1.25 %`.
    pub(crate) fixed: Vec<String>,
    /// Place and values of the readings that vary; empty if none does.
    pub(crate) columns: Vec<Column>,
}

impl Block {
    /// Drops readings without any value.
    pub(crate) fn drop_empty(&mut self) {
        self.fixed.retain(|text| !text.ends_with(UNAVAILABLE));
        self.columns.retain(|column| column.cells.iter().any(|cell| cell != UNAVAILABLE));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.columns.is_empty()
    }
}

/// The readings that views request next to the time and that vary between the rows of a section: columns of its table.
pub(super) fn beside_time<'a>(report: &Report, section: &'a Section) -> Vec<&'a Reading> {
    let asked = report.views.iter().filter_map(|view| match view {
        View::Columns(view) if view.workloads.contains(&section.workload) => Some(&view.readings),
        _ => None,
    });
    let find = |row: &'a Row, id: &str| row.readings.iter().find(|reading| reading.id == id);
    let varies = |reading: &&Reading| {
        let mut cells = section.rows.iter().filter(|row| row.measured()).map(|row| text(row, reading));
        let first = cells.next();
        cells.any(|cell| Some(cell) != first)
    };
    let found = asked.flatten().filter_map(|id| section.rows.iter().find_map(|row| find(row, id)));
    found.filter(varies).collect()
}

/// The columns of these readings for some rows of a section.
pub(super) fn columns_of(readings: &[&Reading], rows: &[Option<&Row>]) -> Vec<Column> {
    let columns = readings.iter().map(|reading| {
        let cells = rows.iter().map(|row| row.map_or_else(String::new, |row| text(row, reading)));
        Column::new(title(reading), true, 2, cells)
    });
    columns.collect()
}

/// Readings shared by all implementations of a case, and those that differ.
pub(crate) struct Tables {
    /// True if some case has a second implementation to share readings with.
    pub(crate) shared: bool,
    pub(crate) alike: Block,
    pub(crate) implementations: Block,
}

/// The tables of the readings that are not columns of the results.
pub(crate) fn tables(report: &Report, section: &Section) -> Tables {
    tables_without(report, section, &beside_time(report, section))
}

/// The tables of the readings that are not among `shown`.
pub(super) fn tables_without(report: &Report, section: &Section, shown: &[&Reading]) -> Tables {
    let mut ids = distinct_by(section.rows.iter().flat_map(|row| &row.readings), |reading| &reading.id);
    ids.retain(|reading| shown.iter().all(|shown| shown.id != reading.id));
    let (alike, own): (Vec<&Reading>, Vec<&Reading>) =
        ids.into_iter().partition(|reading| same_in_all_rows(section, &reading.id));
    let first: Vec<&Row> = section.cases.iter().filter_map(|case| carrier(section, &case.rows)).collect();
    let rows: Vec<&Row> = section.rows.iter().filter(|row| !row.readings.is_empty()).collect();
    let shared = section.cases.iter().any(|case| case.rows.len() > 1);
    let title = if shared { "Readings shared by all implementations of a case" } else { "Readings" };
    Tables {
        shared,
        alike: Block { title, ..block(report, section, &first, &alike, false) },
        implementations: Block { title: "Readings by implementation", ..block(report, section, &rows, &own, true) },
    }
}

fn block(report: &Report, section: &Section, rows: &[&Row], readings: &[&Reading], implementation: bool) -> Block {
    let texts = |reading: &Reading| -> Vec<String> { rows.iter().map(|row| text(row, reading)).collect() };
    let mut block = Block::default();
    let mut varying = Vec::new();
    for (index, reading) in readings.iter().enumerate() {
        let cells = texts(reading);
        match cells.first() {
            Some(first) if cells.iter().all(|cell| cell == first) => {
                block.fixed.push(format!("{} {first}", title(reading)));
            }
            _ => {
                // Readings come in order of importance, so the last ones are dropped first.
                let rank = u8::try_from(index + 1).unwrap_or(u8::MAX);
                varying.push(Column::new(title(reading), true, rank, cells));
            }
        }
    }
    if !varying.is_empty() {
        block.columns = places(report, section, rows, implementation);
        block.columns.extend(varying);
    }
    block
}

/// Heading of a reading; estimates are marked.
fn title(reading: &Reading) -> String {
    let estimated = if reading.provenance == Provenance::Estimated { " (estimated)" } else { "" };
    format!("{}{estimated}", clean(&reading.title))
}

/// Value of a reading in a row, without the unit if the heading shows it.
fn text(row: &Row, reading: &Reading) -> String {
    let own = row.readings.iter().find(|own| own.id == reading.id).and_then(|own| own.value);
    let unit = if reading.unit == reading.title { "" } else { &reading.unit };
    match own {
        None => UNAVAILABLE.to_string(),
        Some(value) if METERED.contains(&reading.id.as_str()) && value < METER_BYTES => {
            format!("< {}", human(METER_BYTES, unit))
        }
        Some(value) => human(value, unit),
    }
}

/// True if every measured row of each case has the reading with the same value and some case has two such rows; also
/// true if every case has one row, because nothing can differ then.
fn same_in_all_rows(section: &Section, id: &str) -> bool {
    let mut compared = section.cases.iter().all(|case| case.rows.len() == 1);
    for case in &section.cases {
        let rows = case.rows.iter().map(|index| &section.rows[*index]).filter(|row| row.measured());
        let mut values = rows.map(|row| {
            let reading = row.readings.iter().find(|reading| reading.id == id);
            reading.map(|reading| reading.value.map(f64::to_bits))
        });
        let Some(first) = values.next() else { continue };
        for other in values {
            compared = true;
            if other != first {
                return false;
            }
        }
    }
    compared
}

/// The row of a case with the most readings.
fn carrier<'a>(section: &'a Section, rows: &[usize]) -> Option<&'a Row> {
    rows.iter()
        .map(|index| &section.rows[*index])
        .filter(|row| !row.readings.is_empty())
        .max_by_key(|row| row.readings.len())
}

fn places(report: &Report, section: &Section, rows: &[&Row], implementation: bool) -> Vec<Column> {
    let mut columns = Column::runs(report.runs.len() > 1, 1, rows.iter().map(|row| row.run));
    columns.extend(section.leading().map(|axis| axis_column(axis, 0, rows, !implementation)));
    if implementation {
        columns.push(Column::new("implementation", false, 0, rows.iter().map(|row| row.implementation.clone())));
    }
    columns
}

/// Each reading of a section once, with its meaning.
pub(crate) fn meanings(section: &Section) -> Vec<(String, String)> {
    let readings = section.rows.iter().flat_map(|row| &row.readings).filter(|reading| !reading.about.is_empty());
    let meaning = |reading: &Reading| {
        let origin = crate::model::origin(reading.provenance);
        let direction = crate::model::direction(reading.better);
        let tail = if direction.is_empty() { origin.to_string() } else { format!("{origin}; {direction}") };
        (reading.title.clone(), format!("{} ({tail})", clean(&reading.about)))
    };
    distinct_by(readings, |reading| &reading.title).into_iter().map(meaning).collect()
}
