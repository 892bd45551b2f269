//! Development tasks. CI runs `cargo xtask check` and nothing else.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod attack;
mod check;
mod inlined;
mod picture;
mod python;
mod readme;
mod services;
mod tidy;
mod weights;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask TASK

  check          everything that must hold: format, clippy, tests, doc tests, docs, tidy, the commands of README
  check --quick  the same without the commands of README (which need a release build)
  check --with X,Y     the same, and the proofs that need tools beyond Rust:
                         cuda       compiles every kernel for three architectures and compares its registers and memory with
                                    the reviewed table (ELLWAND_GOLDEN=write rewrites the table); downloads NVRTC as a Python
                                    package, 100 MB, into the user's cache
                         triton     compiles every Triton kernel and compares it with its table;
                                    downloads Triton as a Python package, 200 MB, into the user's cache
                         emulation  runs every kernel on the processor; fails without a C++ compiler
                         races      the same under a race detector; Linux only
                         vulkan     runs the WGSL kernels; fails without a Vulkan adapter (Mesa's software adapter is enough:
                                    mesa-vulkan-drivers)
                         postgres   shared histories; fails without PostgreSQL
                         slurm      a sweep on two nodes of this machine; fails without Slurm or root
                         miri       undefined behaviour in the thread team, buffers, spans and statistics; needs rustup's
                                    nightly components miri and rust-src
                         address    the same crates under AddressSanitizer, with --only the kernels too; Linux only
                         loom       what threads of the profiler can see of each other, in every order
                         services   sends profiles to an OpenTelemetry collector, reads exports with their viewers, and tests
                                    examples/service; downloads readers as Python packages, 60 MB
                         python     tests the Python package; installs PyTorch and JAX
  check --only X,Y     only these proofs
  gpu [SM,..]    prepares target/gpu: one folder to copy to a machine with a GPU, with one script that checks and
                 measures; kernels are precompiled for sm_90a, or for the given architectures
  figures FOLDER the GPU goals as a table, each with the results of that script in FOLDER
  tidy           the rules of the repository: floors, circles, files, unsafe, network, English
  readme         runs every command of README.md
  inlined        builds for release and fails if a vector instruction of a kernel is a call
  picture        draws README's picture of a terminal from a committed record
  attack [AREA]  some 760 hostile cases for the program: files in the way, limits, full disks, signals, kills, misbehaving
                 implementations; prints tries and failures by area
  weights        downloads the weights of a real model for the tests on real data (needs python3 with pip)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check::check(true, &[]),
        ["check", "--quick"] => check::check(false, &[]),
        ["check", "--with", proofs] => check::proofs(proofs).and_then(|proofs| check::check(true, &proofs)),
        ["check", "--only", proofs] => check::proofs(proofs).and_then(|proofs| check::only(&proofs)),
        ref task @ (["gpu"] | ["gpu" | "figures", _]) => check::gpu(task),
        ["tidy"] => tidy::tidy(),
        ["readme"] => readme::readme(),
        ["inlined"] => inlined::inlined(),
        ["picture"] => picture::picture(),
        ["attack"] => attack::attack(""),
        ["attack", area] => attack::attack(area),
        ["weights"] => weights::weights(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => unknown(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn unknown(args: &[String]) -> Result<()> {
    bail!("'{}' is not a task; expected one of\n{HELP}", args.join(" "))
}
