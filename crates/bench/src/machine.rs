//! The ceilings of this machine, measured by ordinary workloads that the registry's ceiling table names.

use std::sync::Arc;

use ellwand_core::axis::Domain;
use ellwand_core::case::{Case, Value};
use ellwand_core::ceiling::{Ceiling, CeilingCase, CeilingKind, Role};
use ellwand_core::device::DeviceKind;
use ellwand_core::implementation::{Implementation, Parallelism};
use ellwand_core::reading::Provenance;
use ellwand_core::record::{Cache, Environment, Measurement};
use ellwand_core::registry::Registry;
use ellwand_core::stats::quantile;
use ellwand_core::workload::Workload;

use crate::crossing;
pub use crate::crossing::cells as cells_of_crossing;
use crate::measure::{Event, Instrument, Interrupted};
use crate::plan::Cell;

/// Shortest iteration if its length can be chosen: starting and ending an iteration takes some microseconds, less than
/// 1 % of this.
const LONG_S: f64 = 2e-3;

/// Least number of bytes that all threads together move in one iteration. Distributing the work has a separate ceiling
/// (waking), which must not hide the bandwidth of small caches.
const MOVED_BY_ALL: u64 = 4 << 20;

/// Footprints for bandwidth measurements, each with the number of copies that fit into the machine: the middle of each
/// cache level (one copy for each cache of that level), the upper part of the last level, and main memory.
pub fn footprints(environment: &Environment) -> Vec<(u64, u64)> {
    let copies = |cache: &Cache| u64::from(environment.cores / cache.shared_by.max(1)).max(1);
    let mut footprints: Vec<(u64, u64)> = environment.caches.iter().map(|c| (c.bytes / 2, copies(c))).collect();
    if let Some(last) = environment.caches.last() {
        footprints.push((last.bytes / 8, copies(last)));
        // Four times the last-level cache: less than a quarter survives there between two passes.
        footprints.push(((4 * last.bytes).clamp(64 << 20, 512 << 20), 1));
    } else {
        footprints.extend([(16 << 10, 1), (512 << 10, 1), (128 << 20, 1)]);
    }
    footprints.sort_unstable();
    footprints.dedup();
    footprints
}

/// Footprints for the bandwidth of a device, in bytes: in its caches, at their edge and in its memory. The last is
/// several times the size of device caches (60 MB), so little survives there between two passes.
const FOOTPRINTS_OF_DEVICE: [u64; 3] = [4 << 20, 32 << 20, 512 << 20];

/// Bytes for measuring the link to a device: enough for at least 0.5 ms, with little pinned memory.
const BYTES_OF_LINK: [u64; 1] = [32 << 20];

/// Cells for all rows of the ceiling table at the footprints that bound computations on up to `data` bytes: all smaller
/// ones, and the next. One thread and all threads get different cells, because all threads have more cache. Devices have
/// separate footprints and get cells only if present.
pub fn cells(registry: &Registry, environment: &Environment, data: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    let here = footprints(environment);
    for (workload, rows) in tables(registry) {
        let all = registry.implementations(workload.name()).into_iter();
        for threads in [Parallelism::Single, Parallelism::Many] {
            let cpu = all.clone().filter(|one| one.needs == DeviceKind::Cpu && one.parallelism == threads);
            let copies = |copies: u64| if threads == Parallelism::Many { copies } else { 1 };
            let mut bytes: Vec<u64> = here.iter().map(|(bytes, fit)| bytes * copies(*fit)).collect();
            let next = bytes.iter().copied().filter(|bytes| *bytes >= data).min();
            bytes.retain(|bytes| *bytes < data || Some(*bytes) == next);
            let local = rows.iter().filter(|row| !row.kind.is_link());
            let cases = local.flat_map(|row| cases_here(row, workload.as_ref(), &bytes, threads)).collect();
            add(&mut cells, workload, cases, cpu.cloned().collect());
        }
        // Devices found on request may be software on the same CPU; runs use them only on request.
        let there = |one: &&Implementation| one.needs == DeviceKind::Cuda && registry.device_for(one).is_ok();
        let devices: Vec<Implementation> = all.filter(there).cloned().collect();
        let device = devices.first().and_then(|one| registry.device_for(one).ok());
        let multiprocessors = device.and_then(|device| device.multiprocessors());
        let on_device = rows.iter().flat_map(|row| cases_on_device(row, workload.as_ref(), multiprocessors));
        add(&mut cells, workload, on_device.collect(), devices);
    }
    cells
}

/// Workloads that have rows in the ceiling table, in order of registration.
fn tables(registry: &Registry) -> impl Iterator<Item = (&Arc<dyn Workload>, Vec<&CeilingCase>)> {
    registry.workloads().iter().map(move |workload| {
        let mine = |row: &&CeilingCase| row.workload == workload.name() && row.past.is_none();
        (workload, registry.ceilings.iter().filter(mine).collect())
    })
}

/// Adds a cell for each case, unless there are no implementations.
fn add(cells: &mut Vec<Cell>, workload: &Arc<dyn Workload>, cases: Vec<Case>, implementations: Vec<Implementation>) {
    if implementations.is_empty() {
        return;
    }
    let cell =
        |case| Cell { workload: workload.clone(), case, implementations: implementations.clone(), allowed: None };
    cells.extend(cases.into_iter().map(cell));
}

/// Footprint for devices found on request: more than their caches hold, and within the array limit of all of them.
const ON_REQUEST: u64 = 128 << 20;

/// Calibration cells for devices found on request, if that was requested: one per workload, with data in device memory.
pub fn cells_on_request(registry: &Registry) -> Vec<Cell> {
    let cell = |(workload, rows): (&Arc<dyn Workload>, Vec<&CeilingCase>)| {
        let all = registry.implementations(workload.name()).into_iter();
        let there = |one: &&_| registry.device_for(one).is_ok_and(|device| device.kind() == DeviceKind::Wgpu);
        let implementations: Vec<_> = all.filter(there).cloned().collect();
        let case = rows.last()?.case(workload.as_ref(), ON_REQUEST);
        (!implementations.is_empty()).then(|| Cell { workload: workload.clone(), case, implementations, allowed: None })
    };
    tables(registry).filter_map(cell).collect()
}

/// Cases of a row: one per footprint if the row has a byte axis, otherwise one.
fn cases(row: &CeilingCase, workload: &dyn Workload, bytes: &[u64]) -> Vec<Case> {
    let count = if row.axis_of(Role::Bytes).is_some() { bytes.len() } else { 1 };
    bytes.iter().take(count).map(|bytes| row.case(workload, *bytes)).collect()
}

fn cases_here(row: &CeilingCase, workload: &dyn Workload, bytes: &[u64], threads: Parallelism) -> Vec<Case> {
    let mut cases = cases(row, workload, bytes);
    if let (Parallelism::Many, Some(passes), Some(axis)) =
        (threads, row.axis_of(Role::Passes), row.axis_of(Role::Bytes))
    {
        for case in &mut cases {
            let bytes = case.int(axis).unwrap_or(1).max(1) as u64;
            case.set(passes, Value::Int(MOVED_BY_ALL.div_ceil(bytes) as i64));
        }
    }
    cases
}

fn cases_on_device(row: &CeilingCase, workload: &dyn Workload, multiprocessors: Option<u32>) -> Vec<Case> {
    let bytes: &[u64] = if row.kind.is_link() { &BYTES_OF_LINK } else { &FOOTPRINTS_OF_DEVICE };
    let mut cases = cases(row, workload, bytes);
    for (axis, role) in row.axes {
        let value = match role {
            Role::OnDevice(value) => Some(*value),
            Role::EachMultiprocessor(value) => multiprocessors.map(|count| value * i64::from(count)),
            _ => None,
        };
        if let Some(value) = value {
            cases.iter_mut().for_each(|case| case.set(axis, Value::Int(value)));
        }
    }
    cases
}

/// Measures calibration cells: `limits`, and `around` the crossing of stores, which may be empty. Returns the ceilings
/// and the measurements that support them.
///
/// # Errors
/// If the user interrupts.
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
        let cell = &Cell { workload, case, implementations, allowed: None };
        for measurement in instrument.measure(cell, &mut |_: Event| {})? {
            if let Some(row) = instrument.registry.ceiling_of(&cell.case) {
                ceilings.extend(ceiling(row, &measurement, environment));
            }
            measurements.push(measurement);
        }
    }
    let mut copies = Vec::new();
    for (index, cell) in around.iter().enumerate() {
        if crossing::is_past(instrument.registry, cell, &copies) {
            continue;
        }
        on_cell(limits.len() + index, limits.len() + around.len(), cell);
        copies.extend(instrument.measure(cell, &mut |_: Event| {})?);
    }
    ceilings.extend(crossing::ceilings(instrument.registry, &copies));
    measurements.extend(copies);
    Ok((ceilings, measurements))
}

/// The case, adjusted so that an iteration takes [`LONG_S`] if the row allows it, because devices differ in speed by a
/// factor of 100.
fn long_enough(instrument: &Instrument, cell: &Cell) -> Result<Case, Interrupted> {
    let mut case = cell.case.clone();
    let name = instrument.registry.ceiling_of(&case).and_then(|row| row.axis_of(Role::Steps));
    let axis = name.and_then(|name| cell.workload.axes().iter().find(|axis| axis.name == name));
    let Some((axis, Domain::Int { max, .. })) = axis.map(|axis| (axis.name, &axis.domain)) else { return Ok(case) };
    let short = instrument.measure(cell, &mut |_: Event| {})?;
    let fastest = short.iter().flat_map(|row| row.all_seconds()).reduce(f64::min);
    let steps = case.int(axis).unwrap_or(1);
    if let Some(seconds) = fastest.filter(|seconds| *seconds > 0.0 && *seconds < LONG_S) {
        // Rounded up to a power of two, so that repeated runs on one machine use the same number.
        let wanted = (steps as f64 * LONG_S / seconds).min(*max as f64).ceil() as u64;
        case.set(axis, Value::Int((wanted.next_power_of_two() as i64).min(*max)));
    }
    Ok(case)
}

/// The ceiling from a measurement. A ceiling is what the machine can do, so the best decile of the slots counts, not
/// the median; the interval reaches from the median to the best slot.
fn ceiling(row: &CeilingCase, measurement: &Measurement, environment: &Environment) -> Option<Ceiling> {
    let kind = row.kind;
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
    let bytes = match row.axis_of(Role::Bytes).and_then(|axis| measurement.case.value(axis)) {
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
