//! HTML: one offline page that shows the model.

use std::io::Write;

use crate::{Report, ReportError};

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let model = serde_json::to_value(report)?;
    Ok(ellwand_page::run_page(&model, out)?)
}
