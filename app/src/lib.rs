//! The registry of the program `ellwand`: every built-in workload, and the devices that it looks for.

use ellwand::Registry;
use ellwand::internals::core::view::{Implementations, View};

/// The built-in workloads with their implementations, the processor, and how GPUs are found.
pub fn registry() -> Registry {
    let mut registry = ellwand::devices();
    ellwand_lattice::register(&mut registry);
    ellwand_gemm::register(&mut registry);
    ellwand_attention::register(&mut registry);
    ellwand_layers::register(&mut registry);
    ellwand_kde::register(&mut registry);
    ellwand_calibration::register(&mut registry);
    ellwand_gpu::register(&mut registry);
    registry.views.push(implementations());
    registry
}

/// Implementations that look the same in every plot, and the one that does the work of `parallel` on one thread.
fn implementations() -> View {
    let looks = "reference scalar simd parallel cuda fused blocked naive wgpu memory-efficient,,unfused unfused-parallel \
                 non-temporal,,,,,gemm matrixmultiply";
    View::Implementations(Implementations {
        looks: looks.split([' ', ',']).map(String::from).collect(),
        threaded: ["simd", "fused"].map(|one| ("parallel".into(), one.into())).into(),
    })
}
