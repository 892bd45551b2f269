//! Metrics: quantities derived from a sample. Each has its own name, unit and direction, so no report names a metric.

use serde::Serialize;

use crate::ceiling::roof;
use crate::reading::{Better, Provenance};
use crate::record::{Environment, Measurement, Sample};

/// A quantity computed from one sample.
#[derive(Debug, Serialize)]
pub struct Metric {
    /// Stable key, used in records and for sorting.
    pub id: &'static str,
    /// Heading of its column in tables.
    pub title: &'static str,
    /// Unit of the computed value (`s`, `1/s`, `B/s`, `FLOP/s`, `1`).
    pub unit: &'static str,
    /// Whether a clock gave the value, or it was computed from one.
    #[serde(skip)]
    pub provenance: Provenance,
    /// Whether lower or higher values are better.
    pub better: Better,
    /// One-line definition, printed in reports.
    pub about: &'static str,
    /// Reason printed if a measured row has no value.
    #[serde(skip)]
    pub missing: &'static str,
    /// The computation; `None` means unavailable, not zero.
    #[serde(skip)]
    pub of: fn(&Measurement, &Sample, &Environment) -> Option<f64>,
}

/// All metrics, in table order. To add one, add a row.
pub const METRICS: &[Metric] = &[
    Metric {
        id: "time",
        title: "time",
        unit: "s",
        provenance: Provenance::Measured,
        better: Better::Lower,
        about: "time of one iteration: elapsed time of the fastest part of each slot, or time on the device's clock; from 1 ms on, CPU time if it accounts for the elapsed time (`basis` names the one used)",
        missing: "no sample has a time",
        of: |m, sample, _| Some(m.seconds(sample)),
    },
    Metric {
        id: "wall-time",
        title: "wall time",
        unit: "s",
        provenance: Provenance::Measured,
        better: Better::Lower,
        about: "elapsed time of one iteration on the host clock; for a device it includes enqueueing the work",
        missing: "no sample has a time",
        of: |_, sample, _| Some(sample.wall_ns as f64 * 1e-9 / sample.iterations.max(1) as f64),
    },
    Metric {
        id: "cpu-time",
        title: "CPU time",
        unit: "s",
        provenance: Provenance::Measured,
        better: Better::Lower,
        about: "CPU time of one iteration: of the calling thread, or of the process if several threads took part",
        missing: "not counted: for work on a device the CPU spends time only on the launch",
        of: |m, sample, _| m.cpu_seconds(sample),
    },
    Metric {
        id: "throughput",
        title: "throughput",
        unit: "1/s",
        provenance: Provenance::Derived,
        better: Better::Higher,
        about: "items processed per second",
        missing: "the workload counts no items",
        of: |m, sample, _| positive(m.work.items as f64).map(|items| items / m.seconds(sample)),
    },
    Metric {
        id: "bandwidth",
        title: "bandwidth",
        unit: "B/s",
        provenance: Provenance::Derived,
        better: Better::Higher,
        about: "required bytes read and written per second",
        missing: "the workload states no required bytes",
        of: |m, sample, _| positive(m.work.bytes_total() as f64).map(|bytes| bytes / m.seconds(sample)),
    },
    Metric {
        id: "compute",
        title: "compute",
        unit: "FLOP/s",
        provenance: Provenance::Derived,
        better: Better::Higher,
        about: "required floating-point operations per second; if their number depends on the data, the operations counted",
        missing: "the workload states no operations",
        of: |m, sample, _| positive(m.work_done().flops).map(|flops| flops / m.seconds(sample)),
    },
    Metric {
        id: "roofline-fraction",
        title: "of ceiling",
        unit: "1",
        provenance: Provenance::Derived,
        better: Better::Higher,
        about: "shortest possible time of the required work at this machine's measured peaks, divided by the measured time; above 1 the working set lies between two cache levels, or the measurement or the ceiling is wrong",
        missing: "the record has no matching ceiling: none was measured for this device, or the run measured no ceilings",
        of: |m, sample, e| Some(roof(e, &m.work_done(), m.ran_on(), &m.device, m.caches)?.limit_s / m.seconds(sample)),
    },
];

fn positive(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}
