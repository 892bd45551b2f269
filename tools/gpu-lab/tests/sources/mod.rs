//! The sources of all kernels for GPUs.

use ellwand_gpu::Source;

/// The sources in CUDA C++.
pub(crate) fn all() -> Vec<&'static Source> {
    let mut all = every();
    all.retain(|source| !source.name.contains(".wgsl"));
    all
}

/// Those in WGSL too.
pub(crate) fn every() -> Vec<&'static Source> {
    [ellwand_gpu::sources(), ellwand_lattice::gpu_sources(), ellwand_nn::gpu_sources(), ellwand_kde::gpu_sources()]
        .concat()
}
