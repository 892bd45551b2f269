//! One row for each call path as CSV, for spreadsheets and data frames.

use std::io::{self, Write};

use ellwand_profile::{Row, Trace};

use super::folded::path;

type Column = (&'static str, fn(&Row) -> Option<String>);

/// The columns, named as in the JSON of a profile. An empty cell was not measured.
const COLUMNS: [Column; 27] = [
    ("path", |row| Some(path(row))),
    ("operation", |row| some(row.name())),
    ("kind", |row| some(row.kind.word())),
    ("file", |row| Some(row.file.clone()).filter(|file| !file.is_empty())),
    ("line", |row| Some(row.line).filter(|line| *line > 0).map(|line| line.to_string())),
    ("lanes", |row| some(row.lanes)),
    ("calls", |row| some(row.count)),
    ("open", |row| some(row.open)),
    ("total_ns", |row| some(row.total_ns)),
    ("self_ns", |row| some(row.self_ns)),
    ("min_ns", |row| call(row, row.min_ns)),
    ("mean_ns", |row| call(row, row.mean_ns)),
    ("std_ns", |row| call(row, row.std_ns)),
    ("p50_ns", |row| call(row, row.median_ns)),
    ("p90_ns", |row| call(row, row.p90_ns)),
    ("p99_ns", |row| call(row, row.p99_ns)),
    ("max_ns", |row| call(row, row.max_ns)),
    ("cpu_ns", |row| row.cpu_ns.and_then(some)),
    ("waiting_ns", |row| row.waiting_ns.and_then(some)),
    ("device_ns", |row| some(row.device_ns)),
    ("transfer_ns", |row| some(row.transfer_ns)),
    ("overhead_ns", |row| row.overhead_ns.and_then(some)),
    ("allocated_bytes", |row| some(row.memory?.allocated_bytes)),
    ("peak_bytes", |row| some(row.memory?.peak_bytes)),
    ("bytes", |row| work(row, row.counters.bytes)),
    ("items", |row| work(row, row.counters.items)),
    ("flops", |row| work(row, row.counters.flops)),
];

fn some(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

/// The duration of a call, if any ended.
fn call(row: &Row, ns: f64) -> Option<String> {
    (row.count > 0).then(|| ns.to_string())
}

/// Declared work, unless some of it was lost.
fn work(row: &Row, amount: impl ToString) -> Option<String> {
    (!row.lacks_work).then(|| amount.to_string())
}

pub(super) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(COLUMNS.map(|(name, _)| name))?;
    for row in trace.summary().rows {
        table.write_record(COLUMNS.map(|(_, of)| of(&row).unwrap_or_default()))?;
    }
    table.flush()
}
