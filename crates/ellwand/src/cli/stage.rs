//! New results are computed and written next to the old ones, and replace them when they are complete.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ellwand_bench::writer;
use ellwand_core::record::Record;

use super::exit::{Failure, in_use};
use super::output;
use super::results_dir::RECORD;

/// Name of the directory for incomplete results, inside the output directory.
pub(super) const UNFINISHED: &str = "ellwand-unfinished";

/// Files whose presence means that the others are complete; they are moved last.
const LAST: [&str; 2] = [RECORD, "apply.json"];

/// Results that are not in the output directory yet.
#[derive(Debug)]
pub(super) struct Stage {
    home: PathBuf,
    dir: PathBuf,
    /// Kept open, because its lock keeps a second program out.
    _lock: File,
}

impl Stage {
    /// Begins with an empty directory; removes what a killed program left there.
    pub(super) fn begin(home: &Path) -> Result<Self, Failure> {
        let stage = Self::open(home)?;
        empty(&stage.dir).with_context(|| format!("{} cannot be emptied", stage.dir.display()))?;
        Ok(stage)
    }

    /// Continues with the files that are there.
    pub(super) fn open(home: &Path) -> Result<Self, Failure> {
        let dir = home.join(UNFINISHED);
        let refused = || format!("{} cannot be written", dir.display());
        fs::create_dir_all(&dir).with_context(refused)?;
        let lock = File::open(&dir).with_context(refused)?;
        // On a file system without locks, continues without one.
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(in_use(home).into());
        }
        Ok(Self { home: home.to_path_buf(), dir, _lock: lock })
    }

    /// True if `home` contains the unfinished record of a run, even without a finished cell: `--resume` refers to the
    /// last run.
    pub(super) fn has_unfinished_record(home: &Path) -> bool {
        home.join(UNFINISHED).join(RECORD).is_file() && !Self::decides(home)
    }

    /// True if the unfinished record in `home` belongs to `compare`, which cannot be resumed.
    pub(super) fn decides(home: &Path) -> bool {
        let path = home.join(UNFINISHED).join(RECORD);
        let record = if path.is_file() { writer::read(&path).ok() } else { None };
        let word =
            |record: Record| record.run.command.into_iter().find(|word| ["run", "compare"].contains(&word.as_str()));
        record.and_then(word).is_some_and(|word| word == "compare")
    }

    /// The directory to write to.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Discards everything, including the record.
    pub(super) fn discard(self) {
        let _ = fs::remove_file(self.dir.join(RECORD));
    }

    /// Moves everything to its place, then removes those `old` files that have no successor.
    pub(super) fn place(self, old: &[PathBuf]) -> Result<(), Failure> {
        let placed = self.moved().with_context(|| {
            format!("the new results cannot be moved to {}; they are in {}", self.home.display(), self.dir.display())
        })?;
        for path in old.iter().filter(|path| !placed.contains(path)) {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    output::note(&format!("note: the old {} stays: {error}", path.display()));
                }
                _ => {}
            }
        }
        // The directory stays if it contains files of the user.
        let _ = fs::remove_dir(self.home.join("plots"));
        Ok(())
    }

    fn moved(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = files(&self.dir)?;
        files.sort_by_key(|file| LAST.iter().any(|last| file == Path::new(last)));
        let mut placed = Vec::new();
        for file in files {
            let (from, to) = (self.dir.join(&file), self.home.join(&file));
            File::open(&from)?.sync_all()?;
            to.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::rename(from, &to)?;
            placed.push(to);
        }
        Ok(placed)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A record stays where `--resume` finds it.
        if !self.dir.join(RECORD).is_file() && empty(&self.dir).is_ok() {
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

/// Files in a directory and its subdirectories, as relative paths.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?.into_iter().map(|file| name.join(file)));
        } else {
            found.push(name);
        }
    }
    Ok(found)
}

fn empty(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn written(stage: &Stage, name: &str) {
        let path = stage.dir().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "new").unwrap();
    }

    #[test]
    fn old_files_go_when_the_new_ones_are_in_place() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::create_dir(path("plots")).unwrap();
        for name in ["record.jsonl", "report.md", "plots/old.svg", "mine.txt"] {
            fs::write(path(name), "old").unwrap();
        }
        let stage = Stage::begin(home.path()).unwrap();
        written(&stage, "record.jsonl");
        written(&stage, "plots/new.svg");
        assert_eq!(fs::read_to_string(path("record.jsonl")).unwrap(), "old");
        stage.place(&[path("record.jsonl"), path("report.md"), path("plots/old.svg")]).unwrap();
        assert_eq!(fs::read_to_string(path("record.jsonl")).unwrap(), "new");
        let mut left = files(home.path()).unwrap();
        left.sort();
        assert_eq!(left, ["mine.txt", "plots/new.svg", "record.jsonl"].map(PathBuf::from));
    }

    #[test]
    fn a_stage_has_one_owner_and_keeps_a_record_alone() {
        let home = tempfile::tempdir().unwrap();
        let stage = Stage::begin(home.path()).unwrap();
        let second = Stage::begin(home.path()).unwrap_err();
        assert!(second.to_string().contains("another process is writing"));
        written(&stage, "report.md");
        drop(stage);
        assert_eq!(files(home.path()).unwrap(), Vec::<PathBuf>::new());
        let stage = Stage::begin(home.path()).unwrap();
        fs::write(stage.dir().join(RECORD), "run\n").unwrap();
        drop(stage);
        assert!(Stage::has_unfinished_record(home.path()), "also without a finished cell");
        drop(Stage::begin(home.path()).unwrap());
        assert!(!Stage::has_unfinished_record(home.path()) && fs::read_dir(home.path()).unwrap().next().is_none());
    }
}
