//! Lines of a record: writes one, and reads a whole file even if the last line is incomplete.

use std::collections::{HashMap, HashSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::seal::{self, Seal};
use super::{Comparison, Measurement, Revision, Run, Spans, VERSION};
use crate::view::View;

/// A record as read.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The first line, with the views of commands that resumed the record.
    pub run: Run,
    /// The measurements. If a cell occurs twice (a resumed run), only the last one is kept.
    pub measurements: Vec<Measurement>,
    /// The comparisons in file order.
    pub comparisons: Vec<Comparison>,
    /// Command lines of later runs that resumed this record, in file order.
    pub resumed: Vec<Vec<String>>,
    /// Commits of the sources for these runs.
    pub resumed_revisions: Vec<Option<Revision>>,
    /// Span recordings, from separate runs. If a cell occurs twice, only the last one is kept.
    pub spans: Vec<Spans>,
    /// Defects of the file: a truncated last line, lines of an unknown kind, dates that go backwards.
    pub warnings: Vec<String>,
    /// True if every line has a checksum and matches it. Older versions wrote none, so a changed digit goes unnoticed.
    pub checked: bool,
}

/// Why a text cannot be read as a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The text has no lines.
    #[error("the record is empty")]
    Empty,
    /// The first line is not a run.
    #[error("line 1 is not the start of a record: {0}")]
    NoRun(String),
    /// The record was written by a later version of Ellwand.
    #[error("the record has format version {found}, this program reads versions up to {VERSION}; use a newer Ellwand")]
    Newer {
        /// Format version of the file.
        found: u32,
    },
    /// A line other than the last cannot be parsed, or differs from its checksum.
    #[error("line {line}: {problem}; the record is damaged there{}", next_step(*line))]
    Damaged {
        /// Line number, starting at 1.
        line: usize,
        /// Message of the parser.
        problem: String,
    },
}

/// Advice for a damaged line. Without the first line, nothing can be read.
fn next_step(line: usize) -> &'static str {
    if line == 1 {
        "; restore it from a copy"
    } else {
        "; restore it from a copy, or delete that line to read the others"
    }
}

/// Serialises `entry` as one line of a record, without the line end.
///
/// # Errors
/// If a number has no JSON form.
pub fn line<'a>(entry: impl Into<Entry<'a>>) -> Result<String, serde_json::Error> {
    written(&entry.into())
}

/// Not generic: its callers compile no serialisation of records.
fn written(entry: &Entry<'_>) -> Result<String, serde_json::Error> {
    serde_json::to_string(entry)
}

/// The content of one line.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Entry<'a> {
    /// The first line, or the start of a resumed run.
    Run(&'a Run),
    /// One implementation at one case, with its raw samples.
    Measurement(&'a Measurement),
    /// The blocks of a baseline and a candidate at one case.
    Comparison(&'a Comparison),
    /// Spans of an implementation.
    Spans(&'a Spans),
}

macro_rules! entries {
    ($($kind:ident),*) => {$(
        impl<'a> From<&'a $kind> for Entry<'a> {
            fn from(entry: &'a $kind) -> Self {
                Entry::$kind(entry)
            }
        }
    )*};
}
entries!(Run, Measurement, Comparison, Spans);

#[derive(Deserialize)]
struct Head {
    kind: String,
    version: Option<u32>,
}

/// Warning for a resumed run whose start time precedes that of the run it resumes (the clock was set back).
fn clock_warning(before: u64, now: u64, line: usize) -> Option<String> {
    let seconds = before.checked_sub(now).filter(|back| *back > 0)? as f64 * 1e-3;
    Some(format!(
        "line {line} resumes the record but is dated {seconds:.1} s before the previous command: the system clock was set back. Measured times are unaffected"
    ))
}

/// Warning for a resumed run whose sources are another revision.
fn revision_warning(first: &Run, now: &Run, line: usize) -> Option<String> {
    let commit = |run: &Run| run.revision.as_ref().map(Revision::short);
    let (first, now) = (commit(first)?, commit(now)?);
    (first != now).then(|| {
        format!("line {line} resumes the record at commit {now}, it began at {first}: its results are of two revisions")
    })
}

/// Parses a record. A truncated last line is skipped with a warning, since the program may have been killed while
/// writing it; a damaged line elsewhere is an error.
///
/// # Errors
/// See [`RecordError`].
pub fn parse(text: &str) -> Result<Record, RecordError> {
    let mut lines = text.split_inclusive('\n').enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, first) = lines.next().ok_or(RecordError::Empty)?;
    let mut reader = Reader::begin(first)?;
    lines.try_for_each(|(index, line)| reader.line(index + 1, line))?;
    let Record { run, measurements, .. } = &mut reader.record;
    // In a merged record the shards follow one another.
    let cases = run.shard.iter().flat_map(|shard| &shard.cases);
    let places: HashMap<&str, usize> = cases.enumerate().map(|(place, case)| (case.as_str(), place)).collect();
    measurements.sort_by_key(|measurement| places.get(measurement.case.id.as_str()).copied());
    Ok(reader.record)
}

/// A record, as far as its lines have been read.
struct Reader {
    record: Record,
    /// Start of the last command in milliseconds since 1970.
    last_start: u64,
    /// True if the lines of the last command have checksums.
    sealed: bool,
}

impl Reader {
    fn begin(first: &str) -> Result<Self, RecordError> {
        let head: Head = serde_json::from_str(first).map_err(|error| RecordError::NoRun(error.to_string()))?;
        if head.kind != "run" {
            return Err(RecordError::NoRun(format!("its kind is \"{}\"", head.kind)));
        }
        match head.version {
            Some(found) if found > VERSION => return Err(RecordError::Newer { found }),
            Some(_) => {}
            None => return Err(RecordError::NoRun("it has no format version".into())),
        }
        let sealed = sealed(1, first)?;
        let run: Run = serde_json::from_str(first).map_err(|error| RecordError::NoRun(error.to_string()))?;
        let last_start = run.started_unix_ms;
        let record = Record {
            run,
            measurements: Vec::new(),
            comparisons: Vec::new(),
            resumed: Vec::new(),
            resumed_revisions: Vec::new(),
            spans: Vec::new(),
            warnings: Vec::new(),
            checked: sealed,
        };
        Ok(Self { record, last_start, sealed })
    }

    fn line(&mut self, number: usize, text: &str) -> Result<(), RecordError> {
        let head = match serde_json::from_str::<Head>(text) {
            Ok(head) => head,
            Err(_) if !text.ends_with('\n') => {
                self.record.warnings.push(format!("line {number} was cut off while being written; skipped"));
                return Ok(());
            }
            Err(error) => return Err(damaged(number, error)),
        };
        let sealed = sealed(number, text)?;
        if head.kind == "run" {
            self.sealed = sealed;
        } else if sealed != self.sealed {
            let which = if sealed { "the line of its run has lost its checksum" } else { "it has lost its checksum" };
            return Err(damaged(number, which));
        }
        self.record.checked &= sealed;
        self.entry(&head.kind, number, text)
    }

    fn entry(&mut self, kind: &str, number: usize, text: &str) -> Result<(), RecordError> {
        let record = &mut self.record;
        match kind {
            "measurement" => record.push(entry(number, text)?),
            "comparison" => record.comparisons.push(entry(number, text)?),
            "spans" => {
                let spans: Spans = entry(number, text)?;
                record.spans.retain(|known| known.cell() != spans.cell());
                record.spans.push(spans);
            }
            // A resumed run appends its own first line; the measurements after it belong to that command.
            "run" => {
                let run: Run = entry(number, text)?;
                record.warnings.extend(clock_warning(self.last_start, run.started_unix_ms, number));
                record.warnings.extend(revision_warning(&record.run, &run, number));
                self.last_start = run.started_unix_ms;
                View::join(&mut record.run.views, &run.views);
                record.resumed.push(run.command);
                record.resumed_revisions.push(run.revision);
            }
            other => record.warnings.push(format!("line {number} has the unknown kind \"{other}\"; skipped")),
        }
        Ok(())
    }
}

fn entry<T: DeserializeOwned>(number: usize, text: &str) -> Result<T, RecordError> {
    serde_json::from_str(text).map_err(|error| damaged(number, error))
}

fn damaged(line: usize, problem: impl ToString) -> RecordError {
    RecordError::Damaged { line, problem: problem.to_string() }
}

/// True if the line has a checksum; an error if the checksum does not match.
fn sealed(number: usize, text: &str) -> Result<bool, RecordError> {
    match seal::check(text) {
        Seal::Whole => Ok(true),
        Seal::Absent => Ok(false),
        Seal::Broken => Err(damaged(number, "it differs from its checksum, so it was changed after it was written")),
    }
}

impl Record {
    /// Rows that the first line lists, as `CASE IMPLEMENTATION`, without a measurement: the file was cut between two
    /// lines, or its task was stopped. Only the records of sweeps list their rows.
    pub fn lost_rows(&self) -> Vec<&str> {
        let there: HashSet<String> =
            self.measurements.iter().map(|one| format!("{} {}", one.case.id, one.implementation)).collect();
        let planned = self.run.shard.iter().flat_map(|shard| &shard.rows);
        planned.filter(|row| !there.contains(*row)).map(String::as_str).collect()
    }

    fn push(&mut self, mut measurement: Measurement) {
        measurement.session = self.resumed.len();
        let cell = measurement.cell();
        self.measurements.retain(|known| known.cell() != cell);
        self.measurements.push(measurement);
    }
}
