//! Finds the limit of a measurement on a device, using the device's own clock.
//!
//! Launches run one after another and take some microseconds each even if the kernel is empty, and data in host memory
//! must cross the link. Both costs are ceilings of the device, and the record holds how many launches and bytes a run
//! needs.

use ellwand_core::ceiling::{cost, fastest_traffic, operations, traffic};
use ellwand_core::stats::median;
use ellwand_core::{Ceiling, CeilingKind, Environment, Measurement, Parallelism, Reading};

use super::changes::{Lever, Levers, Saving};
use super::{ABOVE, CALLS, Diagnosis, Limit, REFUTED, binds};

/// Below this theoretical occupancy, too few warps are resident to hide latency.
const FEW: f64 = 0.5;

/// Compares a measurement with the ceilings of its device. `None` without device times.
pub(super) fn place(m: &Measurement, environment: &Environment, ceilings: &[Ceiling]) -> Option<Diagnosis> {
    let walls: Vec<f64> = m.samples.iter().filter(|s| s.device_ns.is_some()).map(|s| s.wall_seconds()).collect();
    let time_s = median(&walls).filter(|time| time.is_finite() && *time > 0.0)?;
    let (work, all) = (&m.work_done(), Parallelism::Many);
    let of = |kind: CeilingKind| cost(ceilings, kind).map(|ceiling| ceiling.value);
    let reading = |id: &str| m.reading(id).and_then(|reading| reading.value);
    // The highest measured rate, whatever its transfer size.
    let link = |kind: CeilingKind| ceilings.iter().filter(|c| c.kind == kind).map(|c| c.value).reduce(f64::max);
    let over = |id: &str, kind: CeilingKind| match reading(id).filter(|bytes| *bytes > 0.0) {
        Some(bytes) => link(kind).map(|rate| bytes / rate),
        None => Some(0.0),
    };

    let memory = traffic(environment, ceilings, work, all, m.caches);
    let transfer =
        over(Reading::CARRIED_IN, CeilingKind::ToDevice).zip(over(Reading::CARRIED_OUT, CeilingKind::FromDevice));
    let parts = [
        (Limit::Memory, memory.as_ref().map(|traffic| traffic.seconds)),
        (Limit::Compute, operations(ceilings, work, all).map(|ceiling| work.flops / ceiling.value)),
        (Limit::Transfer, transfer.map(|(inwards, outwards)| inwards + outwards)),
        // Older records have no launch count; a run has at least one.
        (Limit::Launch, of(CeilingKind::Call).map(|each| each * reading(Reading::LAUNCHES).unwrap_or(1.0))),
    ];

    let largest_footprint = |of: &Ceiling| {
        let alike = ceilings.iter().filter(|c| c.kind == of.kind).map(|c| c.footprint_bytes);
        alike.max() == Some(of.footprint_bytes)
    };
    let level = |of: &Ceiling| if largest_footprint(of) { "memory" } else { "cache" };
    let mut diagnosis = Diagnosis::open(time_s, memory.map(|traffic| level(&traffic.ceiling).into()), &parts);
    let fastest = fastest_traffic(ceilings, work, all, m.caches).map_or(0.0, |traffic| traffic.seconds);
    let (limit, seconds) = classify(&diagnosis, m, fastest);
    diagnosis.limit = limit;
    diagnosis.share = seconds / time_s;
    diagnosis.changes = changes(&diagnosis, m, ceilings);
    Some(diagnosis)
}

/// The dominant limit, and the seconds it explains.
fn classify(d: &Diagnosis, m: &Measurement, fastest: f64) -> (Limit, f64) {
    let seconds = |limit| d.seconds(limit);
    let share = |limit| d.seconds(limit) / d.time_s;
    let above = fastest.max(seconds(Limit::Compute)).max(seconds(Limit::Transfer));
    if above > ABOVE * d.time_s {
        return (Limit::AboveCeiling, above);
    }
    let possible = [Limit::Transfer, Limit::Memory, Limit::Compute, Limit::Launch].into_iter();
    // Launches in a graph cost less than the separate launches that the ceiling was measured with.
    let possible = possible.filter(|limit| *limit != Limit::Launch || share(*limit) <= REFUTED);
    let largest = possible.max_by(|a, b| seconds(*a).total_cmp(&seconds(*b)));
    if let Some(limit) = largest.filter(|limit| share(*limit) >= binds(*limit, m)) {
        return (limit, seconds(limit));
    }
    // If bytes or operations explain more of the time than launches, it is not launch-bound.
    let most = d.largest().is_none_or(|part| part.limit == Limit::Launch || share(Limit::Launch) > REFUTED);
    if m.below_resolution() || most && share(Limit::Launch) * CALLS >= 1.0 {
        return (Limit::Launch, seconds(Limit::Launch));
    }
    (Limit::Unexplained, d.largest().map_or(0.0, |part| part.seconds))
}

/// The levers for the limit of a measurement, best first.
fn changes(d: &Diagnosis, m: &Measurement, ceilings: &[Ceiling]) -> Vec<Saving> {
    let share = |limit| (d.seconds(limit) / d.time_s).min(1.0);
    let (memory, compute, transfer) = (share(Limit::Memory), share(Limit::Compute), share(Limit::Transfer));
    // Tuning does not shorten launches, and a device processes no bytes or operations during one.
    let beside = |share_of: f64| (1.0 - share_of - share(Limit::Launch)).max(0.0);
    let narrow = m.work.bf16;
    let mut levers = Levers::default();
    let mut add = |lever, saving, experiment| levers.add(lever, saving, experiment);
    match d.limit {
        Limit::Memory => {
            add(
                Lever::Fusion,
                memory.min(1.0 - compute),
                "compute it in the same kernel as the step before or after, and compare the two forms",
            );
            if !narrow {
                add(
                    Lever::Precision,
                    memory / 2.0,
                    "store 16-bit numbers instead of 32-bit ones, and compare the error as well as the time",
                );
            }
            add(
                Lever::Tuning,
                beside(memory),
                "make neighbouring threads read neighbouring words, 16 bytes each and several at once, and check that nothing moves twice",
            );
        }
        Limit::Compute => {
            // The time of the same operations on bf16 matrix units, if their rate was measured.
            let units = ceilings.iter().filter(|c| c.kind == CeilingKind::ProductsBf16).map(|c| c.value);
            let narrowed = units.reduce(f64::max).map(|rate| m.work_done().flops / rate / d.time_s);
            if let Some(narrowed) = narrowed.filter(|_| !narrow) {
                add(
                    Lever::Precision,
                    1.0 - narrowed.max(memory),
                    "if the work is matrix products: bf16 with sums in f32, and compare the error as well as the time",
                );
            }
            add(
                Lever::Tuning,
                beside(compute),
                "look at the share of instructions that are multiply-adds in the machine code, and at what warps wait for, under Nsight Compute with `run --once`",
            );
        }
        Limit::Launch => {
            add(
                Lever::Batching,
                1.0 - memory.max(compute),
                "give one launch more work, fuse kernels into fewer launches, or replay them as one graph",
            );
        }
        Limit::Transfer => {
            add(Lever::Residency, transfer, "keep the arrays on the device between calls, and copy only what changed");
            add(
                Lever::Overlap,
                transfer.min(1.0 - transfer),
                "split the work into pieces, and copy the next piece on a second stream while the current one is computed",
            );
        }
        Limit::Unexplained => {
            let occupancy = m.reading(Reading::OCCUPANCY).and_then(|reading| reading.value);
            let few = occupancy.is_some_and(|occupancy| occupancy < FEW);
            let next = if few {
                "few warps are resident (theoretical occupancy): give a block fewer registers or less shared memory, or each thread more independent loads"
            } else {
                "run it under Nsight Compute with `run --once`: look at what warps wait for, at scattered accesses and bank conflicts, and check whether blocks fill the device"
            };
            add(Lever::Tuning, 1.0 - d.share, next);
        }
        _ => {}
    }
    levers.best_first()
}
