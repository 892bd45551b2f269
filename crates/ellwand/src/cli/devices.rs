//! The devices of a command line: the processor in words, and the GPUs that it asks for.

use ellwand_core::{DeviceKind, Registry};

/// One line about the processor, for the list of devices.
pub(crate) fn cpu_description() -> String {
    let here = ellwand_bench::environment::facts();
    format!("{}, {}, {}", here.cpu, ellwand_report::units::cores(here.cores.into()), here.cpu_features.join(" "))
}

/// The registry with CUDA devices, and with Vulkan devices if one of `names` is theirs: a device, an implementation, or
/// either side of `:`. `list` and `machine` look for these themselves.
pub(super) fn with_devices<'a>(registry: &Registry, names: impl IntoIterator<Item = &'a String>) -> Registry {
    let mut registry = registry.clone();
    registry.look_for(DeviceKind::Cuda);
    if names.into_iter().any(|name| name.split([':', ',']).any(|part| part == DeviceKind::Wgpu.name())) {
        registry.look_for(DeviceKind::Wgpu);
    }
    registry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vulkan_devices_are_looked_for_only_if_a_name_is_theirs() {
        let mut registry = Registry::new();
        registry.on_request(DeviceKind::Wgpu, "not requested", || Ok(Vec::new()));
        for (name, looks) in [
            ("wgpu", true),
            ("wgpu:1", true),
            ("gelu:wgpu", true),
            ("gelu:simd,wgpu", true),
            ("simd", false),
            ("./wgpu/record.jsonl", false),
        ] {
            assert_eq!(with_devices(&registry, [&name.to_string()]).sought(DeviceKind::Wgpu), looks, "{name}");
        }
    }
}
