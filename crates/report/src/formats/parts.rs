//! Views of kind `parts`: the workloads of a whole in one table, with time, share of their sum, the limit of each and
//! the change that would help most.

use std::io::{self, Write};

use ellwand_core::View;
use ellwand_core::view::{Fused, Parts};
use serde::Serialize;

use super::columns::at_most;
use crate::Options;
use crate::diagnose::Limit;
use crate::grid::{self, Column, Tone, markdown};
use crate::model::{Report, Row, Section};
use crate::units::{UNAVAILABLE, capitalized, clean, human};

/// Heading of the column with the most helpful change.
const ADVICE: &str = "recommendation";

/// The parts of one run, case, implementation and device.
struct Group<'a> {
    view: &'a Parts,
    key: (usize, String, &'a str, &'a str),
    parts: Vec<Part<'a>>,
}

/// A measured part.
#[derive(Clone, Copy)]
struct Part<'a> {
    workload: &'a str,
    title: &'a str,
    row: &'a Row,
    seconds: f64,
}

impl<'a> Group<'a> {
    fn total(&self) -> f64 {
        self.parts.iter().map(|part| part.seconds).sum()
    }

    fn longest(&self) -> Option<&Part<'a>> {
        self.parts.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// The fused form with an upper bound on the share of the total that it saves: the traffic of the parts that it
    /// replaces, as far as their arithmetic does not hide it. `None` unless all of these parts were measured and the
    /// share is large enough.
    fn fused(&self) -> Option<(&'a Fused, f64)> {
        let fused = self.view.fused.as_ref()?;
        let mut saved = 0.0;
        for workload in &fused.parts {
            let part = self.parts.iter().find(|part| part.workload == workload)?;
            let d = part.row.diagnosis.as_ref()?;
            saved += d.seconds(Limit::Memory).min(part.seconds - d.seconds(Limit::Compute)).max(0.0);
        }
        Some((fused, saved / self.total())).filter(|(_, share)| *share >= fused.worth)
    }

    /// The most helpful change for a part: the fused form, if the part is bound by traffic that the fused form avoids.
    fn advice(&self, part: &Part<'_>) -> Option<String> {
        let bound = part.row.diagnosis.as_ref().is_some_and(|d| d.limit == Limit::Memory);
        match self.fused() {
            Some((form, share)) if bound && form.parts.iter().any(|one| one == part.workload) => {
                Some(fused(form, share))
            }
            _ => recommendation(part.row, part.seconds / self.total()),
        }
    }

    /// Which part takes longest, and whether all of them were measured.
    fn verdict(&self) -> String {
        let Some(longest) = self.longest() else { return String::new() };
        let share = human(longest.seconds / self.total(), "1");
        let mut text = format!("bottleneck: {} ({share})", clean(longest.title));
        if let Some(advice) = self.advice(longest) {
            text += &format!("; {advice}");
        }
        if let Some((form, share)) = self.fused().filter(|(form, _)| !text.contains(&clean(&form.advice))) {
            text += &format!("; {}", fused(form, share));
        }
        let missing = self.view.parts.iter().filter(|(known, _)| !self.parts.iter().any(|part| part.workload == known));
        let missing: Vec<String> = missing.map(|(_, title)| clean(title)).collect();
        if !missing.is_empty() {
            text += &format!(". Missing from this record and from the total: {}", missing.join(", "));
        }
        text
    }

    fn components(&self, title: &str) -> Components {
        let total_s = self.total();
        let (run, case, implementation, device) = self.key.clone();
        let part = |part: &Part<'_>| Component {
            workload: part.workload.to_string(),
            title: clean(part.title),
            time_s: part.seconds,
            held: part.row.held_up.is_some(),
            share: part.seconds / total_s,
            limit: part.row.diagnosis.as_ref().map(|diagnosis| diagnosis.limit),
            label: part.row.diagnosis.as_ref().map_or_else(|| UNAVAILABLE.to_string(), |diagnosis| diagnosis.label()),
            of_compute: part.row.utilisation(Limit::Compute),
            of_bandwidth: part.row.utilisation(Limit::Memory),
            recommendation: self.advice(part),
        };
        Components {
            title: title.to_string(),
            run,
            case,
            implementation: implementation.to_string(),
            device: device.to_string(),
            total_s,
            summary: self.verdict(),
            parts: self.parts.iter().map(part).collect(),
        }
    }
}

/// `batch 1, sequence 256 · simd`.
pub(crate) fn heading(case: &str, implementation: &str) -> String {
    [case, implementation].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" · ")
}

fn fused(form: &Fused, share: f64) -> String {
    saving(&clean(&form.advice), share)
}

/// A change with the upper bound on the share of the total that it saves.
fn saving(change: &str, share: f64) -> String {
    format!("{change} (saves at most {} of the total)", human(share, "1"))
}

/// The diagnosis's most helpful change for a part with the given share of the total.
fn recommendation(row: &Row, share: f64) -> Option<String> {
    let change = row.diagnosis.as_ref()?.changes.first()?;
    Some(saving(change.experiment, share * change.saving_upper_bound))
}

/// The tables of a report: the title of each view with its groups of at least two parts, in order of first appearance.
fn tables(report: &Report) -> Vec<(String, Vec<Components>)> {
    let parts = report.views.iter().filter_map(|view| match view {
        View::Parts(parts) => {
            let title = clean(&parts.title);
            let found: Vec<Components> = groups(report, parts).iter().map(|group| group.components(&title)).collect();
            Some((title, found))
        }
        _ => None,
    });
    parts.filter(|(_, groups)| !groups.is_empty()).collect()
}

/// The parts of one run, case, implementation and device.
#[derive(Debug, Serialize)]
pub(crate) struct Components {
    pub(crate) title: String,
    run: usize,
    pub(crate) case: String,
    pub(crate) implementation: String,
    device: String,
    total_s: f64,
    /// The part that takes longest and the most helpful change.
    summary: String,
    pub(crate) parts: Vec<Component>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Component {
    workload: String,
    pub(crate) title: String,
    pub(crate) time_s: f64,
    /// True if other programs held the part up: its time is an upper bound.
    #[serde(skip)]
    held: bool,
    pub(crate) share: f64,
    limit: Option<Limit>,
    /// The limit with its level.
    #[serde(skip)]
    label: String,
    /// Utilisation of the peaks; `None` if the part does no such work or no ceiling is known.
    of_compute: Option<f64>,
    of_bandwidth: Option<f64>,
    recommendation: Option<String>,
}

impl Components {
    fn heading(&self) -> String {
        heading(&self.case, &self.implementation)
    }

    fn columns(&self) -> Vec<Column> {
        let cells = |of: &dyn Fn(&Component) -> String, last: String| -> Vec<String> {
            self.parts.iter().map(of).chain([last]).collect()
        };
        let names = cells(&|part| part.title.clone(), "total".into());
        let held = self.parts.iter().any(|part| part.held);
        let times = cells(&|part| at_most(part.held, part.time_s), at_most(held, self.total_s));
        let shares = cells(&|part| human(part.share, "1"), human(1.0, "1"));
        let used = |share: Option<f64>| share.map_or_else(|| "–".to_string(), |share| human(share, "1"));
        let advice = cells(&|part| part.recommendation.clone().unwrap_or_default(), String::new());
        let mut columns = vec![
            Column::new("component", false, 0, names),
            Column::new("time", true, 0, times),
            Column::new("share", true, 0, shares),
            Column::new("limit", false, 1, cells(&|part| part.label.clone(), String::new())),
            Column::new("of compute", true, 1, cells(&|part| used(part.of_compute), String::new())),
            Column::new("of bandwidth", true, 1, cells(&|part| used(part.of_bandwidth), String::new())),
        ];
        // A recommendation common to all parts is printed in the line of the bottleneck.
        let mut given = advice.iter().filter(|text| !text.is_empty());
        let first = given.next();
        if given.any(|text| Some(text) != first) {
            columns.push(Column::new(ADVICE, false, 2, advice));
        }
        columns
    }
}

/// All groups of a report.
pub(crate) fn components(report: &Report) -> Vec<Components> {
    tables(report).into_iter().flat_map(|(_, groups)| groups).collect()
}

fn groups<'a>(report: &'a Report, view: &'a Parts) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (workload, title) in &view.parts {
        for row in report.workloads.iter().filter(|section| section.workload == *workload).flat_map(|s| &s.rows) {
            let Some(seconds) = row.median("time").filter(|seconds| *seconds > 0.0) else { continue };
            let params: Vec<String> = row
                .params
                .iter()
                .map(|param| format!("{} {}", param.axis, row.param(&param.axis).unwrap_or_default()))
                .collect();
            let key = (row.run, params.join(", "), row.implementation.as_str(), row.device.as_str());
            let part = Part { workload, title, row, seconds };
            match groups.iter_mut().find(|group| group.key == key) {
                Some(group) => group.parts.push(part),
                None => groups.push(Group { view, key, parts: vec![part] }),
            }
        }
    }
    groups.retain(|group| group.parts.len() > 1);
    groups
}

/// True if the rows of a section are in a table of parts only because the whole was measured; that table suffices.
pub(super) fn shows(report: &Report, section: &Section) -> bool {
    let measured = |name: &str| report.workloads.iter().any(|section| section.workload == name);
    let with_whole = |view: &Parts| {
        view.whole.as_ref().is_some_and(|whole| {
            measured(&whole.workload)
                && view.parts.iter().any(|(part, _)| *part == section.workload)
                && section.implementations == [whole.implementation.as_str()]
                && section.rows.iter().all(|row| row.median("time").is_some())
        })
    };
    report.views.iter().any(|view| matches!(view, View::Parts(view) if with_whole(view)))
}

/// Writes the terminal tables.
pub(super) fn text(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let Options { width, full, .. } = report.options;
    for (title, groups) in tables(report) {
        let one = groups.len() == 1;
        for group in groups {
            report.options.title(&format!("{title} · {}", group.heading()), out)?;
            let mut columns = group.columns();
            // With --full, and for a single table, columns that do not fit follow below the table.
            let below = if (full || one) && !grid::fits(&columns, width) {
                columns.pop_if(|last| last.head == ADVICE)
            } else {
                None
            };
            grid::show(columns, vec![group.summary.clone()], &report.options, out)?;
            let advice = below.iter().flat_map(|column| &column.cells);
            for (part, advice) in group.parts.iter().zip(advice).filter(|(_, advice)| !advice.is_empty()) {
                report.options.print(Tone::Plain, &format!("- {}: {advice}", part.title), out)?;
            }
        }
    }
    Ok(())
}

/// Writes the section of the Markdown report.
pub(super) fn write_markdown(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for (title, groups) in tables(report) {
        writeln!(out, "## {}\n", capitalized(title))?;
        writeln!(out, "Each part was measured separately, on its own inputs; shares refer to the sum.\n")?;
        for group in groups {
            writeln!(out, "### {}\n", group.heading())?;
            markdown(&group.columns(), out)?;
            writeln!(out, "\n{}.\n", group.summary)?;
        }
    }
    Ok(())
}
