//! Writes a folder with a CUDA driver that runs kernels on the CPU, to rehearse the program without a GPU.
//!
//! Run `rehearsal FOLDER`, then `LD_LIBRARY_PATH=FOLDER ellwand run gelu --device cuda:0 ..`; set `ELLWAND_CUDA_LIBS`
//! to NVRTC's folder or `ELLWAND_CUBINS` to machine code for `sm_90a`. Every report names the device as an emulation;
//! its times are meaningless. `src/emulation/driver/driver.h` lists its settings.
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
    // The driver has its own gate, because the real gate reads the device's clock.
    let all = sources::all().into_iter().filter(|source| source.name != "gate.cu");
    let all: Vec<_> = all.map(|source| (source.name, source.whole(), source.kernels())).collect();
    match library::rehearsal(Path::new(folder), &all) {
        Ok(()) => {
            println!("{folder} holds the driver and {} kernel sources", all.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
