//! Submitted jobs, in `submitted.jsonl` next to the results, and those of them that are still in the queue.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::slurm::{self, Refused};
use crate::cli::exit::Failure;

/// A job array: one line of the file.
#[derive(Serialize, Deserialize)]
pub(super) struct Submission {
    /// Hash of the plan.
    pub(super) plan: String,
    pub(super) class: String,
    pub(super) job: String,
    /// Number of the shard that index 0 measures.
    pub(super) offset: u32,
    /// Shards as ranges, for readers of the file.
    pub(super) shards: String,
}

/// A shard that has a task in the queue.
pub(super) struct Queued {
    pub(super) class: String,
    pub(super) shard: u32,
    pub(super) job: String,
    pub(super) running: bool,
    /// Why it is not running yet.
    pub(super) reason: String,
}

const FILE: &str = "submitted.jsonl";

/// Appends to the file.
pub(super) fn keep(dir: &Path, submissions: &[Submission]) -> Result<(), Failure> {
    let path = dir.join(FILE);
    let lines: Vec<String> =
        submissions.iter().map(serde_json::to_string).collect::<Result<_, _>>().map_err(anyhow::Error::from)?;
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let written = || OpenOptions::new().create(true).append(true).open(&path)?.write_all(text.as_bytes());
    Ok(written().with_context(|| format!("{} cannot be written", path.display()))?)
}

/// The arrays of the plan with this hash.
pub(super) fn submissions(dir: &Path, hash: &str) -> Result<Vec<Submission>, Failure> {
    let path = dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(|| format!("{} cannot be read", path.display()))?,
    };
    let line = |(index, line): (usize, &str)| {
        let damaged = || format!("{}: line {} is damaged; delete it to continue", path.display(), index + 1);
        serde_json::from_str::<Submission>(line).with_context(damaged)
    };
    let all: Vec<Submission> = text.lines().enumerate().map(line).collect::<Result<_, _>>()?;
    Ok(all.into_iter().filter(|submission| submission.plan == hash).collect())
}

/// The shards of these arrays that have a task in the queue.
pub(super) fn queued(submissions: &[Submission]) -> Result<Vec<Queued>, Refused> {
    let jobs: Vec<&str> = submissions.iter().map(|submission| submission.job.as_str()).collect();
    let tasks = slurm::queue(&jobs)?.into_iter().filter_map(|task| {
        let submission = submissions.iter().find(|submission| submission.job == task.job)?;
        let running = task.state != "PENDING";
        Some(Queued {
            class: submission.class.clone(),
            shard: submission.offset.checked_add(task.index)?,
            job: task.job,
            reason: if running { String::new() } else { task.reason },
            running,
        })
    });
    Ok(tasks.collect())
}
