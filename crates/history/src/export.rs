//! The history for other programs: JSON lines, CSV, and the exchange format of Bencher.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::StoreError;
use crate::rows::{CellRow, RunRow};
use crate::store::Store;

/// A format of exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// One JSON object a measurement.
    Jsonl,
    /// One row a measurement.
    Csv,
    /// Bencher Metric Format: one run, its times in nanoseconds.
    Bmf,
}

/// The formats by name.
pub const EXPORTS: [(&str, Export); 3] = [("jsonl", Export::Jsonl), ("csv", Export::Csv), ("bmf", Export::Bmf)];

#[derive(Serialize)]
struct Flat<'a> {
    run: &'a str,
    started_ms: i64,
    commit: Option<&'a str>,
    committed_ms: Option<i64>,
    changed: bool,
    machine: &'a str,
    cpu: &'a str,
    cores: i64,
    workload: &'a str,
    case: &'a str,
    implementation: &'a str,
    device: &'a str,
    caches: &'a str,
    baseline: &'a str,
    status: &'a str,
    seconds: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

impl<'a> Flat<'a> {
    fn new(run: &'a RunRow, cell: &'a CellRow) -> Self {
        Self {
            run: &run.id,
            started_ms: run.started_ms,
            commit: run.commit.as_deref(),
            committed_ms: run.committed_ms,
            changed: run.changed,
            machine: &run.machine,
            cpu: &run.cpu,
            cores: run.cores,
            workload: &cell.series.workload,
            case: &cell.series.case,
            implementation: &cell.series.implementation,
            device: &cell.series.device,
            caches: &cell.series.caches,
            baseline: &cell.baseline,
            status: &cell.status,
            seconds: cell.seconds,
            low: cell.low,
            high: cell.high,
        }
    }
}

impl Export {
    /// Writes all runs, or the one whose id begins with `run`. The format of Bencher holds one run: the newest, if none
    /// is named. Returns the number of measurements.
    ///
    /// # Errors
    /// If the history cannot be read, or `out` cannot be written.
    pub fn write(
        self,
        store: &mut Store,
        run: Option<&str>,
        out: &mut dyn Write,
    ) -> Result<io::Result<usize>, StoreError> {
        let runs = match run {
            Some(id) => vec![store.run(id)?.0],
            None if self == Export::Bmf => {
                store.runs()?.into_iter().max_by_key(|run| run.started_ms).into_iter().collect()
            }
            None => store.runs()?,
        };
        match self {
            Export::Jsonl => each(store, &runs, |run, cell| {
                let mut line = serde_json::to_value(Flat::new(run, cell))?;
                line["axes"] = serde_json::to_value(&cell.series.params)?;
                writeln!(out, "{line}")
            }),
            Export::Csv => {
                let mut table = csv::Writer::from_writer(out);
                let written = each(store, &runs, |run, cell| Ok(table.serialize(Flat::new(run, cell))?))?;
                Ok(table.flush().and(written))
            }
            Export::Bmf => {
                let mut all = Map::new();
                let count = each(store, &runs, |_, cell| {
                    let (name, measures) = benchmark(cell);
                    all.extend(measures.map(|measures| (name, measures)));
                    Ok(())
                })?;
                Ok(writeln!(out, "{:#}", Value::Object(all)).and(count))
            }
        }
    }
}

fn each(
    store: &mut Store,
    runs: &[RunRow],
    mut write: impl FnMut(&RunRow, &CellRow) -> io::Result<()>,
) -> Result<io::Result<usize>, StoreError> {
    let mut count = 0;
    for run in runs {
        for cell in store.cells(run)? {
            if let Err(error) = write(run, &cell) {
                return Ok(Err(error));
            }
            count += 1;
        }
    }
    Ok(Ok(count))
}

/// The name of a benchmark in Bencher, and its measures; none for a row without a time.
fn benchmark(cell: &CellRow) -> (String, Option<Value>) {
    let series = &cell.series;
    let device = if series.device == "cpu" { String::new() } else { format!("@{}", series.device) };
    let cold = if series.caches == "warm" { String::new() } else { format!(" {}", series.caches) };
    let ns = |seconds: f64| seconds * 1e9;
    let measures = cell.seconds.map(|seconds| {
        let mut latency = json!({ "value": ns(seconds) });
        if let (Some(low), Some(high)) = (cell.low, cell.high) {
            latency["lower_value"] = ns(low).into();
            latency["upper_value"] = ns(high).into();
        }
        json!({ "latency": latency })
    });
    (format!("{}:{}{device}{cold}", series.case, series.implementation), measures)
}
