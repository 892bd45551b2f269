//! Calibration: tasks whose only purpose is to meet one limit of the machine. Ordinary workloads, so that the ceilings
//! are measured by the same instrument as everything that is held against them.

mod bound;
mod chase;
mod fma;
mod null;
mod stream;
mod stream_loops;
mod touch;
mod triad;
mod wake;

use ellwand_core::Registry;

/// Adds the calibration workloads.
pub fn register(registry: &mut Registry) {
    null::register(registry);
    stream::register(registry);
    triad::register(registry);
    fma::register(registry);
    chase::register(registry);
    touch::register(registry);
    wake::register(registry);
    bound::register(registry);
}
