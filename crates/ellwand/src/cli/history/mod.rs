//! `history`: records of many runs, and the commits where a time changed.

mod remarks;
mod table;
mod trend;

use std::path::{Path, PathBuf};

use ellwand_core::InputError;
use ellwand_core::record::Record;
use ellwand_history::{Added, CellRow, RunRow, Store};
use ellwand_report::units::{clean, cores, human, range, utc};
use serde_json::json;

use super::args::{Form, HistoryCommand, StoreArgs};
use super::exit::{Exit, Failure, Outcome};
use super::{output, records, results_dir};
use table::Table;

pub(super) fn history(command: &HistoryCommand) -> Outcome {
    match command {
        HistoryCommand::Add(args) => add(&args.record, &args.store),
        HistoryCommand::List(args) => with(&args.store, |store| list(store, args.format)),
        HistoryCommand::Show(args) => with(&args.store, |store| show(store, &args.id, args.format)),
        HistoryCommand::Trend(args) => with(&args.store, |store| trend::trend(store, args)),
        HistoryCommand::Export(args) => with(&args.store, |store| {
            let mut count = 0;
            output::result(|out| -> Result<(), Failure> {
                count = args.format.write(store, args.id.as_deref(), out)??;
                Ok(())
            })?;
            Ok(if count > 0 { Exit::Ok } else { Exit::Nothing })
        }),
    }
}

/// Runs a command on a history that exists.
fn with(named: &StoreArgs, work: impl FnOnce(&mut Store) -> Outcome) -> Outcome {
    let mut store = open(named, false)?;
    let outcome = work(&mut store);
    print_notes(&mut store);
    outcome
}

/// Prints the notes since the last call.
fn print_notes(store: &mut Store) {
    for note in std::mem::take(&mut store.notes) {
        output::note(&format!("note: {note}"));
    }
}

/// Folder of a history.
const FOLDER: &str = "ellwand-history";

/// The history that the user names, or the nearest one. With `create`, makes a missing one.
fn open(named: &StoreArgs, create: bool) -> Result<Store, Failure> {
    let mut store = match named.store.as_deref() {
        Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => connect(url)?,
        Some(folder) => Store::open(Path::new(folder), create)?,
        None => Store::open(&nearest(), create)?,
    };
    print_notes(&mut store);
    Ok(store)
}

/// The nearest folder of a history, in this directory or above; otherwise the one to create.
fn nearest() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let above = here.ancestors().map(|dir| dir.join(FOLDER)).find(|folder| folder.is_dir());
    above.unwrap_or_else(|| FOLDER.into())
}

#[cfg(feature = "postgres")]
fn connect(url: &str) -> Result<Store, Failure> {
    Ok(Store::connect(url)?)
}

#[cfg(not(feature = "postgres"))]
fn connect(_: &str) -> Result<Store, Failure> {
    let error = InputError::new("--store", "this program was built without PostgreSQL", "a folder");
    Err(error.help("build it with `cargo build --release --features postgres`").into())
}

/// The records at these paths, each with its file.
fn read(paths: &[PathBuf]) -> Result<Vec<(Record, PathBuf)>, Failure> {
    let mut read = Vec::new();
    for path in paths {
        let path = if path.is_dir() { path.join(results_dir::RECORD) } else { path.clone() };
        let record = records::read("RECORD", &path)?;
        if record.measurements.is_empty() {
            let problem = format!("{} has no measurements", path.display());
            let expected = "a record of `run`: a history holds times, neither verdicts nor spans";
            return Err(InputError::new("RECORD", problem, expected).into());
        }
        read.push((record, path));
    }
    Ok(read)
}

fn add(paths: &[PathBuf], store: &StoreArgs) -> Outcome {
    let read = read(paths).inspect_err(|_| {
        if paths.len() > 1 {
            output::note(&format!("note: none of the {} records was added", paths.len()));
        }
    })?;
    let mut store = open(store, true)?;
    for (record, path) in read {
        let (run, _) = ellwand_history::rows(&record);
        let id = clean(&run.id);
        let machines = store.machines()?;
        // A merged record lists the cases of the plan.
        if record.run.shard.as_ref().is_some_and(|shard| shard.cases.is_empty()) {
            output::note(&format!(
                "note: {id} is one shard of a sweep; with the record of `sweep merge` its samples count twice"
            ));
        }
        match store.add(&path, &record)? {
            Added::Known => output::note(&format!("{id} is in {} already", store.place())),
            added => {
                let how = if added == Added::New { "added" } else { "replaced by a longer record of the run" };
                let cells = output::counted(run.cells.unsigned_abs(), "measurement");
                output::note(&format!("{id} {how}: {cells}, {}", commit(&run)));
                if !machines.is_empty() && machines.iter().all(|machine| machine.id != run.machine) {
                    output::note(&format!(
                        "note: {id} is from another machine ({}, {}) than earlier runs: its times are a \
                         separate series",
                        clean(&run.cpu),
                        cores(run.cores)
                    ));
                }
            }
        }
        print_notes(&mut store);
    }
    Ok(Exit::Ok)
}

/// The commit of a run, as printed.
fn commit(run: &RunRow) -> String {
    match &run.commit {
        Some(commit) => format!("commit {}", short(commit, run.changed)),
        None => "no commit: it is listed by its own date".to_string(),
    }
}

/// A commit in 10 digits, with `+` if files differed from it.
fn short(commit: &str, changed: bool) -> String {
    let digits: String = clean(commit).chars().take(10).collect();
    if changed { format!("{digits}+") } else { digits }
}

fn date(ms: i64) -> String {
    utc(u64::try_from(ms).unwrap_or(0))
}

fn list(store: &mut Store, format: Form) -> Outcome {
    let runs = store.runs()?;
    if format == Form::Json {
        output::result(|out| writeln!(out, "{:#}", json!(runs)))?;
    } else {
        let mut table = Table::new(&["run", "commit", "date", "machine", "measured", "command"]);
        for run in &runs {
            let commit = run.commit.as_ref().map_or_else(|| "-".into(), |commit| short(commit, run.changed));
            table.row([
                clean(&run.id),
                commit,
                date(run.committed_ms.unwrap_or(run.started_ms)),
                run.machine.chars().take(8).collect(),
                run.cells.to_string(),
                clean(&run.command),
            ]);
        }
        output::result(|out| -> Result<(), Failure> {
            table.write(out)?;
            let bare = runs.iter().filter(|run| run.commit.is_none()).count();
            if bare > 0 {
                writeln!(out, "{bare} without a commit: listed by the date of the run, others by that of the commit")?;
            }
            for machine in store.machines()? {
                writeln!(out, "machine {}: {}, {}", machine.id, clean(&machine.cpu), cores(machine.cores))?;
            }
            Ok(())
        })?;
    }
    Ok(if runs.is_empty() { Exit::Nothing } else { Exit::Ok })
}

fn show(store: &mut Store, id: &str, format: Form) -> Outcome {
    let (run, cells) = store.run(id)?;
    let file = store.file(&run.id)?;
    if format == Form::Json {
        let model = json!({ "run": run, "record": file, "measurements": cells });
        output::result(|out| writeln!(out, "{model:#}"))?;
        return Ok(Exit::Ok);
    }
    let cold = cells.iter().any(|cell| cell.series.caches != "warm");
    let head = ["implementation", "device"].into_iter().chain(cold.then_some("caches"));
    let mut table = Table::new(&head.chain(["time", "95 % interval", "case"]).collect::<Vec<_>>());
    for CellRow { series, status, seconds, low, high, .. } in &cells {
        let time = seconds.map_or_else(|| status.clone(), |seconds| human(seconds, "s"));
        let mut row = vec![clean(&series.implementation), clean(&series.device)];
        row.extend(cold.then(|| series.caches.clone()));
        row.extend([
            time,
            low.zip(*high).map_or_else(String::new, |(low, high)| range(low, high, "s")),
            clean(&series.case),
        ]);
        table.row(row);
    }
    output::result(|out| -> Result<(), Failure> {
        writeln!(out, "run {} of {}, {}", clean(&run.id), date(run.started_ms), commit(&run))?;
        writeln!(out, "machine {}: {}, {}", run.machine, clean(&run.cpu), cores(run.cores))?;
        writeln!(out, "{}", clean(&run.command))?;
        table.write(out)?;
        if let Some(file) = file {
            writeln!(out, "`ellwand report {}` shows everything", file.display())?;
        }
        Ok(())
    })?;
    Ok(Exit::Ok)
}
