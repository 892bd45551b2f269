//! Lays figures out: header and footer, panels with their ticks, the names of series and points. kuva places none of them
//! where a reader looks for them.

use super::axis::Axis;
use super::chart::{Body, Dots, Figure, Lines, Point, Scale, Series};
use super::labels;
use super::picture::{
    Area, At, Drawn, FAINT, GREY, GRID, INK, Picture, SAMPLE, TextAnchor, cut, markers, path, whisker, width, wrapped,
};

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 26.0;
/// Sizes of text.
const NAME: u32 = 14;
const TICK: u32 = 13;
const SMALL: u32 = 12;
/// Room between the data and the names of series.
const LEAD: f64 = 18.0;

impl Picture {
    /// Draws a figure.
    pub(super) fn of(figure: &Figure) -> Self {
        let room = WIDTH - 2.0 * MARGIN;
        let subtitle = wrapped(&figure.subtitle, 13, room);
        let footer = wrapped(&figure.footer, SMALL, room);
        let top = 52.0 + 19.0 * subtitle.len() as f64;
        let body = match &figure.body {
            Body::Lines(panels) => panels_height(panels, room),
            Body::Dots(chart) => dots_height(chart),
        };
        let bottom = top + body;
        let mut picture = Self::new(WIDTH, bottom + 18.0 + 16.0 * footer.len() as f64);
        // Bold letters are wider than those that are measured.
        picture.bold((MARGIN, 38.0), &cut(&figure.title, 20, room / 1.15), 20, TextAnchor::Start);
        for (line, y) in subtitle.iter().zip(0_u32..) {
            picture.text((MARGIN, 60.0 + 19.0 * f64::from(y)), line, 13, TextAnchor::Start, GREY);
        }
        let area = Area { left: MARGIN, top, right: WIDTH - MARGIN, bottom };
        match &figure.body {
            Body::Lines(panels) => picture.panels(panels, area),
            Body::Dots(chart) => picture.dots(chart, area),
        }
        for (line, y) in footer.iter().zip(0_u32..) {
            picture.text((MARGIN, bottom + 20.0 + 16.0 * f64::from(y)), line, SMALL, TextAnchor::Start, GREY);
        }
        picture
    }

    /// Draws the panels into `area`. All have the same range upwards, so that heights can be compared across them.
    fn panels(&mut self, panels: &[Lines], area: Area) {
        let every = || panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
        let reference = panels.iter().filter_map(|panel| panel.reference.as_ref().map(|(value, _)| *value));
        let heights = every().flat_map(|point| [point.low, point.y, point.high]).chain(reference);
        let Some(y) = Axis::over(heights, panels.iter().any(|panel| panel.y.log)) else { return };
        if let [panel] = panels {
            return self.alone(panel, &y, area);
        }
        let (entries, below) = legend(panels, area.width());
        for (series, name, (x, y)) in entries {
            let at = (area.left + x, area.top + y + 12.0);
            let left = self.sample(at, series.style, series.joined);
            self.text((left, at.1 + 5.0), &name, NAME, TextAnchor::Start, INK);
        }
        let columns = columns(panels.len());
        let (width, tall) = (area.width() / columns as f64, panel_height(panels.len()));
        for (index, panel) in panels.iter().enumerate() {
            let left = area.left + width * (index % columns) as f64;
            let top = area.top + below + tall * (index / columns) as f64;
            let own = Area { left, top: top + 30.0, right: left + width - 14.0, bottom: top + tall - 8.0 };
            let Some((plot, x)) = self.frame(panel, &y, own) else { continue };
            let middle = (plot.left + plot.right) / 2.0;
            let title = cut(&panel.title, NAME, plot.width() / 1.15);
            self.bold((middle, top + 20.0), &title, NAME, TextAnchor::Middle);
            self.series(panel, &x, &y, plot);
        }
    }

    /// One panel: the names of the series stand at the ends of their lines, outside the data.
    fn alone(&mut self, panel: &Lines, y: &Axis, area: Area) {
        let named = panel.series.len() > 1 || panel.series.iter().any(|series| series.joined);
        let names: Vec<String> = panel.series.iter().map(|series| cut(&series.label, NAME, 230.0)).collect();
        let widest = names.iter().map(|name| width(name, NAME)).fold(0.0, f64::max);
        let margin = if named { widest + LEAD + SAMPLE + 26.0 } else { 16.0 };
        let inner = Area { right: area.right - margin, top: area.top + 12.0, ..area };
        let Some((plot, x)) = self.frame(panel, y, inner) else { return };
        self.series(panel, &x, y, plot);
        if !named {
            return;
        }
        // Next to points that no line joins, a line from a name to where it belongs would cross them: a list instead.
        let list = panel.series.iter().any(|series| !series.joined);
        let end = |series: &Series| series.points.last().map(|point| (plot.x(&x, point.x), plot.y(y, point.y)));
        let ends: Vec<At> = panel.series.iter().map(|series| end(series).unwrap_or((plot.right, plot.top))).collect();
        let wanted = ends.iter().map(|(_, y)| if list { plot.top } else { *y }).collect();
        let heights = spread(wanted, 22.0, plot.top + 8.0, plot.bottom - 4.0);
        for (((series, name), end), at) in panel.series.iter().zip(&names).zip(ends).zip(heights) {
            if !list {
                self.line((end.0 + 8.0, end.1), (plot.right + LEAD - 4.0, at), 0.8, GREY, "1.5 2.5");
            }
            let left = self.sample((plot.right + LEAD, at), series.style, series.joined);
            self.text((left, at + 5.0), name, NAME, TextAnchor::Start, INK);
        }
    }

    /// Draws grid, ticks and axis labels; returns the area of the data and the x axis.
    fn frame(&mut self, panel: &Lines, y: &Axis, area: Area) -> Option<(Area, Axis)> {
        let points = panel.series.iter().flat_map(|series| &series.points);
        let x = Axis::over(points.map(|point| point.x).chain(panel.x.at.iter().copied()), panel.x.log)?;
        let ticks = y.ticks(&panel.y);
        let widest = ticks.iter().flat_map(|tick| &tick.label).map(|label| width(label, TICK)).fold(0.0, f64::max);
        let plot = Area { left: area.left + 34.0 + widest, bottom: area.bottom - 50.0, ..area };
        for tick in ticks {
            let at = plot.y(y, tick.value);
            let color = if tick.label.is_some() { GRID } else { FAINT };
            self.line((plot.left, at), (plot.right, at), 1.0, color, "");
            if let Some(label) = &tick.label {
                self.text((plot.left - 8.0, at + 4.5), label, TICK, TextAnchor::End, INK);
            }
        }
        self.x_axis(&x, &panel.x, plot);
        self.line((plot.left, plot.top), (plot.left, plot.bottom), 1.2, GREY, "");
        let side = cut(&panel.y.label, NAME, plot.bottom - plot.top);
        let middle = (area.left + 13.0, (plot.top + plot.bottom) / 2.0);
        self.turned(middle, &side, NAME, TextAnchor::Middle, INK, Some(-90.0));
        Some((plot, x))
    }

    fn x_axis(&mut self, x: &Axis, scale: &Scale, plot: Area) {
        let mut free = f64::NEG_INFINITY;
        for tick in x.ticks(scale) {
            let at = plot.x(x, tick.value);
            let color = if tick.label.is_some() { GRID } else { FAINT };
            self.line((at, plot.top), (at, plot.bottom), 1.0, color, "");
            let Some(label) = &tick.label else { continue };
            let half = width(label, TICK) / 2.0;
            // A label that would touch the one before is left out; its grid line stays.
            if at - half > free {
                self.text((at, plot.bottom + 20.0), label, TICK, TextAnchor::Middle, INK);
                free = at + half + 8.0;
            }
        }
        self.line((plot.left, plot.bottom), (plot.right, plot.bottom), 1.2, GREY, "");
        let label = cut(&scale.label, NAME, plot.width());
        self.text(((plot.left + plot.right) / 2.0, plot.bottom + 44.0), &label, NAME, TextAnchor::Middle, INK);
    }

    fn series(&mut self, panel: &Lines, x: &Axis, y: &Axis, plot: Area) {
        if let Some((value, text)) = &panel.reference {
            let at = plot.y(y, *value);
            self.line((plot.left, at), (plot.right, at), 1.4, INK, "");
            let text = cut(text, SMALL, plot.width() - 8.0);
            self.text((plot.right - 4.0, at - 6.0), &text, SMALL, TextAnchor::End, GREY);
        }
        let place = |point: &Point| (x.at(point.x), y.at(point.y));
        let finite = |at: &At| at.0.is_finite() && at.1.is_finite();
        let places = |series: &Series| series.points.iter().map(place).filter(finite).collect::<Vec<At>>();
        let mut plots: Vec<Drawn> = Vec::new();
        let joined = panel.series.iter().filter(|series| series.joined);
        plots.extend(joined.map(|series| path(series.style, places(series))));
        // Markers above whiskers, whiskers above lines.
        for (series, point) in panel.series.iter().flat_map(|series| series.points.iter().map(move |p| (series, p))) {
            // One that the marker hides says nothing and only thickens it.
            if (1.0..f64::INFINITY).contains(&(plot.y(y, point.low) - plot.y(y, point.high))) {
                let ends = (y.at(point.y) - y.at(point.low), y.at(point.high) - y.at(point.y));
                plots.push(whisker(series.style, place(point)).with_y_err_asymmetric([ends]).into());
            }
        }
        for (series, index) in panel.series.iter().zip(0_u8..) {
            // The first ones are larger, so that one under another still shows.
            plots.extend(markers(series.style, (7.0 - 0.7 * f64::from(index)).max(4.5), places(series)));
        }
        self.data(plot, x.ends, y.ends, plots);
        self.names(panel, x, y, plot);
    }

    /// Names points where a name touches no other name, marker, whisker or roof; kuva's own repelling looks at names alone.
    fn names(&mut self, panel: &Lines, x: &Axis, y: &Axis, plot: Area) {
        let place = |point: &Point| (plot.x(x, point.x), plot.y(y, point.y));
        let (mut points, mut lines) = (Vec::new(), Vec::new());
        for series in &panel.series {
            let places: Vec<At> = series.points.iter().map(place).collect();
            if series.joined {
                lines.extend(places.windows(2).map(|ends| (ends[0], ends[1])));
                continue;
            }
            for (point, at) in series.points.iter().zip(places) {
                // A marker is a cross of lines as far as texts are concerned.
                lines.push(((at.0, plot.y(y, point.low)), (at.0, plot.y(y, point.high))));
                lines.push(((at.0 - 6.0, at.1), (at.0 + 6.0, at.1)));
                lines.push(((at.0, at.1 - 6.0), (at.0, at.1 + 6.0)));
                points.extend(point.label.as_deref().map(|label| (at, label, width(label, SMALL))));
            }
        }
        for name in labels::beside(&points, &lines, plot) {
            if let Some(near) = name.leader {
                self.line(name.point, near, 0.8, GREY, "1.5 2.5");
            }
            self.text(name.at, name.text, SMALL, TextAnchor::Start, INK);
        }
    }

    /// A dot chart: one line per implementation, for results without a numeric axis.
    fn dots(&mut self, chart: &Dots, area: Area) {
        let every = || chart.groups.iter().flat_map(|(_, dots)| dots);
        let values = every().flat_map(|dot| [dot.low, dot.value, dot.high]).chain(chart.reference);
        let Some(x) = Axis::over(values, chart.scale.log) else { return };
        let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
        let names = widest(&mut every().map(|dot| width(&cut(&dot.label, NAME, 320.0), NAME)));
        let texts = widest(&mut every().map(|dot| width(&dot.text, NAME)));
        let (left, right) = (area.left + names + 40.0, area.right - texts - 24.0);
        let plot = Area { left, right, top: area.top + 4.0, bottom: area.bottom - AXIS };
        self.x_axis(&x, &chart.scale, plot);
        if let Some(reference) = chart.reference {
            let at = plot.x(&x, reference);
            self.line((at, plot.top), (at, plot.bottom), 1.4, INK, "");
        }
        let (mut y, mut plots) = (plot.top + 8.0, Vec::new());
        for (title, dots) in &chart.groups {
            if !title.is_empty() {
                self.bold((area.left, y + 18.0), &cut(title, NAME, area.width() / 1.15), NAME, TextAnchor::Start);
                y += HEAD;
            }
            for dot in dots {
                let at = y + LINE / 2.0 - 4.0;
                self.text((left - 14.0, at + 5.0), &cut(&dot.label, NAME, 320.0), NAME, TextAnchor::End, INK);
                self.line((left, at), (right + 10.0, at), 1.0, GRID, "1.5 3");
                self.text((right + 16.0, at + 5.0), &dot.text, NAME, TextAnchor::Start, INK);
                let place = (x.at(dot.value), plot.bottom - at);
                if (1.0..f64::INFINITY).contains(&(plot.x(&x, dot.high) - plot.x(&x, dot.low))) {
                    let ends = (place.0 - x.at(dot.low), x.at(dot.high) - place.0);
                    plots.push(whisker(dot.style, place).with_x_err_asymmetric([ends]).into());
                }
                plots.extend(markers(dot.style, 6.0, vec![place]));
                y += LINE;
            }
        }
        self.data(plot, x.ends, (0.0, plot.bottom - plot.top), plots);
    }
}

const LINE: f64 = 34.0;
const HEAD: f64 = 32.0;
const AXIS: f64 = 62.0;

fn dots_height(chart: &Dots) -> f64 {
    let heads = chart.groups.iter().filter(|(title, _)| !title.is_empty()).count() as f64;
    let dots: usize = chart.groups.iter().map(|(_, dots)| dots.len()).sum();
    (heads * HEAD + dots as f64 * LINE + AXIS + 16.0).max(220.0)
}

fn columns(panels: usize) -> usize {
    match panels {
        0 | 1 => 1,
        2 | 4 => 2,
        _ => 3,
    }
}

fn panel_height(panels: usize) -> f64 {
    if panels <= 4 { 440.0 } else { 380.0 }
}

fn panels_height(panels: &[Lines], room: f64) -> f64 {
    if panels.len() <= 1 {
        return 640.0;
    }
    legend(panels, room).1 + panels.len().div_ceil(columns(panels.len())) as f64 * panel_height(panels.len())
}

/// The entries of the legend with their places relative to its corner, and its height. They go on in the next line
/// where one is full.
fn legend(panels: &[Lines], room: f64) -> (Vec<(&Series, String, At)>, f64) {
    let mut entries: Vec<(&Series, String, At)> = Vec::new();
    let (mut x, mut y) = (0.0, 0.0);
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if entries.iter().any(|(known, ..)| known.label == series.label) {
            continue;
        }
        let name = cut(&series.label, NAME, 220.0);
        let long = SAMPLE + 8.0 + width(&name, NAME);
        if x > 0.0 && x + long > room {
            (x, y) = (0.0, y + 24.0);
        }
        entries.push((series, name, (x, y)));
        x += long + 28.0;
    }
    (entries, y + 34.0)
}

/// Heights near the wanted ones, at least `gap` apart and between `top` and `bottom` as far as there is room.
fn spread(mut heights: Vec<f64>, gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|a, b| heights[*a].total_cmp(&heights[*b]));
    // Down from the top, then back up from the bottom.
    let (mut free, mut limit) = (top, bottom);
    for index in &order {
        heights[*index] = heights[*index].max(free);
        free = heights[*index] + gap;
    }
    for index in order.iter().rev() {
        heights[*index] = heights[*index].min(limit);
        limit = heights[*index] - gap;
    }
    heights
}
