//! Makes a folder with a driver of CUDA that executes on the processor, for rehearsals of the program without a GPU.
//!
//! `rehearsal FOLDER`, then `LD_LIBRARY_PATH=FOLDER ellwand run gelu --device cuda:0 ..`; `ELLWAND_CUDA_LIBS` must lead to
//! NVRTC, or `ELLWAND_CUBINS` to machine code for `sm_90a`. Its device says in every report that it is none, and its times say
//! nothing. Its knobs stand in `src/emulation/driver/driver.h`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/sources/mod.rs"]
mod sources;

use std::path::Path;
use std::process::ExitCode;

use ellwand_gpu_lab::emulation::library;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder] = &args[..] else {
        eprintln!("usage: rehearsal FOLDER");
        return ExitCode::from(2);
    };
    // The gate reads the device's clock and is the driver's own.
    let all = sources::all().into_iter().filter(|source| source.name != "gate.cu");
    let all: Vec<_> = all.map(|source| (source.name, source.whole(), source.kernels())).collect();
    match library::rehearsal(Path::new(folder), &all) {
        Ok(()) => {
            println!("{folder} holds the driver and {} sources of kernels", all.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
