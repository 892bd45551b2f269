//! Plots as PNG and SVG, drawn from the model.
//!
//! `figures` selects the content; `chart`, `lines` and `dots` lay it out as a scene of lines and texts; `svg` and `png`
//! write the same scene. Colour, marker and line style each distinguish series; no system font is needed.

#[cfg(feature = "plots")]
mod axis;
#[cfg(feature = "plots")]
mod chart;
#[cfg(feature = "plots")]
mod dots;
#[cfg(feature = "plots")]
mod figures;
#[cfg(feature = "plots")]
mod font;
#[cfg(feature = "plots")]
mod labels;
#[cfg(feature = "plots")]
mod lines;
#[cfg(feature = "png")]
mod png;
#[cfg(feature = "plots")]
mod scene;
#[cfg(feature = "plots")]
mod style;
#[cfg(feature = "plots")]
mod svg;
#[cfg(feature = "plots")]
mod trend;

#[cfg(feature = "plots")]
pub use trend::{Trend, TrendPoint};

use crate::{Report, ReportError};

/// Pixels of the PNG per unit of the SVG: sharp on high-density screens and in print.
#[cfg(feature = "png")]
const ZOOM: f32 = 1.5;

/// A finished plot.
#[derive(Debug, Clone)]
pub struct Plot {
    /// File name without extension.
    pub name: String,
    /// Description for a caption, or for a reader who cannot see the plot.
    pub title: String,
    /// The workload it shows; empty for plots over all workloads.
    pub workload: Option<String>,
    /// The plot as SVG.
    pub svg: String,
    /// The plot as PNG; `None` without the feature `png`.
    pub png: Option<Vec<u8>>,
}

/// True if [`draw`] would draw plots of the report, but the feature `plots` is off.
pub fn undrawn(report: &Report) -> bool {
    // Counting the plots would compile all code that draws them.
    let mut rows = report.workloads.iter().flat_map(|section| &section.rows);
    cfg!(not(feature = "plots")) && rows.any(|row| row.stats("time").is_some())
}

/// Draws no plots, because the feature `plots` is off; see [`undrawn`].
///
/// # Errors
/// Never.
#[cfg(not(feature = "plots"))]
pub fn draw(_: &Report) -> Result<Vec<Plot>, ReportError> {
    Ok(Vec::new())
}

/// Draws all plots for which the report has data.
///
/// # Errors
/// If a plot cannot be encoded.
#[cfg(feature = "plots")]
pub fn draw(report: &Report) -> Result<Vec<Plot>, ReportError> {
    let fonts = font::Fonts::load()?;
    figures::figures(report).into_iter().map(|figure| drawn(figure, &fonts)).collect()
}

#[cfg(feature = "plots")]
fn drawn(figure: chart::Figure, fonts: &font::Fonts) -> Result<Plot, ReportError> {
    let scene = figure.scene(fonts);
    #[cfg(feature = "png")]
    let png = Some(png::png(&figure.name, &scene, fonts, ZOOM)?);
    #[cfg(not(feature = "png"))]
    let png = None;
    Ok(Plot { svg: svg::svg(&scene), png, name: figure.name, title: figure.title, workload: figure.workload })
}

/// Draws a value by commit.
///
/// # Errors
/// If the plot cannot be encoded.
#[cfg(feature = "plots")]
pub fn draw_trend(trend: &Trend) -> Result<Plot, ReportError> {
    drawn(trend.figure(), &font::Fonts::load()?)
}
