//! Exit codes, and how a failure is told.

use std::io;

use ellwand_bench::{Interrupted, WriterError};
use ellwand_core::InputError;
use ellwand_report::ReportError;

use super::output::note;

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// All is well.
    Ok,
    /// Something broke.
    Error,
    /// The command line or an input is not usable.
    Usage,
    /// The candidate is slower.
    Regression,
    /// Neither a difference nor its absence was shown.
    Undecided,
    /// An implementation computed something wrong.
    Wrong,
    /// Nothing could be measured.
    Nothing,
    /// The user interrupted.
    Interrupted,
}

impl Exit {
    /// The code that the shell sees.
    pub(super) fn code(self) -> i32 {
        match self {
            Exit::Ok => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::Regression => 3,
            Exit::Undecided => 4,
            Exit::Wrong => 5,
            Exit::Nothing => 6,
            Exit::Interrupted => 130,
        }
    }
}

/// Why a command stopped.
#[derive(Debug)]
pub(super) enum Failure {
    /// The user must change something.
    Input(InputError),
    /// The system or a file refused.
    Other(anyhow::Error),
    /// Ctrl-C.
    Interrupted,
    /// Nobody reads our output any more (`| head`).
    Unread,
}

impl Failure {
    /// Tells the user on stderr and returns the exit code.
    pub(super) fn tell(self) -> i32 {
        match self {
            Failure::Input(error) => {
                note(&format!("error: {error}"));
                Exit::Usage.code()
            }
            Failure::Other(error) => {
                note(&format!("error: {error:#}"));
                Exit::Error.code()
            }
            Failure::Interrupted => {
                note("interrupted");
                Exit::Interrupted.code()
            }
            Failure::Unread => Exit::Ok.code(),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Failure::Input(error)
    }
}

impl From<Interrupted> for Failure {
    fn from(_: Interrupted) -> Self {
        Failure::Interrupted
    }
}

impl From<WriterError> for Failure {
    fn from(error: WriterError) -> Self {
        Failure::Other(error.into())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::Other(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Failure::Unread } else { Failure::Other(error.into()) }
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            _ if error.is_broken_pipe() => Failure::Unread,
            ReportError::UnknownBaseline { name, known, nearest } => {
                let error = InputError::new(
                    "--baseline",
                    format!("no measurement has the implementation '{name}'"),
                    format!("one of {}", known.join(", ")),
                );
                Failure::Input(match nearest {
                    Some(near) => error.help(format!("did you mean {near}?")),
                    None => error,
                })
            }
            other => Failure::Other(other.into()),
        }
    }
}
