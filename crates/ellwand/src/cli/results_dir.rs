//! The contents of an output directory and who wrote them: no file of the user is replaced or removed without a
//! request.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use ellwand_bench::writer;
use ellwand_core::InputError;
use ellwand_core::record::Record;

use super::exit::Failure;
use super::stage::Stage;
use super::{output, spans};

/// Name of the record in the output directory.
pub(super) const RECORD: &str = "record.jsonl";

/// Refuses, as the directory of a new record, one that contains a record, or files of the user under names that this
/// program would write, or with `plots` any pictures among which it would write; with `overwrite`, refuses only
/// entries that are not files.
pub(super) fn claim(dir: &Path, overwrite: bool, plots: bool, help: &str) -> Result<(), InputError> {
    let path = dir.join(RECORD);
    // Opening a pipe would wait for a reader.
    if path.metadata().is_ok_and(|about| about.file_type().is_fifo()) {
        let problem = format!("{} is a pipe, not a regular file", path.display());
        return Err(InputError::new("-o", problem, "a new directory"));
    }
    if overwrite {
        return Ok(());
    }
    if path.exists() {
        let problem = format!("{} already holds a record", dir.display());
        return Err(InputError::new("-o", problem, "a new directory").help(help));
    }
    only_ours(dir, plots)
}

/// An output directory for a record and its reports.
pub(super) struct Results {
    home: PathBuf,
    /// Where new results are written while old ones still exist.
    stage: Option<Stage>,
}

impl Results {
    /// Opens a directory: an empty one, one whose results may be replaced (`overwrite`), or one to resume.
    pub(super) fn open(home: &Path, overwrite: bool, resume: bool) -> Result<Self, Failure> {
        let there = || home.join(RECORD).symlink_metadata().is_ok();
        let stage = if resume && Stage::has_unfinished_record(home) {
            let stage = Stage::open(home)?;
            let what = "which replace those in the directory above when they are complete";
            output::note(&format!("note: continuing the results in {}, {what}", stage.dir().display()));
            Some(stage)
        } else if overwrite && (there() || !ellwand_report::existing_files(home).is_empty()) {
            writer::refuse_in_use(&home.join(RECORD))?;
            let stage = Stage::begin(home)?;
            // From now on `--resume` refers to these results, although their record has no line yet.
            std::fs::File::create(stage.dir().join(RECORD))?;
            Some(stage)
        } else {
            None
        };
        Ok(Self { home: home.to_path_buf(), stage })
    }

    /// The directory to write to.
    pub(super) fn dir(&self) -> &Path {
        self.stage.as_ref().map_or(&self.home, Stage::dir)
    }

    /// True if old results still exist, to be kept if there are no new ones.
    pub(super) fn replaces(&self) -> bool {
        self.stage.is_some()
    }

    /// The directory that the user named.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Leaves the old results unchanged.
    pub(super) fn keep_old(self) {
        if let Some(stage) = self.stage {
            stage.discard();
        }
    }

    /// Moves the results into the directory. `record` is the closed record, with its reports next to it.
    ///
    /// # Errors
    /// If the directory has vanished, so the results are elsewhere.
    pub(super) fn place(self, record: &Path) -> Result<(), Failure> {
        let there = record.parent().unwrap_or(Path::new("."));
        if there != self.dir() {
            let (home, there) = (self.home.display(), there.display());
            return Err(anyhow::anyhow!("{home} vanished while it was written to; the results are in {there}").into());
        }
        if let Some(stage) = self.stage {
            stage.place(&made_from(&self.home))?;
        }
        // Python's benchmark of layers reads the record and deletes it.
        if std::env::var_os("ELLWAND_TEMPORARY").is_none() {
            output::note(&format!("\nwritten to {}", self.home.display()));
        }
        Ok(())
    }
}

/// The record at a path. Reads only a regular file: a device may have no end.
fn read(path: &Path) -> Option<Record> {
    if path.is_file() { writer::read(path).ok() } else { None }
}

/// Refuses a directory without a record if an entry has a name that this program would write, and with `plots` also if
/// it contains pictures where this program would write plots.
pub(super) fn only_ours(dir: &Path, plots: bool) -> Result<(), InputError> {
    let pictures = ellwand_report::pictures(dir).filter(|_| plots);
    let Some(path) = ellwand_report::existing_files(dir).into_iter().chain(pictures).next() else { return Ok(()) };
    if dir.join(RECORD).exists() {
        return Ok(());
    }
    let problem = format!("{} exists and was not written by Ellwand", path.display());
    Err(InputError::new("-o", problem, "a new directory").help("--overwrite replaces files of the same name"))
}

/// The files made from the record in a directory: reports, plots and traces.
pub(super) fn made_from(dir: &Path) -> Vec<PathBuf> {
    let mut files = ellwand_report::existing_files(dir);
    let inside = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    files.extend(inside.filter(|path| spans::is_trace(path)));
    files
}

/// Refuses to write the report of `records` into the directory of another record, or over files without a report of
/// this program next to them. Returns the files of another record's report, which the new one replaces.
pub(super) fn for_report(
    dir: &Path,
    records: &[Record],
    plots: bool,
    overwrite: bool,
) -> Result<Vec<PathBuf>, InputError> {
    let path = dir.join(RECORD);
    if path.exists() {
        let there = read(&path);
        if there.as_ref().is_some_and(|there| records.iter().any(|record| record.run.id == there.run.id)) {
            return Ok(Vec::new());
        }
        if !overwrite {
            let of = if there.is_some() { "is from another run" } else { "cannot be read" };
            let problem = format!("{} {of}, and its report would be replaced", path.display());
            let error = InputError::new("-o", problem, "a new directory, or that of one of the records");
            return Err(error.help("--overwrite replaces the report and leaves the record"));
        }
        output::note(&format!("note: {} is from another run than the report that is now next to it", path.display()));
        return Ok(ellwand_report::existing_files(dir));
    }
    // The report of an earlier call was made from a record that is elsewhere.
    let path = dir.join("run.json");
    let text = if path.is_file() { std::fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
    let json = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
    if json["report_version"].is_u64() {
        let runs = json["runs"].as_array().into_iter().flatten().filter_map(|run| run["id"].as_str());
        if runs.clone().any(|run| records.iter().any(|record| record.run.id == run)) {
            return Ok(Vec::new());
        }
        if !overwrite {
            let problem = format!("{} is the report of another run", path.display());
            let error = InputError::new("-o", problem, "a new directory, or that of one of the records");
            return Err(error.help("--overwrite replaces the report"));
        }
        return Ok(ellwand_report::existing_files(dir));
    }
    if !overwrite {
        only_ours(dir, plots)?;
    }
    Ok(Vec::new())
}
