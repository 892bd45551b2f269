//! Runs workloads with a known limit and tests what the diagnosis reports about them: `diagnosis [DEVICE..]`.

mod bound;

use std::error::Error;
use std::io::Write;
use std::sync::atomic::AtomicBool;

use ellwand::internals::bench::plan::{Selection, check_devices_known};
use ellwand::internals::bench::{Cell, Instrument, resolutions};
use ellwand::internals::core::case::{Case, Value};
use ellwand::internals::core::record::Environment;
use ellwand::internals::core::{Axis, DeviceKind, Measurement, Registry};
use ellwand::internals::report::{Diagnosis, Limit, place, units};
use ellwand::{Effort, MeasureError};

/// A workload whose limit is known because it was built to reach it.
struct Truth {
    workload: &'static str,
    implementation: &'static str,
    /// The limit it is bound by.
    limit: Limit,
    /// The axis of its size, and three sizes.
    axis: &'static str,
    sizes: [i64; 3],
    /// Values of other axes that differ from the default.
    fixed: &'static [(&'static str, &'static str)],
}

const TRUTHS: &[Truth] = &[
    truth("copy", "simd", Limit::Memory, "bytes", [512 << 10, 4 << 20, 128 << 20]),
    truth("read", "simd", Limit::Memory, "bytes", [512 << 10, 4 << 20, 128 << 20]),
    truth("fma", "simd", Limit::Compute, "steps", [512, 4096, 32_768]),
    truth("fma", "parallel", Limit::Compute, "steps", [512, 4096, 32_768]),
    truth("pointer-chase", "scalar", Limit::Latency, "bytes", [16 << 10, 512 << 10, 128 << 20]),
    truth("tiny", "call", Limit::Overhead, "elements", [1, 4, 8]),
    truth("first-touch", "fresh", Limit::PageFaults, "region", [1 << 20, 16 << 20, 64 << 20]),
    truth("wake", "team", Limit::ThreadWake, "elements", [0, 16, 64]),
    truth("contended-lock", "in-turn", Limit::Contended, "takes", [10, 30, 100]),
];

const fn truth(
    workload: &'static str,
    implementation: &'static str,
    limit: Limit,
    axis: &'static str,
    sizes: [i64; 3],
) -> Truth {
    Truth { workload, implementation, limit, axis, sizes, fixed: &[] }
}

/// The same on a device, if one is present.
const TRUTHS_OF_DEVICES: &[Truth] = &[
    truth("copy", "cuda", Limit::Memory, "bytes", [128 << 20, 256 << 20, 512 << 20]),
    Truth { fixed: &[("groups", "4752")], ..truth("fma", "cuda", Limit::Compute, "steps", [4096, 8192, 16_384]) },
    Truth {
        fixed: &[("batch", "1"), ("sequence", "1"), ("form", "exact")],
        ..truth("gelu", "cuda", Limit::Launch, "dimension", [64, 256, 1024])
    },
    Truth {
        fixed: &[("memory", "pinned")],
        ..truth("transfer", "cuda", Limit::Transfer, "bytes", [8 << 20, 32 << 20, 128 << 20])
    },
];

/// A truth at one size, and what the diagnosis reported.
struct Row {
    case: String,
    implementation: &'static str,
    truth: Limit,
    /// Why there is no diagnosis.
    unavailable: Option<String>,
    diagnosis: Option<Diagnosis>,
    right: bool,
}

/// The built-in workloads and those that are bound by construction.
fn registry() -> Registry {
    let mut registry = ellwand_cli::registry();
    bound::register(&mut registry);
    registry
}

/// Exits with 1 if a class is wrong, and with 6 if nothing was measured.
fn main() -> Result<(), Box<dyn Error>> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let devices: Vec<String> = std::env::args().skip(1).collect();
    let mut registry = registry();
    registry.look_for(DeviceKind::Cuda);
    check_devices_known(&registry, &devices)?;
    for id in devices.iter().rev() {
        registry.prefer(id);
    }
    let here = environment(&registry)?;
    let settings = Effort::Quick.settings();
    let mut instrument = Instrument::new(&registry, settings.clone(), 42, &NEVER);
    instrument.resolutions = resolutions(&registry, &settings);
    let mut rows = Vec::new();
    for truth in truths(&registry, &Selection { devices, ..Selection::default() }) {
        // On a busy machine, most waits last until the scheduler gets to the thread, except those that find a free
        // processor: even the longest cells get enough slots that some of them show what waiting costs by itself.
        instrument.settings.samples_min = if truth.limit == Limit::Contended { 30 } else { settings.samples_min };
        for size in truth.sizes {
            let cell = cell(&registry, truth, size)?;
            let measured = instrument.measure(&cell, &mut |_| {}).ok().unwrap_or_default();
            rows.extend(measured.iter().map(|measurement| row(truth, measurement, &here)));
        }
    }
    table(&rows, here.load, &mut std::io::stdout())?;
    match rows.iter().filter(|row| row.unavailable.is_none()).map(|row| row.right).reduce(|a, b| a && b) {
        Some(true) => Ok(()),
        Some(false) => std::process::exit(1),
        None => std::process::exit(6),
    }
}

/// This machine with its ceilings, which are measured first if no earlier run stored them.
fn environment(registry: &Registry) -> Result<Environment, Box<dyn Error>> {
    let stored = || {
        let results = ellwand::measure(registry.clone()).workloads(["null"]).effort(Effort::Quick).run()?;
        Ok::<_, MeasureError>(results.record.run.environment)
    };
    let here = stored()?;
    if !here.ceilings.is_empty() {
        return Ok(here);
    }
    ellwand::run(["ellwand", "machine"], registry);
    Ok(stored()?)
}

/// The truths for the CPU and for the devices that are present; only those of the selected kinds, if any are selected.
fn truths(registry: &Registry, selection: &Selection) -> Vec<&'static Truth> {
    let here = |truth: &&Truth| {
        let mut rows = registry.implementations(truth.workload).into_iter();
        rows.any(|row| row.name == truth.implementation && registry.device_for(row).is_ok())
    };
    let all = TRUTHS.iter().chain(TRUTHS_OF_DEVICES.iter().filter(here));
    let chosen = |truth: &&Truth| {
        let rows = registry.implementations(truth.workload);
        // An unregistered one is an error when it is measured.
        let row = rows.into_iter().find(|row| row.name == truth.implementation);
        row.is_none_or(|row| selection.on_device(row))
    };
    all.filter(chosen).collect()
}

/// The cell of a truth at a size; every other axis has its default.
fn cell(registry: &Registry, truth: &Truth, size: i64) -> Result<Cell, Box<dyn Error>> {
    let missing = |what: &str| format!("{what} is not registered");
    let workload = registry.find(truth.workload).ok_or_else(|| missing(truth.workload))?;
    let all = registry.implementations(truth.workload).into_iter();
    let implementations: Vec<_> = all.filter(|one| one.name == truth.implementation).cloned().collect();
    if implementations.is_empty() {
        return Err(missing(&format!("{}:{}", truth.workload, truth.implementation)).into());
    }
    let default = |axis: &Axis| Some((axis.name.to_string(), axis.default.first()?.clone()));
    let mut case = Case::new(workload.name(), workload.axes().iter().filter_map(default).collect());
    for (name, value) in truth.fixed {
        let axis = workload.axes().iter().find(|axis| axis.name == *name).ok_or_else(|| missing(name))?;
        case.set(axis.name, axis.parse(value)?);
    }
    case.set(truth.axis, Value::Int(size));
    Ok(Cell { workload: workload.clone(), case, implementations, allowed: None })
}

fn row(truth: &Truth, measurement: &Measurement, here: &Environment) -> Row {
    let diagnosis = place(measurement, here);
    let why = || measurement.outcome.reason().unwrap_or("it has no time, or its device has no ceiling").to_string();
    Row {
        case: measurement.case.id.clone(),
        implementation: truth.implementation,
        truth: truth.limit,
        unavailable: diagnosis.is_none().then(why),
        right: diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.limit == truth.limit),
        diagnosis,
    }
}

fn table(rows: &[Row], load: Option<f64>, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{:58} {:18} {:26} {:>10} {:>9}  {:24}",
        "case", "built to be", "diagnosis", "time", "explained", "would change most"
    )?;
    for row in rows {
        let case = format!("{} {}", row.case, row.implementation);
        let Some(d) = &row.diagnosis else {
            let why = row.unavailable.as_deref().unwrap_or("");
            writeln!(out, "{case:58} {:18} unavailable: {why}", row.truth.word())?;
            continue;
        };
        let change = d.changes.first().map_or_else(String::new, |change| {
            format!("{}, at most {:.0} %", change.lever.word(), change.saving_upper_bound * 100.0)
        });
        writeln!(
            out,
            "{case:58} {:18} {:26} {:>10} {:>7.0} %  {change:32} {}",
            row.truth.word(),
            d.label(),
            units::human(d.time_s, "s"),
            d.share * 100.0,
            if row.right { "right" } else { "WRONG" }
        )?;
    }
    let judged = rows.iter().filter(|row| row.unavailable.is_none()).count();
    let right = rows.iter().filter(|row| row.right).count();
    let load = load.map_or_else(|| "unavailable".into(), |load| format!("{load:.2}"));
    writeln!(
        out,
        "\n{right} of {judged} right; load average {load} at the start; derived from times, counts and ceilings, without hardware counters"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_truth_is_a_case_that_can_be_made() {
        let registry = registry();
        for truth in TRUTHS {
            for size in truth.sizes {
                let cell = cell(&registry, truth, size).unwrap();
                cell.workload.check(&cell.case).unwrap();
                assert_eq!(cell.case.int(truth.axis), Some(size), "{}", cell.case.id());
                for (axis, value) in truth.fixed {
                    assert_eq!(
                        cell.case.params.iter().find(|(name, _)| name == axis).map(|(_, is)| is.to_string()).as_deref(),
                        Some(*value)
                    );
                }
            }
        }
        // Devices are searched for only in `main`.
        assert_eq!(truths(&registry, &Selection::default()).len(), TRUTHS.len());
        let on_cuda = Selection { devices: vec!["cuda".into()], ..Selection::default() };
        assert!(truths(&registry, &on_cuda).is_empty());
    }
}
