//! The development tasks for GPUs. `cargo xtask` starts them as a separate program, so that all other tasks build without them.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod cuda;
mod figures;
mod prepare;
mod sass;
mod triton;

use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match task(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn task(args: &[&str]) -> Result<()> {
    match *args {
        ["gpu"] => prepare::prepare(prepare::HERE),
        ["gpu", architectures] => prepare::prepare(architectures),
        ["figures", folder] => figures::figures(folder),
        // With the features of the tests, so that nothing is built twice.
        ["cuda", ref features @ ..] => cuda::check(features),
        ["triton"] => triton::check(),
        ["libraries"] => {
            println!("{}", cuda::libraries()?.display());
            Ok(())
        }
        _ => bail!("'{}' is not a GPU task; `cargo xtask help` lists the tasks", args.join(" ")),
    }
}
