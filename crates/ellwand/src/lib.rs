//! Ellwand: a workbench for measuring numerical code. *Always measure, never guess.*
//!
//! This crate is the facade that a program adds to its `Cargo.toml`, and the command line: [`run`] takes arguments and a
//! registry, so your own program with its own workloads has every command that `ellwand` has. [`measure()`] returns
//! rows, samples and findings as values; [`benchmark_function`], [`identify_bottleneck`] and [`measure_memory_usage`] return
//! those of a single function.
//!
//! ```no_run
//! let mut registry = ellwand::devices();
//! // registry.workload(...); registry.implementation(...);
//! std::process::exit(ellwand::run(std::env::args_os(), &registry));
//! ```

#[cfg(feature = "arrays")]
pub mod arrays;
#[cfg(not(feature = "arrays"))]
#[path = "arrays/without.rs"]
pub mod arrays;
mod cli;
mod lab;
pub mod suite;

pub use cli::{Measure, MeasureError, Results, measure, run, run_recorded};
pub use ellwand_bench::settings::Effort;
pub use ellwand_core::{Axis, Case, Compared, Registry, Size, Work};
pub use ellwand_profile as profile;
pub use ellwand_report::{Finding, Report, Row};
pub use lab::{BenchmarkOptions, Bottleneck, Timing, benchmark_function, identify_bottleneck, measure_memory_usage};
pub use rand;
pub use std::hint::black_box;
pub use suite::suite;

use std::sync::Arc;

/// The whole command line on a registry, or on a [`suite()`] alone: the body of a program's `main`.
///
/// ```no_run
/// use ellwand::{Axis, suite};
/// ellwand::main(
///     suite("double")
///         .axis(Axis::int("n", "numbers", 1, 1 << 20, 1000))
///         .input(|case, _| vec![1_u32; case.usize("n")])
///         .implementation_mut("add", |numbers| numbers.iter_mut().for_each(|x| *x += *x))
///         .implementation_mut("shift", |numbers| numbers.iter_mut().for_each(|x| *x <<= 1)),
/// )
/// ```
pub fn main(registry: impl Into<Registry>) -> ! {
    std::process::exit(run(std::env::args_os(), &registry.into()))
}

/// The body of a `[[bench]]` target with `harness = false`. `cargo bench -- FILTER` measures what matches with quick
/// effort and saves the results in `target/ellwand`; `cargo test --benches` only checks the answers; nextest uses
/// `--list` and `--exact`.
pub fn bench_main(registry: impl Into<Registry>) -> ! {
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    std::process::exit(cli::bench(&args, &registry.into()))
}

/// A registry with the processor and nothing to measure yet.
pub fn devices() -> Registry {
    let mut registry = Registry::new();
    registry.device(Arc::new(ellwand_bench::Cpu::described(cli::cpu_description)));
    registry
}

/// The crates that this one is built on, for programs that need more than it exports. They change from version to version.
pub mod internals {
    #[cfg(feature = "page")]
    pub use crate::cli::profile_page;
    pub use crate::cli::worker;
    pub use ellwand_bench as bench;
    pub use ellwand_core as core;
    pub use ellwand_report as report;
}

/// The programs in the README: the one for the profiler runs as a doc test, the one of a suite is only compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
