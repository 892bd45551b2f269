//! Formats: one file and one row of [`FORMATS`] each. They print numbers of the model and compute nothing.

use std::io::Write;

use crate::{Report, ReportError};

mod columns;
mod comparisons;
mod csv;
#[cfg(feature = "page")]
mod html;
mod json;
mod jsonl;
mod machines;
mod markdown;
mod overview;
mod parts;
mod readings;
mod seed_json;
mod seed_table;
mod spans;
mod table;
mod targets;

#[cfg(feature = "page")]
pub use html::{page_model, write as html};
pub(crate) use markdown::{TITLE, with_plots};
#[cfg(feature = "plots")]
pub(crate) use parts::{Component, Components, components, heading};
pub(crate) use spans::write_csv as spans_csv;

/// A format in which a report can be written.
pub struct Format {
    /// Name given to `--format`.
    pub name: &'static str,
    /// Usual file extension, without the dot.
    pub extension: &'static str,
    /// One line for the help text.
    pub about: &'static str,
    /// Writes the report to a stream.
    pub write: fn(&Report, &mut dyn Write) -> Result<(), ReportError>,
}

/// All formats. To add one, write a file and add a row.
pub const FORMATS: &[Format] = &[
    Format {
        name: "table",
        extension: "txt",
        about: "tables for a terminal with the most important findings; `report --full` prints all columns, cases, readings and findings",
        write: table::write,
    },
    Format {
        name: "csv",
        extension: "csv",
        about: "one line per measurement (or per component, if there are only spans), exact numbers, units in the column names",
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
        about: "one JSON object per measurement, then one per implementation with spans",
        write: jsonl::write,
    },
    Format {
        name: "markdown",
        extension: "md",
        about: "the full report: tables, comparison, diagnosis, advice",
        write: markdown::write,
    },
    #[cfg(feature = "page")]
    Format {
        name: "html",
        extension: "html",
        about: "one offline page: distributions, scaling, roofline, verdicts, diagnosis",
        write: html::write,
    },
    Format {
        name: "seed-json",
        extension: "json",
        about: "measured rows with the keys of common benchmark scripts (operation, batch_size, time_ms, ..)",
        write: seed_json::write,
    },
    Format {
        name: "seed-table",
        extension: "txt",
        about: "the comparison that such scripts print: a table for each operation with the same values",
        write: seed_table::write,
    },
];

/// The format with this name or file extension (`md`).
pub fn format(name: &str) -> Option<&'static Format> {
    let name = name.trim();
    let same = |known: &str| known.eq_ignore_ascii_case(name);
    FORMATS.iter().find(|format| same(format.name)).or_else(|| FORMATS.iter().find(|format| same(format.extension)))
}
