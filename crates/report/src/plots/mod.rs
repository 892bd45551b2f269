//! Plots as SVG and PNG, drawn from the model.
//!
//! `figures` decides what is shown, `chart` are its types, `draw` lays them out, and `picture` draws with the crate
//! kuva. Colour, marker and line style each distinguish series; nothing needs a system font.

#[cfg(feature = "plots")]
mod axis;
#[cfg_attr(not(feature = "plots"), expect(dead_code, reason = "figures are counted but not drawn"))]
mod chart;
#[cfg(feature = "plots")]
mod draw;
mod figures;
#[cfg(feature = "plots")]
mod labels;
mod names;
#[cfg(feature = "plots")]
mod picture;

pub use names::PlotNames;

use crate::{Report, ReportError};

/// Pixels of the raster form for a unit of the vector form: sharp on dense screens and in print.
#[cfg(feature = "png")]
const ZOOM: f64 = 1.5;

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
    /// The raster form; none without the feature `png`.
    pub png: Option<Vec<u8>>,
}

/// No plots, since the feature `plots` is off; see [`undrawn`].
///
/// # Errors
/// Never.
#[cfg(not(feature = "plots"))]
pub fn draw(_: &Report) -> Result<Vec<Plot>, ReportError> {
    Ok(Vec::new())
}

/// How many plots the report has data for that [`draw`] leaves out, because the feature `plots` is off.
pub fn undrawn(report: &Report) -> usize {
    if cfg!(feature = "plots") { 0 } else { figures::figures(report).len() }
}

/// Draws every plot that the report has data for; none without the feature `plots`.
///
/// # Errors
/// When a plot cannot be encoded.
#[cfg(feature = "plots")]
pub fn draw(report: &Report) -> Result<Vec<Plot>, ReportError> {
    let one = |figure: chart::Figure| {
        let picture = picture::Picture::of(&figure);
        let svg = picture.svg(&figure.title);
        #[cfg(feature = "png")]
        let png = {
            let failed = |problem| ReportError::Plot { name: figure.name.clone(), problem };
            Some(picture.png(ZOOM).map_err(failed)?)
        };
        #[cfg(not(feature = "png"))]
        let png = None;
        Ok(Plot { svg, png, name: figure.name, title: figure.title, workload: figure.workload })
    };
    figures::figures(report).into_iter().map(one).collect()
}
