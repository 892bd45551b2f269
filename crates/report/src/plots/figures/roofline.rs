//! The roofline: measurements below the measured roofs of their machine.

use super::super::chart::Figure;
use super::{curve, explained, footer, style};
use crate::model::Report;
use crate::model::roofline::rooflines;

/// One figure per run and place.
pub(super) fn figures(report: &Report, names: &[(String, usize)]) -> Vec<Figure> {
    let figure = |drawn: crate::model::curves::Drawn| {
        let bounds = drawn.series.iter().flat_map(|series| &series.points).any(|point| point.sign.is_some());
        let marks = explained("medians, whiskers p10–p90, names at the fastest of each", bounds);
        let run = drawn.run;
        Figure {
            name: drawn.id.clone(),
            title: format!("{}: speed against operations a byte", drawn.title),
            subtitle:
                "roofs: multiply-add peak, and the best measured stream at each cache level · required bytes and operations".into(),
            footer: footer(report, &marks),
            workload: None,
            body: curve::body(drawn, |_, name| style(names, name, run)),
        }
    };
    rooflines(report).into_iter().map(figure).collect()
}
