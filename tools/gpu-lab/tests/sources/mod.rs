//! The sources of all GPU kernels.

use ellwand_gpu::Source;

/// The CUDA C++ sources.
pub(crate) fn all() -> Vec<&'static Source> {
    let mut all = every();
    all.retain(|source| !source.name.contains(".wgsl"));
    all
}

/// The CUDA C++ and WGSL sources.
pub(crate) fn every() -> Vec<&'static Source> {
    [
        ellwand_gpu::sources(),
        ellwand_lattice::gpu_sources(),
        ellwand_layers::gpu_sources(),
        ellwand_gemm::gpu_sources(),
        ellwand_attention::gpu_sources(),
        ellwand_kde::gpu_sources(),
    ]
    .concat()
}
