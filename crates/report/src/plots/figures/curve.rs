//! Views of kind `curve`: one reading over another, such as the error of a code over its rate.

use ellwand_core::View;
use ellwand_core::view::Curve;

use super::super::chart::{Body, Figure, Lines, Point, Scale, Series};
use super::super::style::Style;
use super::{file_name, footer};
use crate::model::{AxisInfo, Report, Row, Section};
use crate::units::{clean, human};

/// One figure per workload and curve, unless an earlier workload has the same points.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    let mut known: Vec<Vec<(u64, u64)>> = Vec::new();
    let mut figures: Vec<Figure> = Vec::new();
    for section in &report.workloads {
        for curve in curves(&report.views, &section.workload) {
            let series = series(section, curve);
            let points: Vec<(u64, u64)> = series
                .iter()
                .filter(|series| !series.joined)
                .flat_map(|series| &series.points)
                .map(|point| (point.x.to_bits(), point.y.to_bits()))
                .collect();
            // A single point is just a number, and the tables print it.
            if points.len() < 2 || known.contains(&points) {
                continue;
            }
            known.push(points);
            let scale = |label: &str| Scale { label: clean(label), ..Scale::default() };
            figures.push(Figure {
                name: file(&section.workload, curve),
                title: format!("{}: {}", section.workload, clean(&curve.title)),
                subtitle: section.fixed_line(),
                footer: footer(report, ""),
                workload: Some(section.workload.clone()),
                body: Body::Lines(vec![Lines {
                    title: section.workload.clone(),
                    x: scale(&curve.x.1),
                    y: scale(&curve.y.1),
                    series,
                    reference: None,
                }]),
            });
        }
    }
    figures
}

/// The curves of a workload.
fn curves<'a>(views: &'a [View], workload: &str) -> impl Iterator<Item = &'a Curve> {
    views.iter().filter(move |view| view.is_about(workload)).filter_map(|view| match view {
        View::Curve(curve) => Some(curve),
        _ => None,
    })
}

/// File name of a curve.
fn file(workload: &str, curve: &Curve) -> String {
    format!("{}-{}", file_name(workload), file_name(&curve.id))
}

/// File names of all curves of a workload.
pub(in crate::plots) fn files(views: &[View], workload: &str) -> Vec<String> {
    curves(views, workload).map(|curve| file(workload, curve)).collect()
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
            rivals.push(Point { x, y, low: y, high: y, label: None });
        }
        let name = word.and_then(|axis| row.param(&axis.name)).unwrap_or_else(|| section.workload.clone());
        let others = settings.iter().filter(|axis| word.is_none_or(|word| word.name != axis.name));
        let label: Vec<String> =
            others.filter_map(|axis| row.param(&axis.name).map(|value| format!("{} {value}", axis.name))).collect();
        // A point that no axis distinguishes is labelled with its own values.
        let unit = row.readings.iter().find(|reading| reading.id == curve.x.0).map(|reading| clean(&reading.unit));
        let unit = unit.unwrap_or_default();
        let numbers = || format!("{} {unit}, {} {}", human(x, ""), clean(&curve.y.0), human(y, ""));
        let label = Some(if label.is_empty() { numbers() } else { label.join(", ") });
        let point = Point { x, y, low: y, high: y, label };
        match all.iter_mut().find(|series| series.label == name) {
            Some(series) => series.points.push(point),
            None => all.push(Series {
                label: name,
                style: Style { number: all.len(), run: 0 },
                joined: false,
                points: vec![point],
            }),
        }
    }
    if let (Some([title, ..]), false) = (&curve.rival, rivals.is_empty()) {
        let style = Style { number: all.len(), run: 0 };
        all.push(Series { label: clean(title), style, joined: false, points: rivals });
    }
    all.extend(bound(curve, &all));
    all
}

/// The line that bounds the points, over their range.
fn bound(curve: &Curve, drawn: &[Series]) -> Option<Series> {
    let line = curve.bound.as_ref()?;
    let along = || drawn.iter().flat_map(|series| &series.points).map(|point| point.x);
    let ends = [along().fold(f64::INFINITY, f64::min), along().fold(f64::NEG_INFINITY, f64::max)];
    let point = |x: f64| Point { x, y: line.slope * x, low: line.slope * x, high: line.slope * x, label: None };
    let style = Style { number: drawn.len(), run: 0 };
    let points = ends.map(point).to_vec();
    (ends[0] < ends[1]).then(|| Series { label: clean(&line.title), style, joined: true, points })
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
