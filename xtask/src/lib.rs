//! Code shared by the development tasks, including the GPU tasks in `tools/gpu-lab/tasks`.
#![allow(clippy::print_stdout)]

pub mod venv;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;

/// Root of the repository.
pub fn root() -> Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask has no parent folder")?.to_path_buf())
}

/// Ellwand's folder in the user's cache, outside the clone.
pub fn cache() -> Result<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
        Some(cache) => PathBuf::from(cache),
        None => {
            PathBuf::from(std::env::var_os("HOME").context("neither HOME nor XDG_CACHE_HOME is set")?).join(".cache")
        }
    };
    Ok(cache.join("ellwand"))
}

/// Runs a command to its end.
///
/// # Errors
/// If it cannot be started or does not succeed.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    if status.success() { Ok(()) } else { bail!("{command:?} ended with {status}") }
}

/// The cargo that runs this task.
pub fn cargo_path() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// Builds a target and returns the executable of the one called `name`.
pub fn build(args: &[&str], name: &str) -> Result<PathBuf> {
    let said = Command::new(cargo_path())
        .args(args)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root()?)
        .stderr(Stdio::inherit())
        .output()?;
    if !said.status.success() {
        bail!("cargo {} ended with {}", args.join(" "), said.status);
    }
    let mut found = None;
    for message in Message::parse_stream(&said.stdout[..]) {
        if let Message::CompilerArtifact(artifact) = message?
            && artifact.target.name == name
            && let Some(executable) = artifact.executable
        {
            found = Some(executable.into_std_path_buf());
        }
    }
    found.with_context(|| format!("cargo {} built no executable called {name}", args.join(" ")))
}
