//! Errors that a user can act on: what is wrong, what was expected, what to do.

use std::fmt;

/// A user input that cannot be used. The command line exits with code 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputError {
    /// The axis, option, array or file, by its name (`q`, `x`, `weights.npy`).
    pub argument: String,
    /// True for an axis or option, which the command line writes as a flag.
    pub is_setting: bool,
    /// What is wrong with the argument.
    pub problem: String,
    /// What would be accepted.
    pub expected: String,
    /// What to try, if that says more than `expected`.
    pub help: Option<String>,
}

impl InputError {
    /// An error about `argument`, without a hint.
    pub fn new(argument: impl Into<String>, problem: impl Into<String>, expected: impl Into<String>) -> Self {
        let (argument, problem, expected) = (argument.into(), problem.into(), expected.into());
        Self { argument, is_setting: false, problem, expected, help: None }
    }

    /// An error about the axis or option `name`, which is given without dashes: a library does not know whether its
    /// caller has a command line.
    pub fn setting(name: impl Into<String>, problem: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { is_setting: true, ..Self::new(name, problem, expected) }
    }

    /// The same error as the command line prints it, with `--` before the name of an axis or option.
    #[must_use]
    pub fn into_flag(self) -> Self {
        let dashes = if self.is_setting { "--" } else { "" };
        Self { argument: format!("{dashes}{}", self.argument), is_setting: false, ..self }
    }

    /// Adds a hint on what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Suggests the known name nearest to `given`, if one is near enough to be a typing error; else the hint stays.
    #[must_use]
    pub fn near<'a>(self, given: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match did_you_mean(given, known) {
            Some(hint) => self.help(hint),
            None => self,
        }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; expected {}", self.argument, self.problem, self.expected)?;
        if let Some(help) = &self.help {
            write!(f, "\n  hint: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InputError {}

/// Why an implementation could not be prepared. The run continues; the reason becomes a row of the result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// It cannot run on this machine or for this case; the reason is shown to the user.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// It should have worked but failed; the message is shown to the user.
    #[error("failed: {0}")]
    Failed(String),
}

impl From<InputError> for PrepareError {
    fn from(error: InputError) -> Self {
        PrepareError::Failed(error.to_string())
    }
}

/// Why a device is missing, or why a launch, a wait, a copy or a recording on it failed.
///
/// The run continues; the message becomes a row of the result, so it must name what happened and what would help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeviceError(String);

impl DeviceError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl From<InputError> for DeviceError {
    fn from(error: InputError) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for DeviceError {
    fn from(message: String) -> Self {
        Self(message)
    }
}

/// `did you mean NAME?`, if a known name is near enough to be a typing error.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(given, known).map(|name| format!("did you mean {name}?"))
}

/// The known name nearest to `given`, if it is near enough to be a typing error.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_of(given, &mut known.into_iter())
}

fn nearest_of<'a>(given: &str, known: &mut dyn Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = given.to_lowercase();
    // Allows one typing error in a word of 2 to 4 letters and 3 in one of 8 or more; with more, unrelated names would
    // match. A shared prefix, such as the workload in `gelu:simd` or the dashes of a flag, does not count.
    let letters = |text: &str| text.rsplit(':').next().unwrap_or(text).trim_start_matches('-').chars().count();
    let slips = |name: &str| ((1 + letters(given).min(letters(name))) / 3).min(3);
    known
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= slips(name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_argument_problem_expectation_and_hint() {
        let error = InputError::new("x", "its shape is [0]", "one value or more").help("try x.npy");
        assert_eq!(error.to_string(), "x: its shape is [0]; expected one value or more\n  hint: try x.npy");
        assert_eq!(error.clone().into_flag(), error);
    }

    #[test]
    fn only_the_command_line_adds_dashes() {
        let error = InputError::setting("q", "0 is not allowed", "an integer from 2 to 256");
        assert_eq!(error.to_string(), "q: 0 is not allowed; expected an integer from 2 to 256");
        let flag = error.into_flag().argument;
        assert_eq!((flag.len(), flag.starts_with("--"), flag.ends_with("q")), (3, true, true), "{flag}");
    }

    #[test]
    fn a_typing_error_gets_a_hint_and_an_unrelated_name_keeps_the_one_it_had() {
        let error = InputError::setting("lattice", "'d5' is unknown", "a lattice").help("see `list`");
        assert_eq!(error.clone().near("d5", ["Z2", "D4"]).help.as_deref(), Some("did you mean D4?"));
        assert_eq!(error.near("zebra-crossing", ["Z2", "D4"]).help.as_deref(), Some("see `list`"));
    }

    #[test]
    fn nearest_finds_typing_errors_and_rejects_unrelated_names() {
        assert_eq!(nearest("d5", ["Z2", "D4", "E8"]), Some("D4"));
        assert_eq!(nearest("lattice-encoed", ["lattice-encode", "lattice-decode"]), Some("lattice-encode"));
        assert_eq!(nearest("zebra-crossing", ["Z2", "D4"]), None);
        for (given, known) in [
            ("x", "q"),
            ("xyz", "D4"),
            ("d", "D4"),
            ("gpu", "cpu:1"),
            ("blis", "simd"),
            ("conv", "copy"),
            ("gelu:nope", "gelu:wgpu"),
        ] {
            assert_eq!(nearest(given, [known]), None, "{given}");
        }
        assert_eq!(nearest("softmax-forward", ["sigmoid-backward"]), None);
    }
}
