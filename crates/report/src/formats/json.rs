//! JSON: the whole model. Numbers are written so that they parse to the same bits; an unavailable value is `null` with
//! a reason next to it, never 0.

use std::io::Write;

use crate::{Report, ReportError};

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)?;
    Ok(())
}
