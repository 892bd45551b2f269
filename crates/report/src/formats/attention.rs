//! The parts of attention in one table, if a record has measurements of them: time, share of the sum, limit and best
//! change.
//!
//! The parts were measured separately, each on its own inputs; their sum is the time of running one after the other.

use std::io::{self, Write};

use crate::Options;
use crate::diagnose::Limit;
use crate::grid::{self, Column, Tone, markdown, paint, wrap};
use crate::model::{Report, Row};
use crate::units::{UNAVAILABLE, human};

/// Workloads in the order of computation, with their names in the table.
const PARTS: [(&str, &str); 5] = [
    ("attention-qkv", "QKV projection"),
    ("attention-scores", "score computation"),
    ("attention-softmax", "softmax"),
    ("attention-weighted-sum", "weighted sum"),
    ("attention-output", "output projection"),
];

/// The parts that exchange the score matrix through memory unless they are fused.
const SCORES: [&str; 3] = ["score computation", "softmax", "weighted sum"];

/// Savings below this share of the total are not worth another implementation.
const WORTH: f64 = 0.05;

/// The parts of one run, case, implementation and device.
struct Group<'a> {
    key: (usize, String, &'a str, &'a str),
    /// Name, row and median time in seconds of each part.
    parts: Vec<(&'static str, &'a Row, f64)>,
}

impl<'a> Group<'a> {
    fn total(&self) -> f64 {
        self.parts.iter().map(|(_, _, seconds)| seconds).sum()
    }

    fn longest(&self) -> Option<&(&'static str, &'a Row, f64)> {
        self.parts.iter().max_by(|a, b| a.2.total_cmp(&b.2))
    }

    /// The largest share of the total that fusion can save: the memory traffic of the parts that share the scores, as
    /// far as it is not hidden by arithmetic. `None` unless all three were measured and the saving is worth it.
    fn fusion(&self) -> Option<f64> {
        let mut saved = 0.0;
        for name in SCORES {
            let (_, row, seconds) = self.parts.iter().find(|(have, _, _)| *have == name)?;
            let d = row.diagnosis.as_ref()?;
            saved += d.seconds(Limit::Memory).min(seconds - d.seconds(Limit::Compute)).max(0.0);
        }
        Some(saved / self.total()).filter(|share| *share >= WORTH)
    }

    /// The best change for a part: fusion if the traffic of the scores limits it, else the diagnosis.
    fn advice(&self, name: &str, row: &Row) -> Option<String> {
        let bound = row.diagnosis.as_ref().is_some_and(|d| d.limit == Limit::Memory);
        match self.fusion() {
            Some(share) if bound && SCORES.contains(&name) => Some(fused(share)),
            _ => recommendation(row),
        }
    }

    /// Heading such as `batch 1, sequence 256 · simd`.
    fn title(&self) -> String {
        let implementation = self.key.2;
        [self.key.1.as_str(), implementation]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(" · ")
    }

    /// The slowest part, the best change, and the parts that are missing.
    fn verdict(&self) -> String {
        let Some((name, row, seconds)) = self.longest() else { return String::new() };
        let mut text = format!("bottleneck: {name} ({})", human(seconds / self.total(), "1"));
        if let Some(advice) = self.advice(name, row) {
            text += &format!("; {advice}");
        }
        if let Some(share) = self.fusion().filter(|_| !text.contains(FUSED)) {
            text += &format!("; {}", fused(share));
        }
        let missing: Vec<&str> = PARTS
            .iter()
            .filter(|(_, name)| !self.parts.iter().any(|(have, _, _)| have == name))
            .map(|(_, name)| *name)
            .collect();
        if !missing.is_empty() {
            text += &format!(". Missing from this record and from the total: {}", missing.join(", "));
        }
        text
    }

    fn columns(&self) -> Vec<Column> {
        let total = self.total();
        let cells = |of: &dyn Fn(&Row, f64) -> String, last: String| -> Vec<String> {
            self.parts.iter().map(|(_, row, seconds)| of(row, *seconds)).chain([last]).collect()
        };
        let names = self.parts.iter().map(|(name, _, _)| (*name).to_string()).chain(["total".to_string()]).collect();
        let bound = |row: &Row, _| row.diagnosis.as_ref().map_or_else(|| UNAVAILABLE.to_string(), |d| d.label());
        let advice = self.parts.iter().map(|(name, row, _)| self.advice(name, row).unwrap_or_default());
        let advice = advice.chain([String::new()]).collect();
        vec![
            Column::new("component", false, 0, names),
            Column::new("time", true, 0, cells(&|_, seconds| human(seconds, "s"), human(total, "s"))),
            Column::new("share", true, 0, cells(&|_, seconds| human(seconds / total, "1"), human(1.0, "1"))),
            Column::new("limit", false, 1, cells(&bound, String::new())),
            Column::new("recommendation", false, 2, advice),
        ]
    }
}

const FUSED: &str = "use the fused implementation (`attention-core`, `attention`), which never writes the scores";

fn fused(share: f64) -> String {
    format!("{FUSED} (saves at most {} of the total)", human(share, "1"))
}

/// The best change for a row, from its diagnosis.
fn recommendation(row: &Row) -> Option<String> {
    let change = row.diagnosis.as_ref()?.changes.first()?;
    Some(format!("{} (saves at most {})", change.experiment, human(change.saving_upper_bound, "1")))
}

/// Groups of at least two parts, in order of first appearance.
fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (workload, name) in PARTS {
        for row in report.workloads.iter().filter(|section| section.workload == workload).flat_map(|s| &s.rows) {
            let Some(seconds) = row.median("time").filter(|seconds| *seconds > 0.0) else { continue };
            let params: Vec<String> = row
                .params
                .iter()
                .map(|param| format!("{} {}", param.axis, row.param(&param.axis).unwrap_or_default()))
                .collect();
            let key = (row.run, params.join(", "), row.implementation.as_str(), row.device.as_str());
            match groups.iter_mut().find(|group| group.key == key) {
                Some(group) => group.parts.push((name, row, seconds)),
                None => groups.push(Group { key, parts: vec![(name, row, seconds)] }),
            }
        }
    }
    groups.retain(|group| group.parts.len() > 1);
    groups
}

/// Writes the terminal table.
pub(super) fn text(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let Options { width, color, .. } = report.options;
    for group in groups(report) {
        let title = wrap(&format!("attention by component · {}", group.title()), width, 2);
        writeln!(out, "\n{}", paint(&title, Tone::Strong, color))?;
        let mut columns = group.columns();
        grid::fit(&mut columns, width);
        grid::write(&columns, color, |_| Tone::Plain, out)?;
        writeln!(out, "{}", paint(&wrap(&group.verdict(), width, 2), Tone::Faint, color))?;
    }
    Ok(())
}

/// Writes the section of the Markdown report.
pub(super) fn write_markdown(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let groups = groups(report);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Attention by component\n")?;
    writeln!(out, "Each part was measured separately, on its own inputs; shares refer to the sum.\n")?;
    for group in groups {
        writeln!(out, "### {}\n", group.title())?;
        markdown(&group.columns(), out)?;
        writeln!(out, "\n{}.\n", group.verdict())?;
    }
    Ok(())
}
