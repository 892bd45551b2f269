//! Views of kind `curve`.

use ellwand_core::View;

use super::super::chart::{Body, Figure, Lines, Point, Scale, Series};
use super::super::style::Style;
use super::{file_name, footer};
use crate::model::Report;
use crate::model::curves::{Drawn, curves, of_workload};

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
        name: file(&curve.workload, &curve.id),
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

/// File name of a curve.
fn file(workload: &str, id: &str) -> String {
    format!("{}-{}", file_name(workload), file_name(id))
}

/// File names of all curves of a workload.
pub(in crate::plots) fn files(views: &[View], workload: &str) -> Vec<String> {
    of_workload(views, workload).map(|curve| file(workload, &curve.id)).collect()
}
