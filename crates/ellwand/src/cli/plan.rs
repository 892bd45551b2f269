//! From arguments to cells: what `run` and `check` measure, with notes about what they skip.

use std::collections::BTreeMap;

use ellwand_bench::{Cell, Plan, Selection, left_out};
use ellwand_core::tensor::Tensors;
use ellwand_core::workload::Fit;
use ellwand_core::{InputError, Registry};

use super::args::RunArgs;
use super::exit::unknown;
use super::{ceilings, given, output};

/// The registry in which the devices that were asked for by index come first of their kind.
pub(super) fn preferring(registry: &Registry, devices: &[String]) -> Registry {
    let mut registry = registry.clone();
    for id in devices.iter().rev() {
        registry.prefer(id);
    }
    registry
}

/// Expands a selection, and notes which workloads an axis does not apply to: otherwise they would seem to heed it.
pub(super) fn expand(registry: &Registry, selection: &Selection) -> Result<Plan, InputError> {
    let plan = Plan::expand(registry, selection)?;
    for (axis, workloads) in plan.left_alone(selection) {
        let (has, is) =
            if workloads.len() == 1 { ("has", "is what it always is") } else { ("have", "are what they always are") };
        output::note(&format!("note: {} {has} no --{axis}, and {is}", workloads.join(", ")));
    }
    Ok(plan)
}

/// The plan of `run`, and the user's arrays if it computes on some. Whatever can be refused before a measurement is.
pub(super) fn of_run(registry: &Registry, args: &RunArgs) -> Result<(Plan, Option<Tensors>), InputError> {
    let selection = args.chosen.selection();
    let mut plan = expand(registry, &selection)?;
    for (names, why) in left_out(registry, &plan, &selection) {
        output::note(&format!("left out {}: {why}", names.join(", ")));
    }
    let cases: Vec<_> = plan.cells.iter().map(|cell| (cell.workload.as_ref(), &cell.case)).collect();
    let given = given::given(&args.input, &cases)?;
    if let Some(given) = &given {
        bind(&mut plan, given, &selection.axes)?;
    }
    ceilings::check_memory(&plan.cells, args.blocks().is_some() && !args.once, args.caches)?;
    if let Some(name) = &args.reports.baseline {
        check_baseline(&plan, name)?;
    }
    Ok((plan, given))
}

/// Marks every case as computed on the user's arrays, and refuses now what could not be adopted later. Of a sweep that the
/// user did not ask for, the cases that the arrays are too small for are left out.
fn bind(plan: &mut Plan, given: &Tensors, asked: &BTreeMap<String, String>) -> Result<(), InputError> {
    let digest = format!("{:016x}", given.digest());
    let (mut adopted, mut refused) = (Vec::new(), None);
    for mut cell in std::mem::take(&mut plan.cells) {
        cell.case.input = Some(digest.clone());
        match cell.workload.adopt(&cell.case, given.clone(), Fit::Case) {
            Ok((case, _)) => adopted.push(Cell { case, ..cell }),
            Err(error) if asked.contains_key("batch") => return Err(error),
            Err(error) => refused = Some((cell.case.id(), error)),
        }
    }
    match refused {
        Some((_, error)) if adopted.is_empty() => return Err(error),
        Some((case, error)) => output::note(&format!("note: left out {case}: {}", error.problem)),
        None => {}
    }
    plan.cells = adopted;
    Ok(())
}

/// Refuses a baseline that is not measured before the sweep, not after it.
fn check_baseline(plan: &Plan, name: &str) -> Result<(), InputError> {
    let mut known: Vec<&str> =
        plan.cells.iter().flat_map(|cell| cell.implementations.iter().map(|i| i.name.as_str())).collect();
    known.sort_unstable();
    known.dedup();
    if known.contains(&name) {
        return Ok(());
    }
    Err(unknown("--baseline", format!("'{name}' is not among the implementations to measure"), name, &known))
}
