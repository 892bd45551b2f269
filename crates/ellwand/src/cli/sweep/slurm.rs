//! Slurm through its commands: `sbatch`, `squeue`, `scancel` and `scontrol`, with options whose meaning has not changed
//! for a decade, reading only text output.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use ellwand_core::InputError;

/// Why a Slurm command gave no answer.
#[derive(Debug)]
pub(super) enum Refused {
    /// It could not be started.
    Absent(String),
    /// It ended with an error, with this message.
    Said(String),
}

impl Refused {
    /// The error of a command that needs the scheduler.
    pub(super) fn into_error(self, argument: &str) -> InputError {
        match self {
            Refused::Absent(problem) => {
                let error = InputError::new(argument, problem, "a host with Slurm's commands, such as a login node");
                error.help("--engine local runs the shards on this machine")
            }
            Refused::Said(words) => InputError::new(argument, words, "a Slurm controller that answers `scontrol ping`"),
        }
    }
}

/// Runs a Slurm command and returns its output.
fn ask(program: &str, args: &[&str], input: &str) -> Result<String, Refused> {
    let absent = |error: io::Error| Refused::Absent(format!("`{program}` cannot be started ({error})"));
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(absent)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that has already failed reads nothing; its message is more useful than this error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let answer = child.wait_with_output().map_err(absent)?;
    if answer.status.success() {
        return Ok(String::from_utf8_lossy(&answer.stdout).into_owned());
    }
    let words: Vec<String> =
        String::from_utf8_lossy(&answer.stderr).lines().map(|line| line.trim().to_string()).collect();
    let words = words.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    Err(Refused::Said(if words.is_empty() { format!("`{program}` ended with {}", answer.status) } else { words }))
}

/// Largest number of tasks in an array; indices are below it.
pub(super) fn largest_array() -> Result<u32, Refused> {
    let config = ask("scontrol", &["show", "config"], "")?;
    let row = config.lines().filter_map(|line| line.split_once('=')).find(|(name, _)| name.trim() == "MaxArraySize");
    let size = row.and_then(|(_, value)| value.trim().parse::<u32>().ok()).filter(|size| *size > 0);
    size.ok_or_else(|| Refused::Said("`scontrol show config` states no MaxArraySize".into()))
}

/// Submits `script` as a job array and returns the id of the job.
pub(super) fn submit(flags: &[String], tasks: &str, name: &str, log: &Path, script: &str) -> Result<String, Refused> {
    let fixed = ["--parsable".into(), format!("--array={tasks}"), format!("--job-name={name}")];
    let log = [format!("--output={}", log.join("%A_%a.log").display())];
    let args: Vec<&str> = fixed.iter().chain(&log).chain(flags).map(String::as_str).collect();
    let answer = ask("sbatch", &args, script)?;
    // `39`, or `39;cluster`
    let job = answer.trim().split(';').next().unwrap_or_default().to_string();
    if job.is_empty() { Err(Refused::Said("`sbatch` printed no job id".into())) } else { Ok(job) }
}

pub(super) fn cancel(jobs: &[&str]) -> Result<(), Refused> {
    ask("scancel", jobs, "").map(drop)
}

/// A task in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) job: String,
    pub(super) index: u32,
    /// `PENDING`, `RUNNING`, ..
    pub(super) state: String,
    /// Why it is pending; for other states Slurm writes `None`.
    pub(super) reason: String,
}

/// The tasks of these jobs that are in the queue.
pub(super) fn queue(jobs: &[&str]) -> Result<Vec<Task>, Refused> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    match ask("squeue", &["-h", "-r", "-o", "%i|%T|%r", "-j", &jobs.join(",")], "") {
        Ok(text) => Ok(text.lines().filter_map(task).collect()),
        // Slurm forgets a job some minutes after its end.
        Err(Refused::Said(words)) if words.contains("Invalid job id") => Ok(Vec::new()),
        Err(refused) => Err(refused),
    }
}

/// `39_3|PENDING|Resources`
fn task(line: &str) -> Option<Task> {
    let mut columns = line.trim().splitn(3, '|');
    let (job, index) = columns.next()?.split_once('_')?;
    let (state, reason) = (columns.next()?, columns.next().unwrap_or_default());
    Some(Task { job: job.into(), index: index.parse().ok()?, state: state.into(), reason: reason.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_queue_are_tasks() {
        let of = |job: &str, index, state: &str, reason: &str| {
            Some(Task { job: job.into(), index, state: state.into(), reason: reason.into() })
        };
        assert_eq!(task("39_3|PENDING|Resources"), of("39", 3, "PENDING", "Resources"));
        assert_eq!(task("39_0|RUNNING|None\n"), of("39", 0, "RUNNING", "None"));
        assert_eq!(task("39_0|PENDING|a|b"), of("39", 0, "PENDING", "a|b"));
        for other in ["", "40|RUNNING|None", "39_x|RUNNING|None", "39_3"] {
            assert_eq!(task(other), None, "{other}");
        }
    }
}
