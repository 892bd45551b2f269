//! What an output directory already holds, and whose it is: nothing of the user's is replaced or removed unasked.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use ellwand_bench::{Plan, writer};
use ellwand_core::record::Record;
use ellwand_core::{InputError, Registry};
use ellwand_report::PlotNames;

use super::{output, spans};

/// Name of the record in the output directory.
pub(super) const RECORD: &str = "record.jsonl";

/// Claims a directory for a record: refuses one that holds a record, or files of the user with names that this program
/// would write. With `overwrite` it returns the record to be replaced.
pub(super) fn claim(dir: &Path, overwrite: bool, plots: &PlotNames, help: &str) -> Result<Option<Record>, InputError> {
    let path = dir.join(RECORD);
    // Opening a pipe would wait for a reader.
    if path.metadata().is_ok_and(|about| about.file_type().is_fifo()) {
        let problem = format!("{} is a pipe, not a regular file", path.display());
        return Err(InputError::new("-o", problem, "a new directory"));
    }
    if overwrite {
        return Ok(record(&path));
    }
    if path.exists() {
        let problem = format!("{} holds a record already", dir.display());
        return Err(InputError::new("-o", problem, "a new directory").help(help));
    }
    only_ours(dir, plots)?;
    Ok(None)
}

/// Plots that a run of the plan could draw.
pub(super) fn plots_of(plan: &Plan, registry: &Registry) -> PlotNames {
    let cases = || plan.cells.iter().map(|cell| &cell.case);
    PlotNames::new(
        cases().map(|case| case.workload.as_str()),
        plan.cells.iter().flat_map(|cell| cell.workload.axes().iter().map(|axis| axis.name)),
        registry.devices().iter().map(|device| device.id()),
        &registry.views,
    )
}

/// The record at a path. Only a plain file is read: a device may have no end.
fn record(path: &Path) -> Option<Record> {
    if path.is_file() { writer::read(path).ok() } else { None }
}

/// Refuses a directory without a record in which something has a name that this program would write.
pub(super) fn only_ours(dir: &Path, plots: &PlotNames) -> Result<(), InputError> {
    let Some(path) = ellwand_report::standing(dir, plots).into_iter().next() else { return Ok(()) };
    if dir.join(RECORD).exists() {
        return Ok(());
    }
    let problem =
        format!("{} stands there beside no record that it could be of, and would be replaced", path.display());
    Err(InputError::new("-o", problem, "a new directory").help("--overwrite replaces it"))
}

/// Removes what was made from the record that was there before: reports, plots and traces. Notes what cannot be removed.
pub(super) fn clear(dir: &Path, before: Option<&Record>) {
    let traces = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let plots = before.map(PlotNames::of).unwrap_or_default();
    let mut failed = ellwand_report::remove_all(dir, &plots).err().map(|error| error.to_string());
    for trace in traces.filter(|path| spans::is_trace(path)) {
        if let Err(error) = std::fs::remove_file(&trace) {
            failed = Some(format!("{}: {error}", trace.display()));
        }
    }
    if let Some(error) = failed {
        output::note(&format!("note: what was made from the old record stays: {error}"));
    }
}

/// Refuses to write the report of `records` into the directory of another record, or over files that no report of this
/// program is next to.
pub(super) fn for_report(dir: &Path, records: &[Record], plots: bool, overwrite: bool) -> Result<(), InputError> {
    let path = dir.join(RECORD);
    if path.exists() {
        let there = record(&path);
        if there.as_ref().is_some_and(|there| records.iter().any(|record| record.run.id == there.run.id)) {
            return Ok(());
        }
        if !overwrite {
            let of = if there.is_some() { "is of another run" } else { "cannot be read" };
            let problem = format!("{} {of}, and its report would be replaced", path.display());
            let error = InputError::new("-o", problem, "a new directory, or that of one of the records");
            return Err(error.help("--overwrite replaces the report and leaves the record"));
        }
        if let Err(error) = ellwand_report::remove_all(dir, &there.as_ref().map(PlotNames::of).unwrap_or_default()) {
            output::note(&format!("note: what was made from the old record stays: {error}"));
        }
        output::note(&format!("note: {} is of another run than the report beside it now", path.display()));
        return Ok(());
    }
    // The report of an earlier call is made from a record that is kept elsewhere.
    let path = dir.join("run.json");
    let text = if path.is_file() { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    let json = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
    let earlier = json["report_version"].is_u64();
    if overwrite || earlier {
        return Ok(());
    }
    only_ours(dir, &PlotNames::default())?;
    records.iter().filter(|_| plots).try_for_each(|record| only_ours(dir, &PlotNames::of(record)))
}
