//! Distortion against rate: what a code costs and what it loses.

use super::super::chart::{Body, Figure, Lines, Point, Scale, Series};
use super::super::style::Style;
use super::{file_name, footer};
use crate::model::{AxisInfo, Report, Row, Section};
use crate::units::human;

/// Readings that state a rate in bits per dimension with all side information; the first one that a row has counts.
const RATES: [&str; 2] = ["bits-per-dim", "rate"];

/// A reading that says how far outputs are from inputs, and how its axis is drawn.
struct Measure {
    id: &'static str,
    label: &'static str,
    log: bool,
    /// The same for a rival at the same rate, and its name.
    rival: Option<(&'static str, &'static str)>,
}

/// Rate of the rival, where it differs.
const RIVAL_RATE: &str = "scalar-rate";

/// The first that a workload has is drawn: a ratio to the data's power can be compared between data, an error cannot.
const MEASURES: [Measure; 2] = [
    Measure {
        id: "snr",
        label: "signal-to-noise ratio (dB)",
        log: false,
        rival: Some(("scalar-snr", "uniform scalar")),
    },
    Measure { id: "mse", label: "mean squared error (log scale)", log: true, rival: None },
];

/// One figure per workload whose outputs have a rate and a distortion, unless an earlier workload shows the same points.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    let mut known: Vec<Vec<(u64, u64)>> = Vec::new();
    let mut figures = Vec::new();
    for section in &report.workloads {
        let has = |measure: &&Measure| section.rows.iter().any(|row| point(row, measure.id).is_some());
        let Some(measure) = MEASURES.iter().find(has) else { continue };
        let series = series(section, measure);
        let points: Vec<(u64, u64)> = series
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| (point.x.to_bits(), point.y.to_bits()))
            .collect();
        // One point is a number, and the tables print it.
        if points.len() < 2 || known.contains(&points) {
            continue;
        }
        known.push(points);
        let scale = |label: &str, log| Scale { label: label.into(), unit: String::new(), log, at: Vec::new() };
        figures.push(Figure {
            name: format!("{}-rate-distortion", file_name(&section.workload)),
            title: format!("{}: distortion against rate", section.workload),
            subtitle: section.fixed_line(),
            footer: footer(report, ""),
            workload: Some(section.workload.clone()),
            body: Body::Lines(vec![Lines {
                title: section.workload.clone(),
                x: scale("rate (bits per dimension, side information included)", false),
                y: scale(measure.label, measure.log),
                series,
                reference: None,
            }]),
        });
    }
    figures
}

/// Series by the first axis of words; each point is named by the other axes that vary. Of cases that differ in nothing
/// but the number of items the largest counts: it has the smallest error of sampling.
fn series(section: &Section, measure: &Measure) -> Vec<Series> {
    let sizes = |axis: &&AxisInfo| {
        // An axis along which the rate does not change and the number of items does is a size, not a setting.
        let items = |row: &Row| row.work.items;
        section
            .rows
            .iter()
            .any(|a| section.rows.iter().any(|b| differ_only_in(a, b, &axis.name) && items(a) != items(b)))
    };
    let settings: Vec<&AxisInfo> = section.swept.iter().filter(|axis| !sizes(axis)).collect();
    let word = settings.iter().find(|axis| !axis.numeric).copied();
    let mut best: Vec<(Vec<String>, &Row)> = Vec::new();
    for row in section.rows.iter().filter(|row| point(row, measure.id).is_some()) {
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
        let Some((x, y)) = point(row, measure.id) else { continue };
        if let Some((_, y)) = measure.rival.and_then(|(id, _)| point(row, id)) {
            // The rival has a whole number of levels and with it a rate of its own.
            let x = row.reading(RIVAL_RATE).unwrap_or(x);
            rivals.push(Point { x, y, low: y, high: y, label: None });
        }
        let name = word.and_then(|axis| row.param(&axis.name)).unwrap_or_else(|| section.workload.clone());
        let others = settings.iter().filter(|axis| word.is_none_or(|word| word.name != axis.name));
        let label: Vec<String> =
            others.filter_map(|axis| row.param(&axis.name).map(|value| format!("{} {value}", axis.name))).collect();
        // A point that no axis tells from others says its own numbers.
        let numbers = || format!("{} bits/dim, {} {}", human(x, ""), measure.id, human(y, ""));
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
    if let (Some((_, name)), false) = (measure.rival, rivals.is_empty()) {
        let style = Style { number: all.len(), run: 0 };
        all.push(Series { label: name.into(), style, joined: false, points: rivals });
    }
    all
}

/// Rate and the measure called `id` of a row.
fn point(row: &Row, id: &str) -> Option<(f64, f64)> {
    let rate = RATES.iter().find_map(|id| row.reading(id))?;
    let distortion = row.reading(id)?;
    (rate.is_finite() && distortion.is_finite() && (id != "mse" || distortion > 0.0)).then_some((rate, distortion))
}

fn differ_only_in(a: &Row, b: &Row, axis: &str) -> bool {
    a.params.len() == b.params.len()
        && a.params.iter().zip(&b.params).all(|(x, y)| (x.value == y.value) == (x.axis != axis))
}
