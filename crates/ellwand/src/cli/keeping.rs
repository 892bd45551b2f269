//! `compare -o DIR`: the record of a comparison, and the report that is made from it.

use std::path::PathBuf;

use clap::ArgMatches;
use ellwand_bench::compare::{Decision, Terms};
use ellwand_bench::{Writer, arms, writer};
use ellwand_core::record::{Arm, BlockValues, Comparison, Ended, Run, VERSION};
use ellwand_core::{InputError, Registry};
use ellwand_report::PlotNames;

use super::command::{is_set, text};
use super::compare::Row;
use super::exit::Failure;
use super::{certificate, output, report, run, standing, verdict};

/// An open record of comparisons.
pub(super) struct Keeper {
    dir: PathBuf,
    record: Writer,
}

impl Keeper {
    /// Begins the record in the directory that `-o` names; `None` without one.
    pub(super) fn begin(registry: &Registry, matches: &ArgMatches, line: &[String]) -> Result<Option<Self>, Failure> {
        let Some(dir) = text(matches, "output").map(PathBuf::from) else { return Ok(None) };
        let path = dir.join(run::RECORD);
        if path.exists() && !is_set(matches, "overwrite") {
            return Err(InputError::new("-o", format!("{} holds a record already", dir.display()), "a new directory")
                .help("--overwrite replaces it")
                .into());
        }
        let before = if is_set(matches, "overwrite") {
            standing::record(&path)
        } else {
            standing::only_ours(&dir, &PlotNames::default())?;
            None
        };
        output::directory("-o", &dir)?;
        let started = output::unix_ms();
        let mut environment = run::environment(registry);
        environment.ceilings = super::ceilings::kept(&environment).unwrap_or_default();
        let run = Run {
            version: VERSION,
            id: run::id(started),
            command: line.to_vec(),
            started_unix_ms: started,
            ellwand: env!("CARGO_PKG_VERSION").to_string(),
            seed: matches.get_one::<u64>("seed").copied().unwrap_or(42),
            certificate: certificate::kept(&environment),
            environment,
            settings: arms::settings(),
            views: Vec::new(),
        };
        let record = Writer::create(&path, &run)?;
        if is_set(matches, "overwrite") {
            standing::clear(&dir, before.as_ref());
        }
        Ok(Some(Self { dir, record }))
    }

    /// Writes down one comparison.
    pub(super) fn keep(&mut self, row: &Row, terms: &Terms) -> Result<(), Failure> {
        Ok(self.record.comparison(&comparison(row, terms))?)
    }

    /// Reads the record back and writes the report beside it.
    pub(super) fn end(self, matches: &ArgMatches) -> Result<(), Failure> {
        let Self { dir, record } = self;
        drop(record);
        let record = writer::read(&dir.join(run::RECORD))?;
        if !record.comparisons.is_empty() {
            report::write_directory(matches, &[record], &dir)?;
        }
        output::note(&format!("written to {}", dir.display()));
        Ok(())
    }
}

fn comparison(row: &Row, terms: &Terms) -> Comparison {
    let [baseline, candidate] = row.names.clone();
    let common = Comparison {
        case: row.case.clone(),
        baseline,
        candidate,
        rope: terms.rule.rope(),
        alpha: terms.rule.spending().alpha(),
        looks: terms.rule.spending().looks().to_vec(),
        judged_by: String::new(),
        basis: None,
        verdict: verdict::said(row.said).into(),
        ended: None,
        arms: Vec::new(),
        blocks: Vec::new(),
        grain: 0.0,
        notes: Vec::new(),
        elapsed_s: 0.0,
    };
    match &row.result {
        Err((arm, outcome)) => {
            Comparison { ended: Some(Ended { arm: (*arm).to_string(), outcome: outcome.clone() }), ..common }
        }
        Ok(decision) => Comparison {
            judged_by: decision.basis.about().into(),
            basis: Some(decision.basis),
            arms: arms_of(decision),
            blocks: decision
                .blocks
                .iter()
                .map(|b| BlockValues { main: b.main, control: b.control, median: b.median, p90: b.p90, mean: b.mean })
                .collect(),
            grain: decision.grain,
            notes: verdict::notes(row, decision),
            elapsed_s: decision.elapsed_s,
            ..common
        },
    }
}

fn arms_of(decision: &Decision) -> Vec<Arm> {
    // The third arm is the baseline again; nobody reads its memory a second time.
    let side = |arm: usize| arm % decision.what_ran.len();
    decision
        .samples
        .iter()
        .enumerate()
        .map(|(arm, samples)| Arm {
            what_ran: decision.what_ran[side(arm)].clone(),
            samples: samples.clone(),
            settling: decision.settling[side(arm)].clone(),
            readings: decision.readings.get(arm).cloned().unwrap_or_default(),
        })
        .collect()
}
