//! How commands end: exit codes, failures, and errors about unknown names.

use std::io;
use std::path::Path;

use ellwand_bench::{Interrupted, WriterError};
use ellwand_core::InputError;
use ellwand_report::ReportError;

pub(super) type Outcome = Result<Exit, Failure>;

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Ok = 0,
    Error = 1,
    /// The command line or an input is invalid.
    Usage = 2,
    Regression = 3,
    /// Neither a difference nor equality was shown.
    Undecided = 4,
    Wrong = 5,
    Nothing = 6,
    Interrupted = 130,
}

impl Exit {
    pub(super) fn code(self) -> i32 {
        self as i32
    }

    /// The code if an outcome is wrong or failed, or if none is a success; `words` name the outcomes of the rows.
    pub(super) fn of_outcomes<'a>(words: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        let any = |wanted: &str| words.clone().any(|word| word == wanted);
        if any("wrong") {
            Some(Exit::Wrong)
        } else if any("failed") {
            Some(Exit::Error)
        } else if any("right") || any("measured") {
            None
        } else {
            Some(Exit::Nothing)
        }
    }
}

/// A failure, as the user reads it on stderr.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The user must change something.
    #[error("error: {}", .0.clone().into_flag())]
    Input(#[from] InputError),
    /// The system or a file caused an error.
    #[error("error: {0:#}")]
    Other(#[from] anyhow::Error),
    #[error("interrupted")]
    Interrupted,
    /// The reader of stdout closed it (`| head`).
    #[error("stdout is closed")]
    Unread,
}

impl Failure {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Failure::Input(_) => Exit::Usage,
            Failure::Other(_) => Exit::Error,
            Failure::Interrupted => Exit::Interrupted,
            Failure::Unread => Exit::Ok,
        }
    }
}

/// A closed stdout changes no verdict: the exit code is that of the judged results.
pub(super) fn allow_unread(printed: Result<(), Failure>) -> Result<(), Failure> {
    if matches!(printed, Err(Failure::Unread)) { Ok(()) } else { printed }
}

/// The error about a name that is not among the known ones.
pub(super) fn unknown(argument: impl Into<String>, problem: String, given: &str, known: &[&str]) -> InputError {
    let error = InputError::new(argument, problem, format!("one of {}", known.join(", ")));
    error.near(given, known.iter().copied())
}

/// The error about an output directory or record that another process writes to.
pub(super) fn in_use(path: &Path) -> InputError {
    let problem = format!("another process is writing to {}", path.display());
    InputError::new("-o", problem, "another directory, or the end of that process")
}

impl From<Interrupted> for Failure {
    fn from(_: Interrupted) -> Self {
        Failure::Interrupted
    }
}

impl From<WriterError> for Failure {
    fn from(error: WriterError) -> Self {
        match error {
            WriterError::InUse { path } => in_use(&path).into(),
            other => Failure::Other(other.into()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Failure::Unread } else { Failure::Other(error.into()) }
    }
}

#[cfg(feature = "history")]
impl From<ellwand_history::StoreError> for Failure {
    fn from(error: ellwand_history::StoreError) -> Self {
        match error {
            ellwand_history::StoreError::Input(error) => Failure::Input(error),
            other => Failure::Other(other.into()),
        }
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            _ if error.is_broken_pipe() => Failure::Unread,
            ReportError::OneMachine { .. } => {
                let expected = "records of several machines";
                Failure::Input(InputError::new("--across-machines", error.to_string(), expected))
            }
            ReportError::UnknownBaseline(error) => Failure::Input(error),
            ReportError::Plot { .. } => Failure::Other(anyhow::anyhow!("{error}; --no-plot skips the plots")),
            other => Failure::Other(other.into()),
        }
    }
}
