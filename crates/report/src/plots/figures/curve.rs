//! Views of kind `curve`.

use super::super::chart::{Body, Figure, Lines, Point, Scale, Series};
use super::super::names::curve_file;
use super::super::style::Style;
use super::footer;
use crate::model::Report;
use crate::model::curves::{Drawn, curves};

/// A figure for each curve.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    curves(report).into_iter().filter_map(|curve| figure(report, curve)).collect()
}

fn figure(report: &Report, curve: Drawn) -> Option<Figure> {
    let section = report.workloads.iter().find(|section| section.workload == curve.workload)?;
    let scale = |label: String| Scale { label, ..Scale::default() };
    let series = curve.series.into_iter().enumerate().map(|(number, series)| Series {
        label: series.name,
        style: Style { number, run: 0 },
        joined: series.joined,
        points: (series.points.into_iter())
            .map(|point| Point { x: point.x, y: point.y, low: point.y, high: point.y, label: point.label })
            .collect(),
    });
    Some(Figure {
        name: curve_file(&curve.workload, &curve.id),
        title: format!("{}: {}", curve.workload, curve.title),
        subtitle: section.fixed_line(),
        footer: footer(report, ""),
        body: Body::Lines(vec![Lines {
            title: curve.workload.clone(),
            x: scale(curve.x),
            y: scale(curve.y),
            series: series.collect(),
            reference: None,
        }]),
        workload: Some(curve.workload),
    })
}
