//! A picture as a list of shapes, from which SVG and PNG are made, so both show exactly the same.

/// Red, green, blue.
pub(super) type Color = [u8; 3];

pub(super) const INK: Color = [0x22, 0x22, 0x22];
pub(super) const GREY: Color = [0x66, 0x66, 0x66];
pub(super) const GRID: Color = [0xdd, 0xdd, 0xdd];
pub(super) const FAINT: Color = [0xf0, 0xf0, 0xf0];
pub(super) const WHITE: Color = [0xff, 0xff, 0xff];

/// Which point of a text is at the given position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone)]
pub(super) enum Shape {
    Line {
        points: Vec<(f32, f32)>,
        width: f32,
        color: Color,
        dash: &'static [f32],
    },
    /// A closed polygon with its outline.
    Polygon {
        points: Vec<(f32, f32)>,
        fill: Color,
        stroke: Color,
        width: f32,
    },
    Circle {
        centre: (f32, f32),
        radius: f32,
        fill: Color,
        stroke: Color,
        width: f32,
    },
    Text {
        at: (f32, f32),
        text: String,
        size: f32,
        bold: bool,
        anchor: Anchor,
        color: Color,
        upwards: bool,
    },
}

/// A picture and its size.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) title: String,
    pub(super) shapes: Vec<Shape>,
}

impl Scene {
    pub(super) fn new(width: f32, height: f32, title: &str) -> Self {
        Self { width, height, title: title.to_string(), shapes: Vec::new() }
    }

    pub(super) fn line(&mut self, points: Vec<(f32, f32)>, width: f32, color: Color, dash: &'static [f32]) {
        self.shapes.push(Shape::Line { points, width, color, dash });
    }

    pub(super) fn segment(&mut self, from: (f32, f32), to: (f32, f32), width: f32, color: Color) {
        self.line(vec![from, to], width, color, &[]);
    }

    /// Adds text that starts, ends or is centred at `at`; `at.1` is its baseline.
    pub(super) fn text(&mut self, at: (f32, f32), text: &str, size: f32, anchor: Anchor, color: Color) {
        self.styled(at, text, size, anchor, color, false, false);
    }

    pub(super) fn bold(&mut self, at: (f32, f32), text: &str, size: f32, anchor: Anchor) {
        self.styled(at, text, size, anchor, INK, true, false);
    }

    /// Adds text that reads upwards, centred at `at`.
    pub(super) fn upwards(&mut self, at: (f32, f32), text: &str, size: f32) {
        self.styled(at, text, size, Anchor::Middle, INK, false, true);
    }

    #[allow(clippy::too_many_arguments)] // All parts of a text; the methods above are shorthands.
    fn styled(
        &mut self,
        at: (f32, f32),
        text: &str,
        size: f32,
        anchor: Anchor,
        color: Color,
        bold: bool,
        upwards: bool,
    ) {
        self.shapes.push(Shape::Text { at, text: text.to_string(), size, bold, anchor, color, upwards });
    }
}
