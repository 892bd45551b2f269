//! The folder of a history: one record per run, named by the run's id. The records are the truth.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use ellwand_core::InputError;
use ellwand_core::record::{Record, parse};
use ellwand_core::replace_file;

use crate::error::StoreError;

/// What distinguishes a file from later versions of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Name in the folder.
    pub(crate) name: String,
    pub(crate) bytes: i64,
    pub(crate) modified_ns: i64,
}

/// The records in a folder, by name; and the files that the index cannot name, because their names are not UTF-8.
pub(crate) fn records(folder: &Path) -> Result<(Vec<Stamp>, Vec<PathBuf>), StoreError> {
    let refused = |error: &io::Error| StoreError::of_file(folder, error);
    let (mut stamps, mut unnamed) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(|error| refused(&error))? {
        let entry = entry.map_err(|error| refused(&error))?;
        let Ok(name) = entry.file_name().into_string() else {
            unnamed.extend(Some(entry.path()).filter(|path| path.to_string_lossy().ends_with(ENDING)));
            continue;
        };
        if name.ends_with(ENDING) && !name.starts_with('.') {
            stamps.extend(stamp(folder, &name));
        }
    }
    stamps.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((stamps, unnamed))
}

const ENDING: &str = ".jsonl";

/// The file `name` of a folder; `None` if it is not a file or has vanished.
pub(crate) fn stamp(folder: &Path, name: &str) -> Option<Stamp> {
    let about = fs::metadata(folder.join(name)).ok().filter(fs::Metadata::is_file)?;
    let modified_ns = about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec());
    Some(Stamp { name: name.to_string(), bytes: about.size().cast_signed(), modified_ns })
}

/// Reads a record.
pub(crate) fn read(path: &Path) -> Result<Record, StoreError> {
    let problem = |problem: String| StoreError::Other { place: path.display().to_string(), problem };
    let text = fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    parse(&text).map_err(|error| problem(error.to_string()))
}

/// True if the last line of a file has no line end, as when its writer was killed.
pub(crate) fn is_cut(folder: &Path, stamp: &Stamp) -> bool {
    let last = |file: fs::File| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, stamp.bytes.cast_unsigned().saturating_sub(1)).map(|()| byte)
    };
    fs::File::open(folder.join(&stamp.name)).and_then(last).is_ok_and(|byte| byte != *b"\n")
}

/// Renames a damaged index, with the files that SQLite keeps next to it; returns the new name, which no file had.
pub(crate) fn set_aside(folder: &Path, index: &str) -> Result<String, StoreError> {
    let names = (1_u32..).map(|n| format!("{index}.damaged{}", if n > 1 { n.to_string() } else { String::new() }));
    let aside = names.into_iter().find(|name| !folder.join(name).exists()).unwrap_or_default();
    for ending in ["", "-wal", "-shm"] {
        let from = folder.join(format!("{index}{ending}"));
        match fs::rename(&from, folder.join(format!("{aside}{ending}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(StoreError::of_file(&from, &error)),
            _ => {}
        }
    }
    Ok(aside)
}

/// Copies a record into the folder under the id of its run; returns the name. The copy appears whole or not at all.
pub(crate) fn place(folder: &Path, id: &str, record: &Path) -> Result<String, StoreError> {
    // A pipe has been read to its end, so its copy would be empty.
    if !record.is_file() {
        let problem = format!("{} is not a regular file", record.display());
        return Err(InputError::new("RECORD", problem, "a file, which the history copies").into());
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let name = format!("{}{ENDING}", id.chars().map(plain).take(100).collect::<String>());
    fs::read(record)
        .and_then(|bytes| replace_file(&folder.join(&name), |out| out.write_all(&bytes)))
        .map_err(|error| StoreError::of_file(folder, &error))?;
    Ok(name)
}
