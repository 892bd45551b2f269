//! `report`: from records to every format; also the last step of `run`.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use ellwand_core::InputError;
use ellwand_core::record::Record;
use ellwand_report::{Options, Report};

use super::command::{is_set, text};
use super::exit::{Exit, Failure};
use super::{Outcome, output, records, standing};

pub(super) fn report(matches: &ArgMatches) -> Outcome {
    let files: Vec<PathBuf> = matches.get_many::<String>("file").into_iter().flatten().map(PathBuf::from).collect();
    let mut all = Vec::new();
    for file in &files {
        let path = if file.is_dir() { file.join("record.jsonl") } else { file.clone() };
        let record = records::read("FILE", &path)?;
        add(&mut all, record, &path);
    }
    if let Some(dir) = text(matches, "output") {
        standing::for_report(Path::new(dir), &all, !is_set(matches, "no-plot"), is_set(matches, "overwrite"))?;
        output::directory("-o", Path::new(dir))?;
        write_directory(matches, &all, Path::new(dir))?;
    }
    let has_any = |record: &Record| {
        record.measurements.iter().any(|measurement| measurement.outcome.is_measured())
            || record.comparisons.iter().any(|comparison| comparison.ended.is_none())
            || record.spans.iter().any(|spans| spans.outcome.is_measured())
    };
    let measured = all.iter().any(has_any);
    let by_measurement = text(matches, "format").is_some_and(|name| ["csv", "jsonl", "seed-json"].contains(&name));
    if by_measurement && all.iter().any(|record| !record.comparisons.is_empty()) {
        output::note("note: csv, jsonl and seed-json hold measurements; verdicts are in table, json and markdown");
    }
    print(matches, &all)?;
    Ok(if measured { Exit::Ok } else { Exit::Nothing })
}

/// Adds a record unless its run is there already: a copy, or the same file twice, would count every sample twice. Of two
/// the longer one holds.
fn add(records: &mut Vec<Record>, record: Record, path: &Path) {
    let lines = |record: &Record| record.measurements.len() + record.comparisons.len();
    match records.iter_mut().find(|known| known.run.id == record.run.id) {
        None => records.push(record),
        Some(known) => {
            let run = &record.run.id;
            let path = path.display();
            if lines(&record) > lines(known) {
                output::note(&format!("note: {path} is run {run} again with more in it; the shorter one is left out"));
                *known = record;
            } else {
                output::note(&format!("note: {path} is run {run}, which was given already; left out"));
            }
        }
    }
}

fn options(matches: &ArgMatches) -> Options {
    Options {
        baseline: text(matches, "baseline").map(str::to_string),
        width: output::width(),
        color: output::color(),
        plots: !is_set(matches, "no-plot"),
    }
}

/// The report in the format asked for, on stdout.
pub(super) fn print(matches: &ArgMatches, records: &[Record]) -> Result<(), Failure> {
    let report = Report::from_records(records, &options(matches))?;
    let name = text(matches, "format").unwrap_or("table");
    let format = ellwand_report::format(name).ok_or_else(|| {
        let known: Vec<&str> = ellwand_report::FORMATS.iter().map(|format| format.name).collect();
        InputError::new("--format", format!("'{name}' is unknown"), format!("one of {}", known.join(", ")))
    })?;
    output::result(|out| (format.write)(&report, out))
}

/// Every file that belongs into an output directory.
pub(super) fn write_directory(matches: &ArgMatches, records: &[Record], dir: &Path) -> Result<(), Failure> {
    // Files are for everyone: no terminal width and no colour.
    let options = Options { width: None, color: false, ..options(matches) };
    let report = Report::from_records(records, &options)?;
    ellwand_report::write_all(&report, dir, &options)?;
    Ok(())
}
