//! JSON: the whole model. Numbers are written so that they parse to the same bits; an unavailable value is `null` with
//! a reason next to it, never 0.

use std::io::Write;

use serde::Serialize;

use super::parts::{self, Components};
use super::targets::{self, Judged};
use crate::{Report, ReportError};

/// The model, and what its views show.
#[derive(Serialize)]
pub(super) struct Whole<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// Parts of a whole with their shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    components: Vec<Components>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    targets: Vec<Judged>,
}

impl<'a> Whole<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        Self { report, components: parts::components(report), targets: targets::all(report) }
    }
}

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    serde_json::to_writer_pretty(&mut *out, &Whole::of(report))?;
    writeln!(out)?;
    Ok(())
}
