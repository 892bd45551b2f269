//! Budgets: limits that a project sets in `ellwand.toml` and against which `run` and `compare` check results.
//!
//! ```toml
//! binary_size = "20 MB"          # this program's file; of two programs the candidate's
//!
//! [[budget]]                     # every budget that matches is judged
//! workload = "layer-norm"        # or a pattern
//! implementation = "simd"        # or a pattern; all if it is left out
//! batch = 16                     # an axis of the workload; all values if it is left out
//! time = "2 ms"                  # of an iteration, or of an item: "0.4 ns/item"
//! peak_memory = "64 MB"          # largest resident set above the inputs
//! throughput = "100 k/s"         # items a second, at least
//! speedup = "2x"                 # over the baseline of the run, at least
//! at_least = { compression = 4 } # readings by their key; also at_most
//! ```

mod file;
mod judge;
mod quantity;
#[cfg(test)]
mod tests;
mod values;

use std::path::Path;

use ellwand_core::Reading;
use ellwand_core::record::Measurement;
use ellwand_report::units::human;
use serde_json::{Value as Json, json};

use super::exit::Failure;
use super::output;
pub(super) use file::{Budgets, find};
use judge::Budget;
pub(super) use judge::{Baseline, Judged, State, Subject};

/// The verdict of a budget, with the name of what it limits.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    /// Case and implementation, or the program.
    pub(super) subject: String,
    /// Location of the budget: `ellwand.toml line 3`.
    pub(super) place: String,
    pub(super) judged: Judged,
}

impl Verdict {
    /// `layer-norm/batch=16 simd: time 2.31 ms ..., budget 2 ms: over by 15 %`.
    pub(super) fn line(&self) -> String {
        format!("{}: {} ({})", self.subject, self.judged.text, self.place)
    }

    /// The JSON form, for other programs.
    pub(super) fn json(&self) -> Json {
        let Judged { what, state, value, limit, text } = &self.judged;
        json!({ "subject": self.subject, "what": what, "state": state.word(), "value": value, "limit": limit, "text": text, "place": self.place })
    }
}

impl Budgets {
    /// True if any budget needs the memory probe.
    pub(super) fn ask_for_memory(&self) -> bool {
        self.rows.iter().any(|budget| budget.peak_memory.is_some())
    }

    /// Notes on budgets that no measurement can keep.
    fn notes(&self) -> Vec<String> {
        let step = Reading::RESIDENT_STEP;
        let small = |budget: &&Budget| budget.peak_memory.is_some_and(|limit| limit.value < step);
        let note = |budget: &Budget| {
            format!(
                "note: {}: this peak_memory can be broken but never kept, because less than {} is not resolved; \
                 set 1 MiB or more",
                self.place(Some(budget.line)),
                human(step, "B")
            )
        };
        self.rows.iter().filter(small).map(note).collect()
    }

    fn place(&self, line: Option<usize>) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        line.map_or_else(|| name.to_string(), |line| format!("{name} line {line}"))
    }

    /// Checks one implementation at one case against every budget that matches.
    pub(super) fn judge(&self, name: &str, subject: &Subject) -> Vec<Verdict> {
        let fitting = self.rows.iter().filter(|budget| budget.fits(subject));
        fitting
            .flat_map(|budget| budget.judge(subject).into_iter().map(|judged| (budget.line, judged)))
            .map(|(line, judged)| Verdict { subject: name.to_string(), place: self.place(Some(line)), judged })
            .collect()
    }

    /// Judges the size of a program's file by its budget.
    pub(super) fn judge_program(&self, program: &Path) -> Option<Verdict> {
        let limit = self.binary_size?;
        // The link determines the program, but only its name helps a reader.
        let named = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_path_buf());
        let judged = match std::fs::metadata(&named) {
            Ok(data) => values::bytes("binary size", data.len() as f64, limit),
            Err(error) => Judged {
                what: "binary size".into(),
                state: State::Open,
                value: None,
                limit: limit.value,
                text: format!("binary size not judged: {} cannot be read ({error})", named.display()),
            },
        };
        let subject = named.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some(Verdict { subject, place: self.place(None), judged })
    }

    /// The budgets for these workloads and implementations that match none of the cases; a typing error would otherwise
    /// look like a budget that is kept.
    pub(super) fn unmatched(&self, measured: &[(&str, &str)], verdicts: &[Verdict]) -> Vec<Verdict> {
        let about = |budget: &&Budget| measured.iter().any(|(workload, name)| budget.is_about(workload, name));
        let rows = self.rows.iter().filter(about).map(|budget| Verdict {
            subject: budget.implementation.iter().fold(budget.workload.clone(), |name, i| format!("{name} {i}")),
            place: self.place(Some(budget.line)),
            judged: budget.unmatched(),
        });
        rows.filter(|row| !verdicts.iter().any(|verdict| verdict.place == row.place)).collect()
    }

    /// Judges the measurements of a run, and the program itself, by the budgets.
    pub(super) fn judge_run(&self, measurements: &[Measurement]) -> Vec<Verdict> {
        let rows = measurements.iter().flat_map(|m| {
            let subject = Subject {
                workload: &m.case.workload,
                value: &|axis| m.case.value(axis),
                implementation: &m.implementation,
                parallelism: m.parallelism,
                items: m.work.items,
                samples: match m.outcome.reason() {
                    None => Ok(&m.samples),
                    Some(_) => Err(m.outcome.word()),
                },
                readings: &m.readings,
                baseline: baseline(measurements, m),
                resolution_s: m.resolution_ns.map(|ns| ns * 1e-9),
            };
            self.judge(&format!("{} {}", m.case.id, m.implementation), &subject)
        });
        let program = std::env::current_exe().ok().and_then(|program| self.judge_program(&program));
        let mut verdicts: Vec<Verdict> = program.into_iter().chain(rows).collect();
        let measured = measurements.iter().filter(|m| m.outcome.is_measured());
        let measured: Vec<(&str, &str)> =
            measured.map(|m| (m.case.workload.as_str(), m.implementation.as_str())).collect();
        verdicts.extend(self.unmatched(&measured, &verdicts));
        verdicts
    }

    /// Prints the budgets that are not kept, and their number: on stdout below a table, on stderr if stdout has another
    /// format.
    pub(super) fn print(&self, verdicts: &[Verdict], table: bool) -> Result<(), Failure> {
        let count = |state: State| verdicts.iter().filter(|verdict| verdict.judged.state == state).count();
        let mut lines: Vec<String> = verdicts
            .iter()
            .filter(|verdict| verdict.judged.state != State::Kept)
            .map(|verdict| format!("budget {}: {}", verdict.judged.state.word(), verdict.line()))
            .collect();
        if !verdicts.is_empty() {
            let [kept, broken, open, unmatched] =
                [State::Kept, State::Broken, State::Open, State::Unmatched].map(count);
            let unmatched = if unmatched > 0 { format!(", {unmatched} unmatched") } else { String::new() };
            let path = self.path.display();
            lines.push(format!("budgets of {path}: {kept} kept, {broken} broken, {open} open{unmatched}"));
        }
        if !table || lines.is_empty() {
            lines.iter().for_each(|line| output::note(line));
            return Ok(());
        }
        output::result(|out| output::prose(out, |out| writeln!(out, "\n{}", lines.join("\n"))))
    }
}

/// The baseline of a measurement: at its case, on its device if the baseline ran there.
fn baseline<'a>(all: &'a [Measurement], own: &'a Measurement) -> Option<Baseline<'a>> {
    let named = || all.iter().filter(|m| m.case.id == own.case.id && m.implementation == own.baseline);
    let found = named().find(|m| m.device == own.device).or_else(|| named().next());
    let samples = match found {
        Some(m) if m.session != own.session => Err("measured by another command of this record"),
        Some(m) if m.outcome.is_measured() => Ok(m.samples.as_slice()),
        Some(m) => Err(m.outcome.word()),
        None => Err("not measured"),
    };
    Some(Baseline { name: &own.baseline, parallelism: found.map_or(own.parallelism, |m| m.parallelism), samples })
}

pub(super) fn broken(verdicts: &[Verdict]) -> bool {
    verdicts.iter().any(|verdict| verdict.judged.state == State::Broken)
}
