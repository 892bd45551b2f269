//! Figures of one or more panels with a common title, legend and footer.

use super::axis::Axis;
use super::font::Fonts;
use super::scene::{Anchor, GREY, Scene};
use super::style::Style;
use super::{dots, lines};

/// A point of a series with the ends of its whisker.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Text next to the point.
    pub(super) label: Option<String>,
}

/// A named sequence of points.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) label: String,
    pub(super) style: Style,
    /// True if a line joins the points.
    pub(super) joined: bool,
    pub(super) points: Vec<Point>,
}

/// Label, unit and scale of an axis.
#[derive(Debug, Clone, Default)]
pub(super) struct Scale {
    pub(super) label: String,
    pub(super) unit: String,
    pub(super) log: bool,
    /// If not empty, the only values with ticks.
    pub(super) at: Vec<f64>,
    /// If not empty, the labels of these ticks.
    pub(super) names: Vec<String>,
}

/// A panel of points over a numeric axis.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    pub(super) title: String,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) series: Vec<Series>,
    /// A horizontal line with a label, such as the baseline of speed-ups.
    pub(super) reference: Option<(f64, String)>,
}

/// One row of a dot chart.
#[derive(Debug, Clone)]
pub(super) struct Dot {
    pub(super) label: String,
    pub(super) style: Style,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// The value as text, next to the dot.
    pub(super) text: String,
}

/// A dot chart: rows of labels and values, grouped under headings.
#[derive(Debug, Clone)]
pub(super) struct Dots {
    pub(super) scale: Scale,
    pub(super) groups: Vec<(String, Vec<Dot>)>,
    pub(super) reference: Option<f64>,
    /// True to draw bars that begin at 0 instead of dots.
    pub(super) bars: bool,
}

/// The content of a figure.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Lines(Vec<Lines>),
    Dots(Dots),
}

/// A figure before drawing.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) footer: String,
    pub(super) workload: Option<String>,
    pub(super) body: Body,
}

/// A rectangle in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub(super) left: f32,
    pub(super) top: f32,
    pub(super) right: f32,
    pub(super) bottom: f32,
}

impl Area {
    pub(super) fn x(&self, axis: &Axis, value: f64) -> f32 {
        self.left + (self.right - self.left) * axis.position(value) as f32
    }

    pub(super) fn y(&self, axis: &Axis, value: f64) -> f32 {
        self.bottom - (self.bottom - self.top) * axis.position(value) as f32
    }
}

const WIDTH: f32 = 1200.0;
const MARGIN: f32 = 26.0;
const FOOTER: f32 = 34.0;
const SUBTITLE: f32 = 13.0;
const NOTE: f32 = 12.0;
/// Height of a further line of the footer.
const LINE: f32 = 16.0;

impl Figure {
    pub(super) fn scene(&self, fonts: &Fonts) -> Scene {
        let subtitle = broken(&self.subtitle, SUBTITLE, 2, fonts);
        let footer = broken(&self.footer, NOTE, 3, fonts);
        let head = 52.0 + 19.0 * subtitle.len() as f32;
        let body = match &self.body {
            Body::Lines(panels) => lines::height(panels, fonts, WIDTH - 2.0 * MARGIN),
            Body::Dots(chart) => dots::height(chart),
        };
        let foot = FOOTER + LINE * footer.len().saturating_sub(1) as f32;
        let height = head + body + foot;
        let mut scene = Scene::new(WIDTH, height, &self.title);
        let room = WIDTH - 2.0 * MARGIN;
        scene.bold((MARGIN, 38.0), &fonts.cut(&self.title, 20.0, true, room), 20.0, Anchor::Start);
        for (index, line) in subtitle.iter().enumerate() {
            scene.text((MARGIN, 60.0 + 19.0 * index as f32), line, SUBTITLE, Anchor::Start, GREY);
        }
        let area = Area { left: MARGIN, top: head, right: WIDTH - MARGIN, bottom: height - foot };
        match &self.body {
            Body::Lines(panels) => lines::draw(panels, area, fonts, &mut scene),
            Body::Dots(chart) => dots::draw(chart, area, fonts, &mut scene),
        }
        for (index, line) in footer.iter().rev().enumerate() {
            scene.text((MARGIN, height - 14.0 - LINE * index as f32), line, NOTE, Anchor::Start, GREY);
        }
        scene
    }
}

/// A text in at most `most` lines, broken between its parts.
fn broken(text: &str, size: f32, most: usize, fonts: &Fonts) -> Vec<String> {
    let room = WIDTH - 2.0 * MARGIN;
    let mut lines: Vec<String> = Vec::new();
    for part in text.split(" · ").filter(|part| !part.is_empty()) {
        let full = lines.len() == most;
        match lines.last_mut() {
            Some(line) if full || fonts.width(&format!("{line} · {part}"), size, false) <= room => {
                *line = format!("{line} · {part}");
            }
            _ => lines.push(part.to_string()),
        }
    }
    lines.iter().map(|line| fonts.cut(line, size, false, room)).collect()
}
