//! `check`: correctness only; and `run --once`, one untimed run for external profilers.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use ellwand_bench::hard::HardResult;
use ellwand_bench::{Cell, Instrument, Plan};
use ellwand_core::record::Outcome as Fate;
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::Verdict;
use ellwand_core::{Caches, InputError, Registry};
use serde_json::{Value as Json, json};

use super::args::{CheckArgs, Form, RunArgs};
use super::exit::{Exit, Failure, Outcome};
use super::progress::Progress;
use super::{ceilings, output, plan, signals};

/// What became of one implementation at one case.
struct Line {
    case: String,
    implementation: String,
    outcome: Result<Verdict, Fate>,
}

/// What is known so far, printed row by row: a user who interrupts keeps the rows so far.
struct Printer {
    json: bool,
    /// Columns of the longest name.
    width: usize,
    lines: Vec<Line>,
}

impl Printer {
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
                let (word, detail) = outcome_and_detail(&line.outcome);
                writeln!(out, "  {:width$}  {word:11}  {detail}", line.implementation, width = self.width)
            })?;
        }
        self.lines.push(line);
        Ok(())
    }

    /// Prints what follows the rows, of which there were to be `planned`.
    fn end(&self, planned: usize) -> Result<(), Failure> {
        if self.json {
            if self.lines.len() < planned {
                output::note(&format!("{} of {planned} rows not judged", planned - self.lines.len()));
            }
            return output::result(|out| write_json(&self.lines, out));
        }
        let count =
            |wanted: &str| self.lines.iter().filter(|line| outcome_and_detail(&line.outcome).0 == wanted).count();
        let sums = ["right", "wrong", "failed", "unsupported"].map(|word| format!("{} {word}", count(word))).join(", ");
        let missing = planned - self.lines.len();
        let missing = if missing > 0 { format!("; {missing} of {planned} not judged") } else { String::new() };
        output::result(|out| writeln!(out, "{sums}{missing}"))
    }
}

pub(super) fn check(registry: &Registry, args: &CheckArgs) -> Outcome {
    let registry = &plan::preferring(registry, &args.chosen.cases.device);
    let plan = plan::expand(registry, &args.chosen.selection())?;
    ceilings::check_memory(&plan.cells, false, Caches::Warm)?;
    judge_all(registry, &plan, args.chosen.cases.seed(), Inputs::OrdinaryAndHard, args.format == Form::Json)
}

/// Runs and judges each implementation once, as `check` does, and times nothing.
pub(super) fn once(registry: &Registry, args: &RunArgs, plan: &Plan, given: Option<&Tensors>) -> Outcome {
    let Some(format) = args.format.of_rows() else {
        let problem = format!("{} is made from times, and --once takes none", args.format.name());
        return Err(InputError::new("--format", problem, "table or json").into());
    };
    judge_all(registry, plan, args.how.chosen.cases.seed(), Inputs::Ordinary(given), format == Form::Json)
}

/// The inputs on which implementations are judged.
#[derive(Clone, Copy)]
enum Inputs<'a> {
    /// Those of the case, or the user's.
    Ordinary(Option<&'a Tensors>),
    /// Those of the case, then the hard sets of the workload.
    OrdinaryAndHard,
}

fn judge_all(registry: &Registry, plan: &Plan, seed: u64, inputs: Inputs<'_>, json: bool) -> Outcome {
    let (given, hard) = match inputs {
        Inputs::Ordinary(given) => (given, false),
        Inputs::OrdinaryAndHard => (None, true),
    };
    let interrupt = signals::stop_on_ctrl_c(signals::ROWS_PRINTED);
    let settings = ellwand_bench::Effort::Quick.settings();
    let instrument =
        Instrument { registry, settings, seed, probes: &[], interrupt, given, resolutions: Default::default() };
    let mut progress = Progress::new(plan.cells.len());
    let mut printer = Printer::new(json, plan);
    let stopped = || interrupt.load(std::sync::atomic::Ordering::SeqCst);
    for (index, cell) in plan.cells.iter().enumerate() {
        if stopped() {
            break;
        }
        progress.cell(index, &cell.case.id());
        let mut print = |line| progress.aside(|| printer.add(line));
        judge_cell(&instrument, cell, hard, &stopped, &mut print)?;
    }
    progress.finish();
    let planned = plan.cells.iter().map(|cell| cell.implementations.len()).sum();
    printer.end(planned)?;
    if printer.lines.len() < planned { Err(Failure::Interrupted) } else { Ok(exit(&printer.lines)) }
}

fn judge_cell(
    instrument: &Instrument,
    cell: &Cell,
    hard: bool,
    stopped: &dyn Fn() -> bool,
    print: &mut dyn FnMut(Line) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let made = instrument.inputs_and_reference(cell);
    let hard = if hard { instrument.hard(cell).map(Some) } else { Ok(None) };
    for row in cell.implementations.iter().take_while(|_| !stopped()) {
        let outcome = match &made {
            Err(error) => Err(Fate::Failed { error: error.to_string() }),
            Ok(made) => {
                let what = format!("{} {}", cell.case.id(), row.name);
                named_if_long(&what, || {
                    let verdict = instrument.judged(cell, made, row)?;
                    match &hard {
                        Ok(None) => Ok(verdict),
                        Ok(Some(hard)) => {
                            instrument.judged_on(cell, hard, row).map(|judged| and_hard(verdict, &judged))
                        }
                        Err(error) => Err(Fate::Failed { error: error.to_string() }),
                    }
                })
            }
        };
        // It has perhaps not seen all hard sets.
        if stopped() {
            break;
        }
        print(Line { case: cell.case.id(), implementation: row.name.clone(), outcome })?;
    }
    Ok(())
}

/// The verdict on ordinary inputs, with the result on the hard sets.
fn and_hard(verdict: Verdict, judged: &HardResult) -> Verdict {
    let mut detail = verdict.detail;
    match judged.right {
        0 => {}
        1 => detail += "; 1 hard set agrees",
        n => detail += &format!("; {n} hard sets agree"),
    }
    for (set, range) in &judged.excepted {
        detail += &format!("; '{set}' is out of its range ({range})");
    }
    Verdict { detail, ..verdict }
}

/// After this time a note names the row under way, so that the user knows what hangs and can end it.
const LONG: Duration = Duration::from_secs(10);

fn named_if_long<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let (done, waits) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Where no thread can be started, nothing is named.
        let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
            if waits.recv_timeout(LONG) == Err(RecvTimeoutError::Timeout) {
                output::note(&format!("{what} takes longer than {} s (Ctrl-C twice ends it)", LONG.as_secs()));
            }
        });
        let result = run();
        drop(done);
        result
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

fn outcome_and_detail(outcome: &Result<Verdict, Fate>) -> (&'static str, &str) {
    match outcome {
        Ok(verdict) => ("right", &verdict.detail),
        Err(fate) => (fate.word(), fate.reason().unwrap_or("")),
    }
}

fn write_json(lines: &[Line], out: &mut dyn Write) -> std::io::Result<()> {
    let row = |line: &Line| {
        let (word, detail) = outcome_and_detail(&line.outcome);
        let max_error = line.outcome.as_ref().ok().and_then(|verdict| verdict.max_error);
        json!({ "case": line.case, "implementation": line.implementation, "outcome": word, "detail": detail, "max_error": max_error })
    };
    writeln!(out, "{:#}", Json::Array(lines.iter().map(row).collect()))
}
