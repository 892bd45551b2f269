//! Ceilings: limits of a machine, measured by calibration workloads, and the share of them that a measurement reaches.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::device::Caches;
use crate::implementation::Parallelism;
use crate::reading::Provenance;
use crate::record::Environment;
use crate::work::Work;

mod case;
mod launches;
mod traffic;

use launches::without_launches;

pub use case::{CeilingCase, Role};
pub use traffic::{Traffic, bandwidth, fastest_traffic, latency, traffic};

ellwand_profile::words! {
    /// The quantity whose limit a calibration case measures.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum CeilingKind {
        /// Bytes per second read and written by a copy of a given footprint.
        Copy = "copy",
        /// Bytes per second read (two thirds) and written (one third) by `a = b + s c`.
        Triad = "triad",
        /// Bytes per second read by a sum.
        Read = "read",
        /// Bytes per second written by a fill.
        Fill = "fill",
        /// f32 multiply-adds in registers, counted as two operations each.
        Fma = "f32 FMA",
        /// f64 multiply-adds in registers, counted as two operations each.
        FmaF64 = "f64 FMA",
        /// bf16 matrix products with f32 accumulation, on matrix units.
        ProductsBf16 = "bf16 products",
        /// Bytes per second from page-locked host memory to a device.
        ToDevice = "to device",
        /// Bytes per second from a device to page-locked host memory.
        FromDevice = "from device",
        /// Time of an empty call; on a device, of an empty launch.
        Call = "call",
        /// Time of one load in a pointer chase: each address is the result of the previous load.
        Latency = "latency",
        /// Time of the first touch of a normal page, including its share of mapping and unmapping.
        PageFault = "page fault",
        /// Time of the first touch of a huge page, including its share of mapping and unmapping.
        HugePageFault = "huge fault",
        /// Time until all pool threads are running, right after another job.
        Wake = "wake, hot",
        /// Time until all pool threads are running, after they have gone to sleep.
        ColdWake = "wake, cold",
        /// Bytes read and written above which a copy with non-temporal stores is faster.
        Streamed = "streamed",
    }
    /// Short name for tables.
    fn title;
}

impl CeilingKind {
    /// Unit of the limit. `B/s` and `FLOP/s` are rates (higher is better), `s` is the time of one operation, `B` a
    /// size.
    pub fn unit(self) -> &'static str {
        match self {
            CeilingKind::Copy | CeilingKind::Triad | CeilingKind::Read | CeilingKind::Fill => "B/s",
            CeilingKind::ToDevice | CeilingKind::FromDevice => "B/s",
            CeilingKind::Fma | CeilingKind::FmaF64 | CeilingKind::ProductsBf16 => "FLOP/s",
            CeilingKind::Call
            | CeilingKind::Latency
            | CeilingKind::PageFault
            | CeilingKind::HugePageFault
            | CeilingKind::Wake
            | CeilingKind::ColdWake => "s",
            CeilingKind::Streamed => "B",
        }
    }

    /// True for a limit of the link between host and device, which the host alone does not have.
    pub fn is_link(self) -> bool {
        matches!(self, CeilingKind::ToDevice | CeilingKind::FromDevice)
    }

    /// Share of written bytes in the traffic; `None` for kinds that are not a bandwidth.
    fn written_share(self) -> Option<f64> {
        match self {
            CeilingKind::Read => Some(0.0),
            CeilingKind::Triad => Some(1.0 / 3.0),
            CeilingKind::Copy => Some(0.5),
            CeilingKind::Fill => Some(1.0),
            _ => None,
        }
    }
}

/// One measured limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The quantity measured.
    pub kind: CeilingKind,
    /// The implementation that reached the limit (`non-temporal`).
    pub implementation: String,
    /// Id of the device that has the limit.
    #[serde(default = "processor")]
    pub device: String,
    /// Whether one thread or all measured it.
    pub parallelism: Parallelism,
    /// Bytes that the measurement touches; 0 if memory is not involved.
    pub footprint_bytes: u64,
    /// Where those bytes are stored (`L1`, `L2`, `L3`, `DRAM`); empty if memory is not involved.
    pub level: String,
    /// The limit, in the kind's [unit](CeilingKind::unit).
    pub value: f64,
    /// Lower end of the 95 % interval of the limit.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// Whether the value is measured or derived.
    pub provenance: Provenance,
}

/// Device of ceilings in records older than the field.
fn processor() -> String {
    "cpu".into()
}

/// The ceilings of one device, since a measurement is compared only with the limits of its own device. On devices with
/// launches, the bandwidths exclude the time of the launch.
pub fn of_device<'a>(ceilings: &'a [Ceiling], device: &str) -> Cow<'a, [Ceiling]> {
    let mine = if ceilings.iter().all(|ceiling| ceiling.device == device) {
        Cow::Borrowed(ceilings)
    } else {
        Cow::Owned(ceilings.iter().filter(|ceiling| ceiling.device == device).cloned().collect())
    };
    if device == processor() { mine } else { Cow::Owned(without_launches(&mine)) }
}

/// The position of a measurement below the roofline (Williams, Waterman, Patterson 2009), with measured peaks.
#[derive(Debug, Clone, PartialEq)]
pub struct Roof {
    /// Shortest time of the required work at the measured peaks, in seconds.
    pub limit_s: f64,
    /// True if memory traffic limits the time, false if operations do.
    pub memory_bound: bool,
    /// The limiting peak; a device's bandwidth excludes the launch.
    pub ceiling: Ceiling,
}

/// The limit of `work` on a machine: the longer of the times of its [`traffic()`] and of its operations
/// at the multiply-add peak of their type. Uses only ceilings of `device`, in the cache state `caches`; `None` if no
/// matching ceiling was measured.
pub fn roof(
    machine: &Environment,
    work: &Work,
    parallelism: Parallelism,
    device: &str,
    caches: Caches,
) -> Option<Roof> {
    let ceilings = &of_device(&machine.ceilings, device);
    let compute = operations(ceilings, work, parallelism).filter(|_| work.flops > 0.0).map(|ceiling| Roof {
        limit_s: work.flops / ceiling.value,
        memory_bound: false,
        ceiling,
    });
    let memory = traffic(machine, ceilings, work, parallelism, caches).map(|traffic| Roof {
        limit_s: traffic.seconds,
        memory_bound: true,
        ceiling: traffic.ceiling,
    });
    match (compute, memory) {
        (Some(c), Some(m)) => Some(if c.limit_s > m.limit_s { c } else { m }),
        (c, m) => c.or(m),
    }
}

/// The peak for the operations of `work`: f64 multiply-adds, bf16 matrix units, or f32 multiply-adds. Without measured
/// bf16 units the CPU converts to f32, so its f32 peak applies; a device may have unmeasured units, so it gets `None`.
pub fn operations(ceilings: &[Ceiling], work: &Work, parallelism: Parallelism) -> Option<Ceiling> {
    let of = |kind| best(ceilings.iter().filter(|c| c.kind == kind && allowed(c, parallelism)));
    match (work.double, work.bf16) {
        (true, _) => of(CeilingKind::FmaF64),
        (_, true) => of(CeilingKind::ProductsBf16).or_else(|| of(CeilingKind::Fma).filter(|c| c.device == processor())),
        _ => of(CeilingKind::Fma),
    }
}

/// The smallest measured cost of a kind without a footprint (a call, a page fault, a wake-up).
pub fn cost(ceilings: &[Ceiling], kind: CeilingKind) -> Option<Ceiling> {
    ceilings.iter().filter(|c| c.kind == kind && c.value > 0.0).min_by(|a, b| a.value.total_cmp(&b.value)).cloned()
}

/// Single-thread ceilings also apply to several threads: at small footprints waking the threads costs more than they
/// gain.
fn allowed(ceiling: &Ceiling, parallelism: Parallelism) -> bool {
    ceiling.value > 0.0 && (parallelism == Parallelism::Many || ceiling.parallelism == Parallelism::Single)
}

fn best<'a>(ceilings: impl Iterator<Item = &'a Ceiling>) -> Option<Ceiling> {
    ceilings.max_by(|a, b| a.value.total_cmp(&b.value)).cloned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(super) fn ceiling(kind: CeilingKind, footprint_bytes: u64, value: f64) -> Ceiling {
        Ceiling {
            kind,
            implementation: "simd".into(),
            device: "cpu".into(),
            parallelism: Parallelism::Single,
            footprint_bytes,
            level: String::new(),
            value,
            low: value,
            high: value,
            provenance: Provenance::Measured,
        }
    }

    pub(super) fn machine() -> Vec<Ceiling> {
        vec![
            ceiling(CeilingKind::Copy, 16 << 10, 200e9),
            ceiling(CeilingKind::Copy, 128 << 20, 30e9),
            ceiling(CeilingKind::Copy, 128 << 20, 40e9),
            ceiling(CeilingKind::Fma, 0, 100e9),
        ]
    }

    pub(super) fn copied(bytes: u64) -> Work {
        Work::items("bytes", bytes).bytes(bytes / 2, bytes / 2)
    }

    fn with(ceilings: &[Ceiling]) -> Environment {
        Environment { ceilings: ceilings.to_vec(), ..Environment::default() }
    }

    #[test]
    fn the_slower_peak_binds() {
        let stream = Work::items("elements", 1).flops(1e6).bytes(64 << 20, 64 << 20);
        let roof_of_stream = roof(&with(&machine()), &stream, Parallelism::Single, "cpu", Caches::Warm).unwrap();
        assert!(roof_of_stream.memory_bound);
        assert_eq!(roof_of_stream.ceiling.value, 40e9);
        let dense = Work::items("elements", 1).flops(1e12).bytes(1 << 20, 1 << 20);
        let roof_of_dense = roof(&with(&machine()), &dense, Parallelism::Single, "cpu", Caches::Warm).unwrap();
        assert!(!roof_of_dense.memory_bound);
        assert_eq!(roof_of_dense.limit_s, 10.0);
    }

    #[test]
    fn f64_operations_use_the_f64_peak() {
        let dense = Work::items("elements", 1).flops(1e12);
        let mut machine = machine();
        let of = |machine: &[Ceiling], work: &Work| {
            Some(roof(&with(machine), work, Parallelism::Single, "cpu", Caches::Warm)?.limit_s)
        };
        assert_eq!(of(&machine, &dense.clone().double(true)), None, "no f64 peak was measured");
        machine.push(ceiling(CeilingKind::FmaF64, 0, 50e9));
        assert_eq!(of(&machine, &dense.clone().double(true)), Some(20.0));
        assert_eq!(of(&machine, &dense), Some(10.0));
    }

    #[test]
    fn bf16_products_use_the_matrix_units_if_measured() {
        let dense = Work::items("elements", 1).flops(1e12).bf16(true);
        let mut machine = machine();
        let kind = |machine: &[Ceiling], work: &Work| {
            roof(&with(machine), work, Parallelism::Single, "cpu", Caches::Warm)
                .map(|roof| (roof.ceiling.kind, roof.limit_s))
        };
        assert_eq!(kind(&machine, &dense), Some((CeilingKind::Fma, 10.0)));
        machine.push(ceiling(CeilingKind::ProductsBf16, 0, 1000e9));
        assert_eq!(kind(&machine, &dense), Some((CeilingKind::ProductsBf16, 1.0)));
        assert_eq!(kind(&machine, &dense.clone().bf16(false)), Some((CeilingKind::Fma, 10.0)));
        let on_card = |kind, value| Ceiling { device: "cuda:0".into(), ..ceiling(kind, 0, value) };
        let mut device = vec![on_card(CeilingKind::Fma, 1e13)];
        let of_card = |ceilings: &[Ceiling]| {
            roof(&with(ceilings), &dense, Parallelism::Single, "cuda:0", Caches::Warm).map(|r| r.limit_s)
        };
        assert_eq!(of_card(&device), None, "not measured");
        // The faster of two bf16 implementations is the ceiling.
        device.extend([5e14, 8e14].map(|rate| on_card(CeilingKind::ProductsBf16, rate)));
        assert_eq!(of_card(&device), Some(1e12 / 8e14));
    }

    #[test]
    fn a_device_uses_its_own_ceilings() {
        let mut machine = machine();
        machine.push(Ceiling { device: "cuda:0".into(), ..ceiling(CeilingKind::Copy, 128 << 20, 4e12) });
        let peak = |device: &str| {
            Some(roof(&with(&machine), &copied(1 << 30), Parallelism::Many, device, Caches::Warm)?.ceiling.value)
        };
        assert_eq!(peak("cpu"), Some(40e9));
        assert_eq!(peak("cuda:0"), Some(4e12));
        assert_eq!(peak("cuda:1"), None);
    }

    #[test]
    fn nothing_measured_means_no_roof() {
        let work = Work::items("calls", 1);
        assert!(roof(&with(&machine()), &work, Parallelism::Single, "cpu", Caches::Warm).is_none());
        assert!(roof(&with(&[]), &work.bytes(1, 1), Parallelism::Single, "cpu", Caches::Warm).is_none());
    }
}
