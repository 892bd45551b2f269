//! A long table on one screen: a line per case, a column per implementation.

use super::columns::limit;
use super::readings;
use crate::grid::Column;
use crate::model::{CaseInfo, Report, Row, Section};
use crate::units::{below_resolution, human};

/// Most cases that an overview lists.
const CASES: usize = 8;

/// The columns of an overview, with the number of cases that it leaves out.
pub(super) fn columns(report: &Report, section: &Section) -> (Vec<Column>, usize) {
    let cases = spread(&section.cases, CASES);
    let rows = |case: &CaseInfo| case.rows.iter().map(|index| &section.rows[*index]).collect::<Vec<&Row>>();
    let mut columns = Vec::new();
    if report.runs.len() > 1 {
        columns.push(Column::new("run", true, 1, cases.iter().map(|case| (case.run + 1).to_string()).collect()));
    }
    for axis in section.leading() {
        let value = |case: &&CaseInfo| rows(case).first().and_then(|row| row.param(&axis.name)).unwrap_or("–".into());
        columns.push(Column::new(axis.name.clone(), axis.numeric, 0, cases.iter().map(value).collect()));
    }
    // Why an implementation has no row that was measured is said below the table.
    let ran = |name: &&String| section.rows.iter().any(|row| row.implementation == **name && row.measured());
    for name in section.implementations.iter().filter(ran) {
        let cell = |case: &&CaseInfo| {
            let row = rows(case).into_iter().find(|row| row.implementation == *name);
            row.map_or_else(String::new, time)
        };
        columns.push(Column::new(name.clone(), true, 2, cases.iter().map(cell).collect()));
    }
    let fastest = |case: &&CaseInfo| match (case.best.row, case.best.tied.as_slice()) {
        (Some(index), _) => section.rows[index].implementation.clone(),
        (None, []) => "–".to_string(),
        (None, tied) if tied.len() > 3 => format!("{} tied", tied.len()),
        (None, tied) => {
            tied.iter().map(|index| section.rows[*index].implementation.as_str()).collect::<Vec<_>>().join(" = ")
        }
    };
    // Of tied rows, the first has the shortest time.
    let first = |case: &CaseInfo| case.best.row.or(case.best.tied.first().copied()).map(|index| &section.rows[index]);
    let speed = |case: &&CaseInfo| first(case).and_then(|row| row.speedup.text()).unwrap_or_default();
    columns.push(Column::new("fastest", false, 0, cases.iter().map(fastest).collect()));
    columns.push(Column::new("speed-up", true, 1, cases.iter().map(speed).collect()));
    let interval = |case: &&CaseInfo| first(case).map_or_else(String::new, super::columns::interval);
    columns.push(Column::new("95 % interval", true, 2, cases.iter().map(interval).collect()));
    let bests: Vec<Option<&Row>> = cases.iter().map(|case| first(case)).collect();
    columns.extend(readings::columns_of(&readings::beside_time(report, section), &bests));
    let bound = |case: &&CaseInfo| first(case).filter(|row| row.diagnosis.is_some()).map_or(String::new(), limit);
    columns.push(Column::new("its limit", false, 3, cases.iter().map(bound).collect()));
    columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
    (columns, section.cases.len() - cases.len())
}

/// The time of a row; a row that other programs held up takes at most that long alone.
fn time(row: &Row) -> String {
    match row.median("time") {
        Some(time) if row.held_up.is_some() => format!("≤{}", human(time, "s")),
        Some(time) => human(time, "s"),
        None if row.below_resolution => below_resolution(row.resolution_s),
        None => row.status.word.to_string(),
    }
}

/// At most `most` of the cases: the first, the last, and others at even distances.
fn spread(cases: &[CaseInfo], most: usize) -> Vec<&CaseInfo> {
    if cases.len() <= most {
        return cases.iter().collect();
    }
    (0..most).map(|i| &cases[i * (cases.len() - 1) / (most - 1)]).collect()
}
