//! Proof, without a GPU, that the Triton kernels of the Python package compile for every architecture within their register
//! budget. The tests of the package (`--with python`) check that they compute their definitions.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cuda::{ARCHITECTURES, hold_against};
use xtask::venv::venv;
use xtask::{cache, root};

/// The compiler and its dependencies, as Python packages.
const PACKAGES: [&str; 2] = ["triton==3.6.0", "numpy==2.3.5"];

/// Reviewed resources of every kernel.
const GOLDEN: &str = "testdata/triton/resources.csv";

/// The folder of the kernels, and its files.
const KERNELS: &str = "python/ellwand/_frameworks/triton_kernels";
const FILES: [&str; 4] = ["layers.py", "product.py", "matmul.py", "attention.py"];

/// A Python with Triton and numpy: `$ELLWAND_TRITON_PYTHON`, or an environment in the user's cache, which is created if
/// it is missing.
fn python() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("ELLWAND_TRITON_PYTHON") {
        return Ok(PathBuf::from(given));
    }
    let environment = cache()?.join(PACKAGES.join("-").replace("==", "-"));
    venv(&environment, &PACKAGES, &["--only-binary=:all:"], "about 200 MB, 700 MB unpacked")
        .context("Triton is unavailable; set ELLWAND_TRITON_PYTHON to a Python with triton 3.6.0 and numpy")
}

/// Compiles every kernel for `architectures` into `folder`. Returns the table of resources.
fn compile(folder: &Path, architectures: &[&str]) -> Result<String> {
    let kernels = root()?.join(KERNELS);
    let made = Command::new(python()?)
        .arg(root()?.join("python/triton_kernels/aot.py"))
        .arg(folder)
        .arg(architectures.join(","))
        .args(FILES.map(|file| kernels.join(file)))
        // Keep `__pycache__` out of the sources.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()?;
    if !made.status.success() {
        bail!("{}", String::from_utf8_lossy(&made.stderr).trim());
    }
    Ok(String::from_utf8(made.stdout)?)
}

/// Fails if a kernel does not compile or exceeds the table.
pub(crate) fn check() -> Result<()> {
    let table = compile(&root()?.join("target/triton"), &ARCHITECTURES)?;
    hold_against(GOLDEN, "triton", &table)
}
