//! Python virtual environments, each created once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::run;

/// The Python of an environment in `folder` with `packages`, which `pip install` installs with `flags`. The message to waiting
/// users includes `size`, the size of the download.
pub fn venv(folder: &Path, packages: &[&str], flags: &[&str], size: &str) -> Result<PathBuf> {
    once(folder, packages, size, |python| {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
        run(pip(python).args(flags).args(packages))
    })
}

/// The Python of an environment in `folder`. `make` creates it if it is missing, incomplete, or has other packages.
#[allow(clippy::print_stderr)]
pub fn once(folder: &Path, packages: &[&str], size: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    // The list of packages is written last: an environment without it is incomplete.
    let (python, list, packages) = (folder.join("bin/python"), folder.join("whole"), packages.join("\n"));
    if python.exists() && fs::read_to_string(&list).is_ok_and(|made| made == packages) {
        return Ok(python);
    }
    // Not on stdout, which holds the answer of a task.
    eprintln!("fetching {} into {} ({size}, once)", packages.replace('\n', ", "), folder.display());
    make(&python)?;
    fs::write(&list, packages)?;
    Ok(python)
}

/// The command `pip install` of this Python.
pub fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip
}
