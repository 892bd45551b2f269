//! The Python package: it installs, its types are checked, and its tests run with PyTorch and JAX.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cuda::run;
use crate::root;

/// What the tests use besides PyTorch, which `peers/torch/setup.py` installs.
const PACKAGES: [&str; 7] = ["jax==0.10.2", "maturin>=1.9,<2", "mypy", "pandas", "ipython", "pyright", "pytest"];

/// A Python with PyTorch and JAX: the one that `$ELLWAND_PYTHON` names, or one in `target/peers/torch`, made once.
fn python() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("ELLWAND_PYTHON") {
        return Ok(PathBuf::from(given));
    }
    let root = root()?;
    let home = root.join("target/peers/torch");
    // Written last, so that an environment that was left half made is made again.
    let (python, whole) = (home.join("bin/python"), home.join("whole"));
    if whole.exists() && python.exists() {
        return Ok(python);
    }
    println!("installing PyTorch for the CPU and JAX into {} (about 1 GB, once)", home.display());
    run(Command::new("python3").arg(root.join("peers/torch/setup.py")))
        .and_then(|()| run(pip(&python).args(PACKAGES)))
        .context("PyTorch and JAX cannot be had; let ELLWAND_PYTHON name a Python that has them")?;
    std::fs::write(&whole, PACKAGES.join("\n"))?;
    Ok(python)
}

fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip
}

/// Installs the package into a virtual environment, checks its types and runs its tests.
pub(crate) fn check() -> Result<()> {
    let (python, package) = (python()?, root()?.join("python"));
    let tool = |name: &str| {
        let mut tool = Command::new(&python);
        tool.args(["-m", name]).current_dir(&package).env("PYTHONDONTWRITEBYTECODE", "1");
        tool
    };
    // pip calls the maturin of the environment.
    let path = std::env::join_paths(
        python
            .parent()
            .map(Path::to_path_buf)
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )?;
    // The profile of the tests: kernels are fast in it, and everything else is built already.
    run(pip(&python)
        .args(["--force-reinstall", "--no-deps", "--no-build-isolation"])
        .arg(&package)
        .env("MATURIN_PEP517_ARGS", "--profile=dev")
        .env("PATH", path))?;
    run(tool("mypy").arg("--no-incremental"))?;
    run(tool("pyright").args(["--warnings", "--pythonpath"]).arg(&python))?;
    // Safe path: the installed package is tested, not the folder next to the tests.
    run(Command::new(&python)
        .args(["-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])
        .current_dir(&package)
        .env("PYTHONDONTWRITEBYTECODE", "1"))
}
