//! The revision of the sources in the current directory, which a record keeps for its history.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use ellwand_core::record::Revision;

/// The last commit of the repository around the current directory; `None` outside of one, or without git.
pub(super) fn here() -> Option<Revision> {
    let ask = |args: &[&str]| git(Path::new("."), args).ok();
    let last = ask(&["log", "-1", "--no-show-signature", "--format=%H %ct"])?;
    let (commit, seconds) = last.split_once(' ')?;
    let committed_unix_ms = seconds.parse::<u64>().ok()?.checked_mul(1000)?;
    // Without the lock that git would take to remember what it has looked at.
    let changed = ask(&["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]);
    Some(Revision { commit: commit.into(), committed_unix_ms, changed: changed.is_none_or(|files| !files.is_empty()) })
}

/// What git prints; on failure, its message.
pub(super) fn git(at: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").arg("-C").arg(at).args(args).output().context("git")?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
