//! The ceilings of this machine, measured by ordinary workloads that say which limit they measure.

use ellwand_core::axis::Domain;
use ellwand_core::case::{Case, Value};
use ellwand_core::ceiling::{Ceiling, CeilingKind};
use ellwand_core::reading::Provenance;
use ellwand_core::record::{Environment, Measurement, Sample};
use ellwand_core::registry::Registry;
use ellwand_core::stats::quantile;
use ellwand_core::workload::Workload;

use crate::measure::{Event, Instrument, Interrupted};
use crate::plan::Cell;

/// Name of the axis by which a calibration workload says how many bytes it touches in all.
pub const BYTES_AXIS: &str = "bytes";

/// Footprints at which bandwidth is measured: the middle of each cache level, the upper part of the last one, and main memory.
pub fn footprints(environment: &Environment) -> Vec<u64> {
    let mut footprints: Vec<u64> = environment.caches.iter().map(|cache| cache.bytes / 2).collect();
    if let Some(last) = environment.caches.last() {
        footprints.push(last.bytes / 8);
        // Four times the last cache: what is left of it between two passes is below a quarter.
        footprints.push((4 * last.bytes).clamp(64 << 20, 512 << 20));
    } else {
        footprints.extend([16 << 10, 512 << 10, 128 << 20]);
    }
    footprints.sort_unstable();
    footprints.dedup();
    footprints
}

/// The calibration cells of a registry: every workload that says it measures a ceiling, at every footprint it can take.
pub fn cells(registry: &Registry, environment: &Environment) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in registry.workloads() {
        for case in calibration_cases(workload.as_ref(), environment) {
            if workload.ceiling(&case).is_some() {
                let implementations = registry.implementations(workload.name()).into_iter().cloned().collect();
                cells.push(Cell { workload: workload.clone(), case, implementations });
            }
        }
    }
    cells
}

fn calibration_cases(workload: &dyn Workload, environment: &Environment) -> Vec<Case> {
    let defaults = || {
        let first =
            |axis: &ellwand_core::Axis| axis.default.first().map(|value| (axis.name.to_string(), value.clone()));
        Case::new(workload.name(), workload.axes().iter().filter_map(first).collect())
    };
    match workload.axes().iter().find(|axis| axis.name == BYTES_AXIS).map(|axis| &axis.domain) {
        Some(Domain::Int { min, max }) => footprints(environment)
            .into_iter()
            .map(|bytes| {
                let mut case = defaults();
                case.set(BYTES_AXIS, Value::Int((bytes as i64).clamp(*min, *max)));
                case
            })
            .collect(),
        _ => vec![defaults()],
    }
}

/// Measures every calibration cell. Returns the ceilings and the measurements they come from.
///
/// # Errors
/// When the user interrupts.
pub fn measure(
    instrument: &Instrument,
    environment: &Environment,
    on_cell: &mut dyn FnMut(usize, usize, &Cell),
) -> Result<(Vec<Ceiling>, Vec<Measurement>), Interrupted> {
    let cells = cells(instrument.registry, environment);
    let (mut ceilings, mut measurements) = (Vec::new(), Vec::new());
    for (index, cell) in cells.iter().enumerate() {
        on_cell(index, cells.len(), cell);
        for measurement in instrument.measure(cell, &mut |_: Event| {})? {
            if let Some(kind) = cell.workload.ceiling(&cell.case) {
                ceilings.extend(ceiling(kind, &measurement, environment));
            }
            measurements.push(measurement);
        }
    }
    Ok((ceilings, measurements))
}

/// What a measurement says about a limit. A limit is what the machine can do, so the better decile of the slots counts,
/// not their middle; the interval reaches from the median to the best slot.
fn ceiling(kind: CeilingKind, measurement: &Measurement, environment: &Environment) -> Option<Ceiling> {
    let seconds: Vec<f64> = measurement.samples.iter().map(Sample::seconds).collect();
    let amount = match kind {
        CeilingKind::Copy | CeilingKind::Read | CeilingKind::Fill => measurement.work.bytes_total() as f64,
        CeilingKind::Fma => measurement.work.flops,
        CeilingKind::Call => 1.0,
    };
    let of = |p: f64| {
        let time = quantile(&seconds, p)?;
        Some(if kind == CeilingKind::Call { time } else { amount / time })
    };
    let footprint_bytes = match kind {
        CeilingKind::Fma | CeilingKind::Call => 0,
        _ => measurement.work.bytes_total(),
    };
    let (a, b) = (of(0.5)?, of(0.0)?);
    Some(Ceiling {
        kind,
        implementation: measurement.implementation.clone(),
        device: measurement.device.clone(),
        parallelism: measurement.parallelism,
        footprint_bytes,
        level: if footprint_bytes == 0 { String::new() } else { environment.level_of(footprint_bytes) },
        value: of(0.1)?,
        low: a.min(b),
        high: a.max(b),
        provenance: Provenance::Measured,
    })
}
