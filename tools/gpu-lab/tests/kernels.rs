//! Every kernel is found by name, and every shader compiles.

mod sources;

#[test]
fn kernels_are_found_by_name_and_each_is_there_once() {
    for source in sources::all() {
        let mut kernels = source.kernels();
        assert!(!kernels.is_empty(), "{} has no kernel", source.name);
        assert_eq!(kernels.len(), source.text.matches("extern \"C\"").count(), "{}", source.name);
        kernels.sort_unstable();
        kernels.dedup();
        assert_eq!(kernels.len(), source.kernels().len(), "{}", source.name);
        assert!(kernels.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')), "{kernels:?}");
    }
}

#[cfg(feature = "vulkan")]
#[test]
fn every_kernel_of_every_shader_compiles() {
    let Some(device) = ellwand_gpu::test_adapter() else { return };
    let gpu = ellwand_gpu::gpu(&device).unwrap();
    for source in sources::every().into_iter().filter(|source| source.name.contains(".wgsl")) {
        let kernels: Vec<&str> = source.text.split("@compute").skip(1).collect();
        assert!(!kernels.is_empty(), "{}", source.name);
        for kernel in kernels {
            let name = kernel.split("fn ").nth(1).unwrap().split('(').next().unwrap();
            gpu.kernel(source, name).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
