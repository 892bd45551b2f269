//! The font of the plots: widths for the layout, outlines for the raster form.

use tiny_skia::PathBuilder;
use ttf_parser::{Face, OutlineBuilder};

use crate::ReportError;

/// Regular and bold face.
pub(super) struct Fonts {
    regular: Face<'static>,
    bold: Face<'static>,
}

impl Fonts {
    pub(super) fn load() -> Result<Self, ReportError> {
        let face = |data| {
            Face::parse(data, 0).map_err(|error| ReportError::Plot {
                name: "all".into(),
                problem: format!("the font cannot be read: {error}"),
            })
        };
        Ok(Self { regular: face(dejavu::sans::regular())?, bold: face(dejavu::sans::bold())? })
    }

    fn face(&self, bold: bool) -> &Face<'static> {
        if bold { &self.bold } else { &self.regular }
    }

    /// Width of `text` in pixels.
    pub(super) fn width(&self, text: &str, size: f32, bold: bool) -> f32 {
        let face = self.face(bold);
        let units: u32 = text.chars().map(|c| u32::from(advance(face, c))).sum();
        units as f32 * scale(face, size)
    }

    /// `text` cut to `room` pixels, with an ellipsis where something was cut.
    pub(super) fn cut(&self, text: &str, size: f32, bold: bool, room: f32) -> String {
        if self.width(text, size, bold) <= room {
            return text.to_string();
        }
        let mut kept: Vec<char> = text.chars().collect();
        while !kept.is_empty() {
            kept.pop();
            let shorter = format!("{}…", kept.iter().collect::<String>().trim_end());
            if self.width(&shorter, size, bold) <= room {
                return shorter;
            }
        }
        String::new()
    }

    /// Adds the outlines of `text`, whose baseline starts at the origin.
    pub(super) fn outline(&self, text: &str, size: f32, bold: bool, path: &mut PathBuilder) {
        let face = self.face(bold);
        let scale = scale(face, size);
        let mut x = 0.0;
        for c in text.chars() {
            let glyph = face.glyph_index(c).unwrap_or_default();
            face.outline_glyph(glyph, &mut Pen { path, scale, x });
            x += f32::from(advance(face, c)) * scale;
        }
    }
}

fn scale(face: &Face<'_>, size: f32) -> f32 {
    size / f32::from(face.units_per_em())
}

fn advance(face: &Face<'_>, c: char) -> u16 {
    face.glyph_hor_advance(face.glyph_index(c).unwrap_or_default()).unwrap_or(0)
}

/// Font units have y upwards; pictures have it downwards.
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
