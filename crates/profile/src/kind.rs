//! What the time of a span is spent on, and where a lane runs.

/// What the time of a span is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// Work of a host thread.
    #[default]
    Cpu,
    /// A host thread waits: a lock, a channel, input or output, sleep.
    Wait,
    /// A host thread hands work to a device.
    Launch,
    /// A host thread waits for a device.
    Sync,
    /// A device computes.
    Kernel,
    /// A copy from the host to a device.
    HostToDevice,
    /// A copy from a device to the host.
    DeviceToHost,
    /// A copy within a device or between devices.
    DeviceToDevice,
    /// Memory is allocated or freed.
    Allocation,
    /// Code is compiled.
    Compile,
    /// The profiler works.
    Instrumentation,
    /// Something such as a request is in flight. It occupies no thread, so it is no part of the breakdown.
    InFlight,
}

impl Kind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 12] = [
        Self::Cpu,
        Self::Wait,
        Self::Launch,
        Self::Sync,
        Self::Kernel,
        Self::HostToDevice,
        Self::DeviceToHost,
        Self::DeviceToDevice,
        Self::Allocation,
        Self::Compile,
        Self::Instrumentation,
        Self::InFlight,
    ];

    /// The name in files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Wait => "wait",
            Self::Launch => "launch",
            Self::Sync => "sync",
            Self::Kernel => "kernel",
            Self::HostToDevice => "host-to-device",
            Self::DeviceToHost => "device-to-host",
            Self::DeviceToDevice => "device-to-device",
            Self::Allocation => "allocation",
            Self::Compile => "compile",
            Self::Instrumentation => "instrumentation",
            Self::InFlight => "in-flight",
        }
    }

    /// The kind with this name in files.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// Where the spans of a lane run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LaneKind {
    /// A thread of the host.
    #[default]
    Thread,
    /// A queue of a device, which runs its operations in order.
    Stream {
        /// Name of the device, such as `cuda:0`.
        device: String,
    },
}
