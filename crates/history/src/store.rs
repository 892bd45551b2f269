//! A history: records in a folder with an index, or an index in PostgreSQL that many machines share.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ellwand_core::InputError;
use ellwand_core::record::Record;

use crate::error::StoreError;
use crate::folder::{self, Stamp};
use crate::index::{Index, Machine, NewRun};
use crate::rows::{CellRow, RunRow, by_number, rows};
use crate::schema::INDEX;
use crate::sqlite::Sqlite;

/// How long to wait for another process that writes the index.
const PATIENCE: Duration = Duration::from_secs(5);

/// The note on a folder whose index cannot be written.
fn unwritable(place: &str) -> String {
    format!("{place} cannot be written, so each command reads the records again")
}

/// Measurements indexed at once: their rows take some 50 MB of memory.
const AT_ONCE: usize = 100_000;

/// The result of adding a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// The run was not in the history.
    New,
    /// The history had the run with fewer measurements; this record replaces it.
    Replaced,
    /// The history already has the run.
    Known,
}

/// An open history.
pub struct Store {
    index: Box<dyn Index>,
    folder: Option<PathBuf>,
    /// How long to wait for another process that writes the index.
    patience: Duration,
    /// Notes for the user, such as files of the folder that are not records, lost rows, or an index that was rebuilt.
    pub notes: Vec<String>,
}

impl Store {
    /// Opens the history in a folder and updates its index. With `create`, makes the folder if necessary.
    ///
    /// # Errors
    /// If there is no history, or it cannot be read or written.
    pub fn open(folder: &Path, create: bool) -> Result<Self, StoreError> {
        Self::open_with(folder, create, PATIENCE)
    }

    /// As [`Store::open`]; waits up to `patience` for another process that writes the index.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(folder: &Path, create: bool, patience: Duration) -> Result<Self, StoreError> {
        if create {
            fs::create_dir_all(folder).map_err(|error| match StoreError::of_file(folder, &error) {
                full @ StoreError::Full(_) => full,
                _ => {
                    let problem = format!("{} cannot be written ({error})", folder.display());
                    InputError::setting("store", problem, "a folder that can be written").into()
                }
            })?;
        } else if !folder.is_dir() {
            let problem = format!("{} holds no history", folder.display());
            let error = InputError::setting("store", problem, "the folder of a history, or a URL postgres://..");
            return Err(error.help("`history add RECORD` creates one").into());
        }
        let index = Box::new(Sqlite::in_memory(&folder.join(INDEX))?);
        let mut store = Self { index, folder: Some(folder.to_path_buf()), patience, notes: Vec::new() };
        match store.load(folder, create) {
            Err(StoreError::Damaged { problem, .. }) => store.rebuild(folder, &problem)?,
            loaded => loaded?,
        }
        Ok(store)
    }

    /// Replaces the empty index by the one in the folder, and makes it match the records. With `create`, the folder
    /// must be writable.
    fn load(&mut self, folder: &Path, create: bool) -> Result<(), StoreError> {
        match Sqlite::open(&folder.join(INDEX), self.patience) {
            Err(StoreError::ReadOnly(place)) if !create => self.notes.push(unwritable(&place)),
            Err(StoreError::Newer { place, found, known }) => self.notes.push(format!(
                "{place} has schema version {found}, this program reads versions up to {known}: each command reads the \
                 records again. Use a newer Ellwand, or delete the index"
            )),
            opened => self.index = Box::new(opened?),
        }
        self.synchronise(folder)
    }

    /// Indexes the records again, because the index is damaged. Keeps its file under another name.
    fn rebuild(&mut self, folder: &Path, problem: &str) -> Result<(), StoreError> {
        // Closes the damaged index before its files are renamed.
        self.index = Box::new(Sqlite::in_memory(&folder.join(INDEX))?);
        let place = folder.join(INDEX).display().to_string();
        match folder::set_aside(folder, INDEX) {
            Ok(aside) => {
                self.notes.push(format!("{place} was damaged ({problem}): rebuilt from the records, saved as {aside}"));
                self.load(folder, false)?;
            }
            Err(StoreError::ReadOnly(_)) => {
                self.notes.push(format!("{place} is damaged ({problem})"));
                self.notes.push(unwritable(&place));
                self.synchronise(folder)?;
            }
            Err(error) => return Err(error),
        }
        let mut seen = BTreeSet::new();
        self.notes.retain(|note| seen.insert(note.clone()));
        Ok(())
    }

    /// The result of `ask`. Rebuilds the index of a folder if it turns out to be damaged, and asks again.
    pub(crate) fn ask<T>(&mut self, ask: impl Fn(&mut dyn Index) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match (ask(&mut *self.index), self.folder.clone()) {
            (Err(StoreError::Damaged { problem, .. }), Some(folder)) => {
                self.rebuild(&folder, &problem)?;
                ask(&mut *self.index)
            }
            (answer, _) => answer,
        }
    }

    /// Connects to a history in PostgreSQL, such as `postgres://user@host/database`.
    ///
    /// # Errors
    /// If the server cannot be reached, or the history is of a later version.
    #[cfg(feature = "postgres")]
    pub fn connect(url: &str) -> Result<Self, StoreError> {
        let index = Box::new(crate::postgres::Postgres::connect(url)?);
        Ok(Self { index, folder: None, patience: PATIENCE, notes: Vec::new() })
    }

    /// Location of the history.
    pub fn place(&self) -> String {
        self.folder.as_ref().map_or_else(|| self.index.place(), |folder| folder.display().to_string())
    }

    /// Makes the index match the folder.
    fn synchronise(&mut self, folder: &Path) -> Result<(), StoreError> {
        let mut known = self.index.files()?;
        let (stamps, unnamed) = folder::records(folder)?;
        self.notes.extend(unnamed.iter().map(|path| format!("{}: its name is not UTF-8; skipped", path.display())));
        // Sorted by name.
        let is_current = |stamp: &Stamp| {
            let found = stamps.binary_search_by(|other| other.name.cmp(&stamp.name));
            found.is_ok_and(|at| stamps[at] == *stamp)
        };
        let gone: Vec<String> =
            known.iter().filter(|(_, stamp)| !is_current(stamp)).map(|(id, _)| id.clone()).collect();
        for id in gone {
            self.index.remove(&id)?;
            known.remove(&id);
        }
        let indexed: BTreeSet<&str> = known.values().map(|stamp| stamp.name.as_str()).collect();
        let mut new = Vec::new();
        for stamp in &stamps {
            let is_known = indexed.contains(stamp.name.as_str());
            // The index cannot hold what a cut record lacks.
            if is_known && !folder::is_cut(folder, stamp) {
                continue;
            }
            let path = folder.join(&stamp.name);
            match folder::read(&path) {
                Ok(record) => {
                    let kept = record.measurements.len();
                    let plural = if kept == 1 { "" } else { "s" };
                    let note = |warning| format!("{} ({kept} measurement{plural}): {warning}", path.display());
                    self.notes.extend(record.warnings.iter().map(note));
                    if is_known {
                        continue;
                    }
                    let (run, cells) = rows(&record);
                    new.push(NewRun { run, cells, file: Some(stamp.clone()) });
                    if new.iter().map(|new| new.cells.len()).sum::<usize>() >= AT_ONCE {
                        self.add_files(&std::mem::take(&mut new))?;
                    }
                }
                Err(why) => self.notes.push(format!("{why}; skipped")),
            }
        }
        self.add_files(&new)
    }

    /// Adds the runs of files. If two files hold the same run, the longer one counts, as in [`Store::add`]; if they are
    /// equally long, the first by name, so the order in which they are found does not matter.
    fn add_files(&mut self, new: &[NewRun]) -> Result<(), StoreError> {
        for (new, added) in new.iter().zip(self.index.add(new)?) {
            let Some(stamp) = new.file.as_ref().filter(|_| !added) else { continue };
            let id = &new.run.id;
            // Another process may have indexed the file in the meantime.
            let known = self.index.files()?.remove(id).filter(|known| known.name != stamp.name);
            let (Some(known), Some(there)) = (known, self.index.run(id)?) else { continue };
            let longer = new.run.cells.cmp(&there.cells);
            let wins = longer.then_with(|| known.name.cmp(&stamp.name)).is_gt();
            if wins {
                self.index.remove(id)?;
                self.index.add(std::slice::from_ref(new))?;
            }
            let (used, skipped) = if wins { (&stamp.name, &known.name) } else { (&known.name, &stamp.name) };
            let more = if longer.is_eq() { "as many measurements" } else { "more measurements" };
            self.notes.push(format!("{skipped} is run {id} too; skipped, because {used} has {more}"));
        }
        Ok(())
    }

    /// Adds the record that was read from `path`.
    ///
    /// # Errors
    /// If the history cannot be written. It is then unchanged.
    pub fn add(&mut self, path: &Path, record: &Record) -> Result<Added, StoreError> {
        let (run, cells) = rows(record);
        let there = self.ask(|index| index.run(&run.id))?;
        if there.as_ref().is_some_and(|known| known.cells >= run.cells) {
            return Ok(Added::Known);
        }
        let stamp = match &self.folder {
            None => None,
            Some(folder) => {
                let name = folder::place(folder, &run.id, path)?;
                folder::stamp(folder, &name)
            }
        };
        let new = NewRun { run, cells, file: stamp };
        let added = self.ask(|index| {
            if there.is_some() {
                index.remove(&new.run.id)?;
            }
            // Another writer may have added the run first.
            index.add(std::slice::from_ref(&new))
        })?;
        Ok(match (added == [true], there) {
            (false, _) => Added::Known,
            (true, None) => Added::New,
            (true, Some(_)) => Added::Replaced,
        })
    }

    /// All runs, by the date of the commit, or else of the run.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn runs(&mut self) -> Result<Vec<RunRow>, StoreError> {
        self.ask(|index| index.runs())
    }

    /// The machines of the runs.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn machines(&mut self) -> Result<Vec<Machine>, StoreError> {
        self.ask(|index| index.machines())
    }

    /// The run whose id begins with `id`, with its measurements.
    ///
    /// # Errors
    /// If no run or several runs match, or the index cannot be read.
    pub fn run(&mut self, id: &str) -> Result<(RunRow, Vec<CellRow>), StoreError> {
        let runs = self.runs()?;
        if id.is_empty() {
            let expected = "the id of a run, or its beginning, as `history list` prints it";
            return Err(InputError::new("ID", "it is empty", expected).into());
        }
        let mut matching = runs.iter().filter(|run| run.id.starts_with(id));
        let exact = runs.iter().find(|run| run.id == id);
        let run = match (exact, matching.next(), matching.next()) {
            (Some(run), ..) | (None, Some(run), None) => run.clone(),
            (None, None, _) => {
                let expected = "the id of a run, as `history list` prints it";
                let error = InputError::new("ID", format!("no run has the id {id}"), expected);
                return Err(error.near(id, runs.iter().map(|run| run.id.as_str())).into());
            }
            (None, Some(_), Some(_)) => {
                let problem = format!("{} runs have an id that begins with {id}", 2 + matching.count());
                return Err(InputError::new("ID", problem, "more of the id").into());
            }
        };
        let cells = self.cells(&run)?;
        Ok((run, cells))
    }

    /// The file of a run in the folder of the history.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn file(&mut self, id: &str) -> Result<Option<PathBuf>, StoreError> {
        let Some(folder) = self.folder.clone() else { return Ok(None) };
        Ok(self.ask(|index| index.files())?.get(id).map(|stamp| folder.join(&stamp.name)))
    }

    /// The measurements of a run.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn cells(&mut self, run: &RunRow) -> Result<Vec<CellRow>, StoreError> {
        let mut cells = self.ask(|index| index.cells(&run.id))?;
        cells.sort_by(|one, other| by_number(&one.series, &other.series));
        Ok(cells)
    }
}
