//! `compare --baseline REV`: this program as it was at a git revision, built beside the work tree and kept by commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use ellwand_core::InputError;

use super::exit::Failure;
use super::output;

/// Builds the program of that name at a revision of the repository around the current directory; returns its path. The
/// program is kept in `target/ellwand-baseline/COMMIT` and never built twice; what it depends on is built once for all
/// revisions that agree on it.
pub(super) fn build(revision: &str, program: &Path) -> Result<PathBuf, Failure> {
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let root = git(Path::new("."), &["rev-parse", "--show-toplevel"]).map_err(|why| {
        InputError::new(
            "--baseline",
            format!("this is no git repository ({why})"),
            "a directory inside a git work tree",
        )
    })?;
    let root = PathBuf::from(root);
    // The end of options: a revision is never taken for a flag.
    let commit =
        git(&root, &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")])
            .map_err(|_| {
                InputError::new(
                    "--baseline",
                    format!("'{revision}' is no revision of {}", root.display()),
                    "a commit, tag or branch",
                )
            })?;
    let all = root.join("target").join("ellwand-baseline");
    let (home, target) = (all.join(&commit), all.join("target"));
    let (source, built) = (home.join("source"), home.join(&name));
    if built.is_file() {
        return Ok(built);
    }
    if !source.join(".git").exists() {
        std::fs::create_dir_all(&home).with_context(|| format!("{} cannot be written", home.display()))?;
        // A tree whose folder was deleted by hand is still on git's list.
        let _ = git(&root, &["worktree", "prune"]);
        git(&root, &["worktree", "add", "--detach", "--force", &source.display().to_string(), &commit])
            .map_err(|why| anyhow::anyhow!("the work tree of {commit} cannot be made: {why}"))?;
    }
    output::note(&format!("building {name} at {} ({commit}), once", revision));
    // The program's crate may lie below the root, where this command was given.
    let here = std::env::current_dir().ok().and_then(|here| here.strip_prefix(&root).ok().map(Path::to_path_buf));
    let folder = source.join(here.unwrap_or_default());
    let folder = if folder.is_dir() { folder } else { source.clone() };
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--bin", &name, "--target-dir"])
        .arg(&target)
        .current_dir(folder)
        .output()
        .context("cargo could not be started")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(12)..].join("\n");
        return Err(InputError::new(
            "--baseline",
            format!("{revision} does not build:\n{last}\n"),
            "a revision that builds",
        )
        .into());
    }
    let made = target.join("release").join(&name);
    // Under another name first: a copy that was interrupted must not look whole.
    let partial = home.join(format!("{name}.partial-{}", std::process::id()));
    std::fs::copy(&made, &partial)
        .and_then(|_| std::fs::rename(&partial, &built))
        .with_context(|| format!("cargo built {revision}, and {} cannot be kept", made.display()))?;
    Ok(built)
}

fn git(at: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new("git").arg("-C").arg(at).args(args).output().map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_string())
    }
}
