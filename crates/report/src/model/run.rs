//! The runs of a report: command, machine and settings.

use ellwand_core::Environment;
use ellwand_core::record::{Certificate, Record, Revision, Settings};
use serde::Serialize;

/// One run, from the first line of its record.
#[derive(Debug, Clone, Serialize)]
pub struct RunInfo {
    /// Id of the run.
    pub id: String,
    /// The command line, quoted for a POSIX shell.
    pub command: String,
    /// Command lines that resumed the run, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<String>,
    /// Start in UTC, ISO 8601.
    pub started: String,
    /// Start, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Version of Ellwand that wrote the record.
    pub ellwand: String,
    /// Seed of the inputs and of the round order.
    pub seed: u64,
    /// Fingerprint of the machine.
    pub machine: String,
    /// The machine at the start of the run.
    pub environment: Environment,
    /// The timing settings.
    pub settings: Settings,
    /// Number of measurements in the record.
    pub measurements: usize,
    /// Number of those that have times.
    pub measured: usize,
    /// The last commit of the repository in which the command ran, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// The machine's last self-check when the run began, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// One line about the self-check, or about how to make one.
    pub trust: String,
    /// Defects of the record file.
    pub warnings: Vec<String>,
}

impl RunInfo {
    pub(super) fn new(record: &Record) -> Self {
        let run = &record.run;
        Self {
            id: run.id.clone(),
            command: shell(&run.command),
            resumed: record.resumed.iter().map(|command| shell(command)).collect(),
            started: crate::units::utc(run.started_unix_ms),
            started_unix_ms: run.started_unix_ms,
            ellwand: run.ellwand.clone(),
            seed: run.seed,
            machine: run.environment.fingerprint(),
            environment: run.environment.clone(),
            settings: run.settings.clone(),
            measurements: record.measurements.len(),
            measured: record.measurements.iter().filter(|m| m.outcome.is_measured()).count(),
            revision: run.revision.clone(),
            trust: super::trust::line(run.certificate.as_ref(), run.started_unix_ms),
            certificate: run.certificate.clone(),
            warnings: record.warnings.clone(),
        }
    }

    /// CPU model and number of cores.
    pub fn machine_line(&self) -> String {
        let Environment { cpu, architecture, cores, .. } = &self.environment;
        let cpu = crate::units::clean(if cpu.is_empty() { architecture } else { cpu });
        format!("{cpu} · {}", crate::units::cores((*cores).into()))
    }
}

/// Joins a command line so that a POSIX shell parses it back.
fn shell(command: &[String]) -> String {
    command.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// Quotes a word so that a POSIX shell parses it back.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:+@%".contains(c);
    let word = crate::units::clean(word);
    if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted_for_a_shell() {
        assert_eq!(quote("-i=simd,cuda"), "-i=simd,cuda");
        assert_eq!(quote("my file"), "'my file'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
