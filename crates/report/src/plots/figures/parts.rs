//! Bars of the parts of a whole: the share of each in the sum of their times.

use super::super::chart::{Body, Dot, Dots, Figure, Scale};
use super::super::style::Style;
use super::{file_name, footer};
use crate::formats::{Component, Components, components, heading};
use crate::model::Report;
use crate::units::human;

/// Maximum number of groups in a figure.
const MAX_GROUPS: usize = 24;

/// One figure for each view, with a group of bars for each case and implementation.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    let bar = |(number, part): (usize, &Component)| {
        let (share, style) = (part.share, Style { number, run: 0 });
        let text = format!("{} · {}", human(part.time_s, "s"), human(share, "1"));
        Dot { label: part.title.clone(), style, value: share, low: share, high: share, text }
    };
    let group = |group: &Components| {
        let bars = group.parts.iter().enumerate().map(bar).collect();
        (heading(&group.case, &group.implementation), bars)
    };
    let figure = |groups: &[Components]| {
        let title = &groups[0].title;
        let scale = Scale { label: "share of the sum".into(), unit: "1".into(), ..Scale::default() };
        let groups = groups.iter().take(MAX_GROUPS).map(group).collect();
        Figure {
            name: file_name(title),
            title: format!("{title}: share of the time"),
            subtitle: String::new(),
            footer: footer(report, "medians; each part measured separately, on its own inputs"),
            workload: None,
            body: Body::Dots(Dots { scale, groups, reference: None, bars: true }),
        }
    };
    components(report).chunk_by(|a, b| a.title == b.title).map(figure).collect()
}
