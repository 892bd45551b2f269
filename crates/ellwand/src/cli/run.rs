//! `run`: the sweep.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ellwand_bench::guard;
use ellwand_bench::probe::PROBES;
use ellwand_bench::worker::Launch;
use ellwand_bench::{Blocks, Cell, Event, Instrument, Plan, resolutions, writer};
use ellwand_core::record::{Measurement, Outcome as Fate, Record, Run};
use ellwand_core::tensor::Tensors;
use ellwand_core::{Caches, Environment, InputError, Registry};

use super::args::{FailOn, Measuring, RunArgs, RunFormat};
use super::budgets::{self, Budgets, Verdict};
use super::eta::Terms;
use super::exit::{Exit, Failure, Outcome, allow_unread};
use super::progress::Progress;
use super::recording::{Recording, first_line};
use super::results_dir::{self, RECORD, Results};
use super::stage::Stage;
use super::{ceilings, check, ci, output, plan, report, signals, spans, time};

/// The usual time limit of a case, in seconds.
const CASE_S: f64 = 60.0;

pub(super) fn run(registry: &Registry, args: &RunArgs, line: Vec<String>) -> Outcome {
    let registry = &plan::preferring(registry, &args.how.chosen.cases.device);
    let (plan, given) = plan::of_run(registry, args)?;
    let budgets = budgets_in_force(registry, args)?;
    refuse_cold(args)?;
    if args.once {
        return check::once(registry, args, &plan, given.as_ref());
    }
    let started = output::unix_ms();
    let output = args.session.output.as_deref();
    match args.format {
        RunFormat::Report(format) => report::no_other_format(output, format)?,
        other => report::no_file(output, other.name())?,
    }
    if let Some(file) = file_of(args) {
        output::new_file(file, &[], args.session.overwrite)?;
    }
    let named = directory_of(args);
    let free = || output::default_directory(&args.how.chosen.workload, started);
    let dir = named.clone().unwrap_or_else(free);
    make_room(&dir, args)?;
    // From here on Ctrl-C must leave everything consistent.
    signals::stop_on_ctrl_c(signals::NOTHING_KEPT);
    let new = !dir.exists();
    let dir = if named.is_none() { output::claimed(dir, free) } else { dir };
    output::directory("-o", &dir)?;
    // Before ceilings are measured: if the run is killed meanwhile, --resume must not find the record that it was to
    // replace.
    let results = Results::open(&dir, args.session.overwrite, args.resume)?;
    let measure_ceilings = !args.spans && !args.how.no_ceilings;
    let here = with_ceilings(registry, &plan, args.how.caches, measure_ceilings).inspect_err(|_| {
        // Nothing was begun: remove the empty directory. A directory with content stays, and so does its parent.
        if new && std::fs::remove_dir(&dir).is_ok() && named.is_none() {
            dir.parent().map(std::fs::remove_dir);
        }
    })?;
    let this_run = run_line(registry, &args.how, &plan, here, started, line);
    let mut record = Recording::open(&results.dir().join(RECORD), &this_run, args.resume, args.spans)?;
    record.note_others(&plan);
    let planned = rows(&plan);
    // Measuring the ceilings printed another message for Ctrl-C.
    signals::stop_on_ctrl_c(signals::CELLS_KEPT);
    let measured = if args.spans {
        spans::record(&instrument(registry, &this_run, given.as_ref()), plan, &mut record)
    } else {
        measure(registry, &this_run, &args.how, args.reports.baseline.as_deref(), plan, given.as_ref(), &mut record)
    };
    let interrupted = match measured {
        Ok(interrupted) => interrupted,
        Err(failure) => {
            // The first error is the one to report.
            let (path, unwritten) = record.lost();
            let _ = show_lost(args, budgets.as_ref(), &path, unwritten, &planned);
            output::note(&format!("stopped by an error; {} continues from here", going_on(args, &results, &path)));
            return Err(failure);
        }
    };
    let path = record.close()?;
    finish(args, budgets.as_ref(), &path, results, interrupted.then_some(&planned))
}

/// The rows of these cells, as a shard of a sweep lists them.
pub(super) fn rows(plan: &Plan) -> Vec<String> {
    let of = |cell: &Cell| -> Vec<String> {
        cell.implementations.iter().map(|one| row_name(&cell.case.id(), &one.name)).collect()
    };
    plan.cells.iter().flat_map(of).collect()
}

/// A row as `CASE IMPLEMENTATION`.
pub(super) fn row_name(case: &str, implementation: &str) -> String {
    format!("{case} {implementation}")
}

/// The first line of the record of these cells.
pub(super) fn run_line(
    registry: &Registry,
    how: &Measuring,
    plan: &Plan,
    here: Environment,
    started: u64,
    line: Vec<String>,
) -> Run {
    let views = registry.views_of(plan.cells.iter().map(|cell| cell.workload.name()));
    Run { views, ..first_line(here, how.settings(), how.chosen.cases.seed(), started, line) }
}

/// The instrument of a run, which does not know the resolutions of the devices yet.
fn instrument<'a>(registry: &'a Registry, run: &Run, given: Option<&'a Tensors>) -> Instrument<'a> {
    let instrument = Instrument::new(registry, run.settings.clone(), run.seed, signals::flag());
    Instrument { probes: PROBES, given, ..instrument }
}

/// The file that `-o` names for the format, if it is not a directory.
fn file_of(args: &RunArgs) -> Option<&Path> {
    match args.format {
        RunFormat::Report(format) => report::file_of(args.session.output.as_deref(), format),
        RunFormat::Junit | RunFormat::Github => None,
    }
}

/// The directory that `-o` names.
fn directory_of(args: &RunArgs) -> Option<PathBuf> {
    args.session.output.clone().filter(|_| file_of(args).is_none())
}

/// The budgets that apply to this run: they require warm caches and whole iterations.
fn budgets_in_force(registry: &Registry, args: &RunArgs) -> Result<Option<Budgets>, InputError> {
    let budgets = budgets::find(registry, args.session.config.as_deref())?;
    if budgets.is_some() && !args.how.caches.is_warm() {
        output::note("note: budgets apply to warm caches; this run is not checked against them");
    }
    Ok(budgets.filter(|_| args.how.caches.is_warm() && !args.spans))
}

/// Refuses cold caches if no slot is timed.
fn refuse_cold(args: &RunArgs) -> Result<(), InputError> {
    if args.how.caches.is_warm() || !(args.spans || args.once) {
        return Ok(());
    }
    let other = if args.spans { "--spans" } else { "--once" };
    let problem = format!("{other} times no slot that could start cold");
    Err(InputError::new("--caches", problem, format!("either --caches cold or {other}")))
}

/// Refuses an output directory with other content.
fn make_room(dir: &Path, args: &RunArgs) -> Result<(), InputError> {
    if args.resume && directory_of(args).is_none() {
        let problem = "it continues the record in a directory, but no directory is named";
        return Err(InputError::new("--resume", problem, "-o with the directory of the record"));
    }
    if args.resume && dir.join(RECORD).exists() {
        return Ok(());
    }
    let plots = !args.reports.no_plot;
    results_dir::claim(dir, args.session.overwrite, plots, "--resume continues it, --overwrite replaces it")?;
    if args.resume && !Stage::has_unfinished_record(dir) {
        output::note(&format!("note: {} holds no record to resume; this starts a new run", dir.display()));
    }
    Ok(())
}

/// This machine with the ceilings that bound the plan: cached ones, or measured now unless the user does not want to wait.
pub(super) fn with_ceilings(
    registry: &Registry,
    plan: &Plan,
    caches: Caches,
    measure: bool,
) -> Result<Environment, Failure> {
    let mut here = ceilings::environment(registry);
    // A row without its device measures nothing, which needs no bound.
    let cells =
        plan.cells.iter().filter(|cell| cell.implementations.iter().any(|row| registry.device_for(row).is_ok()));
    let data = cells.map(|cell| if caches.is_warm() { cell.workload.footprint(&cell.case) } else { u64::MAX });
    here.ceilings = match data.max().filter(|_| measure) {
        Some(data) => ceilings::of_data(registry, &here, data)?,
        None => ceilings::stored(&here).unwrap_or_default(),
    };
    Ok(here)
}

/// Measures cell after cell, in worker processes or in this one; returns whether the user interrupted. `baseline`
/// replaces each workload's own baseline of speed-ups.
pub(super) fn measure(
    registry: &Registry,
    run: &Run,
    how: &Measuring,
    baseline: Option<&str>,
    mut plan: Plan,
    given: Option<&Tensors>,
    record: &mut Recording,
) -> Result<bool, Failure> {
    let resolutions = resolutions(registry, &run.settings);
    let instrument = &Instrument { resolutions, ..instrument(registry, run, given) };
    let workers = how.blocks().filter(|_| may_start_processes()).map(|blocks| Blocks {
        instrument,
        launch: Launch::this_program(),
        blocks,
        limits: how.limit.limits(),
        budget_s: how.time.unwrap_or(CASE_S),
        more: how.time.map(|seconds| format!("try --time {}", time::dense((3.0 * seconds).max(20.0)))),
        given: how.input.clone(),
    });
    // Starting a worker process takes tens of milliseconds.
    let spawn_ms = workers.as_ref().map_or(0, |workers| 40 * u64::from(workers.blocks));
    let each = Duration::from_nanos(instrument.settings.case_budget_ns) + Duration::from_millis(spawn_ms);
    let terms = workers.as_ref().map_or_else(Terms::default, |workers| Terms {
        processes: workers.blocks,
        limit_s: workers.budget_s,
        hard: workers.more.is_some(),
    });
    // The forecast counts only what is left to measure.
    for cell in &mut plan.cells {
        record.leave_out(instrument, cell);
    }
    let mut progress = Progress::of_cells(registry, plan.cells.iter(), each, terms);
    progress.announce();
    let mut interrupted = false;
    let open = |(_, cell): &(usize, Cell)| !cell.implementations.is_empty();
    for (index, cell) in plan.cells.into_iter().enumerate().filter(open) {
        progress.cell(index, &cell.case.id());
        let mut on_event = |event: Event| match event {
            Event::Preparing { implementation, step } => progress.preparing(index, implementation, step),
            Event::Sampled { rounds, planned } => progress.rounds(index, rounds, planned),
        };
        let measured = match &workers {
            Some(workers) => workers.measure(&cell, &mut on_event),
            None => staying(|| instrument.measure(&cell, &mut on_event)),
        };
        let Ok(mut measurements) = measured else {
            interrupted = true;
            break;
        };
        let baseline = baseline.filter(|name| measurements.iter().any(|one| one.implementation == **name));
        for (one, name) in measurements.iter_mut().flat_map(|one| baseline.map(|name| (one, name))) {
            one.baseline = name.to_string();
        }
        record.add(&measurements)?;
        progress.finished(index, &measurements);
    }
    progress.finish();
    Ok(interrupted)
}

/// Calls `work`, which may run user code that changes the current directory, and then changes back: the paths of the
/// command line are relative to it.
pub(super) fn staying<T>(work: impl FnOnce() -> T) -> T {
    let here = std::env::current_dir();
    let result = work();
    // If there is no way back, writing fails with an error.
    let _ = here.and_then(std::env::set_current_dir);
    result
}

/// True if worker processes can be started; otherwise prints a note about the consequences for the run.
fn may_start_processes() -> bool {
    let Some(why) = guard::spawn_error() else { return true };
    let instead = "measuring in this process, so differences between processes stay unknown (as with --in-process)";
    output::note(&format!("warning: no other process can be started ({why}; see ulimit -u); {instead}"));
    false
}

/// Reads the record back from disk and makes every output from it, as `report` does; then judges it by the budgets.
/// `cut` contains the planned rows of an interrupted run.
fn finish(
    args: &RunArgs,
    budgets: Option<&Budgets>,
    path: &Path,
    results: Results,
    cut: Option<&Vec<String>>,
) -> Outcome {
    let interrupted = cut.is_some();
    let record = writer::read(path)?;
    let measured = record.measurements.iter().map(|measurement| &measurement.outcome);
    let fates: Vec<Fate> = measured.chain(record.spans.iter().map(|spans| &spans.outcome)).cloned().collect();
    let verdicts = budgets.map_or_else(Vec::new, |budgets| budgets.judge_run(&record.measurements));
    let dir = path.parent().unwrap_or(Path::new("."));
    // Old results stay if the new ones are incomplete; --resume continues the new ones where they are.
    let unfinished = results.replaces() && interrupted;
    // Old results also stay if there are no new ones.
    let keep_old = results.replaces() && !interrupted && !fates.iter().any(Fate::is_measured);
    let how = going_on(args, &results, path);
    let options = report::options(&args.reports);
    let cut = cut.map(|planned| [done(&record, planned), planned.len()]);
    if fates.is_empty() && interrupted && !matches!(args.format, RunFormat::Report(_)) {
        // A program that reads the verdicts must not take silence for success.
        allow_unread(print(args, &record, budgets, &verdicts, cut))?;
    }
    if !fates.is_empty() {
        let printed = print(args, &record, budgets, &verdicts, cut);
        if keep_old {
            results.keep_old();
        } else if !unfinished {
            report::write_directory(&options, &[record], dir)?;
            results.place(path)?;
        }
        allow_unread(printed)?;
    }
    match (interrupted, keep_old) {
        (true, _) => {
            let old = if unfinished { "the old results are unchanged; " } else { "" };
            output::note(&format!("interrupted; {old}{how} continues from here"));
        }
        (false, true) => output::note("nothing was measured; the old results are unchanged"),
        (false, false) => {}
    }
    if interrupted { Ok(Exit::Interrupted) } else { Ok(exit(&fates, &verdicts, args.fail_on)) }
}

/// Prints a record in the requested format, then its budgets. `cut` contains the numbers of finished and planned rows
/// of an interrupted run.
fn print(
    args: &RunArgs,
    record: &Record,
    budgets: Option<&Budgets>,
    verdicts: &[Verdict],
    cut: Option<[usize; 2]>,
) -> Result<(), Failure> {
    let (rows, fail_on) = (&record.measurements, args.fail_on);
    match args.format {
        RunFormat::Junit => output::result(|out| ci::write_run_junit(rows, verdicts, fail_on, cut, out)),
        RunFormat::Github => output::result(|out| ci::write_run_github(rows, verdicts, fail_on, cut, out)),
        RunFormat::Report(format) => {
            let options = report::options(&args.reports);
            report::show(&options, format, std::slice::from_ref(record), file_of(args))
        }
    }?;
    let table = matches!(args.format, RunFormat::Report(format) if format.name == "table");
    budgets.map_or(Ok(()), |budgets| budgets.print(verdicts, table))
}

/// Prints the measurements made before and after the record could no longer be written.
fn show_lost(
    args: &RunArgs,
    budgets: Option<&Budgets>,
    path: &Path,
    unwritten: Vec<Measurement>,
    planned: &[String],
) -> Result<(), Failure> {
    let mut record = writer::read(path)?;
    record.measurements.extend(unwritten);
    if record.measurements.is_empty() {
        return Ok(());
    }
    let verdicts = budgets.map_or_else(Vec::new, |budgets| budgets.judge_run(&record.measurements));
    print(args, &record, budgets, &verdicts, Some([done(&record, planned), planned.len()]))
}

/// How many of the planned rows are in the record.
fn done(record: &Record, planned: &[String]) -> usize {
    let measured = record.measurements.iter().map(|row| row_name(&row.case.id, &row.implementation));
    let spans = record.spans.iter().map(|row| row_name(&row.case.id, &row.implementation));
    let there: BTreeSet<String> = measured.chain(spans).collect();
    planned.iter().filter(|row| there.contains(*row)).count()
}

pub(super) fn exit(fates: &[Fate], verdicts: &[Verdict], fail_on: FailOn) -> Exit {
    let broken = budgets::broken(verdicts) && fail_on != FailOn::Never;
    Exit::of_outcomes(fates.iter().map(Fate::word)).unwrap_or(if broken { Exit::Regression } else { Exit::Ok })
}

/// The command that resumes the record at `path`, which is elsewhere if its directory vanished.
fn going_on(args: &RunArgs, results: &Results, path: &Path) -> String {
    let there = path.parent().unwrap_or(Path::new("."));
    let dir = if results.dir() == there { results.home() } else { there };
    let named = if directory_of(args).is_some() { String::new() } else { format!("-o {} ", dir.display()) };
    let command = "the same command";
    match (args.resume, args.session.overwrite) {
        (true, _) => command.to_string(),
        (false, true) => format!("{command} with {named}--resume instead of --overwrite"),
        (false, false) => format!("{command} with {named}--resume"),
    }
}
