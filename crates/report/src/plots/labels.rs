//! Places labels so that they do not overlap.

use super::chart::Area;
use super::font::Fonts;
use super::scene::{Anchor, GREY, INK, Scene};

/// Heights close to the wanted ones, at least `gap` apart and between `top` and `bottom` if there is room.
pub(super) fn spread(wanted: &[f32], gap: f32, top: f32, bottom: f32) -> Vec<f32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut heights: Vec<f32> = wanted.to_vec();
    // Down from the top, then back up from the bottom.
    let mut free = top;
    for index in &order {
        heights[*index] = heights[*index].max(free);
        free = heights[*index] + gap;
    }
    let mut limit = bottom;
    for index in order.iter().rev() {
        heights[*index] = heights[*index].min(limit);
        limit = heights[*index] - gap;
    }
    heights
}

const SIZE: f32 = 12.0;
/// Distance in pixels between rows of distant label positions, and number of rows above and below a point.
const ROW: f32 = 18.0;
const FURTHEST: u8 = 12;
/// Distance in pixels between the positions at which a line is tested for overlap.
const STEP: f32 = 4.0;

/// A straight line in pixels.
type Segment = ((f32, f32), (f32, f32));

/// A text next to a point.
pub(super) struct Label<'a> {
    pub(super) at: (f32, f32),
    pub(super) text: &'a str,
    /// The series of the point; added to the text where another point is nearly as close.
    pub(super) of: Option<&'a str>,
}

/// Distance in pixels from a point within which a label without a leader line ends.
const NEAR: f32 = 44.0;

/// Writes each label next to its point, at the first position where it overlaps no other label, point of `others` or line
/// of `lines`. A label without a free position is omitted.
pub(super) fn place_labels(
    points: &[Label<'_>],
    others: &[(f32, f32)],
    lines: &[Segment],
    plot: Area,
    fonts: &Fonts,
    scene: &mut Scene,
) {
    let round = |x: f32, y: f32, r: f32| Area { left: x - r, top: y - r, right: x + r, bottom: y + r };
    let mut taken: Vec<Area> = points.iter().map(|label| round(label.at.0, label.at.1, 6.0)).collect();
    taken.extend(lines.iter().flat_map(|(from, to)| {
        let steps = ((to.0 - from.0).hypot(to.1 - from.1) / STEP).ceil().max(1.0);
        let at = move |i: f32| round(from.0 + (to.0 - from.0) * i / steps, from.1 + (to.1 - from.1) * i / steps, 2.0);
        (0..=steps as u16).map(move |i| at(f32::from(i)))
    }));
    for Label { at: (x, y), text, of } in points {
        // More than one point this close: the marker of the label's own series, and others.
        let close = others.iter().filter(|other| (other.0 - x).hypot(other.1 - y) < NEAR).count() > 1;
        let text = match of {
            Some(of) if close => &format!("{text} {of}"),
            _ => *text,
        };
        let width = fonts.width(text, SIZE, false);
        let sides = [
            (x + 10.0, y + 4.0),
            (x - 10.0 - width, y + 4.0),
            (x - width / 2.0, y - 11.0),
            (x - width / 2.0, y + 20.0),
            (x + 8.0, y - 9.0),
            (x + 8.0, y + 18.0),
            (x - 8.0 - width, y - 9.0),
            (x - 8.0 - width, y + 18.0),
            (x - width / 2.0, y - 26.0),
            (x - width / 2.0, y + 36.0),
        ];
        // Further away with a leader line, for crowded points.
        let far = (1..=FURTHEST).flat_map(|rows| [-ROW * f32::from(rows), ROW * f32::from(rows)]);
        let off = far.flat_map(|dy| {
            [26.0, 60.0, 110.0].into_iter().flat_map(move |dx| [(x + dx, y + dy), (x - dx - width, y + dy)])
        });
        let boxed =
            |(left, base): &(f32, f32)| Area { left: *left, top: base - SIZE, right: left + width, bottom: base + 3.0 };
        let mut all = sides.into_iter().map(|side| (side, false)).chain(off.map(|side| (side, true)));
        let free = all.find(|(side, _)| {
            let own = boxed(side);
            let inside =
                own.left >= plot.left && own.right <= plot.right && own.top >= plot.top && own.bottom <= plot.bottom;
            inside && !taken.iter().any(|other| overlap(&own, other))
        });
        if let Some((side, off)) = free {
            if off {
                let near = if side.0 > *x { side.0 - 3.0 } else { side.0 + width + 3.0 };
                scene.line(vec![(*x, *y), (near, side.1 - 4.0)], 0.8, GREY, &[1.5, 2.5]);
            }
            scene.text(side, text, SIZE, Anchor::Start, INK);
            taken.push(boxed(&side));
        }
    }
}

fn overlap(a: &Area, b: &Area) -> bool {
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spread_texts_keep_their_distance_and_order(wanted in proptest::collection::vec(0.0_f32..600.0, 1..12)) {
            let heights = spread(&wanted, 20.0, 0.0, 600.0);
            let mut order: Vec<usize> = (0..wanted.len()).collect();
            order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
            for pair in order.windows(2) {
                prop_assert!(heights[pair[1]] - heights[pair[0]] >= 19.99, "{:?}", heights);
            }
            prop_assert!(heights.iter().all(|height| (-0.01..=600.01).contains(height)));
        }
    }

    #[test]
    fn labels_of_close_points_overlap_neither_lines_nor_each_other() {
        let fonts = Fonts::load().unwrap();
        let plot = Area { left: 0.0, top: 0.0, right: 800.0, bottom: 600.0 };
        let points: Vec<Label<'_>> = ["one", "two", "three", "four"]
            .iter()
            .zip(0_u8..)
            .map(|(text, i)| Label { at: (400.0, 300.0 + f32::from(i)), text, of: None })
            .collect();
        // A roof through the first position of each label, and a whisker above all labels.
        let lines = [((0.0, 298.0), (800.0, 298.0)), ((400.0, 250.0), (400.0, 350.0))];
        let mut scene = Scene::new(800.0, 600.0, "");
        place_labels(&points, &[], &lines, plot, &fonts, &mut scene);
        let svg = super::super::svg::svg(&scene);
        for Label { text, .. } in points {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        let texts: Vec<f32> = svg
            .split("<text")
            .skip(1)
            .filter_map(|text| text.split(" y=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(texts.len(), 4, "{svg}");
        assert!(texts.iter().all(|base| base + 3.0 < 298.0 || base - SIZE > 298.0), "{texts:?}");
    }

    #[test]
    fn a_mark_names_its_series_where_other_points_are_close() {
        let fonts = Fonts::load().unwrap();
        let plot = Area { left: 0.0, top: 0.0, right: 800.0, bottom: 600.0 };
        let label = |x: f32, y: f32| Label { at: (x, y), text: "≤", of: Some("quick") };
        let mut scene = Scene::new(800.0, 600.0, "");
        let markers = [(100.0, 300.0), (100.0, 310.0), (500.0, 300.0), (500.0, 500.0)];
        place_labels(&[label(100.0, 300.0), label(500.0, 300.0)], &markers, &[], plot, &fonts, &mut scene);
        let svg = super::super::svg::svg(&scene);
        assert_eq!((svg.matches(">≤ quick<").count(), svg.matches(">≤<").count()), (1, 1), "{svg}");
    }

    #[test]
    fn texts_that_have_room_stay() {
        assert_eq!(spread(&[100.0, 50.0], 20.0, 0.0, 600.0), [100.0, 50.0]);
    }
}
