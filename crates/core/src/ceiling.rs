//! Ceilings: the limits of a machine, measured by calibration workloads, and the share of them that a measurement reaches.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::implementation::Parallelism;
use crate::reading::Provenance;
use crate::work::Work;

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
    /// Cost of calling something that does nothing.
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
    pub const ALL: [CeilingKind; 13] = [
        CeilingKind::Copy,
        CeilingKind::Triad,
        CeilingKind::Read,
        CeilingKind::Fill,
        CeilingKind::Fma,
        CeilingKind::FmaF64,
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
            CeilingKind::Fma | CeilingKind::FmaF64 => "FLOP/s",
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
            CeilingKind::Call => "call",
            CeilingKind::Latency => "latency",
            CeilingKind::PageFault => "page fault",
            CeilingKind::HugePageFault => "huge fault",
            CeilingKind::Wake => "wake, hot",
            CeilingKind::ColdWake => "wake, cold",
            CeilingKind::Streamed => "streamed",
        }
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

/// The ceilings of one device: nothing is held against the limits of another.
pub fn of_device<'a>(ceilings: &'a [Ceiling], device: &str) -> Cow<'a, [Ceiling]> {
    if ceilings.iter().all(|ceiling| ceiling.device == device) {
        return Cow::Borrowed(ceilings);
    }
    Cow::Owned(ceilings.iter().filter(|ceiling| ceiling.device == device).cloned().collect())
}

/// Where a measurement stands below the roof (Williams, Waterman, Patterson 2009, with measured peaks).
#[derive(Debug, Clone, PartialEq)]
pub struct Roof {
    /// Shortest time the required work could take at the measured peaks, in seconds.
    pub limit_s: f64,
    /// Whether bytes (true) or operations bind.
    pub memory_bound: bool,
    /// The peak that binds, as measured.
    pub ceiling: Ceiling,
}

/// The limit that binds `work` on a machine with `ceilings`: the larger of its traffic at the bandwidth of its mix of
/// reads and writes and its footprint, and its operations at the multiply-add peak of their type (f32, or f64 where they
/// must be); all of them of the `device` that it ran on. `None` when nothing fitting was measured.
pub fn roof(ceilings: &[Ceiling], work: &Work, parallelism: Parallelism, device: &str) -> Option<Roof> {
    let ceilings = &of_device(ceilings, device);
    let compute = operations(ceilings, work, parallelism).filter(|_| work.flops > 0.0).map(|ceiling| Roof {
        limit_s: work.flops / ceiling.value,
        memory_bound: false,
        ceiling,
    });
    let memory = bandwidth(ceilings, work, parallelism).map(|ceiling| Roof {
        limit_s: work.bytes_total() as f64 / ceiling.value,
        memory_bound: true,
        ceiling,
    });
    match (compute, memory) {
        (Some(c), Some(m)) => Some(if c.limit_s > m.limit_s { c } else { m }),
        (c, m) => c.or(m),
    }
}

/// The multiply-add peak of the type in which the operations of `work` must be done.
pub fn operations(ceilings: &[Ceiling], work: &Work, parallelism: Parallelism) -> Option<Ceiling> {
    let kind = if work.double { CeilingKind::FmaF64 } else { CeilingKind::Fma };
    best(ceilings.iter().filter(|c| c.kind == kind && allowed(c, parallelism)))
}

/// The smallest measured cost of a kind without a footprint (a call, a page fault, a wake-up).
pub fn cost(ceilings: &[Ceiling], kind: CeilingKind) -> Option<Ceiling> {
    ceilings.iter().filter(|c| c.kind == kind && c.value > 0.0).min_by(|a, b| a.value.total_cmp(&b.value)).cloned()
}

/// The time of a dependent load where a working set of `bytes` lives.
pub fn latency(ceilings: &[Ceiling], bytes: u64) -> Option<Ceiling> {
    let loads = || ceilings.iter().filter(|c| c.kind == CeilingKind::Latency && c.value > 0.0);
    let nearest = nearest_footprint(loads(), bytes)?;
    loads().filter(|c| c.footprint_bytes == nearest).min_by(|a, b| a.value.total_cmp(&b.value)).cloned()
}

/// Several threads may do what one can do: at small footprints waking them costs more than they bring, and the limit of
/// the machine is what one thread reaches.
fn allowed(ceiling: &Ceiling, parallelism: Parallelism) -> bool {
    ceiling.value > 0.0 && (parallelism == Parallelism::Many || ceiling.parallelism == Parallelism::Single)
}

/// The best bandwidth measured for a mix of reads and writes like that of `work`, at the footprint nearest to its own
/// (on a logarithmic scale). Unless the work says otherwise the required bytes stand for the working set: what an
/// implementation touches beyond them is its own affair. A machine on which only copies were measured answers with these.
pub fn bandwidth(ceilings: &[Ceiling], work: &Work, parallelism: Parallelism) -> Option<Ceiling> {
    near(ceilings, work, parallelism, |footprints, bytes| nearest_footprint(footprints, bytes))
}

/// The bandwidth at the largest measured footprint that is no larger than the bytes of `work`: between two levels part of
/// the data still lies in the faster one, so only a result above this one cannot be.
pub fn fastest_bandwidth(ceilings: &[Ceiling], work: &Work, parallelism: Parallelism) -> Option<Ceiling> {
    let below = |footprints: Vec<&Ceiling>, bytes: u64| {
        let below = footprints.iter().map(|c| c.footprint_bytes).filter(|footprint| *footprint <= bytes).max();
        below.or_else(|| footprints.iter().map(|c| c.footprint_bytes).min())
    };
    near(ceilings, work, parallelism, |footprints, bytes| below(footprints.collect(), bytes))
}

/// The ceiling of the kind most like `work`, at the footprint that `choose` picks for one thread and for all threads.
fn near(
    ceilings: &[Ceiling],
    work: &Work,
    parallelism: Parallelism,
    choose: impl Fn(&mut dyn Iterator<Item = &Ceiling>, u64) -> Option<u64>,
) -> Option<Ceiling> {
    let (bytes, footprint_of_work) = (work.bytes_total(), work.footprint());
    if bytes == 0 {
        return None;
    }
    let written = work.bytes_written as f64 / bytes as f64;
    let candidates = || ceilings.iter().filter(|c| allowed(c, parallelism));
    let distance = |c: &&Ceiling| c.kind.written_share().map(|share| (share - written).abs());
    let kind = candidates()
        .filter_map(|c| Some((c.kind, distance(&c)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(kind, _)| kind)?;
    let of = |threads: Parallelism| {
        let mine = || candidates().filter(move |c| c.kind == kind && c.parallelism == threads);
        let footprint = choose(&mut mine(), footprint_of_work)?;
        best(mine().filter(|c| c.footprint_bytes == footprint))
    };
    [of(Parallelism::Single), of(Parallelism::Many)].into_iter().flatten().max_by(|a, b| a.value.total_cmp(&b.value))
}

fn best<'a>(ceilings: impl Iterator<Item = &'a Ceiling>) -> Option<Ceiling> {
    ceilings.max_by(|a, b| a.value.total_cmp(&b.value)).cloned()
}

fn nearest_footprint<'a>(ceilings: impl Iterator<Item = &'a Ceiling>, bytes: u64) -> Option<u64> {
    let distance = |footprint: u64| ((footprint.max(1) as f64).ln() - (bytes.max(1) as f64).ln()).abs();
    ceilings.map(|c| c.footprint_bytes).min_by(|a, b| distance(*a).total_cmp(&distance(*b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(kind: CeilingKind, footprint_bytes: u64, value: f64) -> Ceiling {
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

    fn machine() -> Vec<Ceiling> {
        vec![
            ceiling(CeilingKind::Copy, 16 << 10, 200e9),
            ceiling(CeilingKind::Copy, 128 << 20, 30e9),
            ceiling(CeilingKind::Copy, 128 << 20, 40e9),
            ceiling(CeilingKind::Fma, 0, 100e9),
        ]
    }

    fn copied(bytes: u64) -> Work {
        Work::items("bytes", bytes).bytes(bytes / 2, bytes / 2)
    }

    #[test]
    fn reads_are_held_against_reads_and_mixtures_against_the_most_similar_stream() {
        let mut machine = machine();
        machine.push(ceiling(CeilingKind::Read, 128 << 20, 28e9));
        machine.push(ceiling(CeilingKind::Triad, 128 << 20, 41e9));
        let of = |read, written| {
            let work = Work::items("bytes", 1).bytes(read, written);
            bandwidth(&machine, &work, Parallelism::Single).unwrap().kind
        };
        assert_eq!(of(128 << 20, 8), CeilingKind::Read);
        assert_eq!(of(80 << 20, 40 << 20), CeilingKind::Triad);
        assert_eq!(of(64 << 20, 64 << 20), CeilingKind::Copy);
        assert_eq!(of(0, 64 << 20), CeilingKind::Copy, "no fill was measured");
    }

    #[test]
    fn between_two_levels_only_what_beats_the_faster_one_cannot_be() {
        let between = copied(4 << 20);
        assert_eq!(fastest_bandwidth(&machine(), &between, Parallelism::Single).unwrap().value, 200e9);
        assert_eq!(fastest_bandwidth(&machine(), &copied(256 << 20), Parallelism::Single).unwrap().value, 40e9);
        assert_eq!(fastest_bandwidth(&machine(), &copied(8), Parallelism::Single).unwrap().value, 200e9);
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
        let roof_of_stream = roof(&machine(), &stream, Parallelism::Single, "cpu").unwrap();
        assert!(roof_of_stream.memory_bound);
        assert_eq!(roof_of_stream.ceiling.value, 40e9);
        let dense = Work::items("elements", 1).flops(1e12).bytes(1 << 20, 1 << 20);
        let roof_of_dense = roof(&machine(), &dense, Parallelism::Single, "cpu").unwrap();
        assert!(!roof_of_dense.memory_bound);
        assert_eq!(roof_of_dense.limit_s, 10.0);
    }

    #[test]
    fn operations_in_f64_are_held_against_their_own_peak() {
        let dense = Work::items("elements", 1).flops(1e12);
        let mut machine = machine();
        let of = |machine: &[Ceiling], work: &Work| Some(roof(machine, work, Parallelism::Single, "cpu")?.limit_s);
        assert_eq!(of(&machine, &dense.clone().double(true)), None, "no f64 peak was measured");
        machine.push(ceiling(CeilingKind::FmaF64, 0, 50e9));
        assert_eq!(of(&machine, &dense.clone().double(true)), Some(20.0));
        assert_eq!(of(&machine, &dense), Some(10.0));
    }

    #[test]
    fn the_footprint_chooses_the_cache_level() {
        assert_eq!(bandwidth(&machine(), &copied(8 << 10), Parallelism::Single).unwrap().value, 200e9);
        assert_eq!(bandwidth(&machine(), &copied(1 << 30), Parallelism::Single).unwrap().value, 40e9);
    }

    #[test]
    fn a_device_is_held_against_its_own_ceilings() {
        let mut machine = machine();
        machine.push(Ceiling { device: "cuda:0".into(), ..ceiling(CeilingKind::Copy, 128 << 20, 4e12) });
        let peak = |device: &str| Some(roof(&machine, &copied(1 << 30), Parallelism::Many, device)?.ceiling.value);
        assert_eq!(peak("cpu"), Some(40e9));
        assert_eq!(peak("cuda:0"), Some(4e12));
        assert_eq!(peak("cuda:1"), None);
    }

    #[test]
    fn nothing_measured_means_no_roof() {
        let work = Work::items("calls", 1);
        assert!(roof(&machine(), &work, Parallelism::Single, "cpu").is_none());
        assert!(roof(&[], &work.bytes(1, 1), Parallelism::Single, "cpu").is_none());
    }

    #[test]
    fn several_threads_are_held_against_the_better_of_one_and_all() {
        let mut machine = machine();
        let all = |value| Ceiling { parallelism: Parallelism::Many, ..ceiling(CeilingKind::Copy, 16 << 10, value) };
        machine.push(all(1e9));
        assert_eq!(
            bandwidth(&machine, &copied(16 << 10), Parallelism::Many).unwrap().value,
            200e9,
            "waking them cost more"
        );
        machine.push(all(380e9));
        assert_eq!(bandwidth(&machine, &copied(16 << 10), Parallelism::Many).unwrap().value, 380e9);
        assert_eq!(bandwidth(&machine, &copied(16 << 10), Parallelism::Single).unwrap().value, 200e9);
    }
}
