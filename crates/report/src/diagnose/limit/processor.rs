//! Finds the limit of a measurement on the CPU.

use ellwand_core::ceiling::{cost, fastest_traffic, latency, operations, traffic};
use ellwand_core::stats::{median, quantile};
use ellwand_core::{Ceiling, CeilingKind, Environment, Measurement, Parallelism, Reading, Sample};

use super::{ABOVE, BINDS, CALLS, Diagnosis, LINE, Limit, REFUTED, binds, changes, rest};

/// Size of a huge page in bytes.
const HUGE_PAGE: f64 = (2 << 20) as f64;
/// Memory that an implementation may request from the system per run, as a multiple of what the work needs: allows for
/// intermediate results and partly used pages.
const TIMES_OVER: f64 = 4.0;
/// A multithreaded call that takes at most this many times the best wake-up cost is bound by waking threads. The cost
/// varies by a factor of 7 between processors that share a cache and those that do not, and on a virtual machine the
/// host chooses which.
const WAKES: f64 = 7.0;
/// Loads in flight that identify a chain of dependent loads, given the uncertainty of level latencies and alignment:
/// next to programs that use the same memory, a load takes up to twice as long.
const CHAIN: std::ops::RangeInclusive<f64> = BINDS..=1.7;
/// Waits per iteration above which waiting is regular.
const WAITS: f64 = 1.0;
/// Waits per iteration that show more than the pool's own behaviour: on a busy machine, the caller may sleep once while
/// the others finish.
const WAITS_OF_THREADS: f64 = 3.0;

/// Compares a measurement with the ceilings of its machine. `None` without times.
pub(super) fn place(m: &Measurement, environment: &Environment, ceilings: &[Ceiling]) -> Option<Diagnosis> {
    let time_s = undisturbed(m)?;
    let threads = m.ran_on();
    let of = |kind: CeilingKind| cost(ceilings, kind).map(|ceiling| ceiling.value);
    let work = &m.work_done();
    let bytes = work.bytes_total() as f64;
    let memory = traffic(environment, ceilings, work, threads, m.caches);
    let faults = typical_faults(m);
    // Faults are counted over whole slots, but the time may be that of their fastest parts.
    let part =
        slot_cpu_seconds(m).filter(|_| threads == Parallelism::Single).map_or(1.0, |whole| (time_s / whole).min(1.0));
    let fault = |kind: CeilingKind| of(kind).map(|each| each * part);

    let mut parts = vec![
        (Limit::Memory, memory.as_ref().map(|traffic| traffic.seconds)),
        (Limit::Compute, operations(ceilings, work, threads).map(|ceiling| work.flops / ceiling.value)),
        (Limit::PageFaults, faults.zip(fault(CeilingKind::PageFault)).map(|(faults, each)| faults * each)),
        (Limit::Overhead, of(CeilingKind::Call)),
    ];
    if threads == Parallelism::Many {
        // Pool threads fall asleep while the caches are flushed.
        let wake = if m.caches.is_warm() { CeilingKind::Wake } else { CeilingKind::ColdWake };
        parts.push((Limit::ThreadWake, of(wake)));
        // A waiting thread sleeps and is woken by the kernel: the cost of a cold wake-up beyond a hot one.
        let asleep = of(CeilingKind::ColdWake).zip(of(CeilingKind::Wake)).map(|(cold, hot)| (cold - hot).max(0.0));
        parts.push((Limit::Contended, asleep.and_then(|each| waited(m, each)).map(|share| share * time_s)));
    } else {
        // Only if the workload declares dependent loads: many ordinary loops also take about one latency per line.
        let waits = latency(environment, ceilings, work.footprint(), m.caches).filter(|_| work.dependent);
        parts.push((Limit::Latency, waits.map(|ceiling| bytes / LINE * ceiling.value)));
    }

    let fastest = fastest_traffic(ceilings, work, threads, m.caches).map(|traffic| traffic.seconds);
    let level = memory.map(|traffic| traffic.ceiling.level).filter(|level| !level.is_empty());
    let mut diagnosis = Diagnosis::open(time_s, level, &parts);
    let huge = fault(CeilingKind::HugePageFault).filter(|_| environment.huge_pages.as_deref() != Some("never"));
    let asleep = of(CeilingKind::ColdWake).and_then(|each| only_waits(m, each, time_s));
    let (limit, seconds) = match classify(&diagnosis, m, fastest, huge_faults(m, faults, huge, time_s), asleep) {
        Some(found) => found,
        None => remaining(&diagnosis, m, environment, ceilings),
    };
    diagnosis.per_cycle = rest::per_cycle(m);
    diagnosis.cold = !m.caches.is_warm();
    if let Some(part) = diagnosis.parts.iter_mut().find(|part| part.limit == limit && limit == Limit::PageFaults) {
        // Report the same number that identified this limit.
        part.seconds = seconds;
        diagnosis.parts.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    }
    diagnosis.limit = limit;
    diagnosis.share = seconds / time_s;
    // A cost that varies by half explains at most all of the time.
    if matches!(limit, Limit::PageFaults | Limit::ThreadWake | Limit::Contended) {
        diagnosis.share = diagnosis.share.min(1.0);
    }
    diagnosis.one_lane = limit == Limit::Instructions && rest::one_lane(&diagnosis, m, environment);
    diagnosis.changes = changes::changes(&diagnosis, m, environment, ceilings);
    Some(diagnosis)
}

/// The limit whose measured cost dominates, and the seconds it explains.
fn classify(
    d: &Diagnosis,
    m: &Measurement,
    fastest: Option<f64>,
    huge: Option<f64>,
    asleep: Option<f64>,
) -> Option<(Limit, f64)> {
    let seconds = |limit| d.seconds(limit);
    let share = |limit| d.seconds(limit) / d.time_s;
    let above = fastest.unwrap_or(0.0).max(seconds(Limit::Compute));
    if above > ABOVE * d.time_s {
        return Some((Limit::AboveCeiling, above));
    }
    // Waiting comes first: it makes code slow, whatever else the code does.
    let products = [Limit::Contended, Limit::PageFaults, Limit::Memory, Limit::Compute, Limit::ThreadWake];
    let refuted = |limit: &Limit| matches!(limit, Limit::PageFaults | Limit::ThreadWake) && share(*limit) > REFUTED;
    let possible = products.into_iter().filter(|limit| !refuted(limit));
    let largest = possible.max_by(|a, b| seconds(*a).total_cmp(&seconds(*b)));
    if let Some(limit) = largest.filter(|limit| share(*limit) >= binds(*limit, m)) {
        return Some((limit, seconds(limit)));
    }
    if m.below_resolution() || (share(Limit::Overhead) * CALLS >= 1.0 && m.ran_on() == Parallelism::Single) {
        return Some((Limit::Overhead, seconds(Limit::Overhead)));
    }
    // If traffic or arithmetic explains part of the time, a cost that explains less must not win. With cold caches the
    // threads are always asleep, and that wake-up cost was measured, so no tolerance is needed.
    let small = largest.is_none_or(|limit| share(limit) < BINDS) && m.caches.is_warm();
    if small && (1.0 / WAKES..=REFUTED).contains(&share(Limit::ThreadWake)) {
        return Some((Limit::ThreadWake, seconds(Limit::ThreadWake)));
    }
    if let Some(huge) = huge {
        return Some((Limit::PageFaults, huge));
    }
    if CHAIN.contains(&share(Limit::Latency)) && share(Limit::Compute) < 0.1 && m.work.flops == 0.0 {
        return Some((Limit::Latency, seconds(Limit::Latency)));
    }
    asleep.map(|asleep| (Limit::Contended, asleep))
}

/// The limit of a time that no measured cost dominates: the core, or the largest cost if it takes a fair part.
fn remaining(d: &Diagnosis, m: &Measurement, e: &Environment, ceilings: &[Ceiling]) -> (Limit, f64) {
    if let Some((limit, share)) = rest::limit(d, m, e, ceilings) {
        return (limit, share * d.time_s);
    }
    let largest = d.largest();
    let fair =
        largest.filter(|part| matches!(part.limit, Limit::Memory | Limit::Compute) && part.seconds >= BINDS * d.time_s);
    match fair {
        Some(part) => (part.limit, part.seconds),
        None => (Limit::Unexplained, largest.map_or(0.0, |part| part.seconds)),
    }
}

/// Time of huge-page faults, if they explain the measured time. The record does not hold the page size, so they are
/// considered last, and only if that many huge pages are no more memory than the work may need.
fn huge_faults(m: &Measurement, faults: Option<f64>, each: Option<f64>, time_s: f64) -> Option<f64> {
    let (faults, each) = (faults?, each?);
    if rest::in_user_mode(m) {
        return None;
    }
    let extra = m.reading(Reading::EXTRA_MEMORY).and_then(|reading| reading.value).unwrap_or(0.0);
    let most = TIMES_OVER * (m.work.footprint().max(m.work.bytes_total()) as f64 + extra);
    let seconds = faults * each;
    (faults * HUGE_PAGE <= most && (BINDS..=ABOVE).contains(&(seconds / time_s))).then_some(seconds)
}

/// Page faults per iteration: the mean over the middle half of the samples. It ignores the faults of the first few
/// samples, before the allocator has obtained its memory, but not those of every second one: an allocator may give its
/// memory back in one call of two, and the median would then be all of these faults or none.
pub(crate) fn typical_faults(m: &Measurement) -> Option<f64> {
    let each = |sample: &Sample| Some(sample.faults? as f64 / sample.iterations.max(1) as f64);
    let mut faults: Vec<f64> = m.samples.iter().filter_map(each).collect();
    faults.sort_by(f64::total_cmp);
    let quarter = faults.len() / 4;
    let middle = &faults[quarter..faults.len() - quarter];
    (!middle.is_empty()).then(|| middle.iter().sum::<f64>() / middle.len() as f64)
}

/// Seconds per iteration as on an otherwise idle machine, at most the printed time. For one thread, its CPU time, unless
/// the code itself waits. For several threads, the 10th percentile of the fastest parts of the slots.
fn undisturbed(m: &Measurement) -> Option<f64> {
    let wall: Vec<f64> =
        m.samples.iter().map(|sample| sample.fastest_seconds().unwrap_or(sample.wall_seconds())).collect();
    let cpu: Vec<f64> = m.samples.iter().filter_map(Sample::cpu_seconds).filter(|seconds| *seconds > 0.0).collect();
    let waits_by_itself = mean(m, |sample| sample.waits).is_some_and(|waits| waits >= WAITS);
    let time = if m.ran_on() == Parallelism::Single && cpu.len() == wall.len() && !waits_by_itself {
        median(&cpu)
    } else {
        quantile(&wall, 0.1)
    };
    let printed = median(&m.all_seconds()).unwrap_or(f64::INFINITY);
    time.map(|time| time.min(printed)).filter(|time| time.is_finite() && *time > 0.0)
}

/// CPU seconds per iteration of whole slots.
fn slot_cpu_seconds(m: &Measurement) -> Option<f64> {
    median(&m.samples.iter().filter_map(Sample::cpu_seconds).collect::<Vec<_>>()).filter(|seconds| *seconds > 0.0)
}

/// Share of the time that threads spend waiting for each other, at `each` seconds per wait: the 90th percentile over
/// samples, each relative to its own time. On a busy machine most waits last as long as other programs run, so only
/// samples in which the threads found free processors show how they affect each other.
fn waited(m: &Measurement, each: f64) -> Option<f64> {
    let share = |sample: &Sample| {
        let waits = sample.waits? as f64 / sample.iterations.max(1) as f64;
        Some(if waits >= WAITS_OF_THREADS { waits * each / sample.wall_seconds() } else { 0.0 })
    };
    let shares: Vec<f64> = m.samples.iter().filter_map(share).filter(|share| share.is_finite()).collect();
    quantile(&shares, 0.9)
}

/// Seconds in which no thread computes, if the threads sleep regularly and compute less between two waits than a
/// wake-up of `each` seconds costs. How long such a wait lasts depends on other programs, so no wake-up cost explains
/// it. Pool threads that merely lack a processor compute for longer between waits.
fn only_waits(m: &Measurement, each: f64, time_s: f64) -> Option<f64> {
    let middle = |of: &dyn Fn(&Sample) -> Option<f64>| median(&m.samples.iter().filter_map(of).collect::<Vec<f64>>());
    let waits = middle(&|sample| Some(sample.waits? as f64 / sample.iterations.max(1) as f64))?;
    let busy_s = middle(&|sample| m.cpu_seconds(sample))?;
    let habit = m.ran_on() == Parallelism::Many && waits >= WAITS_OF_THREADS && busy_s < waits * each;
    (habit && time_s - busy_s >= BINDS * time_s).then_some(time_s - busy_s)
}

/// Mean of a counter per iteration.
fn mean(m: &Measurement, of: impl Fn(&Sample) -> Option<u64>) -> Option<f64> {
    let known: Vec<(u64, u64)> = m.samples.iter().filter_map(|s| Some((of(s)?, s.iterations.max(1)))).collect();
    let (counted, iterations) =
        known.iter().fold((0, 0), |(c, n), (counted, iterations)| (c + counted, n + iterations));
    (iterations > 0).then(|| counted as f64 / iterations as f64)
}
