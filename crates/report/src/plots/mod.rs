//! Plots as PNG and SVG, drawn from the model.
//!
//! `figures` decides what is shown, `chart`, `lines` and `dots` lay it out as a scene of lines and texts, and `svg` and
//! `png` write the same scene. Colour, marker and line style each tell series apart; nothing needs a system font.

mod axis;
mod chart;
mod dots;
mod figures;
mod font;
mod labels;
mod lines;
mod names;
#[cfg(feature = "png")]
mod png;
mod scene;
mod style;
mod svg;

pub use names::PlotNames;

use crate::{Report, ReportError};

/// Pixels of the raster form for a unit of the vector form: sharp on dense screens and in print.
#[cfg(feature = "png")]
const ZOOM: f32 = 1.5;

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

/// Draws every plot that the report has data for.
///
/// # Errors
/// When a plot cannot be encoded.
pub fn draw(report: &Report) -> Result<Vec<Plot>, ReportError> {
    let fonts = font::Fonts::load()?;
    let one = |figure: chart::Figure| {
        let scene = figure.scene(&fonts);
        #[cfg(feature = "png")]
        let png = Some(
            png::png(&scene, &fonts, ZOOM)
                .map_err(|problem| ReportError::Plot { name: figure.name.clone(), problem })?,
        );
        #[cfg(not(feature = "png"))]
        let png = None;
        Ok(Plot { svg: svg::svg(&scene), png, name: figure.name, title: figure.title, workload: figure.workload })
    };
    figures::figures(report).into_iter().map(one).collect()
}
