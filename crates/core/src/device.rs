//! Devices: where an implementation runs and which clock times it.

use std::any::Any;
use std::fmt;

pub use ellwand_profile::Activity;
use serde::{Deserialize, Serialize};

use crate::error::{DeviceError, InputError};
use crate::record::SlotState;

ellwand_profile::words! {
    /// The kind of device that an implementation needs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum DeviceKind {
        /// The CPU that this program runs on.
        Cpu = "cpu",
        /// An NVIDIA GPU through the CUDA driver.
        Cuda = "cuda",
        /// A GPU through WebGPU.
        Wgpu = "wgpu",
    }
    /// Name on the command line.
    fn name;
}

impl DeviceKind {
    /// Caution for readers of GPU measurements.
    pub const EXPERIMENTAL: &str =
        "GPU devices are experimental: CUDA has run on two models (NVIDIA H100 and H200), Vulkan on one (H100).";

    /// Name in sentences; product names are spelled as their makers spell them.
    pub fn title(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "CPU",
            DeviceKind::Cuda => "CUDA",
            DeviceKind::Wgpu => "wgpu",
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The state of the device's caches when a slot starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caches {
    /// As the previous run left them: iterations follow each other, as in a loop.
    #[default]
    Warm,
    /// Flushed before each slot; a slot holds one iteration.
    Cold,
}

impl Caches {
    /// The names that the command line accepts.
    pub const NAMES: [(&'static str, Caches); 2] = [("warm", Caches::Warm), ("cold", Caches::Cold)];

    /// True for [`Caches::Warm`], the default; serde uses it to omit the default from records.
    pub fn is_warm(&self) -> bool {
        *self == Caches::Warm
    }

    /// The name as printed and parsed: `warm` or `cold`.
    pub fn word(self) -> &'static str {
        if self.is_warm() { "warm" } else { "cold" }
    }
}

/// The threads whose CPU time counts as the time of a timed body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuScope {
    /// The calling thread alone.
    Thread,
    /// Every thread of the process.
    Process,
}

/// The part of a slot that is about to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The untimed iterations at the start of the slot.
    Head,
    /// One of the equal timed parts.
    Timed,
}

/// The cost of one timed body. A quantity that the device cannot measure is `None`, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Elapsed time in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the requested scope, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Time on the device's own clock, in nanoseconds.
    pub device_ns: Option<u64>,
    /// CPU time of the process's other threads, in nanoseconds; part of `cpu_ns` if the scope is the process.
    pub others_ns: Option<u64>,
    /// Involuntary context switches during the body.
    pub switches: Option<u64>,
    /// Minor page faults (served without I/O) during the body.
    pub faults: Option<u64>,
    /// Voluntary context switches during the body: a thread gave up the CPU to wait.
    pub waits: Option<u64>,
}

/// Reasons for which a device throttles itself.
pub mod slowed {
    /// Power limit reached.
    pub const POWER: u64 = 1;
    /// Temperature limit reached.
    pub const HEAT: u64 = 2;
    /// Throttled by the hardware for another reason.
    pub const HARDWARE: u64 = 4;

    /// Names the reasons in a sum of the constants above, separated by commas.
    pub fn names(reasons: u64) -> String {
        let all = [(POWER, "power"), (HEAT, "heat"), (HARDWARE, "its hardware")];
        let named: Vec<&str> = all.iter().filter(|(bit, _)| reasons & bit != 0).map(|(_, name)| *name).collect();
        if named.is_empty() { "an unknown reason".into() } else { named.join(", ") }
    }
}

/// A place where implementations run, with its clocks.
pub trait Device: Send + Sync {
    /// Name, with an index if there may be several (`cpu`, `cuda:0`).
    fn id(&self) -> &str;

    /// The kind that [`crate::Implementation::needs`] is matched against.
    fn kind(&self) -> DeviceKind;

    /// One line for `list`: model and memory.
    fn about(&self) -> String;

    /// Number of multiprocessors, if the device has and reports them. Calibration sizes its grids by it.
    fn multiprocessors(&self) -> Option<u32> {
        None
    }

    /// Runs `body` once between two clock readings.
    fn time(&self, scope: CpuScope, body: &mut dyn FnMut()) -> Timing;

    /// Runs the untimed head of a slot and then its timed parts, with nothing in between. Returns the cost of all timed
    /// parts together and the nanoseconds of each; the list is empty if the device cannot time parts
    /// ([`Device::finest_part_ns`]).
    fn time_parts(&self, scope: CpuScope, parts: u64, body: &mut dyn FnMut(Part)) -> (Timing, Vec<u64>) {
        body(Part::Head);
        let timing = self.time(scope, &mut || (0..parts).for_each(|_| body(Part::Timed)));
        (timing, Vec::new())
    }

    /// Shortest part of a slot, in nanoseconds, that the clock can time without disturbing the code; `None` if it
    /// cannot time parts.
    fn finest_part_ns(&self) -> Option<u64> {
        None
    }

    /// Reads the state of the device; called between slots, never inside one.
    fn state(&self) -> SlotState {
        SlotState::default()
    }

    /// Starts recording the device's activities for the span timeline. Never called while anything is timed.
    ///
    /// # Errors
    /// The reason why this device cannot record its activities.
    fn watch(&self) -> Result<(), DeviceError> {
        Err(DeviceError::new(format!("{} cannot record its activities", self.id())))
    }

    /// Stops the recording and returns the activities.
    ///
    /// # Errors
    /// The reason why the activities are unavailable.
    fn watched(&self) -> Result<Vec<Activity>, DeviceError> {
        Err(DeviceError::new(format!("{} cannot record its activities", self.id())))
    }

    /// Evicts the contents of the caches, so that the next run starts cold.
    ///
    /// # Errors
    /// If the device cannot flush its caches.
    fn flush_cache(&self) -> Result<(), InputError> {
        Err(InputError::new(self.id(), "its caches cannot be flushed", "a device that can flush them"))
    }

    /// The concrete type, for implementations that launch work on it.
    fn as_any(&self) -> &dyn Any;
}
