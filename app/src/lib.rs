//! The registry of the program `ellwand`: every built-in workload, and the devices that it looks for.

use ellwand::core::Registry;

/// The built-in workloads with their implementations, the processor, and how GPUs are found.
pub fn registry() -> Registry {
    let mut registry = ellwand::devices();
    ellwand_lattice::register(&mut registry);
    ellwand_nn::register(&mut registry);
    ellwand_kde::register(&mut registry);
    ellwand_calibration::register(&mut registry);
    ellwand_gpu::register(&mut registry);
    registry
}
