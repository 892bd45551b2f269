//! A picture drawn with kuva: texts, lines and data, written as SVG and PNG. What kuva does otherwise than plots need is
//! mended here and nowhere else.

use kuva::backend::svg::SvgBackend;
use kuva::plot::{LinePlot, LineStyle, MarkerShape, ScatterPlot};
use kuva::render::layout::{ComputedLayout, Layout};
pub(super) use kuva::render::plots::Plot as Drawn;
pub(super) use kuva::render::render::TextAnchor;
use kuva::render::render::{Primitive, Scene, TextSpan, render_multiple};

use super::axis::Axis;
use super::chart::{LIMIT, Style};
use crate::units::clean;

pub(super) const INK: &str = "#222222";
pub(super) const GREY: &str = "#666666";
pub(super) const GRID: &str = "#dddddd";
pub(super) const FAINT: &str = "#f0f0f0";

/// Okabe and Ito's palette, which people with any of the common forms of colour blindness can distinguish.
const COLORS: [&str; 7] = ["#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const DASHES: [&str; 6] = ["", "9 4", "2.5 3", "11 3.5 2.5 3.5", "16 5", "5 2.5"];
/// With the factors that make them look alike in size.
const MARKERS: [(MarkerShape, f64); 6] = [
    (MarkerShape::Circle, 1.0),
    (MarkerShape::Square, 0.9),
    (MarkerShape::Triangle, 1.3),
    (MarkerShape::Diamond, 1.0),
    (MarkerShape::TriangleDown, 1.3),
    (MarkerShape::Star, 1.4),
];

/// Length of the piece of line in front of a name.
pub(super) const SAMPLE: f64 = 34.0;

/// A position in pixels.
pub(super) type At = (f64, f64);

/// A rectangle in pixels.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(super) fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + self.width() * axis.position(value)
    }

    pub(super) fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * axis.position(value)
    }
}

/// A finished picture.
pub(super) struct Picture(Scene);

impl Picture {
    /// An empty picture.
    pub(super) fn new(width: f64, height: f64) -> Self {
        let mut scene = Scene::new(width, height);
        scene.font_family = Some("DejaVu Sans, Verdana, sans-serif".into());
        Self(scene)
    }

    /// Text stays text in it, so that it can be searched and read aloud.
    pub(super) fn svg(&self, title: &str) -> String {
        let svg = SvgBackend::new().with_pretty(true).render_scene(&self.0);
        let (width, height) = (self.0.width, self.0.height);
        let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        // Without a view box a page cannot scale it, and without a title nobody can read it aloud.
        let head = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\"");
        svg.replacen("<svg", &head, 1).replacen(">\n", &format!(">\n<title>{title}</title>\n"), 1)
    }

    /// At `zoom` pixels a unit.
    #[cfg(feature = "png")]
    pub(super) fn png(mut self, zoom: f64) -> Result<Vec<u8>, String> {
        // kuva's PNG does not scale dashes and lengthens each by the width of its line.
        for element in &mut self.0.elements {
            if let Primitive::PolyLine { stroke_dasharray: Some(dash), stroke_width: width, .. }
            | Primitive::Line { stroke_dasharray: Some(dash), stroke_width: width, .. } = element
            {
                let lengths = dash.split(' ').filter_map(|length| length.parse::<f64>().ok());
                let ends = [-*width, *width].into_iter().cycle();
                let scaled = lengths.zip(ends).map(|(length, ends)| (zoom * (length + ends)).max(0.1).to_string());
                *dash = scaled.collect::<Vec<_>>().join(" ");
            }
        }
        kuva::RasterBackend::new().with_scale(zoom as f32).render_scene(&self.0)
    }

    /// Text that starts, ends or is centred at `at`; `at.1` is its baseline.
    pub(super) fn text(&mut self, at: At, text: &str, size: u32, anchor: TextAnchor, color: &str) {
        self.turned(at, text, size, anchor, color, None);
    }

    pub(super) fn turned(
        &mut self,
        at: At,
        text: &str,
        size: u32,
        anchor: TextAnchor,
        color: &str,
        rotate: Option<f64>,
    ) {
        let (content, color) = (literal(text), Some(color.into()));
        self.0.add(Primitive::Text { x: at.0, y: at.1, content, size, anchor, rotate, bold: false, color });
    }

    /// As spans, since kuva's PNG has no other bold text.
    pub(super) fn bold(&mut self, at: At, text: &str, size: u32, anchor: TextAnchor) {
        let spans = vec![TextSpan { bold: true, ..TextSpan::plain(clean(text)) }];
        self.0.add(Primitive::RichText { x: at.0, y: at.1, spans, size, anchor, color: Some(INK.into()) });
    }

    pub(super) fn line(&mut self, from: At, to: At, width: f64, color: &str, dash: &str) {
        self.0.add(Primitive::Line {
            x1: from.0,
            y1: from.1,
            x2: to.0,
            y2: to.1,
            stroke: color.into(),
            stroke_width: width,
            stroke_dasharray: (!dash.is_empty()).then(|| dash.into()),
        });
    }

    /// Draws plots over `area`, whose edges are the ends of the axes.
    pub(super) fn data(&mut self, area: Area, x: At, y: At, plots: Vec<Drawn>) {
        let mut layout = Layout::new(x, y)
            .with_width(area.width())
            .with_height(area.bottom - area.top)
            .with_x_axis_min(x.0)
            .with_x_axis_max(x.1)
            .with_y_axis_min(y.0)
            .with_y_axis_max(y.1)
            .with_force_margins(0.0, 0.0)
            .with_force_margins_y(0.0, 0.0)
            .with_show_grid(false)
            .with_axis_line_width(0.0);
        (layout.suppress_x_ticks, layout.suppress_y_ticks) = (true, true);
        let transform = Some(format!("translate({:.2},{:.2})", area.left, area.top));
        self.0.add(Primitive::GroupStart { transform, title: None, extra_attrs: None });
        for mut element in render_multiple(plots, layout).elements {
            // kuva has one width for whiskers, hardly visible.
            if let Primitive::Line { stroke_width, .. } = &mut element {
                *stroke_width *= 1.4;
            }
            match element {
                // Nothing lies outside, and the number of a clip depends on what was drawn before.
                Primitive::ClipStart { .. } | Primitive::ClipEnd => {}
                Primitive::Line { stroke_width: 0.0, .. } => {}
                element => self.0.add(element),
            }
        }
        self.0.add(Primitive::GroupEnd);
    }

    /// A piece of line with the marker in front of a name. Returns where the name begins.
    pub(super) fn sample(&mut self, at: At, style: Style, joined: bool) -> f64 {
        let length = if joined { SAMPLE } else { 14.0 };
        let area = Area { left: at.0, top: at.1 - 9.0, right: at.0 + length, bottom: at.1 + 9.0 };
        let mut plots = Vec::new();
        if joined {
            plots.push(path(style, [(0.0, 0.5), (1.0, 0.5)]));
        }
        plots.extend(markers(style, 5.0, vec![(0.5, 0.5)]));
        self.data(area, (0.0, 1.0), (0.0, 1.0), plots);
        at.0 + length + 8.0
    }
}

pub(super) fn color(style: Style) -> &'static str {
    if style.number >= LIMIT { GREY } else { COLORS[style.number % COLORS.len()] }
}

pub(super) fn path(style: Style, points: impl IntoIterator<Item = At>) -> Drawn {
    let dash = DASHES[(style.number % LIMIT + 3 * style.run) % DASHES.len()];
    let style_of = if dash.is_empty() { LineStyle::Solid } else { LineStyle::Custom(dash.into()) };
    LinePlot::new().with_data(points).with_color(color(style)).with_line_style(style_of).into()
}

/// A line of one point draws only its error bars.
pub(super) fn whisker(style: Style, at: At) -> LinePlot {
    LinePlot::new().with_data([at]).with_color(color(style))
}

/// Markers with a white rim; after six forms, and in every second run, they are hollow. Limits have none.
pub(super) fn markers(style: Style, radius: f64, points: Vec<At>) -> Vec<Drawn> {
    if style.number >= LIMIT {
        return Vec::new();
    }
    let (shape, factor) = MARKERS[style.number % MARKERS.len()];
    let layer = |size: f64, color: &str| {
        ScatterPlot::new()
            .with_data(points.clone())
            .with_marker(shape)
            .with_size(factor * size)
            .with_color(color)
            .into()
    };
    let mut layers: Vec<Drawn> = vec![layer(radius + 0.8, "#ffffff"), layer(radius, color(style))];
    if (style.number / MARKERS.len() + style.run) % 2 == 1 {
        layers.push(layer(radius * 0.62, "#ffffff"));
    }
    layers
}

/// Width of `text` in pixels. kuva shows the widths of its font only as the room that names of categories take.
pub(super) fn width(text: &str, size: u32) -> f64 {
    let layout = Layout::new((0.0, 1.0), (0.0, 1.0)).with_tick_size(size).with_y_categories(vec![clean(text)]);
    ComputedLayout::from_layout(&layout).y_tick_label_px
}

/// `text` cut to `room` pixels, with an ellipsis where something was cut.
pub(super) fn cut(text: &str, size: u32, room: f64) -> String {
    let mut kept: Vec<char> = text.chars().collect();
    let mut shorter = text.to_string();
    while width(&shorter, size) > room && kept.pop().is_some() {
        shorter = format!("{}…", kept.iter().collect::<String>().trim_end());
    }
    shorter
}

/// `text` in lines of at most `room` pixels, broken between its parts.
pub(super) fn wrapped(text: &str, size: u32, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split(" · ").filter(|part| !part.is_empty()) {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} · {part}"), size) <= room => *line = format!("{line} · {part}"),
            _ => lines.push(part.to_string()),
        }
    }
    lines.iter().map(|line| cut(line, size, room)).collect()
}

/// kuva reads text between dollars as mathematics, and XML has no place for control characters.
pub(super) fn literal(text: &str) -> String {
    clean(text).replace('$', "\\$")
}
