//! Compiles every CUDA source for the given architectures and prints each kernel's resources as CSV.
//!
//! `cubins FOLDER sm_80 sm_90a ..` fills FOLDER with machine code for `ELLWAND_CUBINS`. Needs NVRTC, but no GPU.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/sources/mod.rs"]
mod sources;

use std::path::Path;
use std::process::ExitCode;

use ellwand_gpu::{Source, compile};
use rayon::prelude::*;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, archs @ ..] = &args[..] else {
        eprintln!("usage: cubins FOLDER ARCHITECTURE..");
        return ExitCode::from(2);
    };
    let mut broken = false;
    println!("source,architecture,kernel,registers,stack_bytes,spill_bytes,shared_bytes");
    let sources = sources::all();
    let jobs = sources.iter().flat_map(|source| archs.iter().map(move |arch| (source, arch)));
    let jobs: Vec<_> = jobs.filter(|(source, arch)| source.is_for(arch)).collect();
    let compiled = |(source, arch): &(&&Source, &String)| compile::fill_cache(Path::new(folder), source, arch);
    let made: Vec<_> = jobs.par_iter().map(compiled).collect();
    for ((source, arch), made) in jobs.into_iter().zip(made) {
        match made {
            Ok(compiled) => {
                for warning in &compiled.warnings {
                    eprintln!("{} for {arch}: {warning}", source.name);
                    broken = true;
                }
                for r in compiled.resources {
                    let (name, kernel) = (source.name, r.kernel);
                    let numbers = [r.registers, r.stack_bytes, r.spill_bytes, r.shared_bytes];
                    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                    println!("{name},{arch},{kernel},{}", numbers.join(","));
                }
            }
            Err(error) => {
                eprintln!("{error}");
                broken = true;
            }
        }
    }
    if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
