//! Panels of points over a numeric axis: grid, ticks, series, whiskers, and labels at the ends of lines.

use std::collections::BTreeSet;

use super::axis::{Axis, Tick, tick_texts};
use super::chart::{Area, Lines, Point, Series};
use super::font::Fonts;
use super::labels::{self, Label};
use super::scene::{Anchor, FAINT, GREY, GRID, INK, Scene};
use super::style::NEUTRAL;

const TICK: f32 = 13.0;
const LABEL: f32 = 14.0;
const LEGEND: f32 = 34.0;

fn columns(panels: usize) -> usize {
    match panels {
        0 | 1 => 1,
        2 | 4 => 2,
        _ => 3,
    }
}

/// Total height of the panels in pixels if they are `width` wide.
pub(super) fn height(panels: &[Lines], fonts: &Fonts, width: f32) -> f32 {
    let rows = panels.len().div_ceil(columns(panels.len())).max(1) as f32;
    if panels.len() <= 1 {
        return 640.0;
    }
    let (_, legend) = legend(panels, fonts, width);
    legend + rows * if panels.len() <= 4 { 440.0 } else { 380.0 }
}

/// Draws the panels into `area`. All share one y range, so that heights are comparable.
pub(super) fn draw(panels: &[Lines], area: Area, fonts: &Fonts, scene: &mut Scene) {
    let every = || panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
    let reference = panels.iter().filter_map(|panel| panel.reference.as_ref().map(|(value, _)| *value));
    let heights = every().flat_map(|point| [point.low, point.y, point.high]).chain(reference);
    let Some(y) = Axis::over(heights, panels.iter().any(|panel| panel.y.log)) else { return };
    if let [panel] = panels {
        return alone(panel, &y, area, fonts, scene);
    }
    let (entries, legend) = legend(panels, fonts, area.right - area.left);
    for (series, name, x, y) in entries {
        let right = series.style.sample(scene, area.left + x, area.top + y + 12.0, series.joined);
        scene.text((right + 8.0, area.top + y + 17.0), &name, LABEL, Anchor::Start, INK);
    }
    let columns = columns(panels.len());
    let rows = panels.len().div_ceil(columns);
    let width = (area.right - area.left) / columns as f32;
    let tall = (area.bottom - area.top - legend) / rows as f32;
    let size = title_size(panels, fonts, width - 110.0);
    for (index, panel) in panels.iter().enumerate() {
        let (column, row) = (index % columns, index / columns);
        let (left, top) = (area.left + width * column as f32, area.top + legend + tall * row as f32);
        let own = Area { left, top: top + 30.0, right: left + width - 14.0, bottom: top + tall - 8.0 };
        if let Some((plot, x)) = frame(panel, &y, own, fonts, scene) {
            let title = fonts.cut(&panel.title, size, true, plot.right - plot.left);
            scene.bold(((plot.left + plot.right) / 2.0, top + 20.0), &title, size, Anchor::Middle);
            series(panel, &x, &y, plot, fonts, scene);
        }
    }
}

/// The largest size at which the titles differ within `room` pixels.
fn title_size(panels: &[Lines], fonts: &Fonts, room: f32) -> f32 {
    let differ = |size: &f32| {
        let titles: BTreeSet<String> = panels.iter().map(|panel| fonts.cut(&panel.title, *size, true, room)).collect();
        titles.len() == panels.len()
    };
    [LABEL, 12.0, 10.0].into_iter().find(differ).unwrap_or(10.0)
}

/// A single panel: the series names are at the ends of their lines, outside the data.
fn alone(panel: &Lines, y: &Axis, area: Area, fonts: &Fonts, scene: &mut Scene) {
    let named = panel.series.len() > 1 || panel.series.iter().any(|series| series.joined);
    let names: Vec<String> = panel.series.iter().map(|series| fonts.cut(&series.label, LABEL, false, 230.0)).collect();
    let widest = names.iter().map(|name| fonts.width(name, LABEL, false)).fold(0.0, f32::max);
    let margin = if named { widest + 78.0 } else { 16.0 };
    let inner = Area { right: area.right - margin, top: area.top + 12.0, ..area };
    let Some((plot, x)) = frame(panel, y, inner, fonts, scene) else { return };
    series(panel, &x, y, plot, fonts, scene);
    if !named {
        return;
    }
    let ends: Vec<(f32, f32)> = panel
        .series
        .iter()
        .map(|series| {
            series.points.last().map_or((plot.right, plot.top), |point| (plot.x(&x, point.x), plot.y(y, point.y)))
        })
        .collect();
    // Without joined points, leader lines would cross the points, so the names form a list.
    let list = panel.series.iter().any(|series| !series.joined);
    let wanted: Vec<f32> =
        ends.iter().enumerate().map(|(index, (_, y))| if list { plot.top + 22.0 * index as f32 } else { *y }).collect();
    let heights = labels::spread(&wanted, 22.0, plot.top + 8.0, plot.bottom - 4.0);
    for (index, series) in panel.series.iter().enumerate() {
        let (end, at) = (ends[index], heights[index]);
        if !list {
            // Connects the last point with its name, which may have been shifted.
            scene.line(vec![(end.0 + 8.0, end.1), (plot.right + 14.0, at)], 0.8, GREY, &[1.5, 2.5]);
        }
        let right = series.style.sample(scene, plot.right + 18.0, at, series.joined);
        scene.text((right + 8.0, at + 5.0), &names[index], LABEL, Anchor::Start, INK);
    }
}

/// The legend entries with their positions relative to its corner, and its height; full lines wrap.
fn legend<'a>(panels: &'a [Lines], fonts: &Fonts, width: f32) -> (Vec<(&'a Series, String, f32, f32)>, f32) {
    let mut entries: Vec<(&Series, String, f32, f32)> = Vec::new();
    let (mut x, mut y) = (0.0, 0.0);
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if entries.iter().any(|(known, ..)| known.label == series.label) {
            continue;
        }
        let name = fonts.cut(&series.label, LABEL, false, 220.0);
        let long = 34.0 + 8.0 + fonts.width(&name, LABEL, false);
        if x > 0.0 && x + long > width {
            (x, y) = (0.0, y + 24.0);
        }
        entries.push((series, name, x, y));
        x += long + 28.0;
    }
    (entries, y + LEGEND)
}

/// Draws grid, ticks and axis labels; returns the data area and the x axis.
fn frame(panel: &Lines, y: &Axis, area: Area, fonts: &Fonts, scene: &mut Scene) -> Option<(Area, Axis)> {
    let xs =
        panel.series.iter().flat_map(|series| &series.points).map(|point| point.x).chain(panel.x.at.iter().copied());
    let x = Axis::over(xs, panel.x.log)?;
    let y_ticks = y.ticks(&panel.y.unit, 8);
    let widest = y_ticks
        .iter()
        .filter_map(|tick| tick.label.as_ref())
        .map(|label| fonts.width(label, TICK, false))
        .fold(0.0, f32::max);
    let plot = Area { left: area.left + 34.0 + widest, bottom: area.bottom - 50.0, ..area };
    for tick in &y_ticks {
        let at = plot.y(y, tick.value);
        let color = if tick.label.is_some() { GRID } else { FAINT };
        scene.segment((plot.left, at), (plot.right, at), 1.0, color);
        if let Some(label) = &tick.label {
            scene.text((plot.left - 8.0, at + 4.5), label, TICK, Anchor::End, INK);
        }
    }
    let x_ticks: Vec<Tick> = if panel.x.at.is_empty() {
        x.ticks(&panel.x.unit, 8)
    } else {
        let mut names = tick_texts(&panel.x.at, &panel.x.unit);
        for (name, given) in names.iter_mut().zip(&panel.x.names) {
            name.clone_from(given);
        }
        panel.x.at.iter().zip(names).map(|(value, name)| Tick { value: *value, label: Some(name) }).collect()
    };
    draw_ticks(&x_ticks, &x, plot, fonts, scene);
    for corner in
        [[(plot.left, plot.top), (plot.left, plot.bottom)], [(plot.left, plot.bottom), (plot.right, plot.bottom)]]
    {
        scene.segment(corner[0], corner[1], 1.2, GREY);
    }
    let below = fonts.cut(&panel.x.label, LABEL, false, plot.right - plot.left);
    scene.text(((plot.left + plot.right) / 2.0, area.bottom - 6.0), &below, LABEL, Anchor::Middle, INK);
    let side = fonts.cut(&panel.y.label, LABEL, false, plot.bottom - plot.top);
    scene.upwards((area.left + 13.0, (plot.top + plot.bottom) / 2.0), &side, LABEL);
    Some((plot, x))
}

/// Draws the grid lines and labels of the x axis.
pub(super) fn draw_ticks(ticks: &[Tick], x: &Axis, plot: Area, fonts: &Fonts, scene: &mut Scene) {
    let mut free = f32::NEG_INFINITY;
    for tick in ticks {
        let at = plot.x(x, tick.value);
        scene.segment((at, plot.top), (at, plot.bottom), 1.0, if tick.label.is_some() { GRID } else { FAINT });
        let Some(label) = &tick.label else { continue };
        let half = fonts.width(label, TICK, false) / 2.0;
        // A label that would touch the previous one is omitted; its grid line stays.
        if at - half > free {
            scene.text((at, plot.bottom + 20.0), label, TICK, Anchor::Middle, INK);
            free = at + half + 8.0;
        }
    }
}

fn series<'a>(panel: &'a Lines, x: &Axis, y: &Axis, plot: Area, fonts: &Fonts, scene: &mut Scene) {
    if let Some((value, text)) = &panel.reference {
        let at = plot.y(y, *value);
        scene.segment((plot.left, at), (plot.right, at), 1.4, NEUTRAL);
        scene.text((plot.right - 4.0, at - 6.0), text, 12.0, Anchor::End, GREY);
    }
    let place = |px: f64, py: f64| (plot.x(x, px), plot.y(y, py));
    for series in &panel.series {
        if series.joined && series.points.len() > 1 {
            let path = series.points.iter().map(|point| place(point.x, point.y)).collect();
            scene.line(path, 2.0, series.style.color(), series.style.dash());
        }
    }
    // Markers are drawn above whiskers, whiskers above lines.
    for series in &panel.series {
        for point in &series.points {
            let (low, high) = (plot.y(y, point.low), plot.y(y, point.high));
            series.style.whisker(scene, plot.x(x, point.x), low, high);
        }
    }
    for (index, series) in panel.series.iter().enumerate() {
        // Earlier series have larger markers, so that they remain visible under later ones.
        let radius = (7.0 - 0.7 * index as f32).max(4.5);
        for point in &series.points {
            series.style.marker(scene, place(point.x, point.y), radius);
        }
    }
    // A label at a line is the sign of a bound; elsewhere it names the point itself.
    let all = || panel.series.iter().flat_map(|series| series.points.iter().map(move |point| (series, point)));
    let label = |(series, point): (&'a Series, &'a Point)| {
        let of = series.joined.then_some(series.label.as_str());
        Some(Label { at: place(point.x, point.y), text: point.label.as_deref()?, of })
    };
    let named: Vec<Label<'_>> = all().filter_map(label).collect();
    let others: Vec<(f32, f32)> = all().map(|(_, point)| place(point.x, point.y)).collect();
    let lines = panel.series.iter().filter(|series| series.joined).flat_map(|series| {
        series.points.windows(2).map(move |ends| (place(ends[0].x, ends[0].y), place(ends[1].x, ends[1].y)))
    });
    let whiskers = all().map(|(_, point)| (place(point.x, point.low), place(point.x, point.high)));
    // For label placement, a marker is a cross of two lines.
    let markers = others.iter().flat_map(|&(x, y)| [((x - 6.0, y), (x + 6.0, y)), ((x, y - 6.0), (x, y + 6.0))]);
    labels::place_labels(
        &named,
        &others,
        &lines.chain(whiskers).chain(markers).collect::<Vec<_>>(),
        plot,
        fonts,
        scene,
    );
}
