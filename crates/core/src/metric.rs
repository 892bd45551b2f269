//! Metrics: what is derived from a sample. Each carries its own name, unit and direction, so that no report knows any of them by name.

use crate::ceiling::roof;
use crate::reading::Better;
use crate::record::{Environment, Measurement, Sample};

/// A quantity computed from one sample. `None` means that it cannot be said, not that it is zero.
pub struct Metric {
    /// Stable key.
    pub id: &'static str,
    /// Column heading.
    pub title: &'static str,
    /// Unit of the value as computed (s, 1/s, B/s, FLOP/s, 1).
    pub unit: &'static str,
    /// Direction.
    pub better: Better,
    /// What it means.
    pub about: &'static str,
    /// Why it cannot be said of a measured row.
    pub missing: &'static str,
    /// The computation.
    pub of: fn(&Measurement, &Sample, &Environment) -> Option<f64>,
}

/// Every metric there is. To add one, add a row.
pub const METRICS: &[Metric] = &[
    Metric {
        id: "time",
        title: "time",
        unit: "s",
        better: Better::Lower,
        about: "time of one iteration: elapsed, in the fastest part of each slot, or on the device's clock; from 1 ms on CPU time, if that is the time that passed (`basis` says which)",
        missing: "no sample has a time",
        of: |m, sample, _| Some(m.seconds(sample)),
    },
    Metric {
        id: "wall-time",
        title: "wall time",
        unit: "s",
        better: Better::Lower,
        about: "elapsed time of one iteration by the clock on the wall: on a device, to enqueue it and after that to run it",
        missing: "no sample has a time",
        of: |_, sample, _| Some(sample.wall_ns as f64 * 1e-9 / sample.iterations.max(1) as f64),
    },
    Metric {
        id: "cpu-time",
        title: "CPU time",
        unit: "s",
        better: Better::Lower,
        about: "processor time of one iteration: of the calling thread, or of the process for implementations with several threads",
        missing: "nobody counted it: of work on a device the processor sees only the launching",
        of: |_, sample, _| Some(sample.cpu_ns? as f64 * 1e-9 / sample.iterations.max(1) as f64),
    },
    Metric {
        id: "throughput",
        title: "throughput",
        unit: "1/s",
        better: Better::Higher,
        about: "items processed a second",
        missing: "its work names no items",
        of: |m, sample, _| positive(m.work.items as f64).map(|items| items / m.seconds(sample)),
    },
    Metric {
        id: "bandwidth",
        title: "bandwidth",
        unit: "B/s",
        better: Better::Higher,
        about: "bytes that must be read and written, a second",
        missing: "its work states no bytes",
        of: |m, sample, _| positive(m.work.bytes_total() as f64).map(|bytes| bytes / m.seconds(sample)),
    },
    Metric {
        id: "compute",
        title: "compute",
        unit: "FLOP/s",
        better: Better::Higher,
        about: "floating-point operations that must be done, a second; where their number depends on the data, those that were done",
        missing: "its work states no operations",
        of: |m, sample, _| positive(m.work_done().flops).map(|flops| flops / m.seconds(sample)),
    },
    Metric {
        id: "roofline-fraction",
        title: "of ceiling",
        unit: "1",
        better: Better::Higher,
        about: "shortest time the required work could take at this machine's measured peaks, over the time taken; above 1 the measurement or the ceiling is at fault",
        missing: "the record has no ceiling that its work could be held against: none was measured of what it ran on, or --no-ceilings",
        of: |m, sample, e| {
            Some(roof(&e.ceilings, &m.work_done(), m.ran_on(), &m.device, m.caches)?.limit_s / m.seconds(sample))
        },
    },
];

fn positive(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

/// The metric with this key.
pub fn find(id: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.id == id)
}
