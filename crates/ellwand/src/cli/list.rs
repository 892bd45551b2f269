//! `list`: the workloads in one line each, or some in detail, and the devices.

use std::io::{self, Write};
use std::sync::Arc;

use ellwand_bench::plan::{Selection, cases};
use ellwand_core::workload::{Port, Ports};
use ellwand_core::{DeviceKind, Implementation, Registry, Size, Value as CaseValue, Workload};
use ellwand_report::wrap;
use serde_json::{Value, json};

use super::args::{Form, ListArgs, defaults, range};
use super::exit::{Exit, Outcome};
use super::given::{Array, arrays_of};
use super::output;

/// Workloads without a group follow those with one; workloads that measure the machine come last.
const UNGROUPED: &str = "without a group";
const LAST: [&str; 2] = [UNGROUPED, "calibration"];

pub(super) fn list(registry: &Registry, args: &ListArgs) -> Outcome {
    let mut registry = registry.clone();
    let registry = &*registry.look_for(DeviceKind::Wgpu);
    let all = args.pattern.is_empty();
    let workloads = if all { registry.workloads().to_vec() } else { registry.select(&args.pattern)? };
    if args.format == Form::Json {
        let json = all_as_json(registry, &workloads);
        output::result(|out| writeln!(out, "{json:#}"))?;
        return Ok(Exit::Ok);
    }
    output::result(|out| {
        if all {
            write_overview(&workloads, out)?;
        } else {
            workloads.iter().try_for_each(|workload| write_workload(registry, workload.as_ref(), out))?;
        }
        write_devices(registry, out)
    })?;
    Ok(Exit::Ok)
}

/// Writes one line per workload, by group.
fn write_overview(workloads: &[Arc<dyn Workload>], out: &mut dyn Write) -> io::Result<()> {
    let group = |workload: &Arc<dyn Workload>| workload.groups().first().copied().unwrap_or(UNGROUPED);
    let mut groups: Vec<&str> = Vec::new();
    for name in workloads.iter().map(group) {
        if !groups.contains(&name) {
            groups.push(name);
        }
    }
    groups.sort_by_key(|name| LAST.iter().position(|last| last == name));
    let column = workloads.iter().map(|workload| workload.name().len()).max().unwrap_or(0);
    for &name in &groups {
        writeln!(out, "{}", heading(name, &groups))?;
        for workload in workloads.iter().filter(|workload| group(workload) == name) {
            let head = format!("  {:column$}  ", workload.name());
            writeln!(out, "{}", wrap(&head, workload.about(), output::width(), head.len()))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The heading of a group. If no other workload has a group either, it is "workloads".
fn heading<'a>(name: &'a str, groups: &[&str]) -> &'a str {
    let grouped = groups.iter().any(|group| !LAST.contains(group));
    if name == UNGROUPED && !grouped { "workloads" } else { name }
}

fn write_devices(registry: &Registry, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "devices")?;
    for device in registry.devices() {
        writeln!(out, "{}", entry(device.id(), &device.about(), output::width()))?;
    }
    for (kind, why) in registry.absences() {
        writeln!(out, "{}", entry(&kind.to_string(), &format!("unavailable: {why}"), output::width()))?;
    }
    let others = registry.devices().iter().any(|device| device.kind() != DeviceKind::Cpu);
    if others || registry.absences().next().is_some() {
        writeln!(out, "{}", wrap("", DeviceKind::EXPERIMENTAL, output::width(), 0))?;
    }
    Ok(())
}

/// Why an implementation cannot run here at all; `None` if it can be tried.
fn unavailable(registry: &Registry, implementation: &Implementation) -> Option<String> {
    let absent = registry.device_for(implementation).is_err();
    absent.then(|| format!("unavailable: no {} device", implementation.needs.title()))
}

/// Column at which the descriptions begin.
const ABOUT: usize = 21;

/// A name and its description, on as many lines as the terminal needs.
fn entry(name: &str, about: &str, width: Option<usize>) -> String {
    wrap(&format!("  {name:18} "), about, width, ABOUT)
}

fn write_workload(registry: &Registry, workload: &dyn Workload, out: &mut dyn Write) -> io::Result<()> {
    let width = output::width();
    let groups =
        if workload.groups().is_empty() { String::new() } else { format!("  [{}]", workload.groups().join(", ")) };
    writeln!(out, "{}{groups}\n{}", workload.name(), wrap("  ", workload.about(), width, 2))?;
    for axis in workload.axes() {
        let aliases: String = axis.aliases.iter().map(|alias| format!(", --{alias}")).collect();
        let about = format!("{} ({}; default {}{aliases})", axis.about, range(axis), defaults(axis));
        writeln!(out, "{}", entry(&format!("--{}", axis.name), &about, width))?;
    }
    for (index, size) in sizes(workload).iter().enumerate() {
        let head = format!("  {:18} ", if index == 0 { "--size" } else { "" });
        writeln!(out, "{}", wrap(&head, &size.line(), width, ABOUT + 2))?;
    }
    for implementation in registry.implementations(workload.name()) {
        let note = unavailable(registry, implementation).unwrap_or_else(|| implementation.about.clone());
        writeln!(out, "{}", entry(&implementation.name, &note, width))?;
    }
    write_arrays("--input", &arrays(workload, |ports| ports.inputs), width, out)?;
    write_arrays("outputs", &arrays(workload, |ports| ports.outputs), width, out)?;
    writeln!(out)
}

/// A named size: its axes, and the memory it needs, known without running anything.
struct SizeInfo {
    name: &'static str,
    axes: Vec<String>,
    footprint: u64,
    parts: Vec<(&'static str, u64)>,
}

impl SizeInfo {
    fn line(&self) -> String {
        let bytes = |bytes: u64| ellwand_report::units::human(bytes as f64, "B");
        let parts: Vec<String> = self.parts.iter().map(|(name, part)| format!("{name} {}", bytes(*part))).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        // A suite need not state its size in bytes.
        let memory = match self.footprint {
            0 => String::new(),
            most => format!("; at most {} of memory{parts}", bytes(most)),
        };
        format!("{}: {}{memory}", self.name, self.axes.join(", "))
    }

    fn json(&self) -> Value {
        let parts: serde_json::Map<String, Value> =
            self.parts.iter().map(|(name, bytes)| ((*name).to_string(), json!(bytes))).collect();
        json!({ "name": self.name, "axes": self.axes, "memory_bytes": self.footprint, "memory_parts": parts })
    }
}

/// The named sizes of a workload, with its largest case at each.
fn sizes(workload: &dyn Workload) -> Vec<SizeInfo> {
    let of = |size: &Size| {
        let selection = Selection { size: Some(size.name.into()), ..Selection::default() };
        let largest = cases(workload, &selection).ok()?.into_iter().max_by_key(|case| workload.footprint(case))?;
        let values = |values: &[CaseValue]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        Some(SizeInfo {
            name: size.name,
            axes: size.values.iter().map(|(axis, all)| format!("{axis} {}", values(all))).collect(),
            footprint: workload.footprint(&largest),
            parts: workload.memory(&largest),
        })
    };
    workload.sizes().iter().filter_map(of).collect()
}

/// The arrays of a workload: those of its default case, and those that other values of an axis add.
fn arrays(workload: &dyn Workload, which: fn(Ports) -> Vec<Port>) -> Vec<Array> {
    let case = cases(workload, &Selection::default()).ok().and_then(|cases| cases.into_iter().next());
    case.map_or_else(Vec::new, |case| arrays_of(workload, &case, which))
}

/// Writes one line per array, with `what` before the first.
fn write_arrays(what: &str, arrays: &[Array], width: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    for (index, Array { port, only_with }) in arrays.iter().enumerate() {
        let head = format!("  {:18} ", if index == 0 { what } else { "" });
        let optional = if port.required { "" } else { ", optional" };
        let flags = only_with.as_ref().map_or_else(String::new, |flags| format!(", only with {flags}"));
        let about = format!("{}: {} {}{optional}{flags}; {}", port.name, port.dtype, port.shape, port.about);
        writeln!(out, "{}", wrap(&head, &about, width, ABOUT + 2))?;
    }
    Ok(())
}

fn all_as_json(registry: &Registry, workloads: &[Arc<dyn Workload>]) -> Value {
    let rows: Vec<Value> = workloads.iter().map(|workload| as_json(registry, workload.as_ref())).collect();
    let devices: Vec<Value> =
        registry.devices().iter().map(|d| json!({ "id": d.id(), "kind": d.kind(), "about": d.about() })).collect();
    let absent: Vec<Value> =
        registry.absences().map(|(kind, why)| json!({ "kind": kind, "unavailable": why })).collect();
    json!({ "workloads": rows, "devices": devices, "absent": absent })
}

fn as_json(registry: &Registry, workload: &dyn Workload) -> Value {
    let axes: Vec<Value> = workload
        .axes()
        .iter()
        .map(|axis| json!({ "name": axis.name, "aliases": axis.aliases, "about": axis.about, "unit": axis.unit, "expected": axis.expected(), "default": axis.default.iter().map(ToString::to_string).collect::<Vec<_>>() }))
        .collect();
    let implementations: Vec<Value> = registry
        .implementations(workload.name())
        .into_iter()
        .map(|i| json!({ "name": i.name, "about": i.about, "needs": i.needs, "parallelism": i.parallelism, "unavailable": unavailable(registry, i) }))
        .collect();
    let ports = |which| -> Vec<Value> { arrays(workload, which).iter().map(array_as_json).collect() };
    json!({
        "name": workload.name(),
        "about": workload.about(),
        "groups": workload.groups(),
        "axes": axes,
        "sizes": sizes(workload).iter().map(SizeInfo::json).collect::<Vec<_>>(),
        "implementations": implementations,
        "inputs": ports(|ports| ports.inputs),
        "outputs": ports(|ports| ports.outputs),
    })
}

fn array_as_json(Array { port, only_with }: &Array) -> Value {
    json!({ "name": port.name, "dtype": port.dtype.name(), "shape": port.shape, "about": port.about, "required": port.required, "only_with": only_with })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ungrouped_workloads_have_their_own_heading_next_to_groups() {
        let headings = |groups: &[&'static str]| groups.iter().map(|name| heading(name, groups)).collect::<Vec<_>>();
        assert_eq!(headings(&["lattice", UNGROUPED, "calibration"]), ["lattice", "without a group", "calibration"]);
        assert_eq!(headings(&[UNGROUPED, "calibration"]), ["workloads", "calibration"]);
    }
}
