//! `check`: correctness only; and `run --once`, one untimed run for external profilers.

use std::io::Write;

use clap::ArgMatches;
use ellwand_bench::check::{Ready, Task, guarded, ready};
use ellwand_bench::{Cell, Instrument, Plan};
use ellwand_core::record::Outcome as Fate;
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::Verdict;
use ellwand_core::{Caches, InputError, Registry};

use super::command::{selected, text};
use super::exit::Exit;
use super::progress::Progress;
use super::{Outcome, ceilings, output, signals};

/// What became of one implementation at one case.
struct Line {
    case: String,
    implementation: String,
    outcome: Result<Verdict, Fate>,
}

pub(super) fn check(registry: &Registry, matches: &ArgMatches) -> Outcome {
    let mut selection = selected(registry, matches);
    if selection.workloads.is_empty() {
        selection.workloads = vec!["*".into()];
    }
    let registry = &super::run::preferring(registry, &selection);
    let plan = Plan::expand(registry, &selection)?;
    ceilings::check_memory(&plan.cells, false, Caches::Warm)?;
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(42);
    let lines = judge_all(registry, &plan, seed, None)?;
    let json = text(matches, "format") == Some("json");
    output::result(|out| if json { write_json(&lines, out) } else { write_table(&lines, out) })?;
    Ok(exit(&lines))
}

/// Each implementation once, judged, nothing timed; told as `check` tells it.
pub(super) fn once(
    registry: &Registry,
    matches: &ArgMatches,
    plan: &Plan,
    seed: u64,
    given: Option<&Tensors>,
) -> Outcome {
    let format = text(matches, "format").unwrap_or("table");
    if !["table", "json"].contains(&format) {
        let problem = format!("{format} is made from times, and --once takes none");
        return Err(InputError::new("--format", problem, "table or json").into());
    }
    let lines = judge_all(registry, plan, seed, given)?;
    output::result(|out| if format == "json" { write_json(&lines, out) } else { write_table(&lines, out) })?;
    Ok(exit(&lines))
}

fn judge_all(
    registry: &Registry,
    plan: &Plan,
    seed: u64,
    given: Option<&Tensors>,
) -> Result<Vec<Line>, super::exit::Failure> {
    let interrupt = signals::stop_on_ctrl_c();
    let settings = ellwand_bench::Effort::Quick.settings();
    let instrument =
        Instrument { registry, settings, seed, probes: &[], interrupt, given, resolutions: Default::default() };
    let mut progress = Progress::new(plan.cells.len());
    let mut lines = Vec::new();
    for (index, cell) in plan.cells.iter().enumerate() {
        if interrupt.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(super::exit::Failure::Interrupted);
        }
        progress.cell(index, &cell.case.id());
        lines.extend(judge_cell(&instrument, cell));
    }
    progress.finish();
    Ok(lines)
}

fn judge_cell(instrument: &Instrument, cell: &Cell) -> Vec<Line> {
    let line = |implementation: &str, outcome| Line {
        case: cell.case.id(),
        implementation: implementation.to_string(),
        outcome,
    };
    let made = guarded("the workload's inputs and reference", || {
        let (case, inputs) = instrument.inputs(cell.workload.as_ref(), &cell.case)?;
        let expected = cell.workload.reference(&case, &inputs)?;
        Ok::<_, InputError>((case, inputs, expected))
    })
    .and_then(|made| made.map_err(|error| error.to_string()));
    let (case, inputs, expected) = match made {
        Ok(made) => made,
        Err(error) => {
            let failed = || Err(Fate::Failed { error: error.clone() });
            return cell.implementations.iter().map(|implementation| line(&implementation.name, failed())).collect();
        }
    };
    let task = Task { workload: cell.workload.as_ref(), case: &case, inputs: &inputs, expected: &expected };
    cell.implementations
        .iter()
        .map(|implementation| {
            let outcome = match instrument.registry.device_for(implementation) {
                Ok(device) => ready(&task, implementation, device.as_ref()).map(|Ready { verdict, .. }| verdict),
                Err(why) => Err(Fate::Unsupported { why }),
            };
            line(&implementation.name, outcome)
        })
        .collect()
}

fn exit(lines: &[Line]) -> Exit {
    let any = |wanted: &str| lines.iter().any(|line| matches!(&line.outcome, Err(fate) if fate.word() == wanted));
    if any("wrong") {
        Exit::Wrong
    } else if any("failed") {
        Exit::Error
    } else if lines.iter().any(|line| line.outcome.is_ok()) {
        Exit::Ok
    } else {
        Exit::Nothing
    }
}

fn words(outcome: &Result<Verdict, Fate>) -> (&'static str, &str) {
    match outcome {
        Ok(verdict) => ("right", &verdict.detail),
        Err(fate) => (fate.word(), fate.reason().unwrap_or("")),
    }
}

fn write_table(lines: &[Line], out: &mut dyn Write) -> std::io::Result<()> {
    let width = lines.iter().map(|line| line.implementation.len()).max().unwrap_or(0);
    let mut case = "";
    for line in lines {
        if line.case != case {
            case = &line.case;
            writeln!(out, "{case}")?;
        }
        let (word, detail) = words(&line.outcome);
        writeln!(out, "  {:width$}  {word:11}  {detail}", line.implementation)?;
    }
    let count = |wanted: &str| lines.iter().filter(|line| words(&line.outcome).0 == wanted).count();
    writeln!(
        out,
        "{} right, {} wrong, {} failed, {} unsupported",
        count("right"),
        count("wrong"),
        count("failed"),
        count("unsupported")
    )
}

fn write_json(lines: &[Line], out: &mut dyn Write) -> std::io::Result<()> {
    let rows: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| {
            let (word, detail) = words(&line.outcome);
            let max_error = line.outcome.as_ref().ok().and_then(|verdict| verdict.max_error);
            serde_json::json!({ "case": line.case, "implementation": line.implementation, "outcome": word, "detail": detail, "max_error": max_error })
        })
        .collect();
    writeln!(out, "{:#}", serde_json::Value::Array(rows))
}
