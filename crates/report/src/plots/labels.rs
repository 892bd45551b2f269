//! Where the names of points go, so that they lie on nothing else.

use super::picture::{Area, At};

/// Height of a name.
const SIZE: f64 = 12.0;
/// Pixels between the rows of places further off, and how many of them there are above and below a point.
const ROW: f64 = 18.0;
const FURTHEST: u8 = 12;
/// Pixels between two places at which a name may not touch a line.
const STEP: f64 = 4.0;

/// A name with its place.
pub(super) struct Name<'a> {
    pub(super) point: At,
    /// Where its baseline starts.
    pub(super) at: At,
    pub(super) text: &'a str,
    /// Where a line from the point to a name further off ends.
    pub(super) leader: Option<At>,
}

/// Places names, given with their points and widths, on the first side where each touches neither another name nor a point
/// nor one of the `lines`. One that finds no room is left out rather than made unreadable.
pub(super) fn beside<'a>(points: &[(At, &'a str, f64)], lines: &[(At, At)], plot: Area) -> Vec<Name<'a>> {
    let round = |x: f64, y: f64, r: f64| Area { left: x - r, top: y - r, right: x + r, bottom: y + r };
    let mut taken: Vec<Area> = points.iter().map(|((x, y), ..)| round(*x, *y, 6.0)).collect();
    taken.extend(lines.iter().flat_map(|(from, to)| {
        let steps = ((to.0 - from.0).hypot(to.1 - from.1) / STEP).ceil().max(1.0);
        let at = move |i: f64| round(from.0 + (to.0 - from.0) * i / steps, from.1 + (to.1 - from.1) * i / steps, 2.0);
        (0..=steps as u16).map(move |i| at(f64::from(i)))
    }));
    let mut names = Vec::new();
    for &((x, y), text, width) in points {
        let boxed = |(left, base): At| Area { left, top: base - SIZE, right: left + width, bottom: base + 3.0 };
        let free = places(x, y, width).find(|(at, _)| {
            let own = boxed(*at);
            let inside =
                own.left >= plot.left && own.right <= plot.right && own.top >= plot.top && own.bottom <= plot.bottom;
            inside && !taken.iter().any(|other| overlap(&own, other))
        });
        let Some((at, off)) = free else { continue };
        let near = if at.0 > x { at.0 - 3.0 } else { at.0 + width + 3.0 };
        names.push(Name { point: (x, y), at, text, leader: off.then_some((near, at.1 - 4.0)) });
        taken.push(boxed(at));
    }
    names
}

/// Places of a name around a point, the best first, and whether each is further off.
fn places(x: f64, y: f64, width: f64) -> impl Iterator<Item = (At, bool)> {
    let (right, left, middle) = (x + 8.0, x - 8.0 - width, x - width / 2.0);
    let sides = [(right + 2.0, y + 4.0), (left - 2.0, y + 4.0), (middle, y - 11.0), (middle, y + 20.0)];
    let corners = [(right, y - 9.0), (right, y + 18.0), (left, y - 9.0), (left, y + 18.0)];
    let rows = (1..=FURTHEST).flat_map(|rows| [-ROW * f64::from(rows), ROW * f64::from(rows)]);
    let off = rows.flat_map(move |dy| {
        [26.0, 60.0, 110.0].into_iter().flat_map(move |dx| [(x + dx, y + dy), (x - dx - width, y + dy)])
    });
    let near = sides.into_iter().chain(corners).chain([(middle, y - 26.0), (middle, y + 36.0)]);
    near.map(|at| (at, false)).chain(off.map(|at| (at, true)))
}

fn overlap(a: &Area, b: &Area) -> bool {
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLOT: Area = Area { left: 0.0, top: 0.0, right: 800.0, bottom: 600.0 };

    proptest! {
        #[test]
        fn names_overlap_nothing(
            points in proptest::collection::vec((0.0..800.0_f64, 0.0..600.0_f64, 20.0..200.0_f64), 1..20),
            lines in proptest::collection::vec(((0.0..800.0_f64, 0.0..600.0_f64), (0.0..800.0_f64, 0.0..600.0_f64)), 0..4),
        ) {
            let points: Vec<(At, &str, f64)> = points.iter().map(|(x, y, width)| ((*x, *y), "", *width)).collect();
            let names = beside(&points, &lines, PLOT);
            let width = |name: &Name| points.iter().find(|(at, ..)| *at == name.point).map_or(0.0, |point| point.2);
            let boxes: Vec<Area> = names
                .iter()
                .map(|name| Area { left: name.at.0, top: name.at.1 - SIZE, right: name.at.0 + width(name), bottom: name.at.1 })
                .collect();
            for (index, own) in boxes.iter().enumerate() {
                prop_assert!(own.left >= 0.0 && own.right <= 800.0 && own.top >= 0.0 && own.bottom <= 600.0);
                prop_assert!(boxes[..index].iter().all(|other| !overlap(own, other)));
                let covers = |(x, y): At| own.left < x && x < own.right && own.top < y && y < own.bottom;
                prop_assert!(points.iter().all(|(at, ..)| !covers(*at)));
                prop_assert!(lines.iter().all(|(from, to)| !covers(*from) && !covers(*to)));
            }
        }
    }

    #[test]
    fn a_name_with_room_is_next_to_its_point_and_crowded_ones_are_all_shown() {
        let names = beside(&[((400.0, 300.0), "one", 60.0)], &[], PLOT);
        assert_eq!((names[0].at, names[0].leader), ((410.0, 304.0), None));
        let points: Vec<(At, &str, f64)> = (0..4).map(|i| ((400.0, 300.0 + f64::from(i)), "name", 60.0)).collect();
        let roof = ((0.0, 298.0), (800.0, 298.0));
        let names = beside(&points, &[roof], PLOT);
        assert_eq!(names.len(), 4);
        assert!(names.iter().all(|name| name.at.1 + 3.0 < roof.0.1 || name.at.1 - SIZE > roof.0.1));
    }
}
