//! The operations that a database must provide to be the index of a history.

use std::collections::BTreeMap;

use rusqlite::types::{FromSql, FromSqlResult, Value, ValueRef};
use serde::Serialize;

use crate::error::StoreError;
use crate::folder::Stamp;
use crate::rows::{CellRow, RunRow, Series, run_key};
use crate::schema;
use crate::trend::{Failure, Point};

/// A machine of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Fingerprint of the machine.
    pub id: String,
    /// Model name of the CPU.
    pub cpu: String,
    /// Logical CPUs that the machine has.
    pub cores: i64,
}

/// A run to add.
#[derive(Debug, Clone)]
pub(crate) struct NewRun {
    pub(crate) run: RunRow,
    pub(crate) cells: Vec<CellRow>,
    /// Its file, if the index is that of a folder.
    pub(crate) file: Option<Stamp>,
}

impl NewRun {
    /// A measurement of each command that resumed the run.
    pub(crate) fn sessions(&self) -> BTreeMap<i64, &CellRow> {
        self.cells.iter().filter(|cell| cell.session > 0).map(|cell| (cell.session, cell)).collect()
    }
}

/// The index of a history. Results are read the same way from every database.
pub(crate) trait Index {
    /// Its location, for messages.
    fn place(&self) -> String;

    /// Adds runs with their measurements, each completely or not at all; false for runs that were there already.
    fn add(&mut self, runs: &[NewRun]) -> Result<Vec<bool>, StoreError>;

    /// The rows of a query of [`schema`], which takes at most one parameter.
    fn ask(&mut self, sql: &str, parameter: Option<Value>) -> Result<Vec<Vec<Value>>, StoreError>;

    /// Removes a run with its measurements.
    fn remove(&mut self, id: &str) -> Result<(), StoreError> {
        self.ask(schema::REMOVE_RUN, Some(run_key(id).into())).map(drop)
    }

    /// The indexed files, by run id; empty if the records stay where they were written.
    fn files(&mut self) -> Result<BTreeMap<String, Stamp>, StoreError> {
        let read = |row: &mut Fields| {
            Ok((row.next()?, Stamp { name: row.next()?, bytes: row.next()?, modified_ns: row.next()? }))
        };
        Ok(all(self, schema::FILES, None, read)?.into_iter().collect())
    }

    /// The run with this id.
    fn run(&mut self, id: &str) -> Result<Option<RunRow>, StoreError> {
        Ok(all(self, schema::RUN, Some(run_key(id).into()), run_of)?.pop())
    }

    /// All runs, by the date of the commit, or else of the run.
    fn runs(&mut self) -> Result<Vec<RunRow>, StoreError> {
        all(self, schema::RUNS, None, run_of)
    }

    fn machines(&mut self) -> Result<Vec<Machine>, StoreError> {
        let read = |row: &mut Fields| Ok(Machine { id: row.next()?, cpu: row.next()?, cores: row.next()? });
        all(self, schema::MACHINES, None, read)
    }

    fn workloads(&mut self) -> Result<Vec<String>, StoreError> {
        all(self, schema::WORKLOADS, None, Fields::next)
    }

    /// The series of a workload.
    fn series(&mut self, workload: &str) -> Result<Vec<Series>, StoreError> {
        all(self, schema::SERIES, Some(workload.to_string().into()), series_of)
    }

    /// The measurements of a run.
    fn cells(&mut self, id: &str) -> Result<Vec<CellRow>, StoreError> {
        all(self, schema::CELLS, Some(run_key(id).into()), cell_of)
    }

    /// The times of a series, unordered, without their ratios.
    fn points(&mut self, series: i64) -> Result<Vec<Point>, StoreError> {
        all(self, schema::POINTS, Some(series.into()), point_of)
    }

    /// The runs of a series that failed or gave a wrong answer: the machine, and the place among the runs.
    fn failures(&mut self, series: i64) -> Result<Vec<Failure>, StoreError> {
        all(self, schema::FAILURES, Some(series.into()), |row| {
            let (machine, started): (String, i64) = (row.next()?, row.next()?);
            Ok((machine, (row.next::<Option<i64>>()?.unwrap_or(started), started)))
        })
    }
}

fn all<T>(
    index: &mut (impl Index + ?Sized),
    sql: &str,
    parameter: Option<Value>,
    read: impl Fn(&mut Fields) -> FromSqlResult<T>,
) -> Result<Vec<T>, StoreError> {
    let rows = index.ask(sql, parameter)?;
    let rows: FromSqlResult<Vec<T>> = rows.into_iter().map(|row| read(&mut Fields(row.into_iter()))).collect();
    rows.map_err(|error| StoreError::Damaged { place: index.place(), problem: error.to_string() })
}

/// The values of a row that have not been read yet.
struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    fn next<T: FromSql>(&mut self) -> FromSqlResult<T> {
        T::column_result(ValueRef::from(&self.0.next().unwrap_or(Value::Null)))
    }
}

/// Numbers as little-endian bytes.
pub(crate) fn to_bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Numbers from little-endian bytes; ignores an incomplete number.
fn from_bytes(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
}

/// Axis values as JSON.
pub(crate) fn params_text(params: &BTreeMap<String, String>) -> String {
    serde_json::to_string(params).unwrap_or_default()
}

/// Axis values from JSON; empty if it cannot be read.
fn params(text: &str) -> BTreeMap<String, String> {
    serde_json::from_str(text).unwrap_or_default()
}

// Fields are read in the column order of the queries in `schema`.

fn series_of(row: &mut Fields) -> FromSqlResult<Series> {
    Ok(Series {
        workload: row.next()?,
        case: row.next()?,
        params: params(&row.next::<String>()?),
        implementation: row.next()?,
        device: row.next()?,
        caches: row.next()?,
    })
}

fn cell_of(row: &mut Fields) -> FromSqlResult<CellRow> {
    Ok(CellRow {
        series: series_of(row)?,
        baseline: row.next()?,
        session: row.next()?,
        status: row.next()?,
        seconds: row.next()?,
        low: row.next()?,
        high: row.next()?,
        blocks: from_bytes(&row.next::<Vec<u8>>()?),
        commit: row.next()?,
        committed_ms: row.next()?,
        changed: row.next()?,
    })
}

fn run_of(row: &mut Fields) -> FromSqlResult<RunRow> {
    Ok(RunRow {
        id: row.next()?,
        started_ms: row.next()?,
        commit: row.next()?,
        committed_ms: row.next()?,
        changed: row.next()?,
        machine: row.next()?,
        cpu: row.next()?,
        cores: row.next()?,
        ellwand: row.next()?,
        command: row.next()?,
        cells: row.next()?,
    })
}

fn point_of(row: &mut Fields) -> FromSqlResult<Point> {
    Ok(Point {
        run: row.next()?,
        started_ms: row.next()?,
        commit: row.next()?,
        committed_ms: row.next()?,
        changed: row.next()?,
        machine: row.next()?,
        session: row.next()?,
        baseline: row.next()?,
        seconds: row.next()?,
        low: row.next()?,
        high: row.next()?,
        blocks: from_bytes(&row.next::<Vec<u8>>()?),
        ratio: None,
    })
}
