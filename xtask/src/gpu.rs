//! Starts the proofs about kernels for GPUs: a binary of `ellwand-gpu-lab`, so that this program stays quick to build.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::{build, run};

/// The binary. With the `features` of the tests, its dependencies are those that the tests built.
fn program(features: &[&str]) -> Result<Command> {
    let name = "ellwand-gpu-lab";
    Ok(Command::new(build(&[&["build", "--quiet", "--workspace", "--bin", name], features].concat(), name)?))
}

/// Runs one task.
pub(crate) fn lab(args: &[&str], features: &[&str]) -> Result<()> {
    run(program(features)?.args(args))
}

/// The folder of NVRTC, with which the emulated driver compiles kernels for Hopper.
pub(crate) fn nvrtc(features: &[&str]) -> Result<String> {
    let made = program(features)?.arg("libraries").stderr(Stdio::inherit()).output()?;
    if !made.status.success() {
        bail!("ellwand-gpu-lab libraries ended with {}", made.status);
    }
    Ok(String::from_utf8(made.stdout)?.trim_end().to_string())
}
