//! What a database must do to be the index of a history.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::StoreError;
use crate::folder::Stamp;
use crate::rows::{CellRow, RunRow, Series};

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

/// A time of a series, with what a trend needs of its run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointRow {
    pub(crate) run: String,
    pub(crate) started_ms: i64,
    pub(crate) commit: Option<String>,
    pub(crate) committed_ms: Option<i64>,
    pub(crate) changed: bool,
    pub(crate) machine: String,
    pub(crate) session: i64,
    pub(crate) baseline: String,
    pub(crate) seconds: f64,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) blocks: Vec<f64>,
}

/// A run to add.
#[derive(Debug, Clone)]
pub(crate) struct NewRun {
    pub(crate) run: RunRow,
    pub(crate) cells: Vec<CellRow>,
    /// Its file, if the index is that of a folder.
    pub(crate) file: Option<Stamp>,
}

/// The index of a history.
pub(crate) trait Index {
    /// Where it is, for messages.
    fn place(&self) -> String;
    /// Adds runs with their measurements, each whole or not at all; false for those that are there.
    fn add(&mut self, runs: &[NewRun]) -> Result<Vec<bool>, StoreError>;
    /// Removes a run with its measurements.
    fn remove(&mut self, id: &str) -> Result<(), StoreError>;
    /// The files that were indexed, by run id.
    fn files(&mut self) -> Result<BTreeMap<String, Stamp>, StoreError>;
    /// The run with this id.
    fn run(&mut self, id: &str) -> Result<Option<RunRow>, StoreError>;
    /// All runs, by the date of the commit or else of the run.
    fn runs(&mut self) -> Result<Vec<RunRow>, StoreError>;
    fn machines(&mut self) -> Result<Vec<Machine>, StoreError>;
    fn workloads(&mut self) -> Result<Vec<String>, StoreError>;
    /// The series of a workload.
    fn series(&mut self, workload: &str) -> Result<Vec<Series>, StoreError>;
    /// The measurements of a run.
    fn cells(&mut self, id: &str) -> Result<Vec<CellRow>, StoreError>;
    /// The times of a series, in no order.
    fn points(&mut self, series: i64) -> Result<Vec<PointRow>, StoreError>;
}

/// Numbers as little-endian bytes.
pub(crate) fn to_bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Numbers from little-endian bytes; what is no whole number is left out.
pub(crate) fn from_bytes(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
}

/// Axis values as JSON.
pub(crate) fn params_text(params: &BTreeMap<String, String>) -> String {
    serde_json::to_string(params).unwrap_or_default()
}

/// Axis values from JSON; none if it is not readable.
pub(crate) fn params(text: &str) -> BTreeMap<String, String> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Defines what reads a row of a database, whose columns are in the order of the queries in `schema`.
macro_rules! readers {
    ($row:ty, $error:ty, $get:ident) => {
        fn series_of(row: &$row) -> Result<Series, $error> {
            Ok(Series {
                workload: row.$get(0)?,
                case: row.$get(1)?,
                params: params(&row.$get::<_, String>(2)?),
                implementation: row.$get(3)?,
                device: row.$get(4)?,
                caches: row.$get(5)?,
            })
        }

        fn cell_of(row: &$row) -> Result<CellRow, $error> {
            Ok(CellRow {
                series: series_of(row)?,
                baseline: row.$get(6)?,
                session: row.$get(7)?,
                status: row.$get(8)?,
                seconds: row.$get(9)?,
                low: row.$get(10)?,
                high: row.$get(11)?,
                blocks: from_bytes(&row.$get::<_, Vec<u8>>(12)?),
            })
        }

        fn run_of(row: &$row) -> Result<RunRow, $error> {
            Ok(RunRow {
                id: row.$get(0)?,
                started_ms: row.$get(1)?,
                commit: row.$get(2)?,
                committed_ms: row.$get(3)?,
                changed: row.$get::<_, i64>(4)? != 0,
                machine: row.$get(5)?,
                cpu: row.$get(6)?,
                cores: row.$get(7)?,
                ellwand: row.$get(8)?,
                command: row.$get(9)?,
                cells: row.$get(10)?,
            })
        }

        fn point_of(row: &$row) -> Result<PointRow, $error> {
            Ok(PointRow {
                run: row.$get(0)?,
                started_ms: row.$get(1)?,
                commit: row.$get(2)?,
                committed_ms: row.$get(3)?,
                changed: row.$get::<_, i64>(4)? != 0,
                machine: row.$get(5)?,
                session: row.$get(6)?,
                baseline: row.$get(7)?,
                seconds: row.$get(8)?,
                low: row.$get(9)?,
                high: row.$get(10)?,
                blocks: from_bytes(&row.$get::<_, Vec<u8>>(11)?),
            })
        }
    };
}
pub(crate) use readers;
