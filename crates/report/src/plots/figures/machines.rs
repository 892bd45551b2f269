//! Several machines compared: the share of each machine's own ceiling.

use super::super::chart::{Body, Dot, Dots, Figure, Scale};
use super::super::style::Style;
use super::footer;
use crate::model::Report;
use crate::units::human;

/// One group of dots for each case and implementation, with one dot per machine.
pub(super) fn figure(report: &Report) -> Option<Figure> {
    let machines = report.machines.as_ref()?;
    let mut groups: Vec<(String, Vec<Dot>)> = Vec::new();
    for entry in &machines.rows {
        let (section, row) = entry.of(report);
        let Some(stats) = row.stats("roofline-fraction") else { continue };
        let place = section.place(row);
        let title = format!("{} · {place} · {} on {}", section.workload, row.implementation, row.device);
        let dot = Dot {
            label: machines.machines[entry.machine].name.clone(),
            style: Style { number: entry.machine, run: 0 },
            value: stats.median,
            low: stats.p10,
            high: stats.p90,
            text: human(stats.median, "1"),
        };
        match groups.last_mut().filter(|(known, _)| *known == title) {
            Some((_, dots)) => dots.push(dot),
            None => groups.push((title, vec![dot])),
        }
    }
    // A single dot compares nothing.
    groups.retain(|(_, dots)| dots.len() > 1);
    groups.truncate(MAX_GROUPS);
    let scale = Scale { label: "share of the machine's own ceiling".into(), unit: "1".into(), ..Scale::default() };
    (!groups.is_empty()).then(|| Figure {
        name: "across-machines".into(),
        title: "Share of each machine's own ceiling".into(),
        subtitle: String::new(),
        footer: footer(report, "medians, whiskers p10–p90"),
        workload: None,
        body: Body::Dots(Dots { scale, groups, reference: Some(1.0), bars: false }),
    })
}

/// Maximum number of groups in the figure.
const MAX_GROUPS: usize = 24;
