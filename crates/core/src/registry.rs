//! The registry: the workloads, implementations and devices that a program knows.

use std::sync::Arc;

use crate::axis::Axis;
use crate::case::Case;
use crate::ceiling::CeilingCase;
use crate::device::{Device, DeviceKind};
use crate::error::{DeviceError, InputError, nearest};
use crate::implementation::Implementation;
use crate::view::View;
use crate::workload::Workload;

/// Everything that can be measured. The built-in workloads use only what a user's program can use too.
#[derive(Default, Clone)]
pub struct Registry {
    /// What domains show beyond the common tables.
    pub views: Vec<View>,
    /// The table of ceilings.
    pub ceilings: Vec<CeilingCase>,
    workloads: Vec<Arc<dyn Workload>>,
    implementations: Vec<Implementation>,
    devices: Vec<Arc<dyn Device>>,
    absent: Vec<(DeviceKind, String)>,
    unsought: Vec<(DeviceKind, Finder)>,
}

/// Searches for the devices of a kind; the error is the reason why none was found.
pub type Finder = fn() -> Result<Vec<Arc<dyn Device>>, DeviceError>;

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a workload; replaces an earlier one of the same name.
    pub fn workload(&mut self, workload: impl Workload + 'static) -> &mut Self {
        self.workloads.retain(|known| known.name() != workload.name());
        self.workloads.push(Arc::new(workload));
        self
    }

    /// Adds an implementation; replaces an earlier one of the same workload and name.
    pub fn implementation(&mut self, implementation: Implementation) -> &mut Self {
        self.implementations
            .retain(|known| known.workload != implementation.workload || known.name != implementation.name);
        self.implementations.push(implementation);
        self
    }

    /// Adds a device; replaces an earlier one of the same id.
    pub fn device(&mut self, device: Arc<dyn Device>) -> &mut Self {
        self.devices.retain(|known| known.id() != device.id());
        self.devices.push(device);
        self
    }

    /// Records why a kind of device is missing; the reason is shown wherever that kind is needed.
    pub fn absent(&mut self, kind: DeviceKind, why: impl Into<String>) -> &mut Self {
        self.absent.retain(|(known, _)| *known != kind);
        self.absent.push((kind, why.into()));
        self
    }

    /// Registers a search that runs only on [`Registry::look_for`], because it takes time or loads drivers that would
    /// disturb other measurements. Until then the kind is missing for the reason `why`.
    pub fn on_request(&mut self, kind: DeviceKind, why: impl Into<String>, find: Finder) -> &mut Self {
        self.unsought.retain(|(known, _)| *known != kind);
        self.unsought.push((kind, find));
        self.absent(kind, why)
    }

    /// Runs the search registered for `kind`; later calls do nothing.
    pub fn look_for(&mut self, kind: DeviceKind) -> &mut Self {
        if let Some(at) = self.unsought.iter().position(|(known, _)| *known == kind) {
            match self.unsought.remove(at).1() {
                Ok(found) => found.into_iter().for_each(|device| {
                    self.device(device);
                }),
                Err(why) => {
                    self.absent(kind, why.to_string());
                }
            }
        }
        self
    }

    /// True unless the search for `kind` is still waiting for [`Registry::look_for`].
    pub fn sought(&self, kind: DeviceKind) -> bool {
        self.unsought.iter().all(|(known, _)| *known != kind)
    }

    /// Missing kinds of devices, each with the reason.
    pub fn absences(&self) -> impl Iterator<Item = (DeviceKind, &str)> {
        let missing = |kind: DeviceKind| !self.devices.iter().any(|device| device.kind() == kind);
        self.absent.iter().filter(move |(kind, _)| missing(*kind)).map(|(kind, why)| (*kind, why.as_str()))
    }

    /// Moves the device `id` before the others of its kind, so that implementations of that kind run on it.
    pub fn prefer(&mut self, id: &str) -> &mut Self {
        if let Some(at) = self.devices.iter().position(|device| device.id() == id) {
            let device = self.devices.remove(at);
            let first = self.devices.iter().position(|other| other.kind() == device.kind()).unwrap_or(at);
            self.devices.insert(first, device);
        }
        self
    }

    /// The device that an implementation runs on: the first one of the kind it needs.
    ///
    /// # Errors
    /// If no device of that kind is registered; the error gives the reason.
    pub fn device_for(&self, implementation: &Implementation) -> Result<&Arc<dyn Device>, DeviceError> {
        let needs = implementation.needs;
        self.devices.iter().find(|device| device.kind() == needs).ok_or_else(|| {
            let why = self.absences().find(|(kind, _)| *kind == needs).map(|(_, why)| format!(" ({why})"));
            DeviceError::new(format!("no {} device{}", needs.title(), why.unwrap_or_default()))
        })
    }

    /// Workloads in the order of registration.
    pub fn workloads(&self) -> &[Arc<dyn Workload>] {
        &self.workloads
    }

    /// The views that concern any of these workloads.
    pub fn views_of<'a>(&self, workloads: impl Iterator<Item = &'a str> + Clone) -> Vec<View> {
        self.views.iter().filter(|view| workloads.clone().any(|name| view.is_about(name))).cloned().collect()
    }

    /// The row of the ceiling table that the case measures.
    pub fn ceiling_of(&self, case: &Case) -> Option<&CeilingCase> {
        self.ceilings.iter().find(|row| row.measures(case))
    }

    /// Devices in the order of registration.
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        &self.devices
    }

    /// All implementations in the order of registration.
    pub fn all_implementations(&self) -> &[Implementation] {
        &self.implementations
    }

    /// The workload with this exact name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Workload>> {
        self.workloads.iter().find(|workload| workload.name() == name)
    }

    /// Implementations of a workload in the order of registration.
    pub fn implementations(&self, workload: &str) -> Vec<&Implementation> {
        self.implementations.iter().filter(|implementation| implementation.workload == workload).collect()
    }

    /// The workloads that match any of `patterns` (a name, a group, or a name with `*` wildcards), in the order of
    /// registration.
    ///
    /// # Errors
    /// If a pattern matches nothing; the error suggests the nearest name.
    pub fn select(&self, patterns: &[String]) -> Result<Vec<Arc<dyn Workload>>, InputError> {
        self.selected(patterns, |one| format!("name its workload: {}", one.workload))
    }

    /// Like [`select`](Self::select), for callers that accept `WORKLOAD:IMPLEMENTATION` and pass the part before the `:`.
    ///
    /// # Errors
    /// Those of `select`; for the name of an implementation, the error suggests `WORKLOAD:IMPLEMENTATION`.
    pub fn select_of_parts(&self, patterns: &[String]) -> Result<Vec<Arc<dyn Workload>>, InputError> {
        self.selected(patterns, |one| format!("name its workload too: {}:{}", one.workload, one.name))
    }

    fn selected(
        &self,
        patterns: &[String],
        instead: fn(&Implementation) -> String,
    ) -> Result<Vec<Arc<dyn Workload>>, InputError> {
        for pattern in patterns {
            if !self.workloads.iter().any(|workload| selects(pattern, workload.as_ref())) {
                return Err(self.unknown(pattern, instead));
            }
        }
        Ok(self
            .workloads
            .iter()
            .filter(|workload| patterns.iter().any(|pattern| selects(pattern, workload.as_ref())))
            .cloned()
            .collect())
    }

    /// The error about the first name of a workload, implementation or axis that cannot be given on the command line.
    pub fn find_mistake(&self) -> Option<InputError> {
        let workloads = self.workloads.iter().map(|one| unaddressable("workload", one.name()));
        let implementations = self.implementations.iter().map(|one| unaddressable("implementation", &one.name));
        let axes = self.workloads.iter().flat_map(|one| one.axes()).flat_map(Axis::names);
        workloads.chain(implementations).chain(axes.map(|name| unaddressable("axis", name))).flatten().next()
    }

    fn unknown(&self, pattern: &str, instead: fn(&Implementation) -> String) -> InputError {
        let error = InputError::new(
            "WORKLOAD",
            format!("'{pattern}' matches no workload and no group"),
            "a name that `list` shows, a group, or a pattern with '*'",
        );
        let mut names: Vec<&str> = self.workloads.iter().map(|workload| workload.name()).collect();
        names.extend(self.workloads.iter().flat_map(|workload| workload.groups()));
        let selectable = names.len();
        names.extend(self.implementations.iter().map(|one| one.name.as_str()));
        let Some(near) = nearest(pattern, names.iter().copied()) else { return error };
        // A name of an implementation alone would be refused too.
        match self.implementations.iter().find(|one| one.name == near && !names[..selectable].contains(&near)) {
            Some(one) if near == pattern => error.help(format!("'{near}' is an implementation; {}", instead(one))),
            Some(one) => error.help(format!("did you mean {near}? It is an implementation; {}", instead(one))),
            None => error.help(format!("did you mean {near}?")),
        }
    }
}

/// The error about a name that the command line would parse as something else.
fn unaddressable(what: &str, name: &str) -> Option<InputError> {
    let of_flag = |c: char| what == "axis" && (c == '=' || c.is_whitespace());
    let problem = match name.chars().find(|c| c.is_control() || ":,*".contains(*c) || of_flag(*c)) {
        Some(c) => format!("its name contains {c:?}, which a name on the command line cannot contain"),
        None if name.is_empty() => "its name is empty".into(),
        None if name.starts_with('-') => "its name begins with '-', as a flag does".into(),
        None => return None,
    };
    let more = if what == "axis" { ", '=', spaces" } else { "" };
    let expected = format!(
        "letters, digits and other characters than ':', ',', '*'{more} and control characters, and no '-' in front"
    );
    Some(InputError::new(format!("{what} {name:?}"), problem, expected))
}

/// True if a pattern names the workload or its group, or matches its name.
pub fn selects(pattern: &str, workload: &dyn Workload) -> bool {
    workload.groups().contains(&pattern) || matches(pattern, workload.name())
}

/// True if `name` matches a pattern in which `*` matches any text.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_on_request_stay_absent_until_the_search_runs_once() {
        static LOOKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        fn find() -> Result<Vec<Arc<dyn Device>>, DeviceError> {
            LOOKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Err(DeviceError::new("no driver"))
        }
        let mut registry = Registry::new();
        registry.on_request(DeviceKind::Wgpu, "not asked for", find);
        assert_eq!(registry.absences().collect::<Vec<_>>(), [(DeviceKind::Wgpu, "not asked for")]);
        registry.look_for(DeviceKind::Cuda);
        assert!(registry.sought(DeviceKind::Cuda) && !registry.sought(DeviceKind::Wgpu));
        assert_eq!(LOOKED.load(std::sync::atomic::Ordering::Relaxed), 0);
        registry.look_for(DeviceKind::Wgpu).look_for(DeviceKind::Wgpu);
        assert_eq!(registry.absences().collect::<Vec<_>>(), [(DeviceKind::Wgpu, "no driver")]);
        assert_eq!(LOOKED.load(std::sync::atomic::Ordering::Relaxed), 1, "once");
        assert!(registry.sought(DeviceKind::Wgpu));
    }

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("lattice-encode", "lattice-encode", true),
            ("lattice", "lattice-encode", false),
            ("lattice-*", "lattice-encode", true),
            ("*code", "lattice-encode", true),
            ("*", "", true),
            ("l*e-e*e", "lattice-encode", true),
            ("a*a", "a", false),
            ("lattice-encode*", "lattice-encode", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} on {name}");
        }
    }
}
