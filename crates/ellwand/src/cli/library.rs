//! Measuring from within a program: results are values instead of files and an exit code.

use std::sync::atomic::AtomicBool;

use ellwand_bench::probe::PROBES;
use ellwand_bench::settings::Effort;
use ellwand_bench::{Instrument, Plan, Selection, resolutions};
use ellwand_core::record::{Counts, Measurement, Record, Run, Sample, Settings};
use ellwand_core::{InputError, Registry};
use ellwand_report::{FORMATS, Finding, Options, Report, ReportError, Row, format};

use super::{ceilings, output, recording};

/// What to measure; see [`measure`].
#[derive(Clone)]
pub struct Measure {
    registry: Registry,
    selection: Selection,
    effort: Effort,
    counts: Option<Counts>,
    seed: u64,
}

/// Begins a measurement of a registry, or of a single suite, in this process. It measures everything unless you give
/// names. It writes nothing, and uses the ceilings that an earlier `run` or `machine` stored.
///
/// ```no_run
/// use ellwand::{Axis, suite};
/// let sort = suite("sort")
///     .axis(Axis::int("n", "numbers", 1, 1 << 20, 1000))
///     .input(|case, _| (0..case.usize("n")).map(|i| (i * 7919) % 10_007).collect::<Vec<_>>())
///     .implementation_mut("stable", |numbers| numbers.sort())
///     .implementation_mut("unstable", |numbers| numbers.sort_unstable());
/// let results = ellwand::measure(sort).axis("n", "1000,100000").run()?;
/// for row in results.rows() {
///     println!("{} {}: {:?} s", row.case, row.implementation, row.median("time"));
/// }
/// # Ok::<(), ellwand::MeasureError>(())
/// ```
pub fn measure(registry: impl Into<Registry>) -> Measure {
    let selection = Selection { workloads: vec!["*".into()], ..Selection::default() };
    Measure { registry: registry.into(), selection, effort: Effort::Normal, counts: None, seed: 42 }
}

impl Measure {
    /// Measures only these workloads, groups or patterns; `WORKLOAD:IMPLEMENTATION` for one implementation.
    #[must_use]
    pub fn workloads<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.selection.workloads = names.into_iter().map(Into::into).collect();
        self
    }

    /// Measures only these implementations.
    #[must_use]
    pub fn implementations<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.selection.implementations = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets an axis to a value, or to several separated by commas, as on the command line. The last call counts, by
    /// name or alias.
    #[must_use]
    pub fn axis(mut self, name: &str, values: impl ToString) -> Self {
        for workload in self.registry.workloads() {
            for axis in workload.axes().iter().filter(|axis| axis.names().any(|known| known == name)) {
                axis.names().for_each(|other| drop(self.selection.axes.remove(other)));
            }
        }
        self.selection.axes.insert(name.to_string(), values.to_string());
        self
    }

    /// Sets the named size, or several separated by commas.
    #[must_use]
    pub fn size(mut self, names: &str) -> Self {
        self.selection.size = Some(names.to_string());
        self
    }

    /// Sets how long each case is measured.
    #[must_use]
    pub fn effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// Fixes the untimed and timed iterations of each slot, which Ellwand otherwise chooses.
    pub(crate) fn counts(mut self, counts: Counts) -> Self {
        self.counts = Some(counts);
        self
    }

    /// Sets the seed of the inputs and of the order of rounds.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Measures. An implementation that fails or is wrong becomes a row with the reason.
    ///
    /// # Errors
    /// If a name, axis or value is unknown, or nothing is left to measure.
    pub fn run(self) -> Result<Results, MeasureError> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let Self { registry, selection, effort, counts, seed } = self;
        if counts.is_some_and(|counts| counts.iterations == 0) {
            return Err(InputError::new("iterations", "0 is too small", "at least 1 timed iteration").into());
        }
        let plan = Plan::expand(&registry, &selection)?;
        let mut here = ceilings::environment(&registry);
        here.ceilings = ceilings::stored(&here).unwrap_or_default();
        let command = std::env::args().collect();
        let run =
            recording::first_line(here, Settings { counts, ..effort.settings() }, seed, output::unix_ms(), command);
        let run = Run { views: registry.views_of(plan.cells.iter().map(|cell| cell.workload.name())), ..run };
        let resolutions = resolutions(&registry, &run.settings);
        let instrument = Instrument::new(&registry, run.settings.clone(), seed, &NEVER);
        let instrument = Instrument { probes: PROBES, resolutions, ..instrument };
        let measured = plan.cells.iter().filter_map(|cell| instrument.measure(cell, &mut |_| {}).ok());
        let measurements: Vec<Measurement> = measured.flatten().collect();
        let record = Record {
            run,
            measurements,
            comparisons: Vec::new(),
            resumed: Vec::new(),
            resumed_revisions: Vec::new(),
            spans: Vec::new(),
            warnings: Vec::new(),
            checked: true,
        };
        let report = Report::from_records(std::slice::from_ref(&record), &Options::default())?;
        Ok(Results { record, report })
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// A name, axis or value is unknown or invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// No report can be made of the measurements.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A function or its memory could not be measured, with the reason.
    #[error("{0}")]
    Unmeasured(String),
}

/// The results of a measurement.
#[derive(Debug, Clone)]
pub struct Results {
    /// The facts: environment, settings, every raw sample.
    pub record: Record,
    /// What is computed from the record: medians, speed-ups, limits, findings.
    pub report: Report,
}

impl Results {
    /// The rows: one for each case and implementation.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.report.workloads.iter().flat_map(|section| &section.rows)
    }

    /// The row of an implementation of a workload at the first case that has it.
    pub fn row(&self, workload: &str, implementation: &str) -> Option<&Row> {
        let section = self.report.workloads.iter().find(|section| section.workload == workload)?;
        section.rows.iter().find(|row| row.implementation == implementation)
    }

    /// The raw samples of a row in the order taken; empty if it was not measured.
    pub fn samples(&self, row: &Row) -> &[Sample] {
        let same = |m: &&Measurement| {
            m.case.id == row.case && m.implementation == row.implementation && m.device == row.device
        };
        self.record.measurements.iter().find(same).map_or(&[], |m| &m.samples)
    }

    /// What the rules found: bottlenecks with evidence, a bound on their cost, and the next experiment.
    pub fn findings(&self) -> &[Finding] {
        &self.report.findings
    }

    /// The results as text: `table`, `csv`, `json`, `jsonl`, `markdown`, `seed-json`, `seed-table`, or with the feature
    /// `page` `html`.
    ///
    /// # Errors
    /// If there is no such format. `junit` and `github` describe exit codes, which only the command line has.
    pub fn text(&self, name: &str) -> Result<String, MeasureError> {
        let Some(known) = format(name) else {
            let problem = match name {
                "html" => "'html' needs the feature `page` of the crate ellwand".to_string(),
                "junit" | "github" => format!("'{name}' exists only on the command line"),
                _ => format!("'{name}' is unknown"),
            };
            let known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
            return Err(InputError::new("format", problem, format!("one of {}", known.join(", "))).into());
        };
        let mut out = Vec::new();
        (known.write)(&self.report, &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
}
