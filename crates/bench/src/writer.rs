//! Writes a record line by line and flushes each, so that killing the program loses at most the cell being measured.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::{SigSet, Signal};

use ellwand_core::record::{self, Entry, Record, RecordError, Run};

/// Why a record cannot be written or continued.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// A write failed; earlier lines are kept.
    #[error("{path}: {cause}; the record up to here is kept{}", next_step(cause, true))]
    Io {
        /// Path of the record.
        path: PathBuf,
        /// Error from the system.
        cause: io::Error,
    },
    /// The record could not be created.
    #[error("{path}: {cause}; no record was begun{}", next_step(cause, false))]
    Begin {
        /// Path of the record.
        path: PathBuf,
        /// Error from the system.
        cause: io::Error,
    },
    /// The record's file has vanished, and the record cannot be copied.
    #[error("{path} has vanished, and the record cannot be kept in the system's temporary directory: {cause}")]
    Lost {
        /// Former path of the record.
        path: PathBuf,
        /// Error from the system.
        cause: io::Error,
    },
    /// The file cannot be read.
    #[error("{path}: {cause}")]
    Read {
        /// Path of the record.
        path: PathBuf,
        /// Error from the system.
        cause: io::Error,
    },
    /// The existing file cannot be continued.
    #[error("{path}: {cause}")]
    Unreadable {
        /// Path of the record.
        path: PathBuf,
        /// What is wrong with the file.
        cause: RecordError,
    },
    /// Another process is writing the record.
    #[error("{path} is being written by another process; wait for it or choose another directory")]
    InUse {
        /// Path of the record.
        path: PathBuf,
    },
    /// A value cannot be serialised as JSON.
    #[error("a measurement cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// Advice after a failed write; `begun` if the record has a first line. Empty if there is nothing to advise.
pub fn next_step(cause: &io::Error, begun: bool) -> &'static str {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded if !begun => {
            "\n  hint: make room and run the same command again, or choose another disk"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "\n  hint: make room, or choose another disk",
        io::ErrorKind::FileTooLarge => "\n  hint: raise the file size limit (ulimit -f)",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "\n  hint: choose a directory that can be written"
        }
        _ => "",
    }
}

/// A record that is open for writing.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
}

impl Writer {
    /// Creates a record, replacing an existing file.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create(path: &Path, run: &Run) -> Result<Self, WriterError> {
        let io = |source| WriterError::Begin { path: path.into(), cause: source };
        let first = record::line(run)?;
        // Do not truncate before locking: the record may belong to a run in progress.
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
        lock(path, &file)?;
        let is_file = file.metadata().map_err(io)?.is_file();
        if is_file {
            file.set_len(0).map_err(io)?;
        }
        let mut writer = Self { path: path.into(), file };
        if let Err(error) = writer.line(&first) {
            // A partial first line is unreadable, and would later be mistaken for a record worth keeping.
            if is_file {
                let _ = std::fs::remove_file(path);
            }
            return Err(match error {
                WriterError::Io { path, cause } => WriterError::Begin { path, cause },
                other => other,
            });
        }
        Ok(writer)
    }

    /// Opens a record for appending. Removes a truncated last line; returns the record.
    ///
    /// # Errors
    /// If the file cannot be read or is not a record.
    pub fn resume(path: &Path) -> Result<(Self, Record), WriterError> {
        let io = |source| WriterError::Io { path: path.into(), cause: source };
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
        lock(path, &file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        bytes.truncate(whole);
        let text = String::from_utf8_lossy(&bytes);
        let known =
            record::parse(&text).map_err(|source| WriterError::Unreadable { path: path.into(), cause: source })?;
        file.set_len(whole as u64).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        Ok((Self { path: path.into(), file }, known))
    }

    /// Appends a line and flushes it. A command that resumes a record writes its run before its first line.
    ///
    /// # Errors
    /// If the line cannot be written (disk full); earlier lines stay intact.
    pub fn append<'a>(&mut self, entry: impl Into<Entry<'a>>) -> Result<(), WriterError> {
        self.line(&record::line(entry)?)
    }

    /// Path of the record.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// If the file has vanished from its path, continues in the system's temporary directory, because the data exist
    /// only while the file is open. Returns true if it had vanished.
    ///
    /// # Errors
    /// If the record cannot be copied.
    pub fn follow(&mut self) -> Result<bool, WriterError> {
        let open = self.file.metadata().map_err(|cause| WriterError::Io { path: self.path.clone(), cause })?;
        let same = |there: std::fs::Metadata| (there.dev(), there.ino()) == (open.dev(), open.ino());
        if !open.is_file() || std::fs::metadata(&self.path).is_ok_and(same) {
            return Ok(false);
        }
        let (path, file) = self.copied().map_err(|cause| WriterError::Lost { path: self.path.clone(), cause })?;
        (self.path, self.file) = (path, file);
        Ok(true)
    }

    fn copied(&mut self) -> io::Result<(PathBuf, File)> {
        let dir = new_directory(&std::env::temp_dir())?;
        let path = dir.join(self.path.file_name().unwrap_or("record.jsonl".as_ref()));
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        self.file.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.file, &mut file)?;
        let _ = lock(&path, &file);
        Ok((path, file))
    }

    fn line(&mut self, text: &str) -> Result<(), WriterError> {
        // One write call per line, so a reader never sees a partial line unless the system crashes in the middle.
        let bytes = format!("{}\n", record::seal(text)).into_bytes();
        self.file
            .write_all(&bytes)
            .and_then(|()| self.file.flush())
            .map_err(|source| WriterError::Io { path: self.path.clone(), cause: source })
    }
}

/// Creates a directory with a name that no other process uses.
fn new_directory(parent: &Path) -> io::Result<PathBuf> {
    let mut n = 0;
    loop {
        let dir = parent.join(format!("ellwand-rescued-{}-{n}", std::process::id()));
        match std::fs::create_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n < 1000 => n += 1,
            made => return made.map(|()| dir),
        }
    }
}

/// Makes a write beyond the file size limit (`ulimit -f`) an error; by default a signal silently ends the program.
/// Applies to this thread and the threads that it starts.
pub fn make_size_limits_errors() {
    let mut limits = SigSet::empty();
    limits.add(Signal::SIGXFSZ);
    let _ = limits.thread_block();
}

/// Locks the record until it is closed. On a file system without locks, continues without one.
fn lock(path: &Path, file: &File) -> Result<(), WriterError> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(WriterError::InUse { path: path.into() }),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Refuses a record that another process is writing.
///
/// # Errors
/// [`WriterError::InUse`].
pub fn refuse_in_use(path: &Path) -> Result<(), WriterError> {
    if path.is_file() { File::open(path).map_or(Ok(()), |file| lock(path, &file)) } else { Ok(()) }
}

/// Reads a record file.
///
/// # Errors
/// If it cannot be read or is not a record; the error names the file.
pub fn read(path: &Path) -> Result<Record, WriterError> {
    let bytes = std::fs::read(path).map_err(|source| WriterError::Read { path: path.into(), cause: source })?;
    record::parse(&String::from_utf8_lossy(&bytes))
        .map_err(|source| WriterError::Unreadable { path: path.into(), cause: source })
}
