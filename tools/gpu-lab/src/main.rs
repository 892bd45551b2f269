//! Proofs about kernels for GPUs that need no GPU, and the folder to carry to a machine with one.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod cuda;
mod prepare;
mod sass;
mod triton;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

const HELP: &str = "\
ellwand-gpu-lab TASK

  cuda [OPTION..]    compiles every CUDA kernel for three architectures and compares registers and memory with the reviewed
                     table; fetches NVRTC as a Python package into the user's cache. The options, such as --features X,
                     are those of cargo
  triton             runs every Triton kernel in Triton's interpreter, compiles it, and compares with its table; fetches
                     Triton as a Python package, 200 MB, into the user's cache
  prepare [SM,..]    prepares target/gpu: one folder to carry to a machine with a GPU, with one script that checks and
                     measures; kernels are compiled beforehand for sm_90a, or for the architectures given
  libraries          prints the folder of NVRTC, fetched if it is missing
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["cuda", ref options @ ..] => cuda::check(options),
        ["triton"] => triton::check(),
        ["prepare"] => prepare::prepare(prepare::HERE),
        ["prepare", architectures] => prepare::prepare(architectures),
        ["libraries"] => cuda::libraries().map(|folder| println!("{}", folder.display())),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => unknown(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ellwand-gpu-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn unknown(args: &[String]) -> Result<()> {
    bail!("'{}' is no task; expected one of\n{HELP}", args.join(" "))
}

/// Root of the repository.
fn root() -> Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    Ok(here.ancestors().nth(2).context("tools/gpu-lab is not in the repository")?.to_path_buf())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    if status.success() { Ok(()) } else { bail!("{command:?} ended with {status}") }
}

/// Builds a target and returns the executable of the one called `name`.
fn build(args: &[&str], name: &str, test: bool) -> Result<PathBuf> {
    let made = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(args)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root()?)
        .stderr(Stdio::inherit())
        .output()?;
    if !made.status.success() {
        bail!("cargo {} ended with {}", args.join(" "), made.status);
    }
    let messages = serde_json::Deserializer::from_slice(&made.stdout).into_iter::<Value>().filter_map(Result::ok);
    let mut artifacts = messages.filter(|one| one["target"]["name"] == name && one["profile"]["test"] == test);
    let found = artifacts.find_map(|one| one["executable"].as_str().map(PathBuf::from));
    found.with_context(|| format!("cargo {} made no executable called {name}", args.join(" ")))
}
