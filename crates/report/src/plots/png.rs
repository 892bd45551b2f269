//! Renders a scene as PNG, anti-aliased.

use tiny_skia::{FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};
use ttf_parser::OutlineBuilder;

use super::font::{Fonts, advance, scale};
use super::scene::{Anchor, Color, Scene, Shape};
use crate::ReportError;

/// Encodes the scene of the plot `name` at `zoom` pixels per unit.
pub(super) fn png(name: &str, scene: &Scene, fonts: &Fonts, zoom: f32) -> Result<Vec<u8>, ReportError> {
    let failed = |problem: String| ReportError::Plot { name: name.into(), problem };
    let size = |length: f32| (length * zoom).round() as u32;
    let mut map =
        Pixmap::new(size(scene.width), size(scene.height)).ok_or_else(|| failed("the picture is too large".into()))?;
    map.fill(tiny_skia::Color::WHITE);
    let view = Transform::from_scale(zoom, zoom);
    for shape in &scene.shapes {
        match shape {
            Shape::Line { points, width, color, dash } => {
                if let Some(path) = polyline(points, false) {
                    map.stroke_path(&path, &paint(*color), &stroke(*width, dash), view, None);
                }
            }
            Shape::Polygon { points, fill, stroke: edge, width } => {
                if let Some(path) = polyline(points, true) {
                    map.fill_path(&path, &paint(*fill), FillRule::Winding, view, None);
                    map.stroke_path(&path, &paint(*edge), &stroke(*width, &[]), view, None);
                }
            }
            Shape::Circle { centre, radius, fill, stroke: edge, width } => {
                if let Some(path) = PathBuilder::from_circle(centre.0, centre.1, *radius) {
                    map.fill_path(&path, &paint(*fill), FillRule::Winding, view, None);
                    map.stroke_path(&path, &paint(*edge), &stroke(*width, &[]), view, None);
                }
            }
            Shape::Text { at, text, size, bold, anchor, color, upwards } => {
                let mut path = PathBuilder::new();
                outline(fonts, text, *size, *bold, &mut path);
                let Some(path) = path.finish() else { continue };
                let shift = fonts.width(text, *size, *bold)
                    * match anchor {
                        Anchor::Start => 0.0,
                        Anchor::Middle => -0.5,
                        Anchor::End => -1.0,
                    };
                let turn = if *upwards { Transform::from_rotate(-90.0) } else { Transform::identity() };
                let place = view.pre_translate(at.0, at.1).pre_concat(turn).pre_translate(shift, 0.0);
                map.fill_path(&path, &paint(*color), FillRule::Winding, place, None);
            }
        }
    }
    map.encode_png().map_err(|error| failed(error.to_string()))
}

fn polyline(points: &[(f32, f32)], close: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    let (first, rest) = points.split_first()?;
    path.move_to(first.0, first.1);
    rest.iter().for_each(|(x, y)| path.line_to(*x, *y));
    if close {
        path.close();
    }
    path.finish()
}

fn paint(color: Color) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(color[0], color[1], color[2], 255);
    paint
}

fn stroke(width: f32, dash: &[f32]) -> Stroke {
    Stroke {
        width,
        line_cap: LineCap::Butt,
        line_join: LineJoin::Round,
        dash: StrokeDash::new(dash.to_vec(), 0.0),
        ..Stroke::default()
    }
}

/// Adds the outlines of `text`, whose baseline starts at the origin.
fn outline(fonts: &Fonts, text: &str, size: f32, bold: bool, path: &mut PathBuilder) {
    let face = fonts.face(bold);
    let scale = scale(face, size);
    let mut x = 0.0;
    for c in text.chars() {
        let glyph = face.glyph_index(c).unwrap_or_default();
        face.outline_glyph(glyph, &mut Pen { path, scale, x });
        x += f32::from(advance(face, c)) * scale;
    }
}

/// Flips the y axis: it points up in fonts and down in images.
struct Pen<'a> {
    path: &'a mut PathBuilder,
    scale: f32,
    x: f32,
}

impl Pen<'_> {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Pen<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.path.close();
    }
}
