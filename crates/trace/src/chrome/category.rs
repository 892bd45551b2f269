//! The kind of an event, from its category and name.

use ellwand_profile::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A span of this kind.
    Span(Kind),
    /// A range or a mark that repeats what the host's calls show.
    Repeated,
    /// The extent of the recording; a span for it would cover everything.
    Extent,
}

pub(crate) fn class(category: &str, name: &str) -> Class {
    // Our own export uses the names of kinds as categories.
    if let Some(kind) = Kind::of_word(category) {
        return Class::Span(kind);
    }
    Class::Span(match category {
        "kernel" | "gpu_memset" | "device" => device(name),
        "gpu_memcpy" => copy(name),
        "cuda_runtime"
        | "cuda_driver"
        | "hip_runtime"
        | "hip_driver"
        | "xpu_runtime"
        | "mtia_runtime"
        | "privateuse1_runtime"
        | "driver" => call(name),
        "gpu_user_annotation" | "cuda_sync" => return Class::Repeated,
        "overhead" => Kind::Instrumentation,
        "Trace" => return Class::Extent,
        _ => Kind::Cpu,
    })
}

fn device(name: &str) -> Kind {
    match copy(name) {
        Kind::DeviceToDevice if !has(name, &["dtod", "device to device", "memcpy"]) => Kind::Kernel,
        kind => kind,
    }
}

fn copy(name: &str) -> Kind {
    match name {
        name if has(name, &["htod", "host to device"]) => Kind::HostToDevice,
        name if has(name, &["dtoh", "device to host"]) => Kind::DeviceToHost,
        _ => Kind::DeviceToDevice,
    }
}

/// A call of the runtime or the driver.
fn call(name: &str) -> Kind {
    match name {
        name if has(name, &["synchronize", "streamwait", "eventwait"]) => Kind::Sync,
        name if has(name, &["malloc", "memalloc", "free", "hostalloc", "hostregister"]) => Kind::Allocation,
        name if has(name, &["moduleload", "libraryload", "nvrtc", "linkcreate", "linkadd"]) => Kind::Compile,
        name if has(name, &["launch", "memcpy", "memset", "eventrecord"]) => Kind::Launch,
        _ => Kind::Cpu,
    }
}

fn has(name: &str, parts: &[&str]) -> bool {
    let lower = name.get(..name.len().min(200)).unwrap_or(name).to_ascii_lowercase();
    parts.iter().any(|part| lower.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_pytorch_profiler_have_their_kinds() {
        let rows = [
            ("cpu_op", "aten::mm", Kind::Cpu),
            ("kernel", "void at::native::vectorized_elementwise_kernel<4>", Kind::Kernel),
            ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", Kind::HostToDevice),
            ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", Kind::DeviceToHost),
            ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", Kind::DeviceToDevice),
            ("gpu_memset", "Memset (Device)", Kind::Kernel),
            ("cuda_runtime", "cudaLaunchKernel", Kind::Launch),
            ("cuda_runtime", "cudaMemcpyAsync", Kind::Launch),
            ("cuda_runtime", "cudaDeviceSynchronize", Kind::Sync),
            ("cuda_runtime", "cudaMalloc", Kind::Allocation),
            ("cuda_driver", "cuModuleLoadData", Kind::Compile),
            ("cuda_runtime", "cudaGetDevice", Kind::Cpu),
            ("overhead", "Activity Buffer Request", Kind::Instrumentation),
            ("python_function", "train.py(12): step", Kind::Cpu),
            ("device", "copy, host to device", Kind::HostToDevice),
            ("driver", "cuLaunchKernel", Kind::Launch),
            ("sync", "anything", Kind::Sync),
        ];
        for (category, name, kind) in rows {
            assert_eq!(class(category, name), Class::Span(kind), "{category} {name}");
        }
        assert_eq!(class("Trace", "PyTorch Profiler (0)"), Class::Extent);
        assert_eq!(class("gpu_user_annotation", "ProfilerStep#3"), Class::Repeated);
    }
}
