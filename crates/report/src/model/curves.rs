//! Figures that the plots and the page draw from the same points: the rooflines, and the views of kind `curve`, which
//! show one reading over another, such as the error of a code over its rate.

use ellwand_core::view::{Curve, View};
use serde::Serialize;

use super::{AxisInfo, Report, Row, Section};
use crate::units::{clean, human};

/// A figure of one workload, or of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Drawn {
    /// Empty for a figure of all workloads.
    pub(crate) workload: Option<String>,
    /// Last part of the file name.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Labels of the axes.
    pub(crate) x: String,
    pub(crate) y: String,
    /// Unit of y; if it is not empty, both axes are logarithmic.
    pub(crate) unit: &'static str,
    pub(crate) series: Vec<Series>,
    /// Index into [`Report::runs`], of a figure of a run.
    pub(crate) run: usize,
}

/// Points that share a name in the legend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// True for a line instead of points.
    pub(crate) joined: bool,
    /// For the limit of a roofline, the number of its look.
    pub(crate) roof: Option<usize>,
    pub(crate) points: Vec<Point>,
}

/// A pair of readings, or a row below a roofline.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// What the point shows.
    pub(crate) label: Option<String>,
    /// The sign of a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sign: Option<&'static str>,
    /// The label in a plot, which has no room for that of every point.
    #[serde(skip)]
    pub(crate) name: Option<String>,
    /// The ends of the whisker, if there is one.
    #[serde(skip)]
    pub(crate) whisker: Option<(f64, f64)>,
}

/// One curve per workload and view, unless an earlier workload has the same points.
pub(crate) fn curves(report: &Report) -> Vec<Drawn> {
    let mut all: Vec<Drawn> = Vec::new();
    for section in &report.workloads {
        for curve in curves_of(&report.views, &section.workload) {
            let series = series(section, curve);
            // A single point is just a number, and the tables print it.
            if measured(&series).count() < 2 || all.iter().any(|known| measured(&known.series).eq(measured(&series))) {
                continue;
            }
            all.push(Drawn {
                workload: Some(section.workload.clone()),
                id: curve.id.clone(),
                title: clean(&curve.title),
                x: clean(&curve.x.1),
                y: clean(&curve.y.1),
                unit: "",
                series,
                run: 0,
            });
        }
    }
    all
}

/// The curves that a workload may have.
fn curves_of<'a>(views: &'a [View], workload: &str) -> impl Iterator<Item = &'a Curve> {
    views.iter().filter(move |view| view.is_about(workload)).filter_map(|view| match view {
        View::Curve(curve) => Some(curve),
        _ => None,
    })
}

fn measured(series: &[Series]) -> impl Iterator<Item = (u64, u64)> {
    let points = series.iter().filter(|series| !series.joined).flat_map(|series| &series.points);
    points.map(|point| (point.x.to_bits(), point.y.to_bits()))
}

/// One series per value of the first non-numeric axis; the other varying axes label the points. Of cases that differ
/// only in the number of items, the largest counts, since its sampling error is smallest.
fn series(section: &Section, curve: &Curve) -> Vec<Series> {
    let sizes = |axis: &&AxisInfo| {
        // An axis that changes the number of items but not the rate is a size, not a setting.
        let items = |row: &Row| row.work.items;
        section
            .rows
            .iter()
            .any(|a| section.rows.iter().any(|b| differ_only_in(a, b, &axis.name) && items(a) != items(b)))
    };
    let settings: Vec<&AxisInfo> = section.swept.iter().filter(|axis| !sizes(axis)).collect();
    let word = settings.iter().find(|axis| !axis.numeric).copied();
    let mut best: Vec<(Vec<String>, &Row)> = Vec::new();
    for row in section.rows.iter().filter(|row| point(row, curve).is_some()) {
        let key: Vec<String> = settings.iter().map(|axis| row.param(&axis.name).unwrap_or_default()).collect();
        match best.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) if known.work.items < row.work.items => *known = row,
            Some(_) => {}
            None => best.push((key, row)),
        }
    }
    let mut all: Vec<Series> = Vec::new();
    let mut rivals: Vec<Point> = Vec::new();
    for (_, row) in best {
        let Some((x, y)) = point(row, curve) else { continue };
        if let Some(([_, rival, _], y)) = curve.rival.as_ref().and_then(|rival| Some((rival, row.reading(&rival[2])?)))
        {
            let x = row.reading(rival).unwrap_or(x);
            rivals.push(Point { x, y, ..Point::default() });
        }
        let name = word.and_then(|axis| row.param(&axis.name)).unwrap_or_else(|| section.workload.clone());
        let others = settings.iter().filter(|axis| word.is_none_or(|word| word.name != axis.name));
        let label = row.values(others.copied());
        // A point that no axis distinguishes is labelled with its own values.
        let unit = row.readings.iter().find(|reading| reading.id == curve.x.0).map(|reading| clean(&reading.unit));
        let unit = unit.unwrap_or_default();
        let of_y = row.readings.iter().find(|reading| reading.id == curve.y.0).map(|reading| clean(&reading.unit));
        let of_y = of_y.unwrap_or_default();
        let numbers = || format!("{} {unit}, {} {}", human(x, ""), clean(&curve.y.0), human(y, &of_y));
        let label = Some(if label.is_empty() { numbers() } else { label });
        let point = Point { x, y, name: label.clone(), label, ..Point::default() };
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Series { name, joined: false, roof: None, points: vec![point] }),
        }
    }
    if let (Some([title, ..]), false) = (&curve.rival, rivals.is_empty()) {
        all.push(Series { name: clean(title), joined: false, roof: None, points: rivals });
    }
    all.extend(bound(curve, &all));
    all
}

/// The line that bounds the points, over their range.
fn bound(curve: &Curve, drawn: &[Series]) -> Option<Series> {
    let line = curve.bound.as_ref()?;
    let along = || drawn.iter().flat_map(|series| &series.points).map(|point| point.x);
    let ends = [along().fold(f64::INFINITY, f64::min), along().fold(f64::NEG_INFINITY, f64::max)];
    let point = |x: f64| Point { x, y: line.slope * x, ..Point::default() };
    let points = ends.map(point).to_vec();
    (ends[0] < ends[1]).then(|| Series { name: clean(&line.title), joined: true, roof: None, points })
}

/// The two readings of a row, if both can be drawn.
fn point(row: &Row, curve: &Curve) -> Option<(f64, f64)> {
    let value = |id: &str| row.reading(id).filter(|value| value.is_finite());
    Some((value(&curve.x.0)?, value(&curve.y.0)?))
}

fn differ_only_in(a: &Row, b: &Row, axis: &str) -> bool {
    a.params.len() == b.params.len()
        && a.params.iter().zip(&b.params).all(|(x, y)| (x.value == y.value) == (x.axis != axis))
}
