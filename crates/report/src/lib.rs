//! Turns records into reports: terminal table, CSV, JSON, Markdown and plots.
//!
//! A report depends on records alone. [`Report::from_records`] computes the model once, and every format prints its
//! numbers, so no two formats can disagree. Nothing here prints: a format writes to any [`std::io::Write`].

mod diagnose;
mod error;
mod files;
mod formats;
mod grid;
mod model;
mod plots;
pub mod units;

pub use diagnose::{
    Class, Confidence, Diagnosis, DiagnosisRule, Evidence, Finding, Lever, Limit, Part, RULES, Saving, place,
};
pub use error::ReportError;
pub use files::{existing_files, pictures, write_all};
pub use formats::{FORMATS, Format, format};
#[cfg(feature = "page")]
pub use formats::{html, page_model};
pub use grid::wrap;
pub use model::{
    AlongAxis, AxisInfo, Beside, Best, Bound, CaseInfo, ComparisonInfo, Growth, HeldUp, MachineInfo, MachineRow,
    Machines, MetricValue, Options, Remark, Report, Row, RunInfo, Section, SpanRow, SpanTable, Speedup, Stats, Status,
};
pub use plots::{Plot, draw, undrawn};
#[cfg(feature = "plots")]
pub use plots::{Trend, TrendPoint, draw_trend};

/// JSON Schema (draft 2020-12) of the lines of a record in format version 1.
pub const RECORD_SCHEMA: &str = include_str!("../schema/record-v1.schema.json");
