//! Ceilings: the limits of a machine, measured by calibration workloads, and the share of them that a measurement reaches.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::device::Caches;
use crate::implementation::Parallelism;
use crate::reading::Provenance;
use crate::work::Work;

mod case;
mod launches;
mod traffic;

use launches::without_launches;

pub use case::{CeilingCase, Role};
pub use traffic::{Traffic, bandwidth, fastest_traffic, latency, traffic};

/// What a calibration case measures the limit of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CeilingKind {
    /// Bytes read and written by a copy of a given footprint.
    Copy,
    /// Bytes read (two thirds) and written (one third) by `a = b + s c`.
    Triad,
    /// Bytes read by a sum.
    Read,
    /// Bytes written by a fill.
    Fill,
    /// f32 multiply-adds in registers.
    Fma,
    /// f64 multiply-adds in registers.
    FmaF64,
    /// Multiply-adds in products of bf16 matrices with sums in f32, by units made for them.
    ProductsBf16,
    /// Bytes from the host's page-locked memory to a device.
    ToDevice,
    /// Bytes from a device to the host's page-locked memory.
    FromDevice,
    /// Cost of calling something that does nothing; on a device, of launching it.
    Call,
    /// Time of one load whose address is the result of the load before.
    Latency,
    /// Cost of the first touch of a page of the usual size, with its share of mapping and unmapping.
    PageFault,
    /// The same for a huge page.
    HugePageFault,
    /// Time until all threads of the pool are at work, right after another job.
    Wake,
    /// The same after the threads have gone to sleep.
    ColdWake,
    /// Bytes, read and written, from which on a copy with non-temporal stores is the faster one.
    Streamed,
}

impl CeilingKind {
    /// Every kind.
    pub const ALL: [CeilingKind; 16] = [
        CeilingKind::Copy,
        CeilingKind::Triad,
        CeilingKind::Read,
        CeilingKind::Fill,
        CeilingKind::Fma,
        CeilingKind::FmaF64,
        CeilingKind::ProductsBf16,
        CeilingKind::ToDevice,
        CeilingKind::FromDevice,
        CeilingKind::Call,
        CeilingKind::Latency,
        CeilingKind::PageFault,
        CeilingKind::HugePageFault,
        CeilingKind::Wake,
        CeilingKind::ColdWake,
        CeilingKind::Streamed,
    ];

    /// Unit of the limit: `B/s` and `FLOP/s` are rates, of which more is better; `s` is a cost a piece; `B` a size.
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

    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            CeilingKind::Copy => "copy",
            CeilingKind::Triad => "triad",
            CeilingKind::Read => "read",
            CeilingKind::Fill => "fill",
            CeilingKind::Fma => "f32 FMA",
            CeilingKind::FmaF64 => "f64 FMA",
            CeilingKind::ProductsBf16 => "bf16 products",
            CeilingKind::ToDevice => "to device",
            CeilingKind::FromDevice => "from device",
            CeilingKind::Call => "call",
            CeilingKind::Latency => "latency",
            CeilingKind::PageFault => "page fault",
            CeilingKind::HugePageFault => "huge fault",
            CeilingKind::Wake => "wake, hot",
            CeilingKind::ColdWake => "wake, cold",
            CeilingKind::Streamed => "streamed",
        }
    }

    /// Whether it is a limit of the link between the host and a device, which the host alone does not have.
    pub fn is_link(self) -> bool {
        matches!(self, CeilingKind::ToDevice | CeilingKind::FromDevice)
    }

    /// The share of written bytes in the traffic, for the kinds that measure a bandwidth.
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
    /// What was measured.
    pub kind: CeilingKind,
    /// The implementation that reached it (`non-temporal`).
    pub implementation: String,
    /// Id of the device that has the limit.
    #[serde(default = "processor")]
    pub device: String,
    /// Threads used.
    pub parallelism: Parallelism,
    /// Bytes that the measurement touches; 0 where memory plays no part.
    pub footprint_bytes: u64,
    /// Where those bytes live (`L1`, `L2`, `L3`, `DRAM`); empty where memory plays no part.
    pub level: String,
    /// The limit, in the kind's [unit](CeilingKind::unit).
    pub value: f64,
    /// Lower end of the interval of the limit.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Origin of the value.
    pub provenance: Provenance,
}

/// The device of ceilings from before there were others.
fn processor() -> String {
    "cpu".into()
}

/// The ceilings of one device: nothing is held against the limits of another. Bandwidths of a device that has launches are
/// those without the launch in which they were measured.
pub fn of_device<'a>(ceilings: &'a [Ceiling], device: &str) -> Cow<'a, [Ceiling]> {
    let mine = if ceilings.iter().all(|ceiling| ceiling.device == device) {
        Cow::Borrowed(ceilings)
    } else {
        Cow::Owned(ceilings.iter().filter(|ceiling| ceiling.device == device).cloned().collect())
    };
    if device == processor() { mine } else { Cow::Owned(without_launches(&mine)) }
}

/// Where a measurement stands below the roof (Williams, Waterman, Patterson 2009, with measured peaks).
#[derive(Debug, Clone, PartialEq)]
pub struct Roof {
    /// Shortest time the required work could take at the measured peaks, in seconds.
    pub limit_s: f64,
    /// Whether bytes (true) or operations bind.
    pub memory_bound: bool,
    /// The peak that binds, as measured; of a device's bandwidth without the launch in it.
    pub ceiling: Ceiling,
}

/// The limit that binds `work` on a machine with `ceilings`: the larger of its [`traffic()`], and its operations at the
/// multiply-add peak of their type (f32, or f64 where they must be); all of them of the `device` that it ran on, with what
/// its `caches` held. `None` when nothing fitting was measured.
pub fn roof(ceilings: &[Ceiling], work: &Work, parallelism: Parallelism, device: &str, caches: Caches) -> Option<Roof> {
    let ceilings = &of_device(ceilings, device);
    let compute = operations(ceilings, work, parallelism).filter(|_| work.flops > 0.0).map(|ceiling| Roof {
        limit_s: work.flops / ceiling.value,
        memory_bound: false,
        ceiling,
    });
    let memory = traffic(ceilings, work, parallelism, caches).map(|traffic| Roof {
        limit_s: traffic.seconds,
        memory_bound: true,
        ceiling: traffic.ceiling,
    });
    match (compute, memory) {
        (Some(c), Some(m)) => Some(if c.limit_s > m.limit_s { c } else { m }),
        (c, m) => c.or(m),
    }
}

/// The multiply-add peak of the type in which the operations of `work` must be done. Products of bf16 are held against the
/// peak of units made for them where that was measured. Where it was not, a processor widens them to f32 and is held against
/// that; of a device nobody knows how much faster its own units are.
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

/// Several threads may do what one can do: at small footprints waking them costs more than they bring, and the limit of
/// the machine is what one thread reaches.
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

    #[test]
    fn every_kind_is_written_by_name_and_has_a_unit() {
        for kind in CeilingKind::ALL {
            let text = serde_json::to_string(&kind).unwrap();
            assert_eq!(serde_json::from_str::<CeilingKind>(&text).unwrap(), kind);
            assert!(["B/s", "FLOP/s", "s", "B"].contains(&kind.unit()) && !kind.title().is_empty());
        }
    }

    #[test]
    fn the_slower_peak_binds() {
        let stream = Work::items("elements", 1).flops(1e6).bytes(64 << 20, 64 << 20);
        let roof_of_stream = roof(&machine(), &stream, Parallelism::Single, "cpu", Caches::Warm).unwrap();
        assert!(roof_of_stream.memory_bound);
        assert_eq!(roof_of_stream.ceiling.value, 40e9);
        let dense = Work::items("elements", 1).flops(1e12).bytes(1 << 20, 1 << 20);
        let roof_of_dense = roof(&machine(), &dense, Parallelism::Single, "cpu", Caches::Warm).unwrap();
        assert!(!roof_of_dense.memory_bound);
        assert_eq!(roof_of_dense.limit_s, 10.0);
    }

    #[test]
    fn operations_in_f64_are_held_against_their_own_peak() {
        let dense = Work::items("elements", 1).flops(1e12);
        let mut machine = machine();
        let of = |machine: &[Ceiling], work: &Work| {
            Some(roof(machine, work, Parallelism::Single, "cpu", Caches::Warm)?.limit_s)
        };
        assert_eq!(of(&machine, &dense.clone().double(true)), None, "no f64 peak was measured");
        machine.push(ceiling(CeilingKind::FmaF64, 0, 50e9));
        assert_eq!(of(&machine, &dense.clone().double(true)), Some(20.0));
        assert_eq!(of(&machine, &dense), Some(10.0));
    }

    #[test]
    fn products_of_bf16_are_held_against_units_made_for_them_where_there_are_any() {
        let dense = Work::items("elements", 1).flops(1e12).bf16(true);
        let mut machine = machine();
        let kind = |machine: &[Ceiling], work: &Work| {
            roof(machine, work, Parallelism::Single, "cpu", Caches::Warm).map(|roof| (roof.ceiling.kind, roof.limit_s))
        };
        assert_eq!(kind(&machine, &dense), Some((CeilingKind::Fma, 10.0)));
        machine.push(ceiling(CeilingKind::ProductsBf16, 0, 1000e9));
        assert_eq!(kind(&machine, &dense), Some((CeilingKind::ProductsBf16, 1.0)));
        assert_eq!(kind(&machine, &dense.clone().bf16(false)), Some((CeilingKind::Fma, 10.0)));
        let on_card = |kind, value| Ceiling { device: "cuda:0".into(), ..ceiling(kind, 0, value) };
        let mut device = vec![on_card(CeilingKind::Fma, 1e13)];
        let of_card = |ceilings: &[Ceiling]| {
            roof(ceilings, &dense, Parallelism::Single, "cuda:0", Caches::Warm).map(|r| r.limit_s)
        };
        assert_eq!(of_card(&device), None, "not measured");
        // Of two ways of making them the faster one counts.
        device.extend([5e14, 8e14].map(|rate| on_card(CeilingKind::ProductsBf16, rate)));
        assert_eq!(of_card(&device), Some(1e12 / 8e14));
    }

    #[test]
    fn a_device_is_held_against_its_own_ceilings() {
        let mut machine = machine();
        machine.push(Ceiling { device: "cuda:0".into(), ..ceiling(CeilingKind::Copy, 128 << 20, 4e12) });
        let peak = |device: &str| {
            Some(roof(&machine, &copied(1 << 30), Parallelism::Many, device, Caches::Warm)?.ceiling.value)
        };
        assert_eq!(peak("cpu"), Some(40e9));
        assert_eq!(peak("cuda:0"), Some(4e12));
        assert_eq!(peak("cuda:1"), None);
    }

    #[test]
    fn nothing_measured_means_no_roof() {
        let work = Work::items("calls", 1);
        assert!(roof(&machine(), &work, Parallelism::Single, "cpu", Caches::Warm).is_none());
        assert!(roof(&[], &work.bytes(1, 1), Parallelism::Single, "cpu", Caches::Warm).is_none());
    }
}
