//! `compare -o DIR`: the record of a comparison, and the report made from it.

use std::path::Path;

use ellwand_bench::compare::{Decision, Terms};
use ellwand_bench::{Writer, arms, writer};
use ellwand_core::Registry;
use ellwand_core::record::{Arm, Centre, Comparison, Ended, Settings};
use ellwand_report::Options;

use super::args::CompareArgs;
use super::exit::Failure;
use super::recording::{first_line, follow};
use super::results_dir::{self, RECORD, Results};
use super::rows::Row;
use super::{ceilings, output, report, verdict};

/// An open record of comparisons.
pub(super) struct Keeper {
    results: Results,
    record: Writer,
}

impl Keeper {
    /// Begins the record in the directory that `-o` names; `None` without one.
    pub(super) fn begin(registry: &Registry, args: &CompareArgs, line: Vec<String>) -> Result<Option<Self>, Failure> {
        let Some(dir) = args.session.output.clone() else { return Ok(None) };
        results_dir::claim(&dir, args.session.overwrite, false, "--overwrite replaces it")?;
        output::directory("-o", &dir)?;
        let mut here = ceilings::environment(registry);
        here.ceilings = ceilings::stored(&here).unwrap_or_default();
        let run = first_line(
            here,
            Settings { allowed: args.cases.allowed(), ..arms::settings() },
            args.cases.seed(),
            output::unix_ms(),
            line,
        );
        let results = Results::open(&dir, args.session.overwrite, false)?;
        let record = Writer::create(&results.dir().join(RECORD), &run)?;
        Ok(Some(Self { results, record }))
    }

    pub(super) fn keep(&mut self, row: &Row, terms: &Terms) -> Result<(), Failure> {
        self.record.append(&comparison(row, terms))?;
        follow(&mut self.record)
    }

    /// Reads the record back and writes the report next to it. Old results stay if there are no new ones, or not all.
    pub(super) fn end(self, interrupted: bool) -> Result<(), Failure> {
        let Self { results, mut record } = self;
        follow(&mut record)?;
        let path = record.path().to_path_buf();
        drop(record);
        let record = writer::read(&path)?;
        if results.replaces() && record.comparisons.iter().all(|comparison| comparison.ended.is_some()) {
            results.keep_old();
            output::note("nothing was decided; the old results are unchanged");
            return Ok(());
        }
        if results.replaces() && interrupted {
            output::note(&format!("the old results are unchanged; those of this comparison are in {}", path.display()));
            return Ok(());
        }
        if !record.comparisons.is_empty() {
            let options = Options { plots: true, ..Options::default() };
            report::write_directory(&options, &[record], path.parent().unwrap_or(Path::new(".")))?;
        }
        results.place(&path)
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
        spending: terms.rule.spending().curve(),
        stakes: terms.rule.stakes(),
        centre: Centre::Robust,
        verdict: verdict::label(row.said).into(),
        ..Comparison::default()
    };
    match &row.result {
        Err((arm, outcome)) => {
            Comparison { ended: Some(Ended { arm: (*arm).to_string(), outcome: outcome.clone() }), ..common }
        }
        Ok(decision) => Comparison {
            judged_by: decision.basis.about().into(),
            basis: Some(decision.basis),
            looks: decision.looks.clone(),
            arms: arms_of(decision),
            blocks: decision.blocks.clone(),
            grain: decision.grain,
            compared: decision.reported.compared,
            notes: verdict::notes(row, decision),
            elapsed_s: decision.elapsed_s,
            ..common
        },
    }
}

fn arms_of(decision: &Decision) -> Vec<Arm> {
    // The third arm is the baseline again; its memory is not read twice.
    let side = |arm: usize| arm % decision.reported.what_ran.len();
    let arms = decision.samples.iter().enumerate().map(|(arm, samples)| Arm {
        what_ran: decision.reported.what_ran[side(arm)].clone(),
        samples: samples.clone(),
        settling: decision.reported.settling[side(arm)].clone(),
        readings: decision.reported.readings.get(arm).cloned().unwrap_or_default(),
    });
    arms.collect()
}
