//! `machine`: the limits of this machine.

use std::io::Write;

use ellwand_core::ceiling::Ceiling;
use ellwand_core::implementation::Parallelism;
use ellwand_core::record::Environment;
use ellwand_core::{DeviceKind, InputError, Registry};
use ellwand_profile::Cost;
use ellwand_report::units;

use super::args::{Form, MachineArgs};
use super::exit::{Exit, Failure, Outcome};
use super::{ceilings, output};

pub(super) fn machine(registry: &Registry, args: &MachineArgs) -> Outcome {
    let mut here = ceilings::environment(registry);
    // First, because nothing else uses spans in this process yet.
    let spans = ellwand_profile::cost();
    let replaces = ceilings::replaces(args.effort, &here);
    let (measured, mut measurements) = ceilings::measure(registry, &here, args.effort)?;
    here.ceilings = measured;
    // Looking for these devices loads drivers, so do it after the measurements.
    let mut all = registry.clone();
    all.look_for(DeviceKind::Wgpu);
    here.devices = all.devices().iter().map(|device| (device.id().to_string(), device.about())).collect();
    let (more, theirs) = ceilings::on_request(&all, &here, args.effort)?;
    here.ceilings.extend(more);
    measurements.extend(theirs);
    for measurement in measurements.iter().filter(|m| m.outcome.word() == "wrong" || m.outcome.word() == "failed") {
        let (word, why) = (measurement.outcome.word(), measurement.outcome.reason().unwrap_or(""));
        output::note(&format!("{} {word}: {why}", measurement.cell()));
    }
    if here.ceilings.is_empty() {
        let problem = "no workload here measures a ceiling";
        return Err(InputError::new("machine", problem, "a registry with calibration workloads").into());
    }
    print(args, &here, &spans, &all)?;
    if !replaces {
        output::note(
            "not saved: a quick measurement does not replace stored ceilings; `machine` without --effort quick does",
        );
    } else if let Some(path) = ceilings::path(&here) {
        output::note(&format!("saved in {}; `run` reports the share of these ceilings", path.display()));
    }
    Ok(Exit::Ok)
}

fn print(args: &MachineArgs, here: &Environment, spans: &Cost, registry: &Registry) -> Result<(), Failure> {
    if args.format == Form::Json {
        let mut json = serde_json::to_value(here).map_err(anyhow::Error::from)?;
        json["span_cost"] = serde_json::json!({ "clock": spans.clock.word(), "off_ns": spans.off_ns, "on_ns": spans.on_ns,
            "counted_ns": spans.counted_ns, "scope_ns": spans.scope_ns, "empty_ns": spans.empty_ns });
        return output::result(|out| writeln!(out, "{json:#}"));
    }
    output::result(|out| {
        output::prose(out, |out| write_machine(here, spans, out))?;
        write_table(here, out)?;
        output::prose(out, |out| {
            writeln!(out, "{WORDS}")?;
            registry.devices().iter().try_for_each(|device| writeln!(out, "{}: {}", device.id(), device.about()))?;
            registry.absences().try_for_each(|(kind, why)| writeln!(out, "{kind}: unavailable: {why}"))
        })
    })
}

fn write_machine(here: &Environment, spans: &Cost, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}", here.cpu)?;
    let caches: Vec<String> = here
        .caches
        .iter()
        .map(|c| format!("{} {} shared by {}", c.level, units::human(c.bytes as f64, "B"), c.shared_by))
        .collect();
    writeln!(out, "{}, {}, {}", units::cores(here.cores.into()), caches.join(", "), here.os)?;
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unavailable".into());
    let load = here.load.map_or_else(|| "unavailable".into(), |load| format!("{load:.2}"));
    writeln!(
        out,
        "load {load}, governor {}, transparent huge pages {}",
        or_unknown(&here.governor),
        or_unknown(&here.huge_pages)
    )?;
    let ns = |value: Option<f64>| match value {
        None => "unavailable".into(),
        Some(value) if value < 0.1 => "below 0.1 ns".into(),
        Some(value) => units::human(value * 1e-9, "s"),
    };
    writeln!(out, "clock: a pair of readings {}, smallest step {}", ns(here.clock_cost_ns), ns(here.clock_step_ns))?;
    writeln!(
        out,
        "span: {} without a recording session, {} with one ({} with counters); an empty span reads {} (clock: {})",
        ns(Some(spans.off_ns)),
        ns(Some(spans.on_ns)),
        ns(Some(spans.counted_ns)),
        ns(Some(spans.empty_ns)),
        spans.clock.word()
    )?;
    writeln!(out, "instrument: {} a slot, outside the timed part\n", ns(here.slot_cost_ns))
}

fn write_table(here: &Environment, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{:13} {:>9} {:>10}  {:24} {:>12}  {:>24}",
        "ceiling", "level", "footprint", "implementation", "peak", "median to best slot"
    )?;
    for ceiling in &here.ceilings {
        let threads = match (ceiling.device.as_str(), ceiling.parallelism) {
            ("cpu", Parallelism::Many) => "all threads".to_owned(),
            ("cpu", Parallelism::Single) => "1 thread".to_owned(),
            (device, _) => {
                // A software adapter has the limits of the processor, not of a GPU.
                let of = |(id, about): &(String, String)| id == device && about.contains("SOFTWARE");
                if here.devices.iter().any(of) { format!("{device}, in software") } else { device.to_owned() }
            }
        };
        let footprint = if ceiling.footprint_bytes == 0 {
            String::new()
        } else {
            units::human(ceiling.footprint_bytes as f64, "B")
        };
        let range = format!("{} to {}", value(ceiling, ceiling.low), value(ceiling, ceiling.high));
        writeln!(
            out,
            "{:13} {:>9} {footprint:>10}  {:24} {:>12}  {range:>24}  {threads}",
            ceiling.kind.title(),
            ceiling.level,
            ceiling.implementation,
            value(ceiling, ceiling.value),
        )?;
    }
    Ok(())
}

/// Legend below the table.
const WORDS: &str = "
peak: the better decile of the slots; streamed: the bytes, read and written, above which stores that bypass the caches pay off.
A ceiling describes this machine under its load during the measurement.";

fn value(ceiling: &Ceiling, value: f64) -> String {
    units::human(value, ceiling.kind.unit())
}
