//! Where the elapsed time went, in parts that add up to it exactly.

use crate::clock::Calibration;
use crate::kind::Kind;
use crate::sweep::Sweep;
use crate::trace::Trace;

crate::words! {
    /// A part of the elapsed time.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Part {
        /// A host thread computes: its spans recorded CPU time.
        Cpu = "cpu",
        /// A host thread computes or waits: its spans recorded no CPU time.
        Unmeasured = "not-measured",
        /// A device computes and no host thread works.
        Device = "device",
        /// A copy runs, and neither a host thread nor a kernel.
        Transfer = "transfer",
        /// Host threads wait, and no device works.
        Wait = "wait",
        /// A host thread hands work to a device.
        Launch = "launch",
        /// A host thread compiles code.
        Compile = "compile",
        /// A host thread allocates or frees memory.
        Allocation = "allocation",
        /// The profiler works: its own spans, and the estimated cost of all others.
        Instrumentation = "instrumentation",
        /// No span covers the time.
        Unexplained = "unexplained",
    }
    /// The name in files.
    fn word;
}

impl Part {
    /// If several parts apply at a moment, the first of these gets it.
    pub(crate) const BY_PRIORITY: [Self; 9] = [
        Self::Cpu,
        Self::Compile,
        Self::Allocation,
        Self::Launch,
        Self::Instrumentation,
        Self::Unmeasured,
        Self::Device,
        Self::Transfer,
        Self::Wait,
    ];

    /// What the part means, in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Cpu => "a host thread computes",
            Self::Unmeasured => "a host thread computes or waits",
            Self::Device => "only a device computes",
            Self::Transfer => "only a copy runs",
            Self::Wait => "host threads wait, devices are idle",
            Self::Launch => "a host thread hands work to a device",
            Self::Compile => "a host thread compiles code",
            Self::Allocation => "a host thread allocates or frees memory",
            Self::Instrumentation => "the profiler's own cost",
            Self::Unexplained => "no span covers the time",
        }
    }

    /// The part for a span of `kind`; `None` for spans in flight. On a stream, only kernels and copies are work.
    pub(crate) fn of(kind: Kind, stream: bool) -> Option<Self> {
        let part = match kind {
            Kind::Cpu => Self::Cpu,
            Kind::Wait | Kind::Sync => Self::Wait,
            Kind::Launch => Self::Launch,
            Kind::Kernel => Self::Device,
            Kind::HostToDevice | Kind::DeviceToHost | Kind::DeviceToDevice => Self::Transfer,
            Kind::Allocation => Self::Allocation,
            Kind::Compile => Self::Compile,
            Kind::Instrumentation => Self::Instrumentation,
            Kind::InFlight => return None,
        };
        (!stream || matches!(part, Self::Device | Self::Transfer)).then_some(part)
    }
}

/// The elapsed time of a trace in parts. In ticks they add up to it exactly.
#[derive(Debug, Clone, PartialEq)]
pub struct Breakdown {
    ticks: [u64; 10],
    clock: Calibration,
    /// True if several threads computed for a share of the same time, so the part `cpu` is a lower bound.
    pub cpu_is_least: bool,
}

impl Breakdown {
    /// Ticks of a part.
    pub fn ticks(&self, part: Part) -> u64 {
        self.ticks[part as usize]
    }

    /// Nanoseconds of a part.
    pub fn ns(&self, part: Part) -> f64 {
        self.clock.ns(self.ticks(part))
    }

    /// Elapsed ticks: the sum of all parts.
    pub fn wall_ticks(&self) -> u64 {
        self.ticks.iter().sum()
    }

    /// Elapsed time, the sum of all parts, in nanoseconds.
    pub fn wall_ns(&self) -> f64 {
        self.clock.ns(self.wall_ticks())
    }

    /// A part of the elapsed time, from 0 to 1; 0 if no time elapsed.
    pub fn share(&self, part: Part) -> f64 {
        self.ticks(part) as f64 / self.wall_ticks().max(1) as f64
    }

    /// Picoseconds of each part, rounded so that they add up to those of the elapsed time.
    pub(crate) fn picoseconds(&self) -> [u64; 10] {
        let (mut parts, mut ticks, mut before) = (self.ticks, 0, 0);
        for part in &mut parts {
            ticks += *part;
            let now = (self.clock.ns(ticks) * 1e3).round() as u64;
            *part = now - before;
            before = now;
        }
        parts
    }
}

impl Trace {
    /// Divides the elapsed time. At each moment the first of these that applies gets the time: a host thread computes,
    /// compiles, allocates, launches, records, or does something unmeasured; a device computes; a copy runs; a host
    /// thread waits. A span that recorded its CPU time, or is inside one that did, computes for that share of its self
    /// time and waits for the rest. For other spans, whether they compute is not measured. The moments within a span at
    /// which its thread computes are unknown: if several threads compute for a share of the same time, the largest
    /// share counts. The part `cpu` is then a lower bound, and what happens at the same time, such as waiting, an upper
    /// bound ([`Breakdown::cpu_is_least`]).
    ///
    /// Aggregated spans divide their time between computing and waiting in the same way. They have no position in time:
    /// they fill time that no kept span explains, in the same order; each part gets as much as the lane with the most
    /// of it. The cost of spans, if known, moves from the time of threads to instrumentation.
    pub fn breakdown(&self) -> Breakdown {
        self.breakdown_of(&Sweep::over(self))
    }

    pub(crate) fn breakdown_of(&self, sweep: &Sweep) -> Breakdown {
        Breakdown { ticks: sweep.parts, clock: self.clock, cpu_is_least: sweep.cpu_is_least }
    }
}
