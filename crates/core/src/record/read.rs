//! Lines of a record: writing one, and reading a whole file whatever state it was left in.

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
    /// Its first line, with the views of commands that went on with the record.
    pub run: Run,
    /// Its measurements. Where a cell stands twice (a resumed run), the last one holds.
    pub measurements: Vec<Measurement>,
    /// Its comparisons, in the order made.
    pub comparisons: Vec<Comparison>,
    /// The command lines that went on with it after the first, in order.
    pub resumed: Vec<Vec<String>>,
    /// What was recorded inside implementations, in runs of their own; the last of a cell holds.
    pub spans: Vec<Spans>,
    /// What was odd about the file: a cut last line, lines of a kind this version does not know, dates that run backwards.
    pub warnings: Vec<String>,
}

/// Why a text is not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// There is no line at all.
    #[error("the record is empty; expected JSON lines that start with a line of kind \"run\"")]
    Empty,
    /// The first line is not a run.
    #[error("line 1 is not the start of a record ({0}); expected a JSON object of kind \"run\"")]
    NoRun(String),
    /// It was written by a later version.
    #[error("the record has format version {found}, this program reads up to {VERSION}; use a newer Ellwand")]
    Newer {
        /// Version of the file.
        found: u32,
    },
    /// A line in the middle cannot be read.
    #[error("line {line}: {problem}; the record is damaged there")]
    Damaged {
        /// Line number, from 1.
        line: usize,
        /// What the parser said.
        problem: String,
    },
}

/// The line of a record that holds `entry`, without the line end.
///
/// # Errors
/// When a number cannot be written as JSON.
pub fn line<'a>(entry: impl Into<Entry<'a>>) -> Result<String, serde_json::Error> {
    let out = match entry.into() {
        Entry::Run(run) => LineOut::Run(run),
        Entry::Measurement(measurement) => LineOut::Measurement(measurement),
        Entry::Comparison(comparison) => LineOut::Comparison(comparison),
        Entry::Spans(spans) => LineOut::Spans(spans),
    };
    serde_json::to_string(&out)
}

/// Something that becomes a line of a record.
pub enum Entry<'a> {
    /// The first line.
    Run(&'a Run),
    /// A measurement.
    Measurement(&'a Measurement),
    /// A comparison.
    Comparison(&'a Comparison),
    /// Components of an implementation.
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

/// What is said of a command that went on with a record and is dated before the one it goes on from.
fn set_back(before: u64, now: u64, line: usize) -> Option<String> {
    let seconds = before.checked_sub(now).filter(|back| *back > 0)? as f64 * 1e-3;
    Some(format!(
        "line {line} goes on with the record and is dated {seconds:.1} s before the command that it follows: the clock on the wall was set back; times are read from another clock"
    ))
}

/// Reads a record. A last line that was cut off is left out with a warning, since the program may have been killed while
/// writing it; a damaged line elsewhere is an error.
///
/// # Errors
/// See [`RecordError`].
pub fn parse(text: &str) -> Result<Record, RecordError> {
    let mut lines = text.split_inclusive('\n').enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, first) = lines.next().ok_or(RecordError::Empty)?;
    let head: Head = serde_json::from_str(first).map_err(|error| RecordError::NoRun(error.to_string()))?;
    if head.kind != "run" {
        return Err(RecordError::NoRun(format!("it is of kind \"{}\"", head.kind)));
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
            // A resumed run appends its own first line: the measurements after it were made by that command.
            Ok(head) if head.kind == "run" => match serde_json::from_str::<Run>(text) {
                Ok(run) => {
                    record.warnings.extend(set_back(last_start, run.started_unix_ms, number));
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
            Ok(head) => record.warnings.push(format!(
                "line {number} is of kind \"{}\", which this version does not know; left out",
                head.kind
            )),
            Err(_) if cut => {
                record.warnings.push(format!("line {number} was cut off while it was being written; left out"))
            }
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
