//! The time of the required memory traffic at the measured bandwidths.

use super::{Ceiling, CeilingKind, allowed, best};
use crate::device::Caches;
use crate::implementation::Parallelism;
use crate::record::Environment;
use crate::work::Work;

/// Memory traffic and the bandwidth that limits it.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Shortest possible time, in seconds.
    pub seconds: f64,
    /// The limiting bandwidth.
    pub ceiling: Ceiling,
}

/// The time of the required bytes at the [`bandwidth`] for their mix of reads and writes and for the cache level of the
/// working set. With cold caches every read comes from main memory, so that time applies if it is longer; writes need
/// not have reached main memory when the run ends.
pub fn traffic(
    machine: &Environment,
    ceilings: &[Ceiling],
    work: &Work,
    parallelism: Parallelism,
    caches: Caches,
) -> Option<Traffic> {
    longer(ceilings, work, caches, |ceilings, work| bandwidth(machine, ceilings, work, parallelism))
}

/// As [`traffic()`], at the largest measured footprint that does not exceed the bytes of `work`. Between two cache
/// levels part of the data is still in the faster one, so only a result above this bound is impossible.
pub fn fastest_traffic(ceilings: &[Ceiling], work: &Work, parallelism: Parallelism, caches: Caches) -> Option<Traffic> {
    longer(ceilings, work, caches, |ceilings, work| fastest_bandwidth(ceilings, work, parallelism))
}

fn longer(
    ceilings: &[Ceiling],
    work: &Work,
    caches: Caches,
    bandwidth: impl Fn(&[Ceiling], &Work) -> Option<Ceiling>,
) -> Option<Traffic> {
    let at = |ceilings: &[Ceiling], work: &Work| {
        let ceiling = bandwidth(ceilings, work)?;
        Some(Traffic { seconds: work.bytes_total() as f64 / ceiling.value, ceiling })
    };
    let settled = at(ceilings, work);
    if caches.is_warm() {
        return settled;
    }
    let read = at(&of_main_memory(ceilings), &Work { bytes_written: 0, ..work.clone() });
    [settled, read].into_iter().flatten().max_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

/// Ceilings at the largest footprint of their kind outside the processor's caches, and those without a footprint.
fn of_main_memory(ceilings: &[Ceiling]) -> Vec<Ceiling> {
    let alike = |a: &Ceiling, b: &Ceiling| (a.kind, a.parallelism) == (b.kind, b.parallelism) && a.device == b.device;
    let largest = |of: &Ceiling| ceilings.iter().filter(|c| alike(c, of)).map(|c| c.footprint_bytes).max();
    let cached = |ceiling: &Ceiling| ceiling.level.starts_with('L');
    let mine = |ceiling: &&Ceiling| Some(ceiling.footprint_bytes) == largest(ceiling) && !cached(ceiling);
    ceilings.iter().filter(mine).cloned().collect()
}

/// The time of a dependent load for a working set of `bytes`; with cold caches, the latency of main memory.
pub fn latency(machine: &Environment, ceilings: &[Ceiling], bytes: u64, caches: Caches) -> Option<Ceiling> {
    let bytes = if caches.is_warm() { bytes } else { u64::MAX };
    let loads = || ceilings.iter().filter(|c| c.kind == CeilingKind::Latency && c.value > 0.0);
    let nearest = nearest_footprint(machine, loads(), bytes)?;
    loads().filter(|c| c.footprint_bytes == nearest).min_by(|a, b| a.value.total_cmp(&b.value)).cloned()
}

/// The best bandwidth measured for the mix of reads and writes nearest to that of `work`, at the nearest footprint on a
/// logarithmic scale among those of the cache levels that hold the working set. The working set defaults to the required
/// bytes; extra traffic of an implementation is not counted. If only copies were measured, they apply to every mix.
pub fn bandwidth(
    machine: &Environment,
    ceilings: &[Ceiling],
    work: &Work,
    parallelism: Parallelism,
) -> Option<Ceiling> {
    near(ceilings, work, parallelism, |footprints, bytes| nearest_footprint(machine, footprints, bytes))
}

/// The bandwidth at the largest measured footprint that does not exceed the bytes of `work`; a result above it is
/// impossible.
fn fastest_bandwidth(ceilings: &[Ceiling], work: &Work, parallelism: Parallelism) -> Option<Ceiling> {
    let below = |footprints: Vec<&Ceiling>, bytes: u64| {
        let below = footprints.iter().map(|c| c.footprint_bytes).filter(|footprint| *footprint <= bytes).max();
        below.or_else(|| footprints.iter().map(|c| c.footprint_bytes).min())
    };
    near(ceilings, work, parallelism, |footprints, bytes| below(footprints.collect(), bytes))
}

/// The best ceiling of the kind nearest to `work`, at the footprint that `choose` picks for one and for all threads.
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

/// The footprint nearest to `bytes` among those of the levels that hold `bytes`; `None` if none was measured there.
fn nearest_footprint<'a>(
    machine: &Environment,
    ceilings: impl Iterator<Item = &'a Ceiling>,
    bytes: u64,
) -> Option<u64> {
    let distance = |footprint: u64| ((footprint.max(1) as f64).ln() - (bytes.max(1) as f64).ln()).abs();
    let holding = ceilings.filter(|c| machine.holds(c, bytes)).map(|c| c.footprint_bytes);
    holding.min_by(|a, b| distance(*a).total_cmp(&distance(*b)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ceiling, copied, machine};
    use super::*;
    use crate::record::Cache;

    #[test]
    fn reads_use_read_ceilings_and_mixtures_the_most_similar_stream() {
        let mut machine = machine();
        machine.push(ceiling(CeilingKind::Read, 128 << 20, 28e9));
        machine.push(ceiling(CeilingKind::Triad, 128 << 20, 41e9));
        let of = |read, written| {
            let work = Work::items("bytes", 1).bytes(read, written);
            bandwidth(&unknown(), &machine, &work, Parallelism::Single).unwrap().kind
        };
        assert_eq!(of(128 << 20, 8), CeilingKind::Read);
        assert_eq!(of(80 << 20, 40 << 20), CeilingKind::Triad);
        assert_eq!(of(64 << 20, 64 << 20), CeilingKind::Copy);
        assert_eq!(of(0, 64 << 20), CeilingKind::Copy, "no fill was measured");
    }

    #[test]
    fn between_two_levels_the_faster_one_is_the_bound() {
        let between = copied(4 << 20);
        assert_eq!(fastest_bandwidth(&machine(), &between, Parallelism::Single).unwrap().value, 200e9);
        assert_eq!(fastest_bandwidth(&machine(), &copied(256 << 20), Parallelism::Single).unwrap().value, 40e9);
        assert_eq!(fastest_bandwidth(&machine(), &copied(8), Parallelism::Single).unwrap().value, 200e9);
    }

    /// A machine whose caches are unknown.
    fn unknown() -> Environment {
        Environment::default()
    }

    #[test]
    fn no_level_is_a_bound_for_what_exceeds_it_by_more_than_a_quarter() {
        let cache = |level: &str, bytes, shared_by| Cache { level: level.into(), bytes, shared_by };
        let machine = Environment {
            cores: 8,
            caches: vec![cache("L1", 32 << 10, 2), cache("L2", 1 << 20, 2), cache("L3", 32 << 20, 8)],
            ..Environment::default()
        };
        let of = |kind, parallelism, copies: u64| {
            let at = |level: &str, footprint: u64| Ceiling {
                level: level.into(),
                parallelism,
                ..ceiling(kind, footprint * copies, 1e9)
            };
            [at("L1", 16 << 10), at("L2", 512 << 10), at("L3", 16 << 20), at("DRAM", 128 << 20)]
        };
        let mut ceilings: Vec<Ceiling> = of(CeilingKind::Copy, Parallelism::Single, 1).into();
        ceilings.extend(of(CeilingKind::Latency, Parallelism::Single, 1));
        let level = |machine, ceilings: &[Ceiling], bytes, threads| {
            bandwidth(machine, ceilings, &copied(bytes), threads).unwrap().level
        };
        let one = |machine, bytes| level(machine, &ceilings, bytes, Parallelism::Single);
        // A few parameters next to an array that fills a level leave nearly all of the array in that level.
        let sizes = [32, 33, 40, 41, 64, 1024, 1025, 1280, 1281];
        let levels = ["L1", "L1", "L1", "L2", "L2", "L2", "L2", "L2", "L3"];
        assert_eq!(sizes.map(|kib| one(&machine, kib << 10)), levels);
        assert_eq!([32, 33, 40, 41].map(|mib| one(&machine, mib << 20)), ["L3", "L3", "L3", "DRAM"]);
        let cached: &[Ceiling] = &ceilings.iter().filter(|c| c.level != "DRAM").cloned().collect::<Vec<_>>();
        let beyond = bandwidth(&machine, cached, &copied(41 << 20), Parallelism::Single);
        assert_eq!(beyond, None, "a run on less data measured no level that holds this");
        assert!(of_main_memory(cached).is_empty() && !of_main_memory(&ceilings).is_empty());
        let load = |bytes| latency(&machine, &ceilings, bytes, Caches::Warm).unwrap().level;
        assert_eq!([load(32 << 10), load(64 << 10)], ["L1", "L2"]);
        // Unknown caches exclude nothing, and the CPU's caches say nothing about a device.
        let unknown = unknown();
        assert_eq!([64 << 10, 36 << 20].map(|bytes| one(&unknown, bytes)), ["L1", "L3"]);
        let mut on_device = ceilings.clone();
        on_device.iter_mut().for_each(|ceiling| ceiling.device = "cuda:0".into());
        assert_eq!(level(&machine, &on_device, 64 << 10, Parallelism::Single), "L1");
        // The private caches of all four cores together hold four times as much.
        let all: Vec<Ceiling> = of(CeilingKind::Copy, Parallelism::Many, 4).into();
        let many = |bytes| level(&machine, &all, bytes, Parallelism::Many);
        assert_eq!([128, 160, 161].map(|kib| many(kib << 10)), ["L1", "L1", "L2"]);
    }

    #[test]
    fn the_footprint_chooses_the_cache_level() {
        assert_eq!(bandwidth(&unknown(), &machine(), &copied(8 << 10), Parallelism::Single).unwrap().value, 200e9);
        assert_eq!(bandwidth(&unknown(), &machine(), &copied(1 << 30), Parallelism::Single).unwrap().value, 40e9);
    }

    #[test]
    fn several_threads_use_the_better_of_one_and_all() {
        let mut machine = machine();
        let all = |value| Ceiling { parallelism: Parallelism::Many, ..ceiling(CeilingKind::Copy, 16 << 10, value) };
        machine.push(all(1e9));
        assert_eq!(
            bandwidth(&unknown(), &machine, &copied(16 << 10), Parallelism::Many).unwrap().value,
            200e9,
            "waking them cost more"
        );
        machine.push(all(380e9));
        assert_eq!(bandwidth(&unknown(), &machine, &copied(16 << 10), Parallelism::Many).unwrap().value, 380e9);
        assert_eq!(bandwidth(&unknown(), &machine, &copied(16 << 10), Parallelism::Single).unwrap().value, 200e9);
    }

    #[test]
    fn cold_reads_come_from_main_memory_at_every_size() {
        let mut machine = machine();
        let latency_of =
            |footprint, ns: f64| Ceiling { value: ns * 1e-9, ..ceiling(CeilingKind::Latency, footprint, 1.0) };
        machine.extend([
            ceiling(CeilingKind::Read, 16 << 10, 400e9),
            ceiling(CeilingKind::Read, 128 << 20, 20e9),
            latency_of(16 << 10, 1.0),
            latency_of(128 << 20, 100.0),
        ]);
        let of = |work: &Work, caches| traffic(&unknown(), &machine, work, Parallelism::Single, caches).unwrap();
        // 8 KiB read, 8 KiB written.
        let small = copied(16 << 10);
        let (warm, cold) = (of(&small, Caches::Warm), of(&small, Caches::Cold));
        assert_eq!((warm.ceiling.value, warm.seconds), (200e9, 16384.0 / 200e9));
        assert_eq!((cold.ceiling.kind, cold.ceiling.footprint_bytes), (CeilingKind::Read, 128 << 20));
        assert_eq!(cold.seconds, 8192.0 / 20e9, "written bytes may stay in the cache");
        let fastest = fastest_traffic(&machine, &small, Parallelism::Single, Caches::Cold).unwrap();
        assert_eq!(fastest, cold, "no cache is faster than memory when it is empty");
        // An array that fits into no cache has the same limit, warm or cold.
        let large = copied(1 << 30);
        assert_eq!(of(&large, Caches::Warm).ceiling.value, 40e9);
        assert_eq!(of(&large, Caches::Cold).seconds, of(&large, Caches::Warm).seconds);
        // Nothing is read, so nothing can miss.
        let filled = Work::items("bytes", 1).bytes(0, 16 << 10);
        assert_eq!(of(&filled, Caches::Cold), of(&filled, Caches::Warm));
        let load = |caches| latency(&unknown(), &machine, 16 << 10, caches).unwrap().footprint_bytes;
        assert_eq!((load(Caches::Warm), load(Caches::Cold)), (16 << 10, 128 << 20));
    }
}
