//! Bars of the parts of a whole: the share of each in the sum of their times.

use super::super::chart::{Body, Dot, Dots, Figure, Scale};
use super::super::style::Style;
use super::{file_name, footer};
use crate::formats::{Shares, shares};
use crate::model::Report;
use crate::units::human;

/// Most groups in a figure.
const MOST: usize = 24;

/// The file of a view's figure.
pub(in crate::plots) fn file(title: &str) -> String {
    file_name(title)
}

/// One figure for each view, with a group of bars for each case and implementation.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    let figure = |(title, groups): (String, Vec<Shares>)| {
        let bars = |parts: &[(String, f64)]| {
            let total: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
            let bar = |(number, (label, seconds)): (usize, &(String, f64))| {
                let share = seconds / total;
                let text = format!("{} · {}", human(*seconds, "s"), human(share, "1"));
                let style = Style { number, run: 0 };
                Dot { label: label.clone(), style, value: share, low: share, high: share, text }
            };
            parts.iter().enumerate().map(bar).collect::<Vec<_>>()
        };
        let groups = groups.iter().take(MOST).map(|(title, parts)| (title.clone(), bars(parts))).collect();
        let scale = Scale { label: "share of the sum".into(), unit: "1".into(), ..Scale::default() };
        Figure {
            name: file(&title),
            title: format!("{title}: share of the time"),
            subtitle: String::new(),
            footer: footer(report, "medians; each part measured separately, on its own inputs"),
            workload: None,
            body: Body::Dots(Dots { scale, groups, reference: None, bars: true }),
        }
    };
    shares(report).into_iter().map(figure).collect()
}
