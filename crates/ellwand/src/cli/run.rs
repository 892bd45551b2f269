//! `run`: the sweep.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;
use ellwand_bench::probe::PROBES;
use ellwand_bench::worker::Launch;
use ellwand_bench::{Blocks, Cell, Event, Instrument, Plan, Writer, environment, left_out, resolutions, writer};
use ellwand_core::record::{Measurement, Outcome as Fate, Run, Settings, Spans, VERSION};
use ellwand_core::tensor::Tensors;
use ellwand_core::workload::Fit;
use ellwand_core::{Environment, InputError, Registry};
use ellwand_report::PlotNames;

use super::chosen::{check_baseline, preferring, tell_left_alone};
use super::command::{caches_of, effort, is_set, limits, selected, text};
use super::exit::{Exit, Failure};
use super::progress::Progress;
use super::{Outcome, budgets, ceilings, certificate, ci, output, report, signals, standing};

/// Name of the record in the output directory.
pub(super) const RECORD: &str = "record.jsonl";

pub(super) fn run(registry: &Registry, matches: &ArgMatches, line: Vec<String>) -> Outcome {
    let selection = selected(registry, matches);
    let registry = &preferring(registry, &selection);
    let mut plan = Plan::expand(registry, &selection)?;
    for (names, why) in left_out(registry, &plan, &selection) {
        output::note(&format!("left out {}: {why}", names.join(", ")));
    }
    tell_left_alone(&plan, &selection);
    let cases: Vec<_> = plan.cells.iter().map(|cell| (cell.workload.as_ref(), &cell.case)).collect();
    let given = super::given::given(matches, &cases)?;
    if let Some(given) = &given {
        bind(&mut plan, given, &selection.axes)?;
    }
    let spans = is_set(matches, "spans");
    let blocks = if spans || is_set(matches, "in-process") {
        None
    } else {
        Some(matches.get_one::<u32>("blocks").copied().unwrap_or(effort(matches).blocks()))
    };
    ceilings::check_memory(&plan.cells, blocks.is_some() && !is_set(matches, "once"), caches_of(matches))?;
    check_baseline(&plan, matches)?;
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(42);
    let allowed = of_warm_caches(budgets::load(registry, matches)?, matches);
    if !caches_of(matches).is_warm() && (spans || is_set(matches, "once")) {
        let other = if spans { "--spans" } else { "--once" };
        let expected = format!("either --caches cold or {other}");
        return Err(InputError::new(
            "--caches",
            format!("with {other} no slot is timed that could start cold"),
            expected,
        )
        .into());
    }
    if is_set(matches, "once") {
        return super::check::once(registry, matches, &plan, seed, given.as_ref());
    }
    let started = output::unix_ms();
    let dir =
        text(matches, "output").map_or_else(|| output::default_directory(&selection.workloads, started), PathBuf::from);
    let (resume, overwrite) = (is_set(matches, "resume"), is_set(matches, "overwrite"));
    if resume && text(matches, "output").is_none() {
        let problem = "it continues the record of a directory, and none is named";
        return Err(InputError::new("--resume", problem, "-o with the directory of the record").into());
    }
    let record_path = dir.join(RECORD);
    if record_path.exists() && !resume && !overwrite {
        return Err(InputError::new("-o", format!("{} holds a record already", dir.display()), "a new directory")
            .help("--resume continues it, --overwrite replaces it")
            .into());
    }
    // Read while it stands: what was made from it goes with it.
    let before = if overwrite { standing::record(&record_path) } else { None };
    if !overwrite {
        let plots = if is_set(matches, "no-plot") { PlotNames::default() } else { standing::plots_of(&plan, registry) };
        standing::only_ours(&dir, &plots)?;
    }
    // From here on Ctrl-C must leave things in order.
    signals::stop_on_ctrl_c(signals::NOTHING_KEPT);
    let new = !dir.exists();
    output::directory("-o", &dir)?;

    let mut here = environment(registry);
    let known =
        if spans { Ok(ceilings::kept(&here).unwrap_or_default()) } else { known_ceilings(registry, &here, matches) };
    here.ceilings = known.inspect_err(|_| {
        // Nothing was begun: no empty directory tells of it. One that holds something stays, as does its parent.
        if new && std::fs::remove_dir(&dir).is_ok() && text(matches, "output").is_none() {
            dir.parent().map(std::fs::remove_dir);
        }
    })?;
    let settings = Settings { caches: caches_of(matches), ..effort(matches).settings() };
    let this_run = Run {
        version: VERSION,
        id: id(started),
        command: line,
        started_unix_ms: started,
        ellwand: env!("CARGO_PKG_VERSION").to_string(),
        seed,
        certificate: certificate::kept(&here),
        environment: here,
        settings,
        views: registry.views_of(plan.cells.iter().map(|cell| cell.workload.name())),
    };
    let (record, finished) = open(&record_path, &this_run, resume, spans)?;
    // Measuring ceilings had words of its own.
    let interrupt = signals::stop_on_ctrl_c(signals::CELLS_KEPT);
    if overwrite {
        // From now on the record is another one: what was made from the old one would pass for its report.
        standing::clear(&dir, before.as_ref());
    }
    // A record that is continued hears of it when there is something to add.
    let again = (!finished.is_empty()).then_some(&this_run);
    let mut record = Continued { record, again };
    let instrument = Instrument {
        registry,
        settings: this_run.settings.clone(),
        seed,
        probes: PROBES,
        interrupt,
        given: given.as_ref(),
        resolutions: if spans { BTreeMap::new() } else { resolutions(registry, &this_run.settings) },
    };
    if spans {
        let interrupted = super::spans::record(&instrument, plan, &dir, &mut record, &finished)?;
        drop(record);
        return finish(matches, None, &dir, &record_path, interrupted);
    }
    let workers = blocks.map(|blocks| Blocks {
        instrument: &instrument,
        launch: Launch::this_program(),
        blocks,
        limits: limits(matches),
        given: matches.get_many::<String>("input").into_iter().flatten().cloned().collect(),
    });
    let interrupted = measure(&instrument, workers.as_ref(), plan, &mut record, &finished)?;
    drop(record);
    finish(matches, allowed.as_ref(), &dir, &record_path, interrupted)
}

/// The budgets, unless caches are cold: what they allow was found with warm ones.
fn of_warm_caches(budgets: Option<budgets::Budgets>, matches: &ArgMatches) -> Option<budgets::Budgets> {
    if budgets.is_some() && !caches_of(matches).is_warm() {
        output::note("note: budgets are for warm caches and are not held against this run");
        return None;
    }
    budgets
}

/// The machine, with the devices that the registry found.
pub(super) fn environment(registry: &Registry) -> Environment {
    let mut here = environment::detect();
    here.devices = registry.devices().iter().map(|device| (device.id().to_string(), device.about())).collect();
    here
}

/// Identity of a run: its start and a part that another process does not have.
pub(super) fn id(started: u64) -> String {
    // The process id beside the clock: two runs may start in the same millisecond.
    format!("{}-{:08x}", output::stamp(started), (started as u32) ^ std::process::id().rotate_left(16))
}

/// A record, and the run that goes on with it unless it began it.
pub(super) struct Continued<'a> {
    record: Writer,
    again: Option<&'a Run>,
}

impl Continued<'_> {
    fn add(&mut self, measurements: &[Measurement]) -> Result<(), Failure> {
        let record = self.writer()?;
        Ok(measurements.iter().try_for_each(|measurement| record.measurement(measurement))?)
    }

    /// The record, to add something to it.
    pub(super) fn writer(&mut self) -> Result<&mut Writer, Failure> {
        if let Some(run) = self.again.take() {
            self.record.resumed(run)?;
        }
        Ok(&mut self.record)
    }
}

/// Measures cell after cell, in worker processes or in this one; returns whether the user interrupted.
fn measure(
    instrument: &Instrument,
    workers: Option<&Blocks>,
    plan: Plan,
    record: &mut Continued,
    finished: &BTreeSet<String>,
) -> Result<bool, Failure> {
    // Starting a worker process takes some hundredths of a second.
    let spawn_ms = workers.map_or(0, |workers| 40 * u64::from(workers.blocks));
    let each = Duration::from_nanos(instrument.settings.case_budget_ns) + Duration::from_millis(spawn_ms);
    let mut progress = Progress::of_plan(&plan, each);
    let mut interrupted = false;
    for (index, mut cell) in plan.cells.into_iter().enumerate() {
        leave_out(instrument, &mut cell, finished);
        if cell.implementations.is_empty() {
            progress.skip(index);
            continue;
        }
        progress.cell(index, &cell.case.id());
        let mut on_event = |event: Event| {
            if let Event::Sampled { rounds, planned } = event {
                progress.rounds(index, rounds, planned);
            }
        };
        let measured = match workers {
            Some(workers) => workers.measure(&cell, &mut on_event),
            None => instrument.measure(&cell, &mut on_event),
        };
        match measured {
            Ok(measurements) => {
                record.add(&measurements)?;
            }
            Err(_) => {
                interrupted = true;
                break;
            }
        }
    }
    progress.finish();
    Ok(interrupted)
}

/// Leaves out the implementations that are finished at this case.
pub(super) fn leave_out(instrument: &Instrument, cell: &mut Cell, finished: &BTreeSet<String>) {
    let case = cell.case.id();
    cell.implementations.retain(|implementation| {
        let device = instrument.registry.devices().iter().find(|device| device.kind() == implementation.needs);
        let device = device.map_or_else(|| implementation.needs.to_string(), |device| device.id().to_string());
        !finished.contains(&format!("{case} {} {device}", implementation.name))
    });
}

/// Reads the record back from disk and makes every output from it, as `report` does; then holds it against the budgets.
fn finish(
    matches: &ArgMatches,
    limits: Option<&budgets::Budgets>,
    dir: &Path,
    record_path: &Path,
    interrupted: bool,
) -> Outcome {
    let record = writer::read(record_path)?;
    let measured = record.measurements.iter().map(|measurement| &measurement.outcome);
    let fates: Vec<Fate> = measured.chain(record.spans.iter().map(|spans| &spans.outcome)).cloned().collect();
    let verdicts = limits.map_or_else(Vec::new, |limits| limits.judge_run(&record.measurements));
    if !fates.is_empty() {
        let told = match text(matches, "format") {
            Some("junit") => output::result(|out| ci::write_run_junit(&record.measurements, &verdicts, out)),
            Some("github") => output::result(|out| ci::write_run_github(&record.measurements, &verdicts, out)),
            _ => report::print(matches, std::slice::from_ref(&record)),
        };
        report::write_directory(matches, &[record], dir)?;
        output::note(&format!("\nwritten to {}", dir.display()));
        if let Some(limits) = limits {
            limits.tell(&verdicts);
        }
        told?;
    }
    Ok(if interrupted {
        output::note(&format!("interrupted; {} goes on from here", going_on(matches, dir)));
        Exit::Interrupted
    } else if fates.iter().any(|fate| matches!(fate, Fate::Wrong { .. })) {
        Exit::Wrong
    } else if fates.iter().any(|fate| matches!(fate, Fate::Failed { .. })) {
        Exit::Error
    } else if !fates.iter().any(Fate::is_measured) {
        Exit::Nothing
    } else if budgets::broken(&verdicts) && text(matches, "fail-on") != Some("never") {
        Exit::Regression
    } else {
        Exit::Ok
    })
}

/// The command that goes on with a record.
fn going_on(matches: &ArgMatches, dir: &Path) -> String {
    let named = if text(matches, "output").is_some() { String::new() } else { format!("-o {} ", dir.display()) };
    let command = "the same command";
    match (is_set(matches, "resume"), is_set(matches, "overwrite")) {
        (true, _) => command.to_string(),
        (false, true) => format!("{command} with {named}--resume in place of --overwrite"),
        (false, false) => format!("{command} with {named}--resume"),
    }
}

/// Marks every case as computed on the user's arrays, and refuses now what could not be adopted later. Of a sweep that the
/// user did not ask for, the cases that the arrays are too small for are left out.
fn bind(plan: &mut Plan, given: &Tensors, asked: &BTreeMap<String, String>) -> Result<(), InputError> {
    let digest = format!("{:016x}", given.digest());
    let (mut adopted, mut refused) = (Vec::new(), None);
    for mut cell in std::mem::take(&mut plan.cells) {
        cell.case.input = Some(digest.clone());
        match cell.workload.adopt(&cell.case, given.clone(), Fit::Case) {
            Ok((case, _)) => adopted.push(Cell { case, ..cell }),
            Err(error) if asked.contains_key("batch") => return Err(error),
            Err(error) => refused = Some((cell.case.id(), error)),
        }
    }
    match refused {
        Some((_, error)) if adopted.is_empty() => return Err(error),
        Some((case, error)) => output::note(&format!("note: left out {case}: {}", error.problem)),
        None => {}
    }
    plan.cells = adopted;
    Ok(())
}

/// Kept ceilings, or measured now unless the user does not want to wait.
fn known_ceilings(
    registry: &Registry,
    here: &Environment,
    matches: &ArgMatches,
) -> Result<Vec<ellwand_core::Ceiling>, Failure> {
    if let Some(kept) = ceilings::kept(here) {
        return Ok(kept);
    }
    if is_set(matches, "no-ceilings") {
        return Ok(Vec::new());
    }
    output::note("measuring the ceilings of this machine (once; `ellwand machine` measures them again)");
    let (measured, _) = ceilings::measure(registry, here, ellwand_bench::Effort::Quick)?;
    Ok(measured)
}

/// Opens the record: a new one, or the one to continue together with the cells that are finished in it, by measurements or
/// by `spans`.
fn open(path: &Path, this_run: &Run, resume: bool, spans: bool) -> Result<(Writer, BTreeSet<String>), Failure> {
    // A record that was killed before its first line was whole is none.
    let begun = || path.is_file() && std::fs::read(path).is_ok_and(|bytes| bytes.contains(&b'\n'));
    if !(resume && begun()) {
        return Ok((Writer::create(path, this_run)?, BTreeSet::new()));
    }
    let (record, known) = Writer::resume(path)?;
    let differs = |what: &str, expected: String| {
        Failure::Input(InputError::new("--resume", format!("the record was made {what}"), expected))
    };
    if known.run.environment.fingerprint() != this_run.environment.fingerprint() {
        return Err(differs("on another machine", "the machine it was made on, or a new directory".into()));
    }
    if known.run.seed != this_run.seed || known.run.settings != this_run.settings {
        let (seed, caches) = (known.run.seed, known.run.settings.caches.word());
        let expected = format!("--seed {seed}, --caches {caches} and the same --effort");
        return Err(differs("with another seed, effort or state of the caches", expected));
    }
    let finished = if spans {
        known.spans.iter().map(Spans::cell).collect()
    } else {
        known.measurements.iter().map(Measurement::cell).collect()
    };
    Ok((record, finished))
}
