//! `check`: correctness only; and `run --once`, one untimed run for external profilers.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::ArgMatches;
use ellwand_bench::{Cell, Instrument, Plan};
use ellwand_core::record::Outcome as Fate;
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::Verdict;
use ellwand_core::{Caches, InputError, Registry};

use super::command::{selected, text};
use super::exit::{Exit, Failure};
use super::progress::Progress;
use super::{Outcome, ceilings, output, signals};

/// What became of one implementation at one case.
struct Line {
    case: String,
    implementation: String,
    outcome: Result<Verdict, Fate>,
}

/// What is known so far, told row by row: whoever is stopped keeps the rows that he saw.
struct Told {
    json: bool,
    /// Columns of the longest name.
    width: usize,
    lines: Vec<Line>,
}

impl Told {
    fn new(json: bool, plan: &Plan) -> Self {
        let names = plan.cells.iter().flat_map(|cell| &cell.implementations);
        Self { json, width: names.map(|row| row.name.len()).max().unwrap_or(0), lines: Vec::new() }
    }

    fn add(&mut self, line: Line) -> Result<(), Failure> {
        if !self.json {
            let first = self.lines.last().is_none_or(|before| before.case != line.case);
            output::result(|out| {
                if first {
                    writeln!(out, "{}", line.case)?;
                }
                let (word, detail) = words(&line.outcome);
                writeln!(out, "  {:width$}  {word:11}  {detail}", line.implementation, width = self.width)
            })?;
        }
        self.lines.push(line);
        Ok(())
    }

    /// What stands behind the rows, of which there were to be `planned`.
    fn end(&self, planned: usize) -> Result<(), Failure> {
        if self.json {
            if self.lines.len() < planned {
                output::note(&format!("{} of {planned} rows not judged", planned - self.lines.len()));
            }
            return output::result(|out| write_json(&self.lines, out));
        }
        let count = |wanted: &str| self.lines.iter().filter(|line| words(&line.outcome).0 == wanted).count();
        let sums = ["right", "wrong", "failed", "unsupported"].map(|word| format!("{} {word}", count(word))).join(", ");
        let missing = planned - self.lines.len();
        let missing = if missing > 0 { format!("; {missing} of {planned} not judged") } else { String::new() };
        output::result(|out| writeln!(out, "{sums}{missing}"))
    }
}

pub(super) fn check(registry: &Registry, matches: &ArgMatches) -> Outcome {
    let mut selection = selected(registry, matches);
    if selection.workloads.is_empty() {
        selection.workloads = vec!["*".into()];
    }
    let registry = &super::chosen::preferring(registry, &selection);
    let plan = Plan::expand(registry, &selection)?;
    super::chosen::tell_left_alone(&plan, &selection);
    ceilings::check_memory(&plan.cells, false, Caches::Warm)?;
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(42);
    judge_all(registry, &plan, seed, None, text(matches, "format") == Some("json"))
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
    judge_all(registry, plan, seed, given, format == "json")
}

fn judge_all(registry: &Registry, plan: &Plan, seed: u64, given: Option<&Tensors>, json: bool) -> Outcome {
    let interrupt = signals::stop_on_ctrl_c(signals::ROWS_TOLD);
    let settings = ellwand_bench::Effort::Quick.settings();
    let instrument =
        Instrument { registry, settings, seed, probes: &[], interrupt, given, resolutions: Default::default() };
    let mut progress = Progress::new(plan.cells.len());
    let mut told = Told::new(json, plan);
    let stopped = || interrupt.load(std::sync::atomic::Ordering::SeqCst);
    for (index, cell) in plan.cells.iter().enumerate() {
        if stopped() {
            break;
        }
        progress.cell(index, &cell.case.id());
        let mut tell = |line| progress.aside(|| told.add(line));
        judge_cell(&instrument, cell, &stopped, &mut tell)?;
    }
    progress.finish();
    let planned = plan.cells.iter().map(|cell| cell.implementations.len()).sum();
    told.end(planned)?;
    if told.lines.len() < planned { Err(Failure::Interrupted) } else { Ok(exit(&told.lines)) }
}

fn judge_cell(
    instrument: &Instrument,
    cell: &Cell,
    stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Line) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let made = instrument.made(cell);
    for row in cell.implementations.iter().take_while(|_| !stopped()) {
        let outcome = match &made {
            Err(error) => Err(Fate::Failed { error: error.clone() }),
            Ok(made) => {
                let what = format!("{} {}", cell.case.id(), row.name);
                named_if_long(&what, || instrument.judged(cell, made, row))
            }
        };
        tell(Line { case: cell.case.id(), implementation: row.name.clone(), outcome })?;
    }
    Ok(())
}

/// After this time the row under way is named: what hangs is then known by name, though nobody can end it but the user.
const LONG: Duration = Duration::from_secs(10);

fn named_if_long<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let (done, waits) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if waits.recv_timeout(LONG) == Err(RecvTimeoutError::Timeout) {
                output::note(&format!("{what} takes longer than {} s (Ctrl-C twice ends it)", LONG.as_secs()));
            }
        });
        let told = run();
        drop(done);
        told
    })
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
