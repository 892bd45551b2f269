//! The ceilings of this machine, measured by ordinary workloads that say which limit they measure.

use std::sync::Arc;

use ellwand_core::axis::{Axis, Domain};
use ellwand_core::case::{Case, Value};
use ellwand_core::ceiling::{Ceiling, CeilingKind};
use ellwand_core::device::DeviceKind;
use ellwand_core::implementation::{Implementation, Parallelism};
use ellwand_core::reading::Provenance;
use ellwand_core::record::{Cache, Environment, Measurement};
use ellwand_core::registry::Registry;
use ellwand_core::stats::quantile;
use ellwand_core::workload::Workload;

use crate::crossing;
use crate::measure::{Event, Instrument, Interrupted};
use crate::plan::Cell;

/// Name of the axis by which a calibration workload says how many bytes it touches in all.
pub const BYTES_AXIS: &str = "bytes";

/// Name of the axis by which a calibration workload says how often one iteration goes over these bytes.
pub const PASSES_AXIS: &str = "passes";

/// Name of the axis by which a calibration workload says how many groups of chains are computed side by side.
pub const GROUPS_AXIS: &str = "groups";

/// Groups that fill a device. The multiprocessors of usual ones (108, 132) divide it, so that none is idle at the end.
const GROUPS_OF_DEVICE: i64 = 4752;

/// Names of the axes by which a calibration workload says how many tiles of sums are computed side by side, and how many steps
/// each of them takes.
pub const TILES_AXIS: &str = "tiles";
/// See [`TILES_AXIS`].
pub const STEPS_AXIS: &str = "steps";

/// Tiles for each multiprocessor of a device.
const TILES_OF_MULTIPROCESSOR: i64 = 4;

/// Seconds that all steps of such tiles take at least: what begins and ends an iteration, some microseconds, is then less than
/// a hundredth.
const LONG_S: f64 = 2e-3;

/// Bytes that all threads together move in one iteration at least: handing out the work is a ceiling of its own (waking),
/// and must not hide the bandwidth of small caches.
const MOVED_BY_ALL: u64 = 4 << 20;

/// Footprints at which bandwidth is measured, each with how many times it fits into the machine: the middle of each cache
/// level (once for every cache of that level that the processors do not share), the upper part of the last one, and main memory.
pub fn footprints(environment: &Environment) -> Vec<(u64, u64)> {
    let copies = |cache: &Cache| u64::from(environment.cores / cache.shared_by.max(1)).max(1);
    let mut footprints: Vec<(u64, u64)> = environment.caches.iter().map(|c| (c.bytes / 2, copies(c))).collect();
    if let Some(last) = environment.caches.last() {
        footprints.push((last.bytes / 8, copies(last)));
        // Four times the last cache: what is left of it between two passes is below a quarter.
        footprints.push(((4 * last.bytes).clamp(64 << 20, 512 << 20), 1));
    } else {
        footprints.extend([(16 << 10, 1), (512 << 10, 1), (128 << 20, 1)]);
    }
    footprints.sort_unstable();
    footprints.dedup();
    footprints
}

/// Bytes at which the bandwidth of a device is measured: in its caches, at their edge, and in its memory. The last is several
/// times what caches of devices hold (60 MB), so that little is left in them between two passes.
const FOOTPRINTS_OF_DEVICE: [(u64, u64); 3] = [(4 << 20, 1), (32 << 20, 1), (512 << 20, 1)];

/// Of these the one at which the link to a device is measured: half a millisecond and more, and little memory to lock.
const BYTES_OF_LINK: i64 = 32 << 20;

/// The calibration cells of a registry: every workload that says it measures a ceiling, with every word of its axes, at
/// every footprint it can take. One thread and all threads are different cells, because all threads have more cache; devices
/// have footprints and numbers of chains of their own, and no cell where they are not there.
pub fn cells(registry: &Registry, environment: &Environment) -> Vec<Cell> {
    let mut cells = Vec::new();
    let here = footprints(environment);
    for workload in registry.workloads() {
        let all = registry.implementations(workload.name()).into_iter();
        for threads in [Parallelism::Single, Parallelism::Many] {
            let cpu = all.clone().filter(|one| one.needs == DeviceKind::Cpu && one.parallelism == threads);
            let mut cases = calibration_cases(workload.as_ref(), &here, threads);
            cases.retain(|case| !workload.ceiling(case).is_some_and(CeilingKind::is_link));
            add(&mut cells, workload, cases, cpu.cloned().collect());
        }
        // What is found on request may be software on the same processor, and no run without the request has it.
        let there = |one: &&Implementation| one.needs == DeviceKind::Cuda && registry.device_for(one).is_ok();
        let devices: Vec<Implementation> = all.filter(there).cloned().collect();
        let mut cases = calibration_cases(workload.as_ref(), &FOOTPRINTS_OF_DEVICE, Parallelism::Single);
        if axis(workload, GROUPS_AXIS).is_some() {
            cases.iter_mut().for_each(|case| case.set(GROUPS_AXIS, Value::Int(GROUPS_OF_DEVICE)));
        }
        let device = devices.first().and_then(|one| registry.device_for(one).ok());
        if let (Some(_), Some(count)) = (axis(workload, TILES_AXIS), device.and_then(|device| device.multiprocessors()))
        {
            let tiles = TILES_OF_MULTIPROCESSOR * i64::from(count);
            cases.iter_mut().for_each(|case| case.set(TILES_AXIS, Value::Int(tiles)));
        }
        let of_link = |case: &Case| workload.ceiling(case).is_some_and(CeilingKind::is_link);
        cases.retain(|case| !of_link(case) || case.int(BYTES_AXIS) == Some(BYTES_OF_LINK));
        add(&mut cells, workload, cases, devices);
    }
    cells
}

fn axis<'a>(workload: &'a Arc<dyn Workload>, name: &str) -> Option<&'a Axis> {
    workload.axes().iter().find(|axis| axis.name == name)
}

/// Adds a cell for each case that measures a ceiling, where there is anything to measure it with.
fn add(cells: &mut Vec<Cell>, workload: &Arc<dyn Workload>, cases: Vec<Case>, implementations: Vec<Implementation>) {
    if implementations.is_empty() {
        return;
    }
    let cases = cases.into_iter().filter(|case| workload.ceiling(case).is_some());
    let cell = |case| Cell { workload: workload.clone(), case, implementations: implementations.clone() };
    cells.extend(cases.map(cell));
}

/// Bytes at which devices found on request are measured: more than their caches hold, and what one array may have on all of them.
const ON_REQUEST: i64 = 128 << 20;

/// The calibration cells of devices that are found on request and were looked for: one of each task, out of their memory.
pub fn cells_on_request(registry: &Registry, environment: &Environment) -> Vec<Cell> {
    let cell = |workload: &Arc<dyn Workload>| {
        let all = registry.implementations(workload.name()).into_iter();
        let there = |one: &&_| registry.device_for(one).is_ok_and(|device| device.kind() == DeviceKind::Wgpu);
        let implementations: Vec<_> = all.filter(there).cloned().collect();
        let footprints = footprints(environment);
        let mut case = calibration_cases(workload.as_ref(), &footprints, Parallelism::Single).pop()?;
        case.set(BYTES_AXIS, Value::Int(ON_REQUEST));
        let measures = !implementations.is_empty() && workload.ceiling(&case).is_some();
        measures.then(|| Cell { workload: workload.clone(), case, implementations })
    };
    registry.workloads().iter().filter_map(cell).collect()
}

fn calibration_cases(workload: &dyn Workload, footprints: &[(u64, u64)], threads: Parallelism) -> Vec<Case> {
    let mut cases = vec![Case::new(workload.name(), Vec::new())];
    for axis in workload.axes() {
        let bytes = match &axis.domain {
            Domain::Int { min, max } if axis.name == BYTES_AXIS => Some((*min, *max)),
            _ => None,
        };
        let values: Vec<Value> = match (bytes, &axis.domain) {
            (Some((min, max)), _) => footprints
                .iter()
                .map(|&(bytes, copies)| bytes * if threads == Parallelism::Many { copies } else { 1 })
                .map(|bytes| Value::Int((bytes as i64).clamp(min, max)))
                .collect(),
            (None, Domain::Choice(_)) => axis.default.clone(),
            (None, _) => axis.default.first().cloned().into_iter().collect(),
        };
        cases = cases.iter().flat_map(|case| values.iter().map(|value| with(case, axis, value))).collect();
    }
    if threads == Parallelism::Many && workload.axes().iter().any(|axis| axis.name == PASSES_AXIS) {
        for case in &mut cases {
            let bytes = case.int(BYTES_AXIS).unwrap_or(1).max(1) as u64;
            case.set(PASSES_AXIS, Value::Int(MOVED_BY_ALL.div_ceil(bytes) as i64));
        }
    }
    cases
}

fn with(case: &Case, axis: &Axis, value: &Value) -> Case {
    let mut params = case.params.clone();
    params.push((axis.name.to_string(), value.clone()));
    Case::new(&case.workload, params)
}

/// The cells that tell from where on non-temporal stores pay.
pub fn cells_of_crossing(registry: &Registry, environment: &Environment) -> Vec<Cell> {
    crossing::cells(registry, environment)
}

/// Measures calibration cells: `limits`, and those `around` the crossing of stores, of which there may be none. Returns the
/// ceilings and the measurements they come from.
///
/// # Errors
/// When the user interrupts.
pub fn measure(
    instrument: &Instrument,
    environment: &Environment,
    limits: &[Cell],
    around: &[Cell],
    on_cell: &mut dyn FnMut(usize, usize, &Cell),
) -> Result<(Vec<Ceiling>, Vec<Measurement>), Interrupted> {
    let (mut ceilings, mut measurements) = (Vec::new(), Vec::new());
    for (index, cell) in limits.iter().enumerate() {
        on_cell(index, limits.len() + around.len(), cell);
        let case = long_enough(instrument, cell)?;
        let (workload, implementations) = (cell.workload.clone(), cell.implementations.clone());
        let cell = &Cell { workload, case, implementations };
        for measurement in instrument.measure(cell, &mut |_: Event| {})? {
            if let Some(kind) = cell.workload.ceiling(&cell.case) {
                ceilings.extend(ceiling(kind, &measurement, environment));
            }
            measurements.push(measurement);
        }
    }
    let mut copies = Vec::new();
    for (index, cell) in around.iter().enumerate() {
        on_cell(limits.len() + index, limits.len() + around.len(), cell);
        copies.extend(instrument.measure(cell, &mut |_: Event| {})?);
    }
    ceilings.extend(crossing::ceiling(&copies));
    measurements.extend(copies);
    Ok((ceilings, measurements))
}

/// The case itself, or where it has tiles the one with so many steps that an iteration takes [`LONG_S`]: one device is a hundred
/// times as fast as another.
fn long_enough(instrument: &Instrument, cell: &Cell) -> Result<Case, Interrupted> {
    let mut case = cell.case.clone();
    let (Some(_), Some(steps)) = (axis(&cell.workload, TILES_AXIS), axis(&cell.workload, STEPS_AXIS)) else {
        return Ok(case);
    };
    let Domain::Int { max, .. } = steps.domain else { return Ok(case) };
    let short = instrument.measure(cell, &mut |_: Event| {})?;
    let fastest = short.iter().flat_map(|row| row.all_seconds()).reduce(f64::min);
    let steps = case.int(STEPS_AXIS).unwrap_or(1);
    if let Some(seconds) = fastest.filter(|seconds| *seconds > 0.0 && *seconds < LONG_S) {
        // Rounded up, so that one machine has one number.
        let wanted = (steps as f64 * LONG_S / seconds).min(max as f64).ceil() as u64;
        case.set(STEPS_AXIS, Value::Int((wanted.next_power_of_two() as i64).min(max)));
    }
    Ok(case)
}

/// What a measurement says about a limit. A limit is what the machine can do, so the better decile of the slots counts,
/// not their middle; the interval reaches from the median to the best slot.
fn ceiling(kind: CeilingKind, measurement: &Measurement, environment: &Environment) -> Option<Ceiling> {
    let seconds: Vec<f64> = measurement.all_seconds();
    let work = &measurement.work;
    let of = |p: f64| {
        let time = quantile(&seconds, p)?;
        Some(match kind.unit() {
            "B/s" => work.bytes_total() as f64 / time,
            "FLOP/s" => work.flops / time,
            _ => time / work.items.max(1) as f64,
        })
    };
    let placed = kind.unit() == "B/s" || kind == CeilingKind::Latency;
    let bytes = match measurement.case.value(BYTES_AXIS) {
        Some(Value::Int(bytes)) => bytes.unsigned_abs(),
        _ => work.bytes_total(),
    };
    let footprint_bytes = if placed { bytes } else { 0 };
    let many = measurement.parallelism == Parallelism::Many;
    let (a, b) = (of(0.5)?, of(0.0)?);
    Some(Ceiling {
        kind,
        implementation: measurement.implementation.clone(),
        device: measurement.device.clone(),
        parallelism: measurement.parallelism,
        footprint_bytes,
        level: match (placed, measurement.device.as_str()) {
            (false, _) => String::new(),
            (true, _) if kind.is_link() => "link".into(),
            (true, "cpu") => environment.level_of_threads(bytes, many),
            (true, _) => "device".into(),
        },
        value: of(0.1)?,
        low: a.min(b),
        high: a.max(b),
        provenance: Provenance::Measured,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_visited_and_all_threads_fill_the_caches_of_all_processors() {
        let cache = |level: &str, bytes, shared_by| Cache { level: level.into(), bytes, shared_by };
        let machine = Environment {
            cores: 4,
            caches: vec![cache("L1", 32 << 10, 1), cache("L2", 1 << 20, 2), cache("L3", 32 << 20, 4)],
            ..Environment::default()
        };
        let footprints = footprints(&machine);
        assert_eq!(
            footprints,
            [(16 << 10, 4), (512 << 10, 2), (4 << 20, 1), (16 << 20, 1), (128 << 20, 1)],
            "bytes, and how many of them fit side by side"
        );
        let levels: Vec<String> =
            footprints.iter().map(|(bytes, copies)| machine.level_of_threads(bytes * copies, true)).collect();
        assert_eq!(levels, ["L1", "L2", "L3", "L3", "DRAM"]);
        assert_eq!(machine.level_of_threads(64 << 10, false), "L2");
    }
}
