//! Expands a selection into cases, and chooses the implementations and the order.

use std::collections::BTreeMap;
use std::sync::Arc;

use ellwand_core::axis::{Axis, Size};
use ellwand_core::case::{Case, Value};
use ellwand_core::device::DeviceKind;
use ellwand_core::error::InputError;
use ellwand_core::implementation::Implementation;
use ellwand_core::record::Allowed;
use ellwand_core::registry::{Registry, matches, selects};
use ellwand_core::workload::Workload;

/// The user's selection.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Names, groups or patterns of workloads; `WORKLOAD:PATTERN` selects only these implementations.
    pub workloads: Vec<String>,
    /// Axis values as text, by axis name or alias.
    pub axes: BTreeMap<String, String>,
    /// Name of a size, or several separated by commas.
    pub size: Option<String>,
    /// Names or patterns of implementations; empty for all.
    pub implementations: Vec<String>,
    /// Kinds or ids of devices; empty for all.
    pub devices: Vec<String>,
    /// Tolerance of the checks, instead of each workload's.
    pub allowed: Option<Allowed>,
}

impl Selection {
    /// True if the implementation runs on a selected kind of device; with no selection, any kind will do.
    pub fn on_device(&self, implementation: &Implementation) -> bool {
        let kind = implementation.needs.to_string();
        self.devices.is_empty() || self.devices.iter().any(|device| device.split(':').next() == Some(&kind))
    }

    /// The names of the sizes.
    fn sizes(&self) -> impl Iterator<Item = &str> {
        self.size.iter().flat_map(|sizes| sizes.split(',').map(str::trim))
    }

    /// The patterns of workloads, each with the implementation pattern after its `:`, if given.
    fn parts(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.workloads.iter().map(|text| match text.split_once(':') {
            Some((workload, implementation)) => (workload, Some(implementation)),
            None => (text.as_str(), None),
        })
    }

    /// True if implementations are chosen by name.
    fn names_implementations(&self) -> bool {
        !self.implementations.is_empty() || self.parts().any(|(_, implementation)| implementation.is_some())
    }

    /// True if the implementation of the workload is among those chosen by name, or none were chosen.
    fn names(&self, workload: &dyn Workload, implementation: &str) -> bool {
        let mut parts = self.parts().filter(|(pattern, _)| selects(pattern, workload));
        parts.any(|(_, named)| named.is_none_or(|named| matches(named, implementation)))
            && (self.implementations.is_empty() || self.implementations.iter().any(|p| matches(p, implementation)))
    }
}

/// One case with the implementations to interleave: the unit that is written, resumed or lost as a whole.
#[derive(Clone)]
pub struct Cell {
    /// Gives the inputs, the reference and the judge.
    pub workload: Arc<dyn Workload>,
    /// A value for every axis of the workload.
    pub case: Case,
    /// The implementations to measure.
    pub implementations: Vec<Implementation>,
    /// Tolerance of the check, if the user chose one.
    pub allowed: Option<Allowed>,
}

/// The cells to measure, in order.
#[derive(Default)]
pub struct Plan {
    /// The cells, in order.
    pub cells: Vec<Cell>,
}

impl Plan {
    /// Expands a selection into cells: workloads in order of registration, cases in the order of their axes.
    ///
    /// # Errors
    /// If a name, axis or value is unknown, a case is invalid, or nothing is left to measure.
    pub fn expand(registry: &Registry, selection: &Selection) -> Result<Plan, InputError> {
        let patterns: Vec<String> = selection.parts().map(|(workload, _)| workload.to_string()).collect();
        let workloads = registry.select_of_parts(&patterns)?;
        check_axes_known(&workloads, selection)?;
        check_size_known(&workloads, selection)?;
        check_implementations_known(registry, &workloads, selection)?;
        let mut plan = Plan::default();
        for workload in &workloads {
            check_values(workload.as_ref())?;
            let implementations = chosen(registry, workload.as_ref(), selection);
            for case in cases(workload.as_ref(), selection)? {
                workload.check(&case)?;
                if let Some((allowed, why)) = selection.allowed.zip(workload.fixed_tolerance(&case)) {
                    let problem = format!("{} has no tolerance to choose: {why}", workload.name());
                    let given = if allowed.relative == 0.0 && allowed.absolute > 0.0 { "atol" } else { "rtol" };
                    return Err(InputError::setting(given, problem, "the same command without a tolerance"));
                }
                if !implementations.is_empty() {
                    plan.cells.push(Cell {
                        workload: Arc::clone(workload),
                        case,
                        implementations: implementations.clone(),
                        allowed: selection.allowed,
                    });
                }
            }
        }
        if plan.cells.is_empty() && !selection.devices.is_empty() {
            return Err(InputError::setting(
                "device",
                format!("no selected implementation runs on {}", selection.devices.join(", ")),
                "a device that `list` shows next to an implementation",
            ));
        }
        if plan.cells.is_empty() {
            return Err(InputError::new(
                "WORKLOAD",
                "nothing is left to measure",
                "at least one workload with an implementation",
            ));
        }
        Ok(plan)
    }
}

impl Plan {
    /// Selected axes that some workloads of the plan lack, with the names of these workloads, which keep their usual
    /// cases.
    pub fn left_alone<'a>(&self, selection: &'a Selection) -> Vec<(&'a str, Vec<String>)> {
        let mut workloads: Vec<&dyn Workload> = Vec::new();
        for cell in &self.cells {
            if !workloads.iter().any(|known| known.name() == cell.workload.name()) {
                workloads.push(cell.workload.as_ref());
            }
        }
        let has = |workload: &dyn Workload, name: &str| {
            workload.axes().iter().any(|axis| axis.names().any(|known| known == name))
        };
        let without = |name: &str| -> Vec<String> {
            workloads.iter().filter(|workload| !has(**workload, name)).map(|w| w.name().to_string()).collect()
        };
        let named = selection.axes.keys().map(|name| (name.as_str(), without(name)));
        named.filter(|(_, without)| !without.is_empty()).collect()
    }
}

/// The cases of one workload: the product of its axes at the selected values.
///
/// # Errors
/// If a value is invalid for its axis.
pub fn cases(workload: &dyn Workload, selection: &Selection) -> Result<Vec<Case>, InputError> {
    let named = |name: &str| workload.sizes().iter().find(|size| size.name == name);
    let sizes: Vec<Option<&Size>> = match selection.sizes().map(named).collect::<Vec<_>>() {
        none if none.is_empty() => vec![None],
        sizes => sizes,
    };
    let mut all: Vec<Case> = Vec::new();
    for size in sizes {
        // A size that a workload does not have, or that an axis overrides, repeats a case.
        let cases = cases_of(workload, selection, size)?;
        all.extend(cases.into_iter().filter(|case| !all.contains(case)).collect::<Vec<_>>());
    }
    Ok(all)
}

/// The cases at one size.
fn cases_of(workload: &dyn Workload, selection: &Selection, size: Option<&Size>) -> Result<Vec<Case>, InputError> {
    let mut cases = vec![Vec::new()];
    for axis in workload.axes() {
        let values = match requested(axis, selection) {
            Some(text) => axis.parse_list(text)?,
            None => size
                .and_then(|size| size.values.iter().find(|(name, _)| *name == axis.name))
                .map_or_else(|| axis.default.clone(), |(_, values)| values.clone()),
        };
        cases = cases
            .iter()
            .flat_map(|prefix: &Vec<(String, Value)>| {
                values.iter().map(move |value| {
                    let mut params = prefix.clone();
                    // Cases named before the axis existed have the neutral value; leaving it out keeps their ids.
                    if axis.neutral.as_ref() != Some(value) {
                        params.push((axis.name.to_string(), value.clone()));
                    }
                    params
                })
            })
            .collect();
    }
    Ok(cases.into_iter().map(|params| Case::new(workload.name(), params)).collect())
}

fn requested<'a>(axis: &Axis, selection: &'a Selection) -> Option<&'a String> {
    axis.names().find_map(|name| selection.axes.get(name))
}

/// Rejects axes and sizes with ambiguous or unusable names.
fn check_names(workload: &dyn Workload) -> Result<(), InputError> {
    let refused = |problem: String, expected: &str| Err(InputError::new(workload.name(), problem, expected));
    let mut names: Vec<&str> = workload.axes().iter().flat_map(Axis::names).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return refused(format!("two of its axes are called '{}'", pair[0]), "a name or alias of one axis");
    }
    for (index, size) in workload.sizes().iter().enumerate() {
        if workload.sizes()[..index].iter().any(|other| other.name == size.name) {
            return refused(format!("it has two sizes '{}'", size.name), "a name for each");
        }
        if size.name.is_empty() || size.name.contains(',') || size.name.trim() != size.name {
            return refused(format!("its size '{}' cannot be selected", size.name), "a name without commas");
        }
        let known = |name: &str| workload.axes().iter().any(|axis| axis.name == name);
        if let Some((axis, _)) = size.values.iter().find(|(name, _)| !known(name)) {
            return refused(
                format!("its size '{}' sets '{axis}', which is not an axis", size.name),
                "the name of an axis",
            );
        }
    }
    Ok(())
}

/// Rejects a workload if a default value, or a value of a size, is outside the domain of its axis.
fn check_values(workload: &dyn Workload) -> Result<(), InputError> {
    check_names(workload)?;
    for axis in workload.axes() {
        let refused = |problem: String| Err(InputError::new(workload.name(), problem, axis.expected()));
        if axis.default.is_empty() {
            return refused(format!("its axis '{}' has no value by default", axis.name));
        }
        let of_sizes = workload.sizes().iter().flat_map(|size| &size.values).filter(|(name, _)| *name == axis.name);
        let mut all = axis.default.iter().chain(of_sizes.flat_map(|(_, values)| values));
        if let Some(value) = all.find(|value| !axis.takes(value)) {
            return refused(format!("its axis '{}' has the value {value}, which is outside its domain", axis.name));
        }
    }
    Ok(())
}

fn check_axes_known(workloads: &[Arc<dyn Workload>], selection: &Selection) -> Result<(), InputError> {
    for name in selection.axes.keys() {
        let known = |axis: &Axis| axis.names().any(|known| known == name);
        if !workloads.iter().any(|workload| workload.axes().iter().any(known)) {
            let axes: Vec<&str> = workloads.iter().flat_map(|w| w.axes().iter().map(|axis| axis.name)).collect();
            let names: Vec<&str> = workloads.iter().map(|workload| workload.name()).collect();
            let problem = match &names[..] {
                [one] => format!("{one} has no such axis"),
                several => format!("none of {} has such an axis", several.join(", ")),
            };
            let expected = match &axes[..] {
                [] => "no axis: it has no axes".to_string(),
                known => format!("one of {}", unique(known).join(", ")),
            };
            let error = InputError::setting(name, problem, expected);
            return Err(error.near(name, axes));
        }
    }
    Ok(())
}

fn check_size_known(workloads: &[Arc<dyn Workload>], selection: &Selection) -> Result<(), InputError> {
    let sizes: Vec<&str> = workloads.iter().flat_map(|w| w.sizes().iter().map(|size| size.name)).collect();
    let Some(name) = selection.sizes().find(|name| !sizes.contains(name)) else { return Ok(()) };
    let expected = if sizes.is_empty() {
        "no size, since these workloads name none".to_string()
    } else {
        format!("one of {}", unique(&sizes).join(", "))
    };
    Err(InputError::setting("size", format!("'{name}' is unknown"), expected).near(name, sizes))
}

fn check_implementations_known(
    registry: &Registry,
    workloads: &[Arc<dyn Workload>],
    selection: &Selection,
) -> Result<(), InputError> {
    let known: Vec<&str> = workloads
        .iter()
        .flat_map(|workload| registry.implementations(workload.name()))
        .map(|implementation| implementation.name.as_str())
        .collect();
    for pattern in &selection.implementations {
        if !known.iter().any(|name| matches(pattern, name)) {
            let expected = format!("one of {}", unique(&known).join(", "));
            let error = InputError::setting("implementation", format!("'{pattern}' is unknown"), expected);
            return Err(error.near(pattern, known));
        }
    }
    for (pattern, named) in selection.parts() {
        let Some(named) = named else { continue };
        let all = workloads.iter().filter(|workload| selects(pattern, workload.as_ref()));
        let all = all.flat_map(|workload| registry.implementations(workload.name()));
        let sides: Vec<String> = all.map(|known| format!("{}:{}", known.workload, known.name)).collect();
        if !sides.iter().any(|side| side.split_once(':').is_some_and(|(_, name)| matches(named, name))) {
            let given = format!("{pattern}:{named}");
            let expected = format!("one of {}", sides.join(", "));
            let error = InputError::new("WORKLOAD", format!("{pattern} has no implementation '{named}'"), expected);
            return Err(error.near(&given, sides.iter().map(String::as_str)));
        }
    }
    check_devices_known(registry, &selection.devices)
}

/// Rejects an unknown kind of device, and an index beyond the devices present.
///
/// # Errors
/// The unknown device and the known ones.
pub fn check_devices_known(registry: &Registry, devices: &[String]) -> Result<(), InputError> {
    for device in devices {
        let kinds = DeviceKind::ALL.map(DeviceKind::name);
        // A kind that is absent here gives rows with the reason; a wrong index among present devices is a typing error.
        let of_kind = device.split_once(':').map(|(kind, _)| {
            let here = registry.devices().iter().map(|known| known.id());
            here.filter(|id| id.split(':').next() == Some(kind)).collect::<Vec<_>>()
        });
        if let Some(ids) = of_kind.filter(|ids| !ids.is_empty() && !ids.contains(&device.as_str())) {
            return Err(InputError::setting(
                "device",
                format!("there is no '{device}' here"),
                format!("one of {}", ids.join(", ")),
            ));
        }
        let here = registry.devices().iter().any(|known| known.id() == device);
        let (kind, index) = device.split_once(':').unwrap_or((device, "0"));
        if !(here || kinds.contains(&kind) && index.parse::<u32>().is_ok()) {
            return Err(InputError::setting(
                "device",
                format!("'{device}' is unknown"),
                "cpu, cuda or wgpu, or one with an index such as cuda:0",
            ));
        }
    }
    Ok(())
}

/// The selected implementations. Without a selection by name or device, those that can run here, or all if none can; an
/// implementation selected by name gets a row with the reason why it cannot run.
fn chosen(registry: &Registry, workload: &dyn Workload, selection: &Selection) -> Vec<Implementation> {
    let all = registry.implementations(workload.name());
    if !selection.names_implementations() && selection.devices.is_empty() {
        let here: Vec<Implementation> =
            all.iter().filter(|one| registry.device_for(one).is_ok()).map(|one| (*one).clone()).collect();
        return if here.is_empty() { all.into_iter().cloned().collect() } else { here };
    }
    let wanted = |implementation: &&Implementation| {
        selection.names(workload, &implementation.name) && selection.on_device(implementation)
    };
    all.into_iter().filter(wanted).cloned().collect()
}

/// Implementations that [`Plan::expand`] skips because their kind of device is absent: names and reason. Omits devices
/// found only on request, unless they were requested.
pub fn left_out(registry: &Registry, plan: &Plan, selection: &Selection) -> Vec<(Vec<String>, String)> {
    let mut left: Vec<(Vec<String>, String)> = Vec::new();
    if selection.names_implementations() || !selection.devices.is_empty() {
        return left;
    }
    for cell in &plan.cells {
        let all = registry.implementations(cell.workload.name());
        for one in all.into_iter().filter(|one| registry.sought(one.needs)) {
            let (Err(why), false) = (registry.device_for(one), cell.implementations.iter().any(|i| i.name == one.name))
            else {
                continue;
            };
            match left.iter_mut().find(|(_, known)| *known == why.to_string()) {
                Some((names, _)) if !names.contains(&one.name) => names.push(one.name.clone()),
                Some(_) => {}
                None => left.push((vec![one.name.clone()], why.to_string())),
            }
        }
    }
    left
}

/// Removes duplicates, keeping the order.
fn unique<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(name) {
            seen.push(*name);
        }
    }
    seen
}
