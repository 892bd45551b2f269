//! The look of series: colour, marker and line style, each of which alone distinguishes them.

use super::scene::{Color, GREY, INK, Scene, Shape, WHITE};

/// The Okabe-Ito palette, distinguishable with all common forms of colour blindness.
const COLORS: [Color; 7] = [
    [0x00, 0x00, 0x00],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x72, 0xb2],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
];

const DASHES: [&[f32]; 6] = [&[], &[9.0, 4.0], &[2.5, 3.0], &[11.0, 3.5, 2.5, 3.5], &[16.0, 5.0], &[5.0, 2.5]];

/// The look of a series: the number of its subject and of its run. The same subject keeps its colour and marker in
/// another run, with a different fill and line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) number: usize,
    pub(super) run: usize,
}

/// Numbers from here on mean limits, not results: grey lines without markers.
pub(super) const LIMIT: usize = 1000;

impl Style {
    pub(super) fn color(self) -> Color {
        if self.number >= LIMIT {
            return GREY;
        }
        COLORS[self.number % COLORS.len()]
    }

    pub(super) fn dash(self) -> &'static [f32] {
        DASHES[(self.number % LIMIT + 3 * self.run) % DASHES.len()]
    }

    /// Draws the marker at `at`. After six shapes they repeat, hollow.
    pub(super) fn marker(self, scene: &mut Scene, at: (f32, f32), r: f32) {
        if self.number >= LIMIT {
            return;
        }
        let (x, y) = at;
        let hollow = (self.number / 6 + self.run) % 2 == 1;
        let (fill, stroke) = if hollow { (WHITE, self.color()) } else { (self.color(), WHITE) };
        let width = if hollow { 1.6 } else { 0.8 };
        let polygon = |points: Vec<(f32, f32)>| Shape::Polygon { points, fill, stroke, width };
        let shape = match self.number % 6 {
            0 => Shape::Circle { centre: at, radius: r, fill, stroke, width },
            1 => {
                let s = r * 0.9;
                polygon(vec![(x - s, y - s), (x + s, y - s), (x + s, y + s), (x - s, y + s)])
            }
            2 => {
                let s = r * 1.2;
                polygon(vec![(x, y - s), (x + s, y + 0.75 * s), (x - s, y + 0.75 * s)])
            }
            3 => {
                let s = r * 1.3;
                polygon(vec![(x, y - s), (x + s, y), (x, y + s), (x - s, y)])
            }
            4 => {
                let s = r * 1.2;
                polygon(vec![(x, y + s), (x + s, y - 0.75 * s), (x - s, y - 0.75 * s)])
            }
            _ => {
                // Outline of a plus.
                let (l, t) = (r * 1.3, r * 0.45);
                let outline = [
                    (-t, -l),
                    (t, -l),
                    (t, -t),
                    (l, -t),
                    (l, t),
                    (t, t),
                    (t, l),
                    (-t, l),
                    (-t, t),
                    (-l, t),
                    (-l, -t),
                    (-t, -t),
                ];
                polygon(outline.iter().map(|(dx, dy)| (x + dx, y + dy)).collect())
            }
        };
        scene.shapes.push(shape);
    }

    /// A whisker from `low` to `high` at `x`, with caps.
    pub(super) fn whisker(self, scene: &mut Scene, x: f32, low: f32, high: f32) {
        // A whisker hidden by its marker only makes it look thicker.
        if (low - high).abs() < 1.0 {
            return;
        }
        let color = self.color();
        scene.segment((x, low), (x, high), 1.4, color);
        for y in [low, high] {
            scene.segment((x - 4.0, y), (x + 4.0, y), 1.4, color);
        }
    }

    /// Draws a line sample with the marker for a legend, starting at `x`. Returns its right end.
    pub(super) fn sample(self, scene: &mut Scene, x: f32, y: f32, joined: bool) -> f32 {
        let length = if joined { 34.0 } else { 14.0 };
        if joined {
            scene.line(vec![(x, y), (x + length, y)], 2.0, self.color(), self.dash());
        }
        self.marker(scene, (x + length / 2.0, y), 5.0);
        x + length
    }
}

/// Ink for everything outside a series.
pub(super) const NEUTRAL: Color = INK;
