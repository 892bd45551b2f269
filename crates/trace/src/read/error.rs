//! Why a file cannot be read as a profile.

use std::io;
use std::path::PathBuf;

/// A file that cannot be read: which one, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", self.prefix())]
pub struct ReadError {
    /// The file, if it was opened by name.
    pub path: Option<PathBuf>,
    /// What is wrong with it.
    pub problem: Problem,
}

impl ReadError {
    fn prefix(&self) -> String {
        self.path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default()
    }
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file cannot be opened, read or unpacked.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file is empty.
    #[error("is empty")]
    Empty,
    /// The file is something else.
    #[error("is not a profile: {found}")]
    NotAProfile {
        /// What it is or starts with.
        found: String,
    },
    /// A later version of the format.
    #[error("has version {found} of the profile format; this program reads versions up to {known}: update Ellwand")]
    Version {
        /// The version of the file.
        found: u64,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The file ends inside a value.
    #[error("ends too early ({0}); is the copy complete?")]
    Truncated(io::Error),
    /// The text at a place is not JSON, or not what the format requires there.
    #[error("{0}")]
    Json(serde_json::Error),
    /// Values that contradict each other or the format.
    #[error("{place}: {what}")]
    Content {
        /// The place in the file, such as `entries.lane[3]`.
        place: String,
        /// What is there and what was expected.
        what: String,
    },
}

/// The kinds of files that can be read, for messages.
pub const EXPECTED: &str = "Ellwand's JSON, a Chrome trace or a PyTorch profiler trace, plain or compressed with gzip";

impl Problem {
    /// Classifies an error of the JSON reader.
    pub(crate) fn of_json(error: serde_json::Error) -> Self {
        match error.classify() {
            serde_json::error::Category::Io => {
                let error = io::Error::from(error);
                if error.kind() == io::ErrorKind::UnexpectedEof { Self::Truncated(error) } else { Self::Io(error) }
            }
            serde_json::error::Category::Eof => Self::Truncated(error.into()),
            _ => Self::Json(error),
        }
    }

    pub(crate) fn content(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Content { place: place.into(), what: what.into() }
    }
}
