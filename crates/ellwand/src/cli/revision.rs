//! The revision of the sources in the current directory, which a record stores for the history.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use ellwand_core::record::Revision;

use super::output;

/// The last commit of the repository around the current directory; `None` outside one. Notes why a repository gives
/// none.
pub(super) fn here() -> Option<Revision> {
    let ask = |args: &[&str]| git(Path::new("."), args);
    let last = ask(&["log", "-1", "--no-show-signature", "--format=%H %ct"]);
    let last = last.inspect_err(|error| {
        let here = std::env::current_dir().unwrap_or_default();
        if here.ancestors().any(|dir| dir.join(".git").exists()) {
            let why = format!("{error:#}");
            let why = why.lines().next().unwrap_or_default();
            output::note(&format!("note: the record has no commit, so a history orders it by its own date: {why}"));
        }
    });
    let last = last.ok()?;
    let (commit, seconds) = last.split_once(' ')?;
    let committed_unix_ms = seconds.parse::<u64>().ok()?.checked_mul(1000)?;
    // Without the lock that git would take to refresh its index.
    let changed = ask(&["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]).ok();
    Some(Revision { commit: commit.into(), committed_unix_ms, changed: changed.is_none_or(|files| !files.is_empty()) })
}

/// The output of git; on failure, its message.
pub(super) fn git(at: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").arg("-C").arg(at).args(args).output().context("git")?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
