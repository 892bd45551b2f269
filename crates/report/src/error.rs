//! Errors between a record and its report.

use std::io;
use std::path::PathBuf;

use ellwand_core::InputError;

/// Why a report could not be built or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No record was given.
    #[error("there is no record to report on; expected at least one, as written by `run`")]
    NoRecords,
    /// No record has the requested baseline.
    #[error(transparent)]
    UnknownBaseline(InputError),
    /// Records of several machines were requested.
    #[error("all records are of one machine ({name})")]
    OneMachine {
        /// CPU and cores.
        name: String,
    },
    /// A file or directory could not be written.
    #[error("{}: {cause}; {}", .path.display(), advice(.cause))]
    File {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error from the system.
        cause: io::Error,
    },
    /// Writing to the output stream failed (a closed pipe, a full disk).
    #[error("the report could not be written")]
    Write(#[from] io::Error),
    /// The page could not be written.
    #[cfg(feature = "page")]
    #[error(transparent)]
    Page(ellwand_page::PageError),
    /// A plot could not be drawn or encoded.
    #[error("plot {name}: {problem}")]
    Plot {
        /// Name of the plot.
        name: String,
        /// What went wrong, in words.
        problem: String,
    },
}

#[cfg(feature = "page")]
impl From<ellwand_page::PageError> for ReportError {
    fn from(error: ellwand_page::PageError) -> Self {
        match error {
            ellwand_page::PageError::Write(cause) => ReportError::Write(cause),
            other => ReportError::Page(other),
        }
    }
}

impl ReportError {
    /// True if the reader closed the output (`| head`), which is not an error to report.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, ReportError::Write(cause) if cause.kind() == io::ErrorKind::BrokenPipe)
    }
}

fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room, or choose a directory on another disk",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a directory that you may write to"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "choose a directory, not a file",
        io::ErrorKind::NotFound => "check that the directory above it exists",
        _ => "check the directory",
    }
}

impl From<serde_json::Error> for ReportError {
    fn from(error: serde_json::Error) -> Self {
        ReportError::Write(error.into())
    }
}
