//! From arguments to cells: what `run` and `check` measure, with notes about what they skip.

use std::collections::BTreeMap;

use ellwand_bench::{Cell, Plan, Selection, left_out};
use ellwand_core::tensor::Tensors;
use ellwand_core::view::View;
use ellwand_core::workload::Fit;
use ellwand_core::{InputError, Registry};

use super::args::{Measuring, RunArgs};
use super::exit::unknown;
use super::{ceilings, given, output};

/// The registry in which devices requested by index come first among their kind.
pub(super) fn preferring(registry: &Registry, devices: &[String]) -> Registry {
    let mut registry = registry.clone();
    for id in devices.iter().rev() {
        registry.prefer(id);
    }
    registry
}

/// Expands a selection, and notes which workloads lack a selected axis; otherwise it would seem to apply to them.
pub(super) fn expand(registry: &Registry, selection: &Selection) -> Result<Plan, InputError> {
    let plan = Plan::expand(registry, selection).map_err(|error| of_python(error, selection))?;
    for (axis, workloads) in plan.left_alone(selection) {
        let (has, keeps) = if workloads.len() == 1 { ("has", "keeps its") } else { ("have", "keep their") };
        output::note(&format!("note: {} {has} no axis --{axis} and {keeps} usual cases", workloads.join(", ")));
    }
    Ok(plan)
}

/// Implementations that the Python package adds.
const PYTHON: [&str; 5] = ["torch", "jax", "numpy", "cupy", "triton"];

/// Adds a hint to the error about an unknown implementation if the Python program has it.
fn of_python(error: InputError, selection: &Selection) -> InputError {
    let named = |name: &&str| selection.implementations.iter().any(|one| one == name);
    match PYTHON.iter().find(|name| named(name) && error.problem == format!("'{name}' is unknown")) {
        Some(name) => error.help(format!("the Python package has {name}: `python -m ellwand run ..`")),
        None => error,
    }
}

/// The plan of `run`, and the user's arrays if given. Refuses everything that can be refused before a measurement.
pub(super) fn of_run(registry: &Registry, args: &RunArgs) -> Result<(Plan, Option<Tensors>), InputError> {
    let (plan, given) =
        of_machine(registry, &args.how, args.blocks().is_some() && !args.once, !args.once && !args.spans)?;
    if let Some(name) = &args.reports.baseline {
        check_baseline(&plan, name)?;
    }
    Ok((plan, given))
}

/// The cells that this machine can measure, in `processes` or in this one, with the `parts` of a whole if requested.
pub(super) fn of_machine(
    registry: &Registry,
    how: &Measuring,
    processes: bool,
    parts: bool,
) -> Result<(Plan, Option<Tensors>), InputError> {
    let plan = expand(registry, &how.chosen.selection())?;
    let (plan, given) = of_any_machine(registry, how, plan, parts)?;
    for (names, why) in left_out(registry, &plan, &how.chosen.selection()) {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        output::note(&format!("skipped {}: {why}", names.join(", ")));
    }
    ceilings::check_memory(&plan.cells, processes, how.caches)?;
    Ok((plan, given))
}

/// The requested cells, on any machine, and the user's arrays if given. `plan`: the cells of the selection.
pub(super) fn of_any_machine(
    registry: &Registry,
    how: &Measuring,
    mut plan: Plan,
    parts: bool,
) -> Result<(Plan, Option<Tensors>), InputError> {
    how.check()?;
    let selection = how.chosen.selection();
    if parts && how.input.is_empty() {
        add_parts(registry, &selection, &mut plan)?;
    }
    let cases: Vec<_> = plan.cells.iter().map(|cell| (cell.workload.as_ref(), &cell.case)).collect();
    let given = given::read(&how.input, &cases)?;
    if let Some(given) = &given {
        bind(&mut plan, given, &selection)?;
    }
    Ok((plan, given))
}

/// Adds the parts of a whole that the user named (`attention`), by one implementation, if no implementations or parts
/// are named; the report then shows where the time goes.
fn add_parts(registry: &Registry, selection: &Selection, plan: &mut Plan) -> Result<(), InputError> {
    let views = registry.views.iter().filter_map(|view| match view {
        View::Parts(view) => Some((view, view.whole.as_ref()?)),
        _ => None,
    });
    for (view, whole) in views {
        let named = |name: &str| selection.workloads.iter().any(|word| word == name);
        let planned = plan.cells.iter().any(|cell| view.parts.iter().any(|(part, _)| part == cell.workload.name()));
        if !named(&whole.workload) || planned || !selection.implementations.is_empty() {
            continue;
        }
        let runs = |part: &str| {
            let all = registry.implementations(part);
            all.into_iter().any(|one| one.name == whole.implementation && selection.on_device(one))
        };
        let parts = view.parts.iter().filter(|(part, _)| runs(part));
        let parts: Vec<String> = parts.map(|(part, _)| format!("{part}:{}", whole.implementation)).collect();
        if parts.is_empty() {
            continue;
        }
        let has = |axis: &str| {
            let known = |known: &ellwand_core::Axis| known.name == axis || known.aliases.contains(&axis);
            view.parts.iter().any(|(part, _)| registry.find(part).is_some_and(|w| w.axes().iter().any(known)))
        };
        let axes = selection.axes.iter().filter(|(axis, _)| has(axis)).map(|(a, v)| (a.clone(), v.clone())).collect();
        let parts = Selection { workloads: parts, axes, ..selection.clone() };
        plan.cells.extend(Plan::expand(registry, &parts)?.cells);
    }
    Ok(())
}

/// Marks every case as computed on the user's arrays, and refuses at once what could not be adopted later. Arrays are
/// used as a whole unless the user selects a size or a batch. In a sweep, cases that the arrays do not fit are skipped;
/// if that is all of them, the arrays alone define the case.
fn bind(plan: &mut Plan, given: &Tensors, selection: &Selection) -> Result<(), InputError> {
    let digest = format!("{:016x}", given.digest());
    let asked = &selection.axes;
    let whole = selection.size.is_none() && !asked.contains_key("batch");
    let (mut adopted, mut refused) = (Vec::<Cell>::new(), Vec::new());
    // Cases of a sweep that differ only in what the arrays decide are one case.
    let add = |adopted: &mut Vec<Cell>, cell: Cell| {
        if !adopted.iter().any(|known| known.case == cell.case) {
            adopted.push(cell);
        }
    };
    for mut cell in std::mem::take(&mut plan.cells) {
        cell.case.input = Some(digest.clone());
        let bound = if whole {
            on_all(&cell, given, asked).or_else(|_| on_requested_part(&cell, given))
        } else {
            on_requested_part(&cell, given)
        };
        match bound {
            Ok(bound) => add(&mut adopted, bound),
            Err(error) => refused.push((cell, error)),
        }
    }
    if adopted.is_empty() {
        for (cell, _) in refused.drain(..) {
            add(&mut adopted, on_all(&cell, given, asked)?);
        }
    }
    match (refused.len().saturating_sub(1), refused.pop()) {
        (_, Some((_, error))) if asked.contains_key("batch") => return Err(error),
        (more, Some((cell, error))) => {
            let others = if more > 0 { format!(" and {more} more") } else { String::new() };
            output::note(&format!("note: skipped {}{others}: {}", cell.case.id(), error.problem));
        }
        (_, None) => {}
    }
    plan.cells = adopted;
    Ok(())
}

/// The cell on as much of the arrays as its case requests.
fn on_requested_part(cell: &Cell, given: &Tensors) -> Result<Cell, InputError> {
    let (case, _) = cell.workload.adopt(&cell.case, given.clone(), Fit::Case)?;
    Ok(Cell { case, ..cell.clone() })
}

/// The cell on the whole arrays, except for the axes that the user set.
fn on_all(cell: &Cell, given: &Tensors, asked: &BTreeMap<String, String>) -> Result<Cell, InputError> {
    let (mut case, _) = cell.workload.adopt(&cell.case, given.clone(), Fit::Whole)?;
    for (axis, value) in asked.keys().filter_map(|axis| Some((axis, cell.case.get(axis)?))) {
        case.set(axis, value.clone());
    }
    on_requested_part(&Cell { case, ..cell.clone() }, given)
}

/// Refuses a baseline that is not measured, before the sweep instead of after it.
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
