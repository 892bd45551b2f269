//! Files that are written completely or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::trace::Trace;

/// Distinguishes the temporary files of one process.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Trace {
    /// Writes the profile to `path` as JSON. A file at `path` is replaced once the new one is complete.
    ///
    /// # Errors
    /// The directory is missing or not writable, the disk is full. The error names the path; the trace is unchanged, so
    /// the caller can save it elsewhere.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        write_file(path, |out| self.write_json(out))
    }
}

/// As [`replace_file`], but a link continues to point to the file, and anything except a regular file, such as a pipe,
/// is written directly.
///
/// # Errors
/// Errors of `write` and of the file system, prefixed by the path. Leaves no temporary file.
pub fn write_file(path: impl AsRef<Path>, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let path = path.as_ref();
    let result = match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory; expected the name of a file"))
        }
        Ok(found) if !found.is_file() => {
            File::options().write(true).open(path).and_then(|file| filled(file, write).map(drop))
        }
        Ok(_) => fs::canonicalize(path).and_then(|target| replace_file(&target, write)),
        Err(_) => replace_file(path, write),
    };
    result.map_err(|error| io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display())))
}

/// Writes a file under a temporary name next to `path`, then renames it, which replaces a file or a link at `path`.
///
/// # Errors
/// Errors of `write` and of the file system, unchanged. Leaves no temporary file.
pub fn replace_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let (temporary, file) = loop {
        let temporary = temporary(path)?;
        match File::create_new(&temporary) {
            // Left by a killed process with the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => break (temporary, created?),
        }
    };
    let written = filled(file, write)
        // The name must not refer to data that a power failure could still lose.
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn filled(file: File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<File> {
    let mut out = BufWriter::with_capacity(1 << 16, file);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

fn temporary(path: &Path) -> io::Result<PathBuf> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name");
    let name = path.file_name().ok_or_else(no_name)?.to_string_lossy();
    // Names have at most 255 bytes on common file systems.
    let short: String = name.chars().take(40).collect();
    let number = NEXT.fetch_add(1, Relaxed);
    Ok(path.with_file_name(format!(".{short}.{}-{number}.tmp", std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ellwand-save-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = folder("replace");
        let path = folder.join("profile.json");
        write_file(&path, |out| out.write_all(b"old")).unwrap();
        let failed = write_file(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"))
        });
        let error = failed.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("profile.json: no space left"), "{error}");
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(&folder)), ("old", vec!["profile.json".into()]));
        write_file(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(&folder).len()), ("new", 1));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_error_names_the_path_and_keeps_the_data() {
        let trace = Trace::in_nanoseconds();
        let missing = std::env::temp_dir().join("ellwand-no-such-folder").join("x.json");
        let error = trace.save(&missing).unwrap_err();
        assert!(error.to_string().contains("ellwand-no-such-folder"), "{error}");
        let folder = folder("directory");
        assert!(trace.save(&folder).unwrap_err().to_string().contains("expected the name of a file"));
        trace.save(folder.join("x.json")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn files_of_a_killed_process_are_not_touched() {
        let folder = folder("left");
        let path = folder.join("x");
        let next = NEXT.load(Relaxed);
        let left: Vec<PathBuf> =
            (next..next + 99).map(|at| folder.join(format!(".x.{}-{at}.tmp", std::process::id()))).collect();
        left.iter().for_each(|path| fs::write(path, "left").unwrap());
        replace_file(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(left.iter().all(|path| fs::read_to_string(path).unwrap() == "left"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_device_is_an_error() {
        let error = Trace::in_nanoseconds().save("/dev/full").unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
        assert!(Path::new("/dev/full").exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed() {
        let folder = folder("link");
        fs::write(folder.join("real"), "old").unwrap();
        std::os::unix::fs::symlink("real", folder.join("link")).unwrap();
        write_file(folder.join("link"), |out| out.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(folder.join("link")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(folder.join("real")).unwrap(), "new");
        fs::remove_dir_all(&folder).unwrap();
    }
}
