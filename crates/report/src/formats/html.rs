//! HTML: one offline page that shows the model.

use std::io::Write;

use crate::model::curves::curves;
use crate::{Report, ReportError};

/// Writes the page of a report, with the views of its domains.
///
/// # Errors
/// When `out` fails.
pub fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let mut model = serde_json::to_value(report)?;
    if let Some(model) = model.as_object_mut() {
        model.insert("views".into(), serde_json::to_value(&report.views)?);
        model.insert("curves".into(), serde_json::to_value(curves(report))?);
    }
    Ok(ellwand_page::run_page(&model, out)?)
}
