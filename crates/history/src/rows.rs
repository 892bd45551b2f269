//! The rows of a record in the index: one for the run, one for each measurement.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ellwand_core::Measurement;
use ellwand_core::case::Fnv;
use ellwand_core::record::{Basis, Record, Revision};
use ellwand_core::stats::{mean_interval, median, median_interval};
use serde::Serialize;

/// A run, from the first line of its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunRow {
    /// Id of the run.
    pub id: String,
    /// Start in milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// Commit of the sources; `None` if the record has none.
    pub commit: Option<String>,
    /// Date of the commit, in milliseconds since 1970-01-01 UTC.
    pub committed_ms: Option<i64>,
    /// True if files differed from the commit.
    pub changed: bool,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Model name of the CPU.
    pub cpu: String,
    /// Logical CPUs that the machine has.
    pub cores: i64,
    /// Version of Ellwand.
    pub ellwand: String,
    /// The command line.
    pub command: String,
    /// Number of measurements, including those without a time.
    pub cells: i64,
}

/// A recurring measurement: an implementation at a case on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Series {
    /// Name of the workload.
    pub workload: String,
    /// Id of the case.
    pub case: String,
    /// Axis values as text, by axis.
    pub params: BTreeMap<String, String>,
    /// Name of the implementation.
    pub implementation: String,
    /// Id of the device.
    pub device: String,
    /// State of the caches when a slot starts.
    pub caches: String,
}

impl Series {
    /// 64-bit digest of what identifies the series: its key in every index. Among a million series, two share a key
    /// with a probability of 3e-8.
    pub fn key(&self) -> i64 {
        digest(&[&self.case, &self.implementation, &self.device, &self.caches])
    }
}

/// Order of series; cases are ordered numerically if the values of an axis are numbers.
pub(crate) fn by_number(one: &Series, other: &Series) -> Ordering {
    let number = |text: &String| text.parse::<f64>().ok();
    let value = |(a, x): (&String, &String), (b, y): (&String, &String)| {
        let values = number(x).zip(number(y)).map_or_else(|| x.cmp(y), |(x, y)| x.total_cmp(&y));
        a.cmp(b).then(values)
    };
    let pairs = one.params.iter().zip(&other.params).map(|(x, y)| value(x, y));
    let params = || pairs.fold(Ordering::Equal, Ordering::then);
    let rest = |series: &Series| (series.case.clone(), series.implementation.clone(), series.device.clone());
    one.workload.cmp(&other.workload).then_with(params).then_with(|| rest(one).cmp(&rest(other)))
}

/// The key of a run in every index.
pub(crate) fn run_key(id: &str) -> i64 {
    digest(&[id])
}

fn digest(parts: &[&str]) -> i64 {
    let mut hash = Fnv::new();
    parts.iter().for_each(|part| hash.text(part));
    hash.finish().cast_signed()
}

/// A measurement of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellRow {
    /// What was measured.
    #[serde(flatten)]
    pub series: Series,
    /// The default baseline of the case.
    pub baseline: String,
    /// Index of the command that made it. Only times of the same command are related.
    pub session: i64,
    /// `measured`, `unsupported`, `wrong`, `failed` or `below-resolution`.
    pub status: String,
    /// Median time of an iteration; `None` unless the status is `measured`.
    pub seconds: Option<f64>,
    /// Lower end of its 95 % interval: over processes, or over samples if there was one process.
    pub low: Option<f64>,
    /// Upper end of that interval.
    pub high: Option<f64>,
    /// Natural logarithm of the median time of each process.
    pub blocks: Vec<f64>,
    /// Commit of the sources for the command that made it.
    pub commit: Option<String>,
    /// Date of that commit.
    pub committed_ms: Option<i64>,
    /// True if files differed from it.
    pub changed: bool,
}

/// The rows of a record.
pub fn rows(record: &Record) -> (RunRow, Vec<CellRow>) {
    let run = &record.run;
    let revision = |session: usize| match session.checked_sub(1) {
        None => run.revision.as_ref(),
        Some(at) => record.resumed_revisions.get(at)?.as_ref(),
    };
    let cells = record.measurements.iter().map(|row| cell(row, revision(row.session)));
    let cells: Vec<CellRow> = cells.collect();
    let row = RunRow {
        id: run.id.clone(),
        started_ms: ms(run.started_unix_ms),
        commit: run.revision.as_ref().map(|revision| revision.commit.clone()),
        committed_ms: run.revision.as_ref().map(|revision| ms(revision.committed_unix_ms)),
        changed: run.revision.as_ref().is_some_and(|revision| revision.changed),
        machine: run.environment.fingerprint(),
        cpu: run.environment.cpu.clone(),
        cores: i64::from(run.environment.cores),
        ellwand: run.ellwand.clone(),
        command: run.command.join(" "),
        cells: cells.len() as i64,
    };
    (row, cells)
}

fn ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn cell(measurement: &Measurement, revision: Option<&Revision>) -> CellRow {
    let case = &measurement.case;
    let params = case.params.iter().chain(&case.neutral);
    let timed = measurement.outcome.is_measured() && !measurement.below_resolution();
    let samples = if timed { measurement.all_seconds() } else { Vec::new() };
    let seconds = median(&samples).filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    let blocks = if seconds.is_some() { blocks(measurement) } else { Vec::new() };
    let interval = seconds.and_then(|seconds| {
        let (low, high) = match mean_interval(&blocks, 0.95) {
            Ok(interval) => (interval.low().exp(), interval.high().exp()),
            Err(_) => median_interval(&samples, 0.95)?,
        };
        Some((low.min(seconds), high.max(seconds)))
    });
    let status = if measurement.outcome.is_measured() && seconds.is_none() {
        "below-resolution"
    } else {
        measurement.outcome.word()
    };
    CellRow {
        series: Series {
            workload: case.workload.clone(),
            case: case.id.clone(),
            params: params.map(|param| (param.axis.clone(), param.value.to_string())).collect(),
            implementation: measurement.implementation.clone(),
            device: measurement.device.clone(),
            caches: measurement.caches.word().to_string(),
        },
        baseline: measurement.baseline.clone(),
        session: measurement.session as i64,
        status: status.to_string(),
        seconds,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        blocks,
        commit: revision.map(|revision| revision.commit.clone()),
        committed_ms: revision.map(|revision| ms(revision.committed_unix_ms)),
        changed: revision.is_some_and(|revision| revision.changed),
    }
}

/// Natural logarithm of the median time of each process, in the order of the processes.
fn blocks(measurement: &Measurement) -> Vec<f64> {
    let seconds = measurement.basis.unwrap_or(Basis::Wall).by_process(&measurement.samples);
    seconds.into_values().map(f64::ln).filter(|value| value.is_finite()).collect()
}
