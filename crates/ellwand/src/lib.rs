//! Ellwand: a workbench for measuring numerical code. *Always measure, never guess.*
//!
//! This crate is the facade that a program adds to its `Cargo.toml`, and the command line: [`run`] takes arguments and a
//! registry, so that a user's own program with its own workloads has every command that `ellwand` has.
//!
//! ```no_run
//! let mut registry = ellwand::registry();
//! // registry.workload(...); registry.implementation(...);
//! std::process::exit(ellwand::run(std::env::args_os(), &registry));
//! ```

pub mod arrays;
mod cli;

pub use ellwand_bench as bench;
pub use ellwand_core as core;
pub use ellwand_kernels as kernels;
pub use ellwand_profile as profile;
pub use ellwand_report as report;

pub use cli::run;

use std::sync::Arc;

/// The built-in workloads, their implementations and the devices found here.
pub fn registry() -> core::Registry {
    let mut registry = core::Registry::new();
    registry.device(Arc::new(bench::Cpu::new(cli::cpu_description())));
    kernels::register(&mut registry);
    registry
}
