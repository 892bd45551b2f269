//! `check`: correctness only; and `run --once`, one untimed run for external profilers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::atomic::Ordering::SeqCst;

use ellwand_bench::check::SetupError;
use ellwand_bench::hard::{Hard, HardResult};
use ellwand_bench::worker::Checker;
use ellwand_bench::{Cell, Instrument, Interrupted, Plan};
use ellwand_core::record::Outcome as Fate;
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::Verdict;
use ellwand_core::{Caches, Implementation, InputError, Registry};
use serde_json::{Value as Json, json};

use super::args::{CheckArgs, Form, RunArgs};
use super::exit::{Exit, Failure, Outcome, allow_unread};
use super::progress::Progress;
use super::{ceilings, output, plan, signals};

/// The result of one implementation at one case.
struct Line {
    case: String,
    implementation: String,
    outcome: Result<Verdict, Fate>,
}

/// Prints the results row by row, so a user who interrupts keeps the rows so far.
struct Printer {
    json: bool,
    /// Width of the longest name.
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
                let detail = detail.lines().map(str::trim).collect::<Vec<_>>().join(" ");
                writeln!(out, "  {:width$}  {word:11}  {detail}", line.implementation, width = self.width)
            })?;
        }
        self.lines.push(line);
        Ok(())
    }

    /// Prints the summary after the rows, of which `planned` were expected.
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

/// Reasons why cases do not fit into memory, by case id.
type TooLarge = BTreeMap<String, String>;

/// # Errors
/// Cases that do not fit into memory. An error if only one workload is selected, because then the user chose the cases;
/// otherwise such cases must not end the check of the others.
fn too_large(plan: &Plan) -> Result<TooLarge, InputError> {
    let Some(first) = plan.cells.first() else { return Ok(TooLarge::new()) };
    if plan.cells.iter().all(|cell| cell.workload.name() == first.workload.name()) {
        return ceilings::check_memory(&plan.cells, false, Caches::Warm).map(|()| TooLarge::new());
    }
    let fits = |cell: &Cell| ceilings::check_memory(std::slice::from_ref(cell), false, Caches::Warm);
    Ok(plan.cells.iter().filter_map(|cell| Some((cell.case.id(), fits(cell).err()?.to_string()))).collect())
}

/// Judges in workers if this program `serves`; a test or an example that calls the command line does not.
pub(super) fn check(registry: &Registry, args: &CheckArgs, serves: bool) -> Outcome {
    let registry = &plan::preferring(registry, &args.chosen.cases.device);
    let plan = plan::expand(registry, &args.chosen.selection())?;
    let too_large = too_large(&plan)?;
    let interrupt = signals::stop_on_ctrl_c(signals::ROWS_PRINTED);
    let (seed, json) = (args.chosen.cases.seed(), args.format == Form::Json);
    if args.in_process || !serves {
        return judge_here(registry, &plan, json, seed, None, Some(&too_large));
    }
    let mut checker = Checker::new(registry, args.limit.limits().open, seed, interrupt);
    judge_all(&plan, json, Some(&too_large), &mut |cell, row| {
        let name = format!("{} {}", cell.case.id(), row.name);
        let found = named_if_long(&name, || checker.check(cell, row))?;
        Ok((found.map(|(verdict, hard)| and_hard(verdict, &hard)), checker.take_stderr()))
    })
}

/// Runs and judges each implementation once in this process, without timing.
pub(super) fn once(registry: &Registry, args: &RunArgs, plan: &Plan, given: Option<&Tensors>) -> Outcome {
    let Some(format) = args.format.of_rows() else {
        let problem = format!("{} is made from times, and --once takes none", args.format.name());
        return Err(InputError::new("--format", problem, "table or json").into());
    };
    judge_here(registry, plan, format == Form::Json, args.how.chosen.cases.seed(), given, None)
}

/// Judges in this process, on the inputs of each case and, for those of `all` that fit into memory, on the hard sets.
fn judge_here(
    registry: &Registry,
    plan: &Plan,
    json: bool,
    seed: u64,
    given: Option<&Tensors>,
    all: Option<&TooLarge>,
) -> Outcome {
    let hard = all.is_some();
    let interrupt = signals::stop_on_ctrl_c(signals::ROWS_PRINTED);
    let settings = ellwand_bench::Effort::Quick.settings();
    let instrument = Instrument { given, ..Instrument::new(registry, settings, seed, interrupt) };
    let make = |cell: &Cell| {
        let made = instrument.inputs_and_reference(cell)?;
        Ok((made, if hard { Some(instrument.hard_sets(cell)?) } else { None }))
    };
    let mut last: Option<(String, Result<_, SetupError>)> = None;
    judge_all(plan, json, all, &mut |cell, row| {
        let id = cell.case.id();
        let (_, made) = match last.take().filter(|(known, _)| *known == id) {
            Some(known) => last.insert(known),
            None => last.insert((id, make(cell))),
        };
        let judge = |made: &(_, Option<Hard>)| {
            let verdict = instrument.judged(cell, &made.0, row, hard)?;
            let Some(hard) = &made.1 else { return Ok(verdict) };
            instrument.judged_on(cell, hard, row).map(|judged| and_hard(verdict, &judged))
        };
        let found = made.as_ref().map_err(|error| Fate::Failed { error: error.to_string() }).and_then(judge);
        Ok((found, None))
    })
}

/// The answer of an implementation at a cell, and what it wrote meanwhile.
type Judge<'a> = dyn FnMut(&Cell, &Implementation) -> Result<(Result<Verdict, Fate>, Option<String>), Interrupted> + 'a;

fn judge_all(plan: &Plan, json: bool, too_large: Option<&TooLarge>, judge: &mut Judge) -> Outcome {
    let stopped = || signals::flag().load(SeqCst);
    let mut progress = Progress::new(plan.cells.len());
    let mut printer = Printer::new(json, plan);
    // What implementations wrote, with the number of cases at which they wrote it.
    let mut written = BTreeMap::<(&str, String, String), usize>::new();
    let mut remarked = BTreeSet::new();
    'all: for (index, cell) in plan.cells.iter().enumerate() {
        let case = cell.case.id();
        progress.cell(index, &case);
        for remark in cell.workload.remarks(&cell.case) {
            if remarked.insert(remark.clone()) {
                progress.aside(|| output::note(&format!("note: {case}: {remark}")));
            }
        }
        for row in &cell.implementations {
            let answer = match too_large.and_then(|all| all.get(&case)) {
                Some(why) => Ok((Err(Fate::Unsupported { why: why.clone() }), None)),
                None => judge(cell, row),
            };
            // After Ctrl-C it may not have run on all hard sets.
            let Some((outcome, words)) = answer.ok().filter(|_| !stopped()) else { break 'all };
            allow_unread(progress.aside(|| {
                if let Some(words) = words {
                    let times = written.entry((cell.workload.name(), row.name.clone(), words.clone())).or_default();
                    if *times == 0 {
                        output::note(&format!("{case} {} wrote: {words}", row.name));
                    }
                    *times += 1;
                }
                printer.add(Line { case: case.clone(), implementation: row.name.clone(), outcome })
            }))?;
        }
    }
    progress.finish();
    for ((workload, name, words), times) in written.iter().filter(|(_, times)| **times > 1) {
        let start = words.lines().next().unwrap_or_default();
        let more = if *times == 2 { "1 more case".to_string() } else { format!("{} more cases", times - 1) };
        output::note(&format!("{workload}:{name} wrote the same at {more}: {start}"));
    }
    let planned = plan.cells.iter().map(|cell| cell.implementations.len()).sum();
    allow_unread(printer.end(planned))?;
    if printer.lines.len() < planned { Err(Failure::Interrupted) } else { Ok(exit(&printer.lines)) }
}

/// Adds the result on the hard sets to the verdict on ordinary inputs.
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

/// Runs the row in progress; a note names it if it takes long, so the user knows what hangs and can end it.
pub(super) fn named_if_long<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let long = output::BEAT.as_secs();
    output::with_beat(false, run, |_| output::note(&format!("{what} takes longer than {long} s (Ctrl-C ends it)")))
}

fn exit(lines: &[Line]) -> Exit {
    Exit::of_outcomes(lines.iter().map(|line| outcome_and_detail(&line.outcome).0)).unwrap_or(Exit::Ok)
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
        let compared = line.outcome.as_ref().ok().and_then(|verdict| verdict.compared);
        json!({ "case": line.case, "implementation": line.implementation, "outcome": word, "detail": detail, "max_error": max_error, "compared": compared })
    };
    writeln!(out, "{:#}", Json::Array(lines.iter().map(row).collect()))
}
