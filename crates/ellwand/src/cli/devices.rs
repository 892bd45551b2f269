//! The devices of a command line: the processor in words, and the GPUs that it asks for.

use ellwand_core::{DeviceKind, Registry};

/// One line about the processor, for the list of devices.
pub(crate) fn cpu_description() -> String {
    let here = ellwand_bench::environment::facts();
    format!("{}, {}, {}", here.cpu, ellwand_report::units::cores(here.cores.into()), here.cpu_features.join(" "))
}

/// The registry with CUDA devices, and with Vulkan devices if the command line mentions them or shows `all`; `machine`
/// looks for these itself after measuring.
pub(super) fn with_devices_asked_for(registry: &Registry, line: &[String], all: bool) -> Registry {
    let mut registry = registry.clone();
    registry.look_for(DeviceKind::Cuda);
    let name = DeviceKind::Wgpu.name();
    // `--device=wgpu:0`, `-i simd,wgpu`; not a path with these letters.
    let names =
        |word: &String| word.split(['=', ',']).any(|part| part == name || part.starts_with(&format!("{name}:")));
    if all || line.iter().skip(1).any(names) {
        registry.look_for(DeviceKind::Wgpu);
    }
    registry
}
