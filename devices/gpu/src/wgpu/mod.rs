//! The Vulkan backend, through wgpu: kernels in WGSL, on any adapter found at run time.
//!
//! The first implementation that needs a device opens it. Searching for adapters loads their drivers (a software
//! renderer brings a complete compiler), so the search is on request too.

mod commands;
mod open;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use ellwand_core::DeviceKind;
use ellwand_core::record::SlotState;

use super::held::Memory;
use super::{Arg, Backend, Gpu, GpuError, Grid, Kernel, Source};
use open::Opened;

/// Finds the adapters and returns them with their indices.
///
/// # Errors
/// Why no adapter is available.
pub(super) fn find() -> Result<Vec<(usize, Gpu)>, GpuError> {
    Ok(adapters()?.into_iter().map(|adapter| Arc::new(adapter) as Gpu).enumerate().collect())
}

fn adapters() -> Result<Vec<Vulkan>, GpuError> {
    let found = std::panic::catch_unwind(|| {
        let only_vulkan = wgpu::InstanceDescriptor {
            backends: wgpu::Backends::VULKAN,
            flags: wgpu::InstanceFlags::empty(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        };
        let instance = wgpu::Instance::new(only_vulkan);
        finished(instance.enumerate_adapters(wgpu::Backends::VULKAN)).unwrap_or_default()
    });
    let absent = |why: &str| GpuError::Absent(why.into());
    let adapters = found.map_err(|_| absent("Vulkan was found, but it could not list its adapters"))?;
    if adapters.is_empty() {
        return Err(absent(
            "no Vulkan adapter was found: either the library libvulkan or a driver for it is missing (on Debian \
                    and Ubuntu the packages libvulkan1 and mesa-vulkan-drivers provide one that needs no GPU)",
        ));
    }
    let backend = |adapter: wgpu::Adapter| {
        let (info, limits) = (adapter.get_info(), adapter.limits());
        Vulkan { adapter, info, limits, opened: Mutex::default() }
    };
    Ok(adapters.into_iter().map(backend).collect())
}

/// Polls a wgpu future once: on native backends they are complete when created, or after a wait.
fn finished<T>(future: impl Future<Output = T>) -> Option<T> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// An adapter, and its device once it has been opened.
struct Vulkan {
    adapter: wgpu::Adapter,
    info: wgpu::AdapterInfo,
    limits: wgpu::Limits,
    opened: Mutex<Option<Arc<Opened>>>,
}

impl Vulkan {
    /// Returns the device. A lost device is replaced by a new one once all memory on it has been freed: work that ran
    /// on it has failed, but later work need not.
    fn opened(&self) -> Result<Arc<Opened>, GpuError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        match &*opened {
            Some(known) if !known.is_gone() => Ok(known.clone()),
            _ => Ok(opened.insert(Arc::new(Opened::of(&self.adapter)?)).clone()),
        }
    }

    /// Returns the device if it is open.
    fn if_open(&self) -> Option<Arc<Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Largest array in bytes.
    fn most_bytes(&self) -> u64 {
        self.limits.max_buffer_size.min(self.limits.max_storage_buffer_binding_size)
    }

    fn is_software(&self) -> bool {
        self.info.device_type == wgpu::DeviceType::Cpu
    }
}

impl Backend for Vulkan {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Wgpu
    }

    fn about(&self) -> String {
        let what = match self.info.device_type {
            wgpu::DeviceType::Cpu => "SOFTWARE on the processor, not a GPU, ",
            wgpu::DeviceType::IntegratedGpu => "integrated GPU, ",
            wgpu::DeviceType::DiscreteGpu => "discrete GPU, ",
            wgpu::DeviceType::VirtualGpu => "virtual GPU, ",
            wgpu::DeviceType::Other => "",
        };
        let wgpu::AdapterInfo { name, driver, driver_info, .. } = &self.info;
        format!("{name}, {what}Vulkan by {driver} {driver_info}, arrays up to {} MiB", self.most_bytes() >> 20)
    }

    fn alloc(&self, bytes: usize) -> Result<u64, GpuError> {
        let (wanted, limit) = (bytes as u64, self.most_bytes());
        if wanted > limit {
            return Err(GpuError::Limit { wanted, limit });
        }
        self.opened()?.alloc(wanted)
    }

    fn free(&self, address: u64) {
        if let Some(opened) = self.if_open() {
            opened.free(address);
        }
    }

    fn upload(&self, to: u64, from: &[u8]) -> Result<(), GpuError> {
        self.opened()?.upload(to, from)
    }

    fn download(&self, from: u64, to: &mut [u8]) -> Result<(), GpuError> {
        self.opened()?.download(from, to)
    }

    fn fill(&self, at: u64, byte: u8, _: usize) -> Result<(), GpuError> {
        self.opened()?.fill(at, byte)
    }

    fn kernel(&self, source: &'static Source, name: &str) -> Result<Kernel, GpuError> {
        let start = Instant::now();
        let handle = self.opened()?.kernel(source, name, &self.info.name)?;
        let compile_ns = Some(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        Ok(Kernel { name: name.into(), handle, resources: source.name.into(), compile_ns })
    }

    fn launch(&self, kernel: &Kernel, grid: Grid, args: &[Arg]) -> Result<(), GpuError> {
        self.opened()?.launch(kernel, grid, args, self.limits.max_compute_workgroups_per_dimension)
    }

    fn sync(&self) -> Result<(), GpuError> {
        self.opened()?.sync()
    }

    fn start(&self) {
        if let Some(opened) = self.if_open() {
            opened.start();
        }
    }

    fn stop(&self) -> Option<u64> {
        self.if_open()?.stop()
    }

    fn state(&self) -> SlotState {
        SlotState { device_bytes: self.memory().map(|memory| memory.now), ..SlotState::default() }
    }

    fn memory(&self) -> Option<Memory> {
        Some(self.if_open()?.memory())
    }

    fn flush(&self) -> Result<(), GpuError> {
        // More than the last-level cache of any GPU, if the device allows an array that large.
        self.opened()?.flush(self.most_bytes().min(256 << 20))
    }

    /// wgpu does not report it. Looping kernels size their grids by it, so the guess is enough for a large GPU.
    fn multiprocessors(&self) -> u32 {
        if self.is_software() { 4 } else { 64 }
    }
}

/// The device for WGSL tests: the first adapter. A missing one is an error under `ELLWAND_REQUIRE=vulkan`, and under
/// `CI=true`, where a software adapter is installed.
#[allow(clippy::print_stderr, reason = "for tests")]
pub fn test_device() -> Option<super::GpuDevice> {
    let required = std::env::var("ELLWAND_REQUIRE").is_ok_and(|what| what.contains("vulkan"))
        || std::env::var("CI").is_ok_and(|ci| ci == "true");
    // All tests of a program share one device.
    static FOUND: std::sync::OnceLock<Result<Gpu, GpuError>> = std::sync::OnceLock::new();
    match FOUND.get_or_init(|| find().map(|mut found| found.swap_remove(0).1)) {
        Ok(gpu) => Some(super::GpuDevice::new("wgpu:0".into(), gpu.clone())),
        Err(why) => {
            assert!(!required, "a Vulkan adapter is required: {why}");
            eprintln!("skipped: kernels in WGSL do not run: {why}");
            None
        }
    }
}
