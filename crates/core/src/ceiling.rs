//! Ceilings: the limits of a machine, measured by calibration workloads, and the share of them that a measurement reaches.

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
    /// Bytes read by a sum.
    Read,
    /// Bytes written by a fill.
    Fill,
    /// f32 multiply-adds in registers.
    Fma,
    /// Cost of calling something that does nothing.
    Call,
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
    /// The limit: bytes/s, flop/s, or seconds for [`CeilingKind::Call`].
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

/// The limit that binds `work` on a machine with `ceilings`: the larger of its traffic at the copy bandwidth of its
/// footprint, and its operations at the multiply-add peak. `None` when nothing fitting was measured.
pub fn roof(ceilings: &[Ceiling], work: &Work, parallelism: Parallelism, device: &str) -> Option<Roof> {
    let mine = |ceiling: &&Ceiling| allowed(ceiling, parallelism, device);
    let compute = ceilings
        .iter()
        .filter(mine)
        .filter(|ceiling| ceiling.kind == CeilingKind::Fma && work.flops > 0.0)
        .max_by(|a, b| a.value.total_cmp(&b.value))
        .map(|ceiling| Roof { limit_s: work.flops / ceiling.value, memory_bound: false, ceiling: ceiling.clone() });
    let bytes = work.bytes_total();
    let memory = bandwidth(ceilings, bytes, parallelism, device).filter(|_| bytes > 0).map(|ceiling| Roof {
        limit_s: bytes as f64 / ceiling.value,
        memory_bound: true,
        ceiling,
    });
    match (compute, memory) {
        (Some(c), Some(m)) => Some(if c.limit_s > m.limit_s { c } else { m }),
        (c, m) => c.or(m),
    }
}

/// Several threads may do what one can do: at small footprints waking them costs more than they bring, and the limit of
/// the machine is what one thread reaches.
fn allowed(ceiling: &Ceiling, parallelism: Parallelism, device: &str) -> bool {
    ceiling.value > 0.0
        && ceiling.device == device
        && (parallelism == Parallelism::Many || ceiling.parallelism == Parallelism::Single)
}

/// The best copy bandwidth measured at the footprint nearest to `bytes` (on a logarithmic scale).
pub fn bandwidth(ceilings: &[Ceiling], bytes: u64, parallelism: Parallelism, device: &str) -> Option<Ceiling> {
    let distance = |footprint: u64| ((footprint.max(1) as f64).ln() - (bytes.max(1) as f64).ln()).abs();
    let copies = || ceilings.iter().filter(|c| c.kind == CeilingKind::Copy && allowed(c, parallelism, device));
    let nearest = copies().map(|c| c.footprint_bytes).min_by(|a, b| distance(*a).total_cmp(&distance(*b)))?;
    copies().filter(|c| c.footprint_bytes == nearest).max_by(|a, b| a.value.total_cmp(&b.value)).cloned()
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
    fn the_footprint_chooses_the_cache_level() {
        assert_eq!(bandwidth(&machine(), 8 << 10, Parallelism::Single, "cpu").unwrap().value, 200e9);
        assert_eq!(bandwidth(&machine(), 1 << 30, Parallelism::Single, "cpu").unwrap().value, 40e9);
    }

    #[test]
    fn a_device_is_held_against_its_own_ceilings() {
        let mut machine = machine();
        machine.push(Ceiling { device: "cuda:0".into(), ..ceiling(CeilingKind::Copy, 128 << 20, 4e12) });
        assert_eq!(bandwidth(&machine, 1 << 30, Parallelism::Many, "cpu").unwrap().value, 40e9);
        assert_eq!(bandwidth(&machine, 1 << 30, Parallelism::Single, "cuda:0").unwrap().value, 4e12);
        assert!(bandwidth(&machine, 1 << 30, Parallelism::Single, "cuda:1").is_none());
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
            bandwidth(&machine, 16 << 10, Parallelism::Many, "cpu").unwrap().value,
            200e9,
            "waking them cost more"
        );
        machine.push(all(380e9));
        assert_eq!(bandwidth(&machine, 16 << 10, Parallelism::Many, "cpu").unwrap().value, 380e9);
        assert_eq!(bandwidth(&machine, 16 << 10, Parallelism::Single, "cpu").unwrap().value, 200e9);
    }
}
