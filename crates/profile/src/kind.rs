//! What the time of a span is spent on, and where a lane runs.

crate::words! {
    /// What the time of a span is spent on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub enum Kind {
        /// Work of a host thread.
        #[default]
        Cpu = "cpu",
        /// A host thread waits: a lock, a channel, input or output, sleep.
        Wait = "wait",
        /// A host thread hands work to a device.
        Launch = "launch",
        /// A host thread waits for a device.
        Sync = "sync",
        /// A device computes.
        Kernel = "kernel",
        /// A copy from the host to a device.
        HostToDevice = "host-to-device",
        /// A copy from a device to the host.
        DeviceToHost = "device-to-host",
        /// A copy within a device or between devices.
        DeviceToDevice = "device-to-device",
        /// Memory is allocated or freed.
        Allocation = "allocation",
        /// Code is compiled.
        Compile = "compile",
        /// The profiler works.
        Instrumentation = "instrumentation",
        /// Something such as a request is in flight. It occupies no thread, so the breakdown excludes it.
        InFlight = "in-flight",
    }
    /// The name in files.
    fn word;
}

impl Kind {
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
