//! Exports the history for other programs: JSON lines, CSV, and Bencher's exchange format.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::error::StoreError;
use crate::rows::{CellRow, RunRow};
use crate::store::Store;

/// A format for exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// One JSON object per measurement.
    Jsonl,
    /// One row per measurement.
    Csv,
    /// Bencher Metric Format: one run, its times in nanoseconds.
    Bmf,
}

/// The formats and their names.
pub const EXPORTS: [(&str, Export); 3] = [("jsonl", Export::Jsonl), ("csv", Export::Csv), ("bmf", Export::Bmf)];

/// A measurement and its run, keyed by column name.
fn flat(run: &RunRow, cell: &CellRow) -> [(&'static str, Value); 19] {
    [
        ("run", json!(run.id)),
        ("started_ms", json!(run.started_ms)),
        ("commit", json!(cell.commit)),
        ("committed_ms", json!(cell.committed_ms)),
        ("changed", json!(cell.changed)),
        ("machine", json!(run.machine)),
        ("cpu", json!(run.cpu)),
        ("cores", json!(run.cores)),
        ("workload", json!(cell.series.workload)),
        ("case", json!(cell.series.case)),
        ("implementation", json!(cell.series.implementation)),
        ("device", json!(cell.series.device)),
        ("caches", json!(cell.series.caches)),
        ("baseline", json!(cell.baseline)),
        ("status", json!(cell.status)),
        ("seconds", json!(cell.seconds)),
        ("low", json!(cell.low)),
        ("high", json!(cell.high)),
        ("axes", json!(cell.series.params)),
    ]
}

/// Writes a line of CSV; quotes a cell with a comma, a quote or a line break (RFC 4180).
fn record(out: &mut dyn Write, cells: impl Iterator<Item = Value>) -> io::Result<()> {
    let text = |cell: Value| {
        let text = match cell {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    writeln!(out, "{}", cells.map(text).collect::<Vec<String>>().join(","))
}

impl Export {
    /// Writes all runs, or the one whose id begins with `run`. Bencher's format holds one run: by default the newest.
    /// Returns the number of measurements.
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
                let line = flat(run, cell).into_iter().map(|(name, value)| (name.to_string(), value));
                writeln!(out, "{}", Value::Object(line.collect()))
            }),
            Export::Csv => {
                let mut begun = false;
                each(store, &runs, |run, cell| {
                    let row = flat(run, cell);
                    if !std::mem::replace(&mut begun, true) {
                        record(out, row.iter().map(|(name, _)| (*name).into()))?;
                    }
                    record(out, row.into_iter().map(|(_, value)| value))
                })
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

/// The name of a benchmark in Bencher, and its measures; `None` for a row without a time.
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
