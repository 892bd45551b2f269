//! Lines of a record: writes one, and reads a whole file even if the last line is incomplete.

use serde::{Deserialize, Serialize};

use super::{Comparison, Measurement, Run, Spans, VERSION};
use crate::view::View;

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum LineOut<'a> {
    Run(&'a Run),
    Measurement(&'a Measurement),
    Comparison(&'a Comparison),
    Spans(&'a Spans),
}

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
    /// Span recordings, from separate runs. If a cell occurs twice, only the last one is kept.
    pub spans: Vec<Spans>,
    /// Defects of the file: a truncated last line, lines of an unknown kind, dates that go backwards.
    pub warnings: Vec<String>,
}

/// Why a text cannot be read as a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The text has no lines.
    #[error("the record is empty; expected JSON lines that start with a line of kind \"run\"")]
    Empty,
    /// The first line is not a run.
    #[error("line 1 is not the start of a record ({0}); expected a JSON object of kind \"run\"")]
    NoRun(String),
    /// The record was written by a later version of Ellwand.
    #[error("the record has format version {found}, this program reads versions up to {VERSION}; use a newer Ellwand")]
    Newer {
        /// Format version of the file.
        found: u32,
    },
    /// A line other than the last cannot be parsed.
    #[error("line {line}: {problem}; the record is damaged there")]
    Damaged {
        /// Line number, starting at 1.
        line: usize,
        /// Message of the parser.
        problem: String,
    },
}

/// Serialises `entry` as one line of a record, without the line end.
///
/// # Errors
/// If a number has no JSON form.
pub fn line<'a>(entry: impl Into<Entry<'a>>) -> Result<String, serde_json::Error> {
    let out = match entry.into() {
        Entry::Run(run) => LineOut::Run(run),
        Entry::Measurement(measurement) => LineOut::Measurement(measurement),
        Entry::Comparison(comparison) => LineOut::Comparison(comparison),
        Entry::Spans(spans) => LineOut::Spans(spans),
    };
    serde_json::to_string(&out)
}

/// The content of one line.
pub enum Entry<'a> {
    /// The first line, or the start of a resumed run.
    Run(&'a Run),
    /// A measurement.
    Measurement(&'a Measurement),
    /// A comparison.
    Comparison(&'a Comparison),
    /// Spans of an implementation.
    Spans(&'a Spans),
}

impl<'a> From<&'a Run> for Entry<'a> {
    fn from(run: &'a Run) -> Self {
        Entry::Run(run)
    }
}
impl<'a> From<&'a Measurement> for Entry<'a> {
    fn from(measurement: &'a Measurement) -> Self {
        Entry::Measurement(measurement)
    }
}
impl<'a> From<&'a Comparison> for Entry<'a> {
    fn from(comparison: &'a Comparison) -> Self {
        Entry::Comparison(comparison)
    }
}
impl<'a> From<&'a Spans> for Entry<'a> {
    fn from(spans: &'a Spans) -> Self {
        Entry::Spans(spans)
    }
}

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

/// Parses a record. A truncated last line is skipped with a warning, since the program may have been killed while
/// writing it; a damaged line elsewhere is an error.
///
/// # Errors
/// See [`RecordError`].
pub fn parse(text: &str) -> Result<Record, RecordError> {
    let mut lines = text.split_inclusive('\n').enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, first) = lines.next().ok_or(RecordError::Empty)?;
    let head: Head = serde_json::from_str(first).map_err(|error| RecordError::NoRun(error.to_string()))?;
    if head.kind != "run" {
        return Err(RecordError::NoRun(format!("its kind is \"{}\"", head.kind)));
    }
    match head.version {
        Some(found) if found > VERSION => return Err(RecordError::Newer { found }),
        Some(_) => {}
        None => return Err(RecordError::NoRun("it has no format version".into())),
    }
    let run: Run = serde_json::from_str(first).map_err(|error| RecordError::NoRun(error.to_string()))?;
    let mut record = Record {
        run,
        measurements: Vec::new(),
        comparisons: Vec::new(),
        resumed: Vec::new(),
        spans: Vec::new(),
        warnings: Vec::new(),
    };
    let mut last_start = record.run.started_unix_ms;
    for (index, text) in lines {
        let number = index + 1;
        let cut = !text.ends_with('\n');
        match serde_json::from_str::<Head>(text) {
            Ok(head) if head.kind == "measurement" => match serde_json::from_str::<Measurement>(text) {
                Ok(measurement) => record.push(measurement),
                Err(error) => {
                    return Err(RecordError::Damaged { line: number, problem: error.to_string() });
                }
            },
            Ok(head) if head.kind == "comparison" => match serde_json::from_str::<Comparison>(text) {
                Ok(comparison) => record.comparisons.push(comparison),
                Err(error) => {
                    return Err(RecordError::Damaged { line: number, problem: error.to_string() });
                }
            },
            // A resumed run appends its own first line; the measurements after it belong to that command.
            Ok(head) if head.kind == "run" => match serde_json::from_str::<Run>(text) {
                Ok(run) => {
                    record.warnings.extend(clock_warning(last_start, run.started_unix_ms, number));
                    last_start = run.started_unix_ms;
                    View::join(&mut record.run.views, &run.views);
                    record.resumed.push(run.command);
                }
                Err(error) => {
                    return Err(RecordError::Damaged { line: number, problem: error.to_string() });
                }
            },
            Ok(head) if head.kind == "spans" => match serde_json::from_str::<Spans>(text) {
                Ok(spans) => {
                    record.spans.retain(|known| known.cell() != spans.cell());
                    record.spans.push(spans);
                }
                Err(error) => {
                    return Err(RecordError::Damaged { line: number, problem: error.to_string() });
                }
            },
            Ok(head) => record.warnings.push(format!("line {number} has the unknown kind \"{}\"; skipped", head.kind)),
            Err(_) if cut => record.warnings.push(format!("line {number} was cut off while being written; skipped")),
            Err(error) => {
                return Err(RecordError::Damaged { line: number, problem: error.to_string() });
            }
        }
    }
    Ok(record)
}

impl Record {
    fn push(&mut self, mut measurement: Measurement) {
        measurement.session = self.resumed.len();
        let cell = measurement.cell();
        self.measurements.retain(|known| known.cell() != cell);
        self.measurements.push(measurement);
    }
}
