//! JSON: the whole model. Numbers are written so that they read back as the same bits; what is unavailable is `null`
//! with a reason beside it, never 0.

use std::io::Write;

use crate::{Report, ReportError};

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)?;
    Ok(())
}
