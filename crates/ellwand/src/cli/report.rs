//! `report`: converts records to any format; also the last step of `run`.

use std::path::Path;

use ellwand_core::InputError;
use ellwand_core::record::Record;
use ellwand_report::{Format, Options, Report};

use super::args::{ReportArgs, Reports};
use super::exit::{Exit, Failure, Outcome};
use super::stage::{Stage, UNFINISHED};
use super::{output, records, results_dir};

pub(super) fn report(args: &ReportArgs) -> Outcome {
    let mut all = Vec::new();
    for file in &args.file {
        let path = if file.is_dir() { file.join(results_dir::RECORD) } else { file.clone() };
        let unfinished = file.join(UNFINISHED);
        if file.is_dir() && Stage::has_unfinished_record(file) {
            output::note(&format!(
                "note: an unfinished run is in {}; `run --resume` continues it",
                unfinished.display()
            ));
        } else if file.is_dir() && Stage::decides(file) {
            output::note(&format!(
                "note: an unfinished comparison is in {}; `compare --overwrite` restarts it",
                unfinished.display()
            ));
        }
        let record = records::read("FILE", &path)?;
        add(&mut all, record, &path);
    }
    let options = Options { across_machines: args.across_machines, ..options(&args.reports) };
    no_other_format(args.output.as_deref(), args.format)?;
    let file = file_of(args.output.as_deref(), args.format);
    if let Some(file) = file {
        output::new_file(file, &[], args.overwrite)?;
    }
    if let Some(dir) = args.output.as_ref().filter(|_| file.is_none()) {
        let old = results_dir::for_report(dir, &all, options.plots, args.overwrite)?;
        output::directory("-o", dir)?;
        let stage = Stage::begin(dir)?;
        write_directory(&options, &all, stage.dir())?;
        stage.place(&old)?;
    }
    let has_any = |record: &Record| {
        record.measurements.iter().any(|measurement| measurement.outcome.is_measured())
            || record.comparisons.iter().any(|comparison| comparison.ended.is_none())
            || record.spans.iter().any(|spans| spans.outcome.is_measured())
    };
    let by_measurement = ["csv", "jsonl", "seed-json", "seed-table"].contains(&args.format.name);
    if by_measurement && all.iter().any(|record| !record.comparisons.is_empty()) {
        output::note(
            "note: csv, jsonl, seed-json and seed-table hold measurements; verdicts are in table, json, markdown and html",
        );
    }
    show(&options, args.format, &all, file)?;
    Ok(if all.iter().any(has_any) { Exit::Ok } else { Exit::Nothing })
}

/// Adds a record unless its run was already added: a copy, or the same file twice, would count every sample twice. Of
/// two such records the longer one is used.
fn add(records: &mut Vec<Record>, record: Record, path: &Path) {
    let lines = |record: &Record| record.measurements.len() + record.comparisons.len();
    match records.iter_mut().find(|known| known.run.id == record.run.id) {
        None => records.push(record),
        Some(known) => {
            let run = &record.run.id;
            let path = path.display();
            if lines(&record) > lines(known) {
                output::note(&format!("note: {path} is a longer record of run {run}; skipped the shorter one"));
                *known = record;
            } else {
                output::note(&format!("note: skipped {path}: run {run} is given twice"));
            }
        }
    }
}

/// Options for reports on stdout, as the user requests them.
pub(super) fn options(args: &Reports) -> Options {
    Options {
        baseline: args.baseline.clone(),
        width: output::width().or(Some(PAGE)),
        color: output::color(),
        full: args.full,
        plots: !args.no_plot,
        across_machines: false,
    }
}

/// Width of tables in files and pipes.
const PAGE: usize = 120;

/// The file named by `-o`, if its extension is that of the format: `-o r.json --format seed-json`.
pub(super) fn file_of<'a>(output: Option<&'a Path>, format: &Format) -> Option<&'a Path> {
    let ending = |path: &Path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(format.extension));
    output.filter(|path| ending(path) && !path.is_dir())
}

/// Refuses a directory whose name ends like a file of another format: the user meant a file.
pub(super) fn no_other_format(output: Option<&Path>, format: &Format) -> Result<(), InputError> {
    let Some(path) = output.filter(|path| !path.is_dir()) else { return Ok(()) };
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match ellwand_report::format(ending) {
        Some(other) if other.extension != format.extension => {
            let problem =
                format!("{} has the extension of {}, but --format is {}", path.display(), other.name, format.name);
            Err(InputError::new("-o", problem, format!("--format {}, or the name of a directory", other.name)))
        }
        _ => Ok(()),
    }
}

/// Refuses a file for a format that is only written to stdout.
pub(super) fn no_file(output: Option<&Path>, format: &str) -> Result<(), InputError> {
    let ending =
        |path: &Path| path.extension().is_some_and(|ending| ["xml", "json", "txt"].iter().any(|one| ending == *one));
    let Some(path) = output.filter(|path| ending(path) && !path.is_dir()).map(Path::display) else { return Ok(()) };
    let problem = format!("{path} looks like a file, but --format {format} writes to stdout");
    Err(InputError::new("-o", problem, "a directory for the record").help(format!("`> {path}` saves stdout")))
}

/// Prints the report on stdout, or writes it to a file.
pub(super) fn show(options: &Options, format: &Format, records: &[Record], file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file else { return print(options, format, records) };
    let options = Options { color: false, ..options.clone() };
    let mut text = Vec::new();
    (format.write)(&Report::from_records(records, &options)?, &mut text)?;
    output::text_file(file, &String::from_utf8_lossy(&text))?;
    output::note(&format!("written to {}", file.display()));
    Ok(())
}

/// Prints the report on stdout.
pub(super) fn print(options: &Options, format: &Format, records: &[Record]) -> Result<(), Failure> {
    let report = Report::from_records(records, options)?;
    output::result(|out| (format.write)(&report, out))
}

/// Writes every file of a report to an output directory.
pub(super) fn write_directory(options: &Options, records: &[Record], dir: &Path) -> Result<(), Failure> {
    // Files are for any reader, so they have no terminal width and no colour.
    let options = Options { width: None, color: false, ..options.clone() };
    let report = Report::from_records(records, &options)?;
    if options.plots && ellwand_report::undrawn(&report) {
        output::note(
            "note: plots not drawn: this program was built without the feature `plots` of ellwand; \
             --no-plot hides this note",
        );
    }
    ellwand_report::write_all(&report, dir, &options).inspect_err(|_| {
        let record = dir.join(results_dir::RECORD);
        if record.exists() {
            let record = record.display();
            output::note(&format!(
                "{record} holds the measurements: `report {record} -o DIR` writes its reports elsewhere"
            ));
        }
    })?;
    Ok(())
}
