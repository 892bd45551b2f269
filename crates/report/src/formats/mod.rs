//! Formats: one file each, one row each in [`FORMATS`]. All of them write numbers of the model and compute none.

use std::io::Write;

use crate::{Report, ReportError};

mod columns;
mod comparisons;
mod csv;
mod json;
mod jsonl;
mod markdown;
mod parts;
mod readings;
mod seed_json;
mod spans;
mod table;

pub(crate) use markdown::with_plots;
pub(crate) use spans::write_csv as spans_csv;

/// A way of writing a report.
pub struct Format {
    /// Name as given to `--format`.
    pub name: &'static str,
    /// Usual ending of a file, without the dot.
    pub extension: &'static str,
    /// One line for the help text.
    pub about: &'static str,
    /// Writes the report.
    pub write: fn(&Report, &mut dyn Write) -> Result<(), ReportError>,
}

/// Every format there is. To add one, write a file and add a row.
pub const FORMATS: &[Format] = &[
    Format {
        name: "table",
        extension: "txt",
        about: "tables for a terminal, with the most important advice",
        write: table::write,
    },
    Format {
        name: "csv",
        extension: "csv",
        about: "one line a measurement (a component, where there are only spans), exact numbers, units in the column names",
        write: csv::write,
    },
    Format {
        name: "json",
        extension: "json",
        about: "the whole report model with exact numbers and stable keys",
        write: json::write,
    },
    Format {
        name: "jsonl",
        extension: "jsonl",
        about: "one JSON object a measurement, then one an implementation with spans",
        write: jsonl::write,
    },
    Format {
        name: "markdown",
        extension: "md",
        about: "the full report: tables, comparison, diagnosis, advice",
        write: markdown::write,
    },
    Format {
        name: "seed-json",
        extension: "json",
        about: "measured rows with the keys of common benchmark scripts (operation, batch_size, time_ms, ..)",
        write: seed_json::write,
    },
];

/// The format with this name, or with this usual ending (`md`).
pub fn format(name: &str) -> Option<&'static Format> {
    let name = name.trim();
    let same = |known: &str| known.eq_ignore_ascii_case(name);
    FORMATS.iter().find(|format| same(format.name)).or_else(|| FORMATS.iter().find(|format| same(format.extension)))
}
