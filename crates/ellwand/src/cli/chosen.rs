//! What was asked for: devices and workloads among those that are here.

use clap::ArgMatches;
use ellwand_bench::{Plan, Selection};
use ellwand_core::error::nearest;
use ellwand_core::{InputError, Registry};

use super::command::text;
use super::output;

/// The registry in which the devices that were asked for by index come first of their kind.
pub(super) fn preferring(registry: &Registry, selection: &Selection) -> Registry {
    let mut registry = registry.clone();
    for id in selection.devices.iter().rev() {
        registry.prefer(id);
    }
    registry
}

/// Tells which workloads an axis does not apply to: without that they would seem to heed it.
pub(super) fn tell_left_alone(plan: &Plan, selection: &Selection) {
    for (axis, workloads) in plan.left_alone(selection) {
        let (has, is) =
            if workloads.len() == 1 { ("has", "is what it always is") } else { ("have", "are what they always are") };
        output::note(&format!("note: {} {has} no --{axis}, and {is}", workloads.join(", ")));
    }
}

/// A baseline that nobody will measure is told now, not after the sweep.
pub(super) fn check_baseline(plan: &Plan, matches: &ArgMatches) -> Result<(), InputError> {
    let Some(name) = text(matches, "baseline") else { return Ok(()) };
    let mut known: Vec<&str> =
        plan.cells.iter().flat_map(|cell| cell.implementations.iter().map(|i| i.name.as_str())).collect();
    known.sort_unstable();
    known.dedup();
    if known.contains(&name) {
        return Ok(());
    }
    let error = InputError::new(
        "--baseline",
        format!("'{name}' is not among the implementations to measure"),
        format!("one of {}", known.join(", ")),
    );
    Err(match nearest(name, known) {
        Some(near) => error.help(format!("did you mean {near}?")),
        None => error,
    })
}
