//! Tables of readings. What every implementation of a case reads alike (error, rate, compression: a property of the
//! outputs) takes one line a case; what differs (memory) takes one line a row.

use ellwand_core::Reading;

use crate::grid::Column;
use crate::model::{Report, Row, Section};
use crate::units::{UNAVAILABLE, human};

/// The two tables: of the outputs, and of the implementations. A table without readings has no columns.
pub(crate) struct Tables {
    pub(crate) outputs: Vec<Column>,
    pub(crate) implementations: Vec<Column>,
}

pub(crate) fn tables(report: &Report, section: &Section) -> Tables {
    let mut ids: Vec<&Reading> = Vec::new();
    for reading in section.rows.iter().flat_map(|row| &row.readings) {
        if !ids.iter().any(|known| known.id == reading.id) {
            ids.push(reading);
        }
    }
    let (alike, own): (Vec<&Reading>, Vec<&Reading>) = ids.into_iter().partition(|reading| alike(section, &reading.id));
    let mut outputs = Vec::new();
    if !alike.is_empty() {
        let first: Vec<&Row> = section.cases.iter().filter_map(|case| carrier(section, &case.rows)).collect();
        outputs = places(report, section, &first, false);
        outputs.extend(values(&first, &alike));
    }
    let mut implementations = Vec::new();
    if !own.is_empty() {
        let rows: Vec<&Row> = section.rows.iter().filter(|row| !row.readings.is_empty()).collect();
        implementations = places(report, section, &rows, true);
        implementations.extend(values(&rows, &own));
    }
    Tables { outputs, implementations }
}

/// Whether every row of each case that has the reading has the same value of it, and some case has two such rows.
fn alike(section: &Section, id: &str) -> bool {
    let mut compared = false;
    for case in &section.cases {
        let mut values = case
            .rows
            .iter()
            .filter_map(|index| section.rows[*index].readings.iter().find(|reading| reading.id == id))
            .map(|reading| reading.value.map(f64::to_bits));
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

/// The row of a case that carries most readings.
fn carrier<'a>(section: &'a Section, rows: &[usize]) -> Option<&'a Row> {
    rows.iter()
        .map(|index| &section.rows[*index])
        .filter(|row| !row.readings.is_empty())
        .max_by_key(|row| row.readings.len())
}

fn places(report: &Report, section: &Section, rows: &[&Row], implementation: bool) -> Vec<Column> {
    let mut columns = Vec::new();
    if report.runs.len() > 1 {
        columns.push(Column::new("run", true, 1, rows.iter().map(|row| (row.run + 1).to_string()).collect()));
    }
    for axis in &section.swept {
        let cells = rows.iter().map(|row| row.param(&axis.name).unwrap_or_else(|| "–".into())).collect();
        columns.push(Column::new(axis.name.clone(), axis.numeric, 0, cells));
    }
    if implementation {
        columns.push(Column::new(
            "implementation",
            false,
            0,
            rows.iter().map(|row| row.implementation.clone()).collect(),
        ));
    }
    columns
}

fn values(rows: &[&Row], readings: &[&Reading]) -> Vec<Column> {
    let column = |(index, reading): (usize, &&Reading)| {
        let cell = |row: &&Row| {
            let own = row.readings.iter().find(|own| own.id == reading.id);
            own.and_then(|own| own.value).map_or_else(|| UNAVAILABLE.to_string(), |value| human(value, &reading.unit))
        };
        // Readings come in the order of their importance: the last ones are left out first.
        let rank = u8::try_from(index + 1).unwrap_or(u8::MAX);
        Column::new(crate::units::clean(&reading.title), true, rank, rows.iter().map(cell).collect())
    };
    readings.iter().enumerate().map(column).collect()
}

/// Readings of a section with their meaning, each once.
pub(crate) fn meanings(section: &Section) -> Vec<(String, String)> {
    let mut seen: Vec<(String, String)> = Vec::new();
    for reading in section.rows.iter().flat_map(|row| &row.readings) {
        if reading.about.is_empty() || seen.iter().any(|(title, _)| *title == reading.title) {
            continue;
        }
        let origin = crate::model::origin(reading.provenance);
        let direction = crate::model::direction(reading.better);
        let tail = if direction.is_empty() { origin.to_string() } else { format!("{origin}; {direction}") };
        seen.push((reading.title.clone(), format!("{} ({tail})", crate::units::clean(&reading.about))));
    }
    seen
}
