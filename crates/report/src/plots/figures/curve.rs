//! Views of kind `curve`.

use super::super::chart::{Body, Figure, Lines, Point, Scale, Series};
use super::super::style::{LIMIT, Style};
use super::{file_name, footer};
use crate::model::Report;
use crate::model::curves::{self, Drawn, curves};

/// A figure for each curve.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    curves(report).into_iter().filter_map(|curve| figure(report, curve)).collect()
}

fn figure(report: &Report, curve: Drawn) -> Option<Figure> {
    let section = report.workloads.iter().find(|section| Some(&section.workload) == curve.workload.as_ref())?;
    Some(Figure {
        name: format!("{}-{}", file_name(&section.workload), file_name(&curve.id)),
        title: format!("{}: {}", section.workload, curve.title),
        subtitle: section.fixed_line(),
        footer: footer(report, ""),
        workload: Some(section.workload.clone()),
        body: body(curve, |number, _| Style { number, run: 0 }),
    })
}

/// The panel of a figure that the page draws too; `style`: the look of a series by its number and name.
pub(super) fn body(drawn: Drawn, style: impl Fn(usize, &str) -> Style) -> Body {
    let log = !drawn.unit.is_empty();
    let scale = |label: String, unit: &str| Scale { label, unit: unit.into(), log, ..Scale::default() };
    let point = |curves::Point { x, y, sign, name, whisker, .. }| {
        let label = sign.map(str::to_string).into_iter().chain(name).collect::<Vec<_>>().join(" ");
        let (low, high) = whisker.unwrap_or((y, y));
        Point { x, y, low, high, label: Some(label).filter(|label| !label.is_empty()) }
    };
    let series = drawn.series.into_iter().enumerate().map(|(number, series)| Series {
        style: series.roof.map_or_else(|| style(number, &series.name), |roof| Style { number: LIMIT + roof, run: 0 }),
        label: series.name,
        joined: series.joined,
        points: series.points.into_iter().map(point).collect(),
    });
    Body::Lines(vec![Lines {
        title: drawn.workload.unwrap_or_default(),
        x: scale(drawn.x, ""),
        y: scale(drawn.y, drawn.unit),
        series: series.collect(),
        reference: None,
    }])
}
