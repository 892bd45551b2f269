//! `worker`: the hidden command by which this program, started again, becomes one arm of a measurement.

use ellwand_bench::probe::PROBES;
use ellwand_bench::worker::{Host, serve};
use ellwand_core::Registry;

use super::Outcome;
use super::exit::Exit;

/// Answers the parent's questions until it closes. Errors of the protocol go to stderr: they become the last words.
pub(super) fn worker(registry: &Registry) -> Outcome {
    // The kernels of the self-check live in every program that has a command line.
    let mut all = registry.clone();
    ellwand_bench::selfcheck::register(&mut all);
    let host = Host { registry: &all, probes: PROBES, read_given: &crate::arrays::read };
    serve(&host, std::io::stdin().lock(), std::io::stdout().lock())?;
    Ok(Exit::Ok)
}
