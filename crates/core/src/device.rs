//! Devices: where an implementation runs and whose clock times it.

use std::any::Any;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::InputError;

/// What sort of device an implementation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DeviceKind {
    /// The processor this program runs on.
    Cpu,
    /// An NVIDIA GPU through the CUDA driver.
    Cuda,
    /// A GPU through WebGPU.
    Wgpu,
}

impl DeviceKind {
    /// Every kind.
    pub const ALL: [DeviceKind; 3] = [DeviceKind::Cpu, DeviceKind::Cuda, DeviceKind::Wgpu];

    /// Name as the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Wgpu => "wgpu",
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a slot finds in the caches of its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caches {
    /// What the run before it left there: iterations follow each other, as in a loop.
    #[default]
    Warm,
    /// Nothing of its own: they are flushed before each slot, which holds one iteration.
    Cold,
}

impl Caches {
    /// Words as the command line spells them.
    pub const NAMES: [(&'static str, Caches); 2] = [("warm", Caches::Warm), ("cold", Caches::Cold)];

    /// Whether slots start warm, as they do unless somebody asks for something else.
    pub fn is_warm(&self) -> bool {
        *self == Caches::Warm
    }

    /// In a word.
    pub fn word(self) -> &'static str {
        if self.is_warm() { "warm" } else { "cold" }
    }
}

/// Whose processor time belongs to a timed body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuScope {
    /// The calling thread alone.
    Thread,
    /// Every thread of the process.
    Process,
}

/// A piece of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Everything that runs before the clock starts.
    Head,
    /// One of the equal parts that are timed.
    Timed,
}

/// What one timed body cost. A quantity the device cannot tell is `None`, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Elapsed time.
    pub wall_ns: u64,
    /// Processor time of the scope asked for.
    pub cpu_ns: Option<u64>,
    /// Time on the device's own clock.
    pub device_ns: Option<u64>,
    /// Processor time of the process's other threads, where the scope is the calling thread.
    pub others_ns: Option<u64>,
    /// Involuntary context switches during the body.
    pub switches: Option<u64>,
    /// Page faults served without input or output during the body.
    pub faults: Option<u64>,
    /// Voluntary context switches during the body: a thread gave up the processor to wait.
    pub waits: Option<u64>,
}

/// The state of a device; what cannot be read is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DeviceStatus {
    /// Clock frequency.
    pub clock_hz: Option<f64>,
    /// Why the device slows itself down, as the sum of [`slowed`]'s numbers; 0 where it does not.
    pub slowed_by: Option<u64>,
    /// Memory in use on the device.
    pub memory_bytes: Option<u64>,
    /// Power draw.
    pub power_watts: Option<f64>,
}

/// Why a device runs slower than it could.
pub mod slowed {
    /// It would draw more power than it may.
    pub const POWER: u64 = 1;
    /// It would become too hot.
    pub const HEAT: u64 = 2;
    /// Its hardware says so, for whatever reason.
    pub const HARDWARE: u64 = 4;

    /// The reasons in words.
    pub fn words(reasons: u64) -> String {
        let all = [(POWER, "power"), (HEAT, "heat"), (HARDWARE, "its hardware")];
        let named: Vec<&str> = all.iter().filter(|(bit, _)| reasons & bit != 0).map(|(_, name)| *name).collect();
        if named.is_empty() { "no reason that is known here".into() } else { named.join(", ") }
    }
}

/// One thing that a device did, or that its driver was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The kernel, copy or call.
    pub name: String,
    /// Where: a stream of the device, or a thread that called the driver.
    pub lane: String,
    /// Start, in nanoseconds since [`Device::watch`] returned.
    pub start_ns: i64,
    /// Duration in nanoseconds.
    pub ns: u64,
    /// Number that a call shares with what it started; 0 is none.
    pub corr: u32,
    /// Whether it is a call, not what it started.
    pub call: bool,
    /// What else is known of it, in words.
    pub detail: String,
}

/// A place where implementations run.
pub trait Device: Send + Sync {
    /// Name with an index where there may be several (`cpu`, `cuda:0`).
    fn id(&self) -> &str;

    /// What sort it is.
    fn kind(&self) -> DeviceKind;

    /// One line for `list` (model, memory).
    fn about(&self) -> String;

    /// How many multiprocessors it has, where it is made of such and tells: calibration fills each of them alike.
    fn multiprocessors(&self) -> Option<u32> {
        None
    }

    /// Runs `body` once between two clock readings and says what it cost.
    fn time(&self, scope: CpuScope, body: &mut dyn FnMut()) -> Timing;

    /// Runs the untimed head of a slot and then its timed parts, with nothing between. Says what the timed parts cost together
    /// and, if the device's clock can time them ([`Device::finest_part_ns`]), what each took in nanoseconds; otherwise the list
    /// is empty.
    fn time_parts(&self, scope: CpuScope, parts: u64, body: &mut dyn FnMut(Part)) -> (Timing, Vec<u64>) {
        body(Part::Head);
        let timing = self.time(scope, &mut || (0..parts).for_each(|_| body(Part::Timed)));
        (timing, Vec::new())
    }

    /// Shortest part of a slot that the clock can time without disturbing what runs; `None` where parts cannot be told apart.
    fn finest_part_ns(&self) -> Option<u64> {
        None
    }

    /// The state of the device now.
    fn status(&self) -> DeviceStatus {
        DeviceStatus::default()
    }

    /// Begins to record what the device does, for the timeline of spans; never while anything is timed.
    ///
    /// # Errors
    /// Why that is not told here.
    fn watch(&self) -> Result<(), String> {
        Err(format!("{} does not tell what it does", self.id()))
    }

    /// Ends the recording and says what was done.
    ///
    /// # Errors
    /// Why it cannot be told.
    fn watched(&self) -> Result<Vec<Activity>, String> {
        Err(format!("{} does not tell what it does", self.id()))
    }

    /// Drives the caches' content out, so that the next run starts cold.
    ///
    /// # Errors
    /// When the device cannot do that.
    fn flush_cache(&self) -> Result<(), InputError> {
        Err(InputError::new(self.id(), "its caches cannot be flushed", "a device that can"))
    }

    /// The concrete device, for implementations that launch work on it.
    fn as_any(&self) -> &dyn Any;
}
