//! The font of the plots and its glyph widths; `png` draws the outlines.

use ttf_parser::Face;

use crate::ReportError;

/// The regular and the bold face.
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

    pub(super) fn face(&self, bold: bool) -> &Face<'static> {
        if bold { &self.bold } else { &self.regular }
    }

    /// Width of `text` in pixels.
    pub(super) fn width(&self, text: &str, size: f32, bold: bool) -> f32 {
        let face = self.face(bold);
        let units: u32 = text.chars().map(|c| u32::from(advance(face, c))).sum();
        units as f32 * scale(face, size)
    }

    /// `text` cut to `room` pixels, with an ellipsis if anything was cut.
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
}

pub(super) fn scale(face: &Face<'_>, size: f32) -> f32 {
    size / f32::from(face.units_per_em())
}

pub(super) fn advance(face: &Face<'_>, c: char) -> u16 {
    face.glyph_hor_advance(face.glyph_index(c).unwrap_or_default()).unwrap_or(0)
}
